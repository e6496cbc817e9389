//! The state as bytes, and back: the same bytes for the same state, no matter how it came about.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::state::audit::record::Audit;
use crate::state::commit::Commits;
use crate::state::definition::record::Definitions;
use crate::state::effect::record::Effects;
use crate::state::entity::record::Entities;
use crate::state::gate::{put_gate, take_gate};
use crate::state::group_bytes::{put_group, put_moment, take_group, take_moment};
use crate::state::key::record::Keys;
use crate::state::output::record::Outputs;
use crate::state::owner::{put_owner, take_owner};
use crate::state::partition::{Partition, Topic};
use crate::state::run::record::Runs;
use crate::state::slot::{Beside, CHUNK_SLOTS, Chunk, Slot, Slots};
use crate::state::spent::Spent;
use crate::state::tenant::record::Tenants;
use crate::state::version::{
    VERSION, VERSION_LEAST, VERSION_WITHOUT_AUDIT, VERSION_WITHOUT_DEFINITIONS, VERSION_WITHOUT_KEYS,
    VERSION_WITHOUT_LIMITS, VERSION_WITHOUT_SHARDS,
};
use crate::state::{First, GROUPS_PER_TOPIC_MAX, PARTITIONS_MAX, State};
use crate::words::codec::{Malformed, Put, Take};
use crate::words::id::{NO_TOPIC, Position, RequestHash, SHARDS_MAX, ShardId, Time, TopicId};
use crate::words::policy::RetryPolicy;
use crate::words::topic::TopicSettings;

/// Above any offset or sequence number that can be reached, and far enough below the end to count on from there.
pub(super) const SEQUENCE_MAX: u64 = 1 << 62;
/// Stands in the place of a chunk's "full" for a gap: how many slots were there follows.
const GAP: u8 = 2;
/// What reading a snapshot reports.
const WHAT: &str = "snapshot";

