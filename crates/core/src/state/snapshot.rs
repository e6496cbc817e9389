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
use crate::state::gate::{Gate, put_gate, take_gate};
use crate::state::group::{Group, HISTORY_MAX, Pending, Progress};
use crate::state::key::record::Keys;
use crate::state::output::record::Outputs;
use crate::state::owner::{put_owner, take_owner};
use crate::state::partition::{Partition, Topic};
use crate::state::run::record::Runs;
use crate::state::spent::Spent;
use crate::state::tenant::record::Tenants;
use crate::state::version::{
    VERSION, VERSION_LEAST, VERSION_WITHOUT_AUDIT, VERSION_WITHOUT_DEFINITIONS, VERSION_WITHOUT_KEYS,
    VERSION_WITHOUT_LIMITS, VERSION_WITHOUT_SHARDS,
};
use crate::state::{First, GROUPS_PER_TOPIC_MAX, PARTITIONS_MAX, State};
use crate::words::codec::{Malformed, Put, Take};
use crate::words::id::{GroupId, NO_TOPIC, RequestHash, SHARDS_MAX, ShardId, Time, Token, TopicId};
use crate::words::letter::{AttemptDescription, put_attempts, take_attempts};
use crate::words::topic::TopicSettings;

/// Above any offset or sequence number that can be reached, and far enough below the end to count on from there.
pub(super) const SEQUENCE_MAX: u64 = 1 << 62;
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
        self.effects = Effects::decode(take, self.seed)?;
        self.commits = Commits::decode(take, self.seed)?;
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
}

fn put_moment(out: &mut Vec<u8>, moment: Option<Time>) {
    out.put_u8(u8::from(moment.is_some()));
    out.put_u64(moment.unwrap_or_default().0);
}

fn take_moment(take: &mut Take<'_>) -> Result<Option<Time>, Malformed> {
    let given = take.u8()? != 0;
    let moment = Time(take.u64()?);
    Ok(given.then_some(moment))
}

fn put_group(out: &mut Vec<u8>, group: &Group) {
    out.put_u32(group.id.0);
    out.put_text(&group.name);
    out.put_u64(group.created.0);
    put_moment(out, group.paused);
    for progress in &group.progress {
        put_progress(out, progress);
    }
    put_gate(out, &group.done, |_, ()| ());
}

fn take_group(
    take: &mut Take<'_>,
    partitions: &[Partition],
    seed: u64,
    version: u32,
) -> Result<Group, Malformed> {
    let id = GroupId(take.u32()?);
    let name = take.shared()?;
    let created = Time(take.u64()?);
    let paused = if version > 1 { take_moment(take)? } else { None };
    let mut progress = Vec::new();
    for partition in partitions {
        progress.push(take_progress(take, partition.slots.next(), version)?);
    }
    let mut done = Gate::new(seed);
    take_gate(take, &mut done, |_| Ok(()))?;
    Ok(Group { id, name, created, paused, progress, done })
}

fn put_progress(out: &mut Vec<u8>, progress: &Progress) {
    out.put_u64(progress.floor);
    out.put_u64(progress.backlog.cast_unsigned());
    out.put_u64(progress.settled_count);
    let ranges = progress.settled.iter();
    out.put_length(ranges.len());
    for (start, end) in ranges {
        out.put_u64(start);
        out.put_u64(end);
    }
    out.put_length(progress.pending.len());
    for (&sequence, pending) in &progress.pending {
        out.put_u64(sequence);
        out.put_u32(pending.attempts);
        out.put_text(&pending.last_error);
        out.put_text(&pending.owner);
        out.put_u64(pending.retry_at.0);
        let (lent, waits) = (pending.lease.is_some(), pending.waits_for > 0);
        let flags = [lent, pending.cancelled, pending.nacked, pending.dead, pending.is_pushed, waits];
        out.put_u8(flags.iter().rev().fold(0, |bits, flag| bits << 1 | u8::from(*flag)));
        out.put_u64(pending.token.epoch);
        out.put_u64(pending.token.n);
        out.put_u64(pending.lease.unwrap_or_default().0);
        out.put_u64(pending.leased_at.0);
        out.put_u64(pending.ended_at.0);
        out.put_u64(pending.lent_ms);
        let history: Vec<_> = pending.history.iter().map(AttemptDescription::borrowed).collect();
        put_attempts(out, &history);
        if pending.waits_for > 0 {
            out.put_u64(pending.waits_for);
        }
    }
}

/// Reads what a group has done with a partition whose next sequence number is `next`.
fn take_progress(take: &mut Take<'_>, next: u64, version: u32) -> Result<Progress, Malformed> {
    let mut progress = Progress {
        floor: take.u64()?,
        backlog: take.u64()?.cast_signed(),
        settled_count: take.u64()?,
        ..Progress::default()
    };
    let counted = progress.backlog.unsigned_abs() <= SEQUENCE_MAX && progress.settled_count <= SEQUENCE_MAX;
    if !counted || progress.floor > next {
        return Err(take.malformed());
    }
    for _ in 0..take.count(16)? {
        let (start, end) = (take.u64()?, take.u64()?);
        if start <= progress.floor || end > next || !progress.settled.push_back(start, end) {
            return Err(take.malformed());
        }
    }
    for _ in 0..take.count(29)? {
        let sequence = take.u64()?;
        let rises = progress.pending.last_key_value().is_none_or(|(last, _)| *last < sequence);
        if !rises || sequence >= next || progress.is_settled(sequence) {
            return Err(take.malformed());
        }
        let pending = take_pending(take, version)?;
        progress.leased += u32::from(pending.lease.is_some());
        progress.pushed += u32::from(pending.lease.is_some() && pending.is_pushed);
        progress.pending.insert(sequence, pending);
    }
    Ok(progress)
}

fn take_pending(take: &mut Take<'_>, version: u32) -> Result<Pending, Malformed> {
    let mut pending = Pending {
        attempts: take.u32()?,
        last_error: take.shared()?,
        owner: take.shared()?,
        retry_at: Time(take.u64()?),
        ..Pending::default()
    };
    let given = take.u8()?;
    if version > 1 || given & 1 != 0 {
        pending.token = Token { epoch: take.u64()?, n: take.u64()? };
        let expires = Time(take.u64()?);
        pending.lease = (given & 1 != 0).then_some(expires);
    }
    pending.is_pushed = version > 3 && given & 16 != 0;
    if version > 1 {
        pending.cancelled = given & 2 != 0;
        pending.leased_at = Time(take.u64()?);
        pending.ended_at = Time(take.u64()?);
        if version > 3 {
            pending.lent_ms = take.u64()?;
            pending.nacked = given & 4 != 0;
            pending.dead = given & 8 != 0;
        }
        let history = take_attempts(take)?;
        if history.len() > HISTORY_MAX {
            return Err(take.malformed());
        }
        pending.history = history.iter().map(AttemptDescription::owned).collect();
    }
    if version > 3 && given & 32 != 0 {
        pending.waits_for = take.u64()?;
    }
    Ok(pending)
}