impl State {
    /// The state as bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let chunks = self.each_topic().flat_map(|t| &t.partitions).flat_map(|p| &p.slots.chunks);
        let slots: usize = chunks.map(|chunk| chunk.slots.len()).sum();
        let mut out = Vec::with_capacity(1024 + slots * 48 + self.stored.len() * 40);
        let version = self.version();
        out.put_u32(version);
        if version > VERSION_WITHOUT_SHARDS {
            out.put_u8(self.shard.0);
        }
        out.put_u64(self.epoch);
        out.put_u64(self.leases_kept_since);
        out.put_u64(self.newest.0);
        out.put_u32(self.next_group);
        out.extend_from_slice(&self.secret);
        self.acked.encode(&mut out);
        self.buried.encode(&mut out);
        out.put_length(self.topics.len());
        for topic in &self.topics {
            out.put_u8(u8::from(topic.is_some()));
            if let Some(topic) = topic {
                self.put_topic(&mut out, topic);
            }
        }
        put_gate(&mut out, &self.stored, |out, first: First| {
            out.put_u32(first.topic.0);
            out.put_u32(first.partition);
            out.put_u64(first.offset);
            out.put_u64(first.request.0);
        });
        self.effects.encode(&mut out);
        self.commits.encode(&mut out);
        self.outputs.encode(&mut out);
        self.runs.encode(&mut out);
        self.entities.encode(&mut out);
        if version > VERSION_WITHOUT_KEYS {
            self.keys.encode(&mut out);
        }
        if version > VERSION_WITHOUT_AUDIT {
            self.audit.encode(&mut out);
        }
        if version > VERSION_WITHOUT_LIMITS {
            self.tenants.encode(&mut out);
        }
        if version > VERSION_WITHOUT_DEFINITIONS {
            self.definitions.encode(&mut out);
        }
        if version > VERSION_WITHOUT_SHARDS {
            self.outbox.encode(&mut out);
        }
        out
    }

    /// Reads a snapshot back; `seed` is this run's, for the hash maps.
    pub fn decode(bytes: &[u8], seed: u64) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes, WHAT);
        let version = take.u32()?;
        if !(VERSION_LEAST..=VERSION).contains(&version) {
            return Err(Malformed("snapshot of another version"));
        }
        let mut state = Self::new(seed);
        state.shard = ShardId(if version > VERSION_WITHOUT_SHARDS { take.u8()? } else { 0 });
        state.epoch = take.u64()?;
        state.leases_kept_since = if version > 3 { take.u64()? } else { state.leases_kept_since };
        state.newest = Time(if version > 3 { take.u64()? } else { 0 });
        state.next_group = take.u32()?;
        if state.shard.0 >= SHARDS_MAX || state.epoch > SEQUENCE_MAX || state.next_group > u32::MAX / 2 {
            return Err(take.malformed());
        }
        if version > 1 {
            state.secret.copy_from_slice(take.raw(32)?);
            state.acked = Spent::decode(&mut take)?;
            state.buried = Spent::decode(&mut take)?;
        }
        for number in 0..take.count(1)? {
            let id = TopicId::new(state.shard, number).ok_or_else(|| take.malformed())?;
            if version > 1 && take.u8()? == 0 {
                state.topics.push(None);
                continue;
            }
            let topic = state.take_topic(&mut take, id, version)?;
            if state.names.insert(Arc::clone(&topic.name), id).is_some() {
                return Err(take.malformed());
            }
            state.topics.push(Some(Box::new(topic)));
        }
        take_gate(&mut take, &mut state.stored, |take| {
            let topic = if version > 1 { TopicId(take.u32()?) } else { NO_TOPIC };
            let (partition, offset) = (take.u32()?, take.u64()?);
            let request = RequestHash(if version > 1 { take.u64()? } else { 0 });
            Ok(First { topic, partition, offset, request })
        })?;
        if version > 2 {
            state.take_work(&mut take, version)?;
        }
        state.take_newer(&mut take, version)?;
        state.count_tenants();
        take.done()?;
        Ok(state)
    }

    /// Reads what came with later versions, in the order in which it came.
    fn take_newer(&mut self, take: &mut Take<'_>, version: u32) -> Result<(), Malformed> {
        if version > 3 {
            self.entities = Entities::decode(take)?;
        }
        if version > VERSION_WITHOUT_KEYS {
            self.keys = Keys::decode(take)?;
        }
        if version > VERSION_WITHOUT_AUDIT {
            self.audit = Audit::decode(take)?;
            // One state has one form: without an entry ever, and without what came later, it is of an older version.
            if version == VERSION_WITHOUT_LIMITS && self.audit.is_untouched() {
                return Err(take.malformed());
            }
        }
        if version > VERSION_WITHOUT_LIMITS {
            self.tenants = Tenants::decode(take)?;
            if version == VERSION_WITHOUT_DEFINITIONS && self.tenants.are_free() {
                return Err(take.malformed());
            }
        }
        if version > VERSION_WITHOUT_DEFINITIONS {
            self.definitions = Definitions::decode(take)?;
            if version == VERSION_WITHOUT_SHARDS && self.definitions.are_untouched() {
                return Err(take.malformed());
            }
        }
        if version > VERSION_WITHOUT_SHARDS {
            self.take_outbox(take)?;
            if self.is_alone() {
                return Err(take.malformed());
            }
        }
        // What a commit is said to have sent is kept for as long as it is on its way.
        if self.commits.away().any(|number| self.outbox.get(number).is_none()) {
            return Err(take.malformed());
        }
        Ok(())
    }

    /// Reads effects, and what commits and runs tell of them.
    fn take_work(&mut self, take: &mut Take<'_>, version: u32) -> Result<(), Malformed> {
        self.effects = Effects::decode(take)?;
        self.commits = Commits::decode(take)?;
        self.outputs = Outputs::decode(take, version)?;
        self.runs = Runs::decode(take, version)?;
        self.runs.note_writes(&self.outputs);
        self.pin_effects();
        Ok(())
    }

    fn put_topic(&self, out: &mut Vec<u8>, topic: &Topic) {
        out.put_text(&topic.name);
        out.put_u64(topic.created.0);
        out.put_u64(topic.next_offset);
        put_owner(out, topic.scoped, topic.tenant.as_deref());
        topic.settings.encode(out);
        put_moment(out, topic.paused);
        out.put_length(topic.partitions.len());
        for partition in &topic.partitions {
            self.put_slots(out, &partition.slots);
        }
        out.put_length(topic.groups.len());
        for group in topic.groups.values() {
            put_group(out, group);
        }
    }

    fn take_topic(&mut self, take: &mut Take<'_>, id: TopicId, version: u32) -> Result<Topic, Malformed> {
        let name = take.shared()?;
        let created = Time(take.u64()?);
        let next_offset = take.u64()?;
        let (mut scoped, mut tenant) = (false, None);
        let (mut settings, mut paused) = (TopicSettings::default(), None);
        if version > 1 {
            (scoped, tenant) = take_owner(take, version > VERSION_WITHOUT_KEYS)?;
            (settings, paused) = (TopicSettings::decode(take)?, take_moment(take)?);
        }
        let mut partitions = Vec::new();
        let count = take.count(20)?;
        if count == 0 || count > PARTITIONS_MAX as usize || next_offset > SEQUENCE_MAX {
            return Err(take.malformed());
        }
        for _ in 0..count {
            partitions.push(self.take_partition(take, next_offset, version)?);
        }
        let mut topic = Topic {
            id,
            name,
            created,
            scoped,
            tenant,
            settings,
            paused,
            next_offset,
            partitions,
            groups: BTreeMap::new(),
            group_names: BTreeMap::new(),
        };
        let count = take.count(16)?;
        if count > GROUPS_PER_TOPIC_MAX {
            return Err(take.malformed());
        }
        for _ in 0..count {
            let group = take_group(take, &topic.partitions, self.seed, version)?;
            let known = topic.group_names.insert(Arc::clone(&group.name), group.id).is_some();
            if known || group.id.0 >= self.next_group || topic.groups.contains_key(&group.id) {
                return Err(take.malformed());
            }
            self.done_records += group.done.len() as u64;
            topic.groups.insert(group.id, group);
        }
        Ok(topic)
    }

    fn put_slots(&self, out: &mut Vec<u8>, slots: &Slots) {
        out.put_u64(slots.base);
        out.put_u64(slots.dropped_below);
        out.put_length(slots.chunks.len());
        for chunk in &slots.chunks {
            out.put_u64(chunk.first_offset);
            out.put_u64(chunk.last_offset);
            out.put_u8(if chunk.gap > 0 { GAP } else { u8::from(chunk.full) });
            if chunk.gap > 0 {
                out.put_u64(chunk.gap);
                continue;
            }
            out.put_length(chunk.slots.len());
            for (index, slot) in chunk.slots.iter().enumerate() {
                out.put_u64(slot.offset);
                out.put_u8(u8::from(slot.is_gone()));
                if slot.is_gone() {
                    continue;
                }
                out.put_u64(slot.position.0);
                out.put_u64(slot.at.0);
                out.put_u32(slot.length);
                out.put_u32(slot.size);
                out.put_u32(slot.check);
                out.put_u16(slot.waiting);
                let policy = self.policies.get(slot.policy);
                let has_jitter = policy.is_some_and(RetryPolicy::has_jitter);
                out.put_u8(u8::from(policy.is_some()) | u8::from(has_jitter) << 1);
                if let Some(policy) = policy {
                    policy.encode(out);
                    policy.encode_jitter(out);
                }
                chunk.beside(index).encode(out);
            }
        }
    }

    fn take_partition(
        &mut self,
        take: &mut Take<'_>,
        next_offset: u64,
        version: u32,
    ) -> Result<Partition, Malformed> {
        let mut partition = Partition::default();
        partition.slots.base = take.u64()?;
        partition.slots.dropped_below = take.u64()?;
        let aligned = partition.slots.base.is_multiple_of(CHUNK_SLOTS as u64);
        if !aligned || partition.slots.base > SEQUENCE_MAX {
            return Err(take.malformed());
        }
        let mut above = partition.slots.dropped_below;
        let chunks = take.count(21)?;
        for index in 0..chunks {
            let chunk = self.take_chunk(take, &mut partition, version)?;
            let (full, last_offset) = (chunk.full, chunk.last_offset);
            // Offsets rise from chunk to chunk and stay below the topic's next one.
            let rises = above <= chunk.first_offset && chunk.first_offset <= last_offset;
            if !rises || last_offset >= next_offset || (!full && index + 1 != chunks) {
                return Err(take.malformed());
            }
            above = last_offset + 1;
            partition.slots.restore(chunk);
            if partition.slots.next() > SEQUENCE_MAX {
                return Err(take.malformed());
            }
        }
        if above > next_offset {
            return Err(take.malformed());
        }
        Ok(partition)
    }

    fn take_chunk(
        &mut self,
        take: &mut Take<'_>,
        partition: &mut Partition,
        version: u32,
    ) -> Result<Chunk, Malformed> {
        let first_offset = take.u64()?;
        let last_offset = take.u64()?;
        let (kind, start) = (take.u8()?, partition.slots.next());
        if version > 3 && kind == GAP {
            let gap = take.u64()?;
            if gap == 0 || !gap.is_multiple_of(CHUNK_SLOTS as u64) || gap > SEQUENCE_MAX {
                return Err(take.malformed());
            }
            return Ok(Chunk::gap(start, gap, first_offset, last_offset));
        }
        let full = kind != 0;
        let identified = version == 1 && take.u8()? != 0;
        let count = take.count(9)?;
        // A full chunk has all its slots, or once had none if all were gone; a chunk that still grows has at least one.
        let fits = if full { count == CHUNK_SLOTS || count == 0 } else { count < CHUNK_SLOTS && count > 0 };
        if !fits {
            return Err(take.malformed());
        }
        if count == 0 {
            return Ok(Chunk::gap(start, CHUNK_SLOTS as u64, first_offset, last_offset));
        }
        let mut chunk = Chunk::new(start, first_offset, last_offset, full);
        chunk.slots.reserve_exact(count);
        for _ in 0..count {
            let offset = take.u64()?;
            let slot = if take.u8()? == 0 { self.take_slot(take, offset)? } else { gone_slot(offset) };
            let least = chunk.slots.last().map_or(first_offset, |last: &Slot| last.offset.saturating_add(1));
            if offset < least || offset > last_offset {
                return Err(take.malformed());
            }
            let mut beside = Beside::default();
            if !slot.is_gone() {
                beside = Beside::decode(take, version, identified)?;
                self.descent.add(beside.origin);
                partition.count_in(slot.size, beside.past);
                *self.live.entry(slot.position.segment()).or_default() += u64::from(slot.length);
            }
            chunk.add(slot, beside);
        }
        Ok(chunk)
    }

    fn take_slot(&mut self, take: &mut Take<'_>, offset: u64) -> Result<Slot, Malformed> {
        let mut slot = Slot {
            offset,
            position: Position(take.u64()?),
            at: Time(take.u64()?),
            length: take.u32()?,
            size: take.u32()?,
            check: take.u32()?,
            policy: 0,
            waiting: take.u16()?,
        };
        if usize::from(slot.waiting) > GROUPS_PER_TOPIC_MAX {
            return Err(take.malformed());
        }
        let given = take.u8()?;
        let policy = if given & 1 == 0 { None } else { Some(RetryPolicy::decode(take, given & 2 != 0)?) };
        slot.policy = self.policies.acquire(policy).ok_or_else(|| take.malformed())?;
        Ok(slot)
    }
}

/// A slot of which only the offset is known.
const fn gone_slot(offset: u64) -> Slot {
    let mut slot = Slot {
        offset,
        position: Position(0),
        at: Time(0),
        length: 0,
        size: 0,
        check: 0,
        policy: 0,
        waiting: 0,
    };
    slot.mark_gone();
    slot
}
