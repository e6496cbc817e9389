//! Everything that facts make, and the one function that makes it.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::codec::Malformed;
use crate::fact::{Fact, MessageFact, Place};
use crate::gate::Gate;
use crate::group::{Group, Progress};
use crate::id::{GroupId, Position, Time, TopicId};
use crate::partition::{Partition, Topic};
use crate::retry::Policies;
use crate::slot::{Found, Slot};

/// Where the first message under an identity was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) partition: u32,
    pub(crate) offset: u64,
}

/// The state of a shard: a fold over its facts.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) epoch: u64,
    pub(crate) seed: u64,
    pub(crate) next_group: u32,
    /// By number: topic n lies at n.
    pub(crate) topics: Vec<Topic>,
    pub(crate) names: BTreeMap<Arc<str>, TopicId>,
    /// The produce gate.
    pub(crate) stored: Gate<Stored>,
    pub(crate) policies: Policies,
    /// Payload bytes of messages kept, by the segment in which they lie.
    pub(crate) live: BTreeMap<u32, u64>,
    /// Identities remembered by all consume gates together.
    pub(crate) done_records: u64,
}

/// The history contradicts itself; it cannot have been written by a shard.
const CONTRADICTION: Malformed = Malformed("fact that contradicts the state");
/// Groups of one topic that the counters of a slot can tell apart; settings stay below it.
pub(crate) const GROUPS_PER_TOPIC_MAX: usize = 60_000;
/// Partitions of one topic, whatever the settings say: a bound on what a line of history can ask for.
pub(crate) const PARTITIONS_MAX: u32 = 1 << 16;

impl State {
    /// The state before anything happened.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            epoch: 0,
            seed,
            next_group: 0,
            topics: Vec::new(),
            names: BTreeMap::new(),
            stored: Gate::new(seed),
            policies: Policies::default(),
            live: BTreeMap::new(),
            done_records: 0,
        }
    }

    /// The run of the shard that wrote the last facts.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Folds one batch; `base` is the position of its first byte.
    pub fn apply_batch(&mut self, base: Position, batch: &[u8]) -> Result<(), Malformed> {
        Fact::each(base, batch, |end, fact| self.apply(end, &fact))
    }

    /// Changes the state by one fact that ends at `end`. The only way in which it ever changes.
    pub(crate) fn apply(&mut self, end: Position, fact: &Fact<'_>) -> Result<(), Malformed> {
        match *fact {
            Fact::Opened { epoch, at } => self.on_opened(epoch, at),
            Fact::TopicCreated { topic, partitions, at, name } => {
                self.on_topic_created(topic, partitions, at, name)
            }
            Fact::Appended(message) => self.on_appended(end, &message),
            Fact::GroupCreated { topic, group, at, name } => self.on_group_created(topic, group, at, name),
            Fact::Leased { place, token, attempt, expires, owner } => {
                let (progress, sequence) = self.unsettled(place)?;
                progress.lease(sequence, token, attempt, expires, owner);
                Ok(())
            }
            Fact::Failed { place, retry_at, error } => {
                let (progress, sequence) = self.unsettled(place)?;
                progress.end_lease(sequence);
                let pending = progress.pending.get_mut(&sequence).ok_or(CONTRADICTION)?;
                pending.retry_at = retry_at;
                if *pending.last_error != *error {
                    pending.last_error = error.into();
                }
                Ok(())
            }
            Fact::Released { place } => {
                let (progress, sequence) = self.unsettled(place)?;
                progress.release(sequence);
                Ok(())
            }
            Fact::Acked { place, remembered } => self.on_settled(place, remembered),
            Fact::Retired { place, .. } => self.on_settled(place, Time(0)),
            Fact::GroupExpired { topic, group } => self.on_group_expired(topic, group),
            Fact::Expired { topic, partition, below } => self.on_expired(topic, partition, below),
            Fact::Forgotten { group, upto, most } => self.on_forgotten(group, upto, most),
            Fact::Moved { topic, partition, offset, bytes } => {
                self.on_moved(end, topic, partition, offset, bytes.len())
            }
        }
    }

    pub(crate) fn topic(&self, id: TopicId) -> Option<&Topic> {
        self.topics.get(id.0 as usize)
    }

    fn topic_mut(&mut self, id: TopicId) -> Result<&mut Topic, Malformed> {
        self.topics.get_mut(id.0 as usize).ok_or(CONTRADICTION)
    }

    fn on_opened(&mut self, epoch: u64, at: Time) -> Result<(), Malformed> {
        if epoch <= self.epoch || epoch > u64::MAX / 2 {
            return Err(CONTRADICTION);
        }
        self.epoch = epoch;
        let groups = self.topics.iter_mut().flat_map(|topic| topic.groups.values_mut());
        for progress in groups.flat_map(|group| &mut group.progress) {
            progress.void_leases(at);
        }
        Ok(())
    }

    fn on_topic_created(
        &mut self,
        id: TopicId,
        partitions: u32,
        at: Time,
        name: &str,
    ) -> Result<(), Malformed> {
        if id.0 as usize != self.topics.len()
            || partitions == 0
            || partitions > PARTITIONS_MAX
            || self.names.contains_key(name)
        {
            return Err(CONTRADICTION);
        }
        let name: Arc<str> = name.into();
        self.names.insert(Arc::clone(&name), id);
        self.topics.push(Topic {
            id,
            name,
            created: at,
            next_offset: 0,
            partitions: (0..partitions).map(|_| Partition::default()).collect(),
            groups: BTreeMap::new(),
            group_names: BTreeMap::new(),
        });
        Ok(())
    }

    fn on_appended(&mut self, end: Position, message: &MessageFact<'_>) -> Result<(), Malformed> {
        let policy = self.policies.acquire(message.retry).ok_or(CONTRADICTION)?;
        let topic = self.topics.get_mut(message.topic.0 as usize).ok_or(CONTRADICTION)?;
        let waiting = u16::try_from(topic.groups.len()).map_err(|_| CONTRADICTION)?;
        let lane = topic.partitions.get_mut(message.partition as usize).ok_or(CONTRADICTION)?;
        if message.offset < topic.next_offset || message.offset > u64::MAX / 2 {
            return Err(CONTRADICTION);
        }
        topic.next_offset = message.offset + 1;
        let position = Position(end.0 - message.bytes.len() as u64);
        let length = u32::try_from(message.bytes.len()).map_err(|_| CONTRADICTION)?;
        let (offset, at, size, check) = (message.offset, message.at, message.size, message.check);
        let slot = Slot { offset, position, at, length, size, check, policy, waiting };
        lane.slots.push(slot, message.identity.map(|(identity, _)| identity));
        lane.messages += 1;
        lane.bytes += u64::from(size);
        *self.live.entry(position.segment()).or_default() += u64::from(length);
        if let Some((identity, until)) = message.identity
            && until > message.at
        {
            self.stored.insert(identity, until, Stored { partition: message.partition, offset });
        }
        Ok(())
    }

    fn on_group_created(
        &mut self,
        id: TopicId,
        group: GroupId,
        at: Time,
        name: &str,
    ) -> Result<(), Malformed> {
        if group.0 < self.next_group || group.0 > u32::MAX / 2 {
            return Err(CONTRADICTION);
        }
        let seed = self.seed;
        self.next_group = group.0 + 1;
        let topic = self.topic_mut(id)?;
        if topic.groups.len() >= GROUPS_PER_TOPIC_MAX {
            return Err(CONTRADICTION);
        }
        let name: Arc<str> = name.into();
        if topic.group_names.insert(Arc::clone(&name), group).is_some() {
            return Err(CONTRADICTION);
        }
        let progress = topic.partitions.iter_mut().map(Partition::join).collect();
        topic.groups.insert(group, Group { id: group, name, created: at, progress, done: Gate::new(seed) });
        Ok(())
    }

    /// The message of a delivery that is not settled yet.
    fn unsettled(&mut self, place: Place) -> Result<(&mut Progress, u64), Malformed> {
        let topic = self.topic_mut(place.topic)?;
        let lane = topic.partitions.get(place.partition as usize).ok_or(CONTRADICTION)?;
        let Found::Here(sequence) = lane.slots.find(place.offset) else { return Err(CONTRADICTION) };
        let group = topic.groups.get_mut(&place.group).ok_or(CONTRADICTION)?;
        let progress = group.progress.get_mut(place.partition as usize).ok_or(CONTRADICTION)?;
        if progress.is_settled(sequence) {
            return Err(CONTRADICTION);
        }
        Ok((progress, sequence))
    }

    fn on_settled(&mut self, place: Place, remembered: Time) -> Result<(), Malformed> {
        let (progress, sequence) = self.unsettled(place)?;
        progress.settle(sequence);
        let topic = self.topic_mut(place.topic)?;
        let lane = topic.partitions.get_mut(place.partition as usize).ok_or(CONTRADICTION)?;
        if remembered > Time(0)
            && let Some(identity) = lane.slots.identity(sequence)
        {
            let done = &mut topic.groups.get_mut(&place.group).ok_or(CONTRADICTION)?.done;
            let before = done.len();
            done.insert(identity, remembered, ());
            self.done_records += (done.len() - before) as u64;
        }
        self.let_go(place.topic, place.partition, sequence);
        Ok(())
    }

    /// One group less waits for a message; the last one takes it along.
    fn let_go(&mut self, topic: TopicId, partition: u32, sequence: u64) {
        let Some(topic) = self.topics.get_mut(topic.0 as usize) else { return };
        let lonely = topic.groups.is_empty();
        let Some(lane) = topic.partitions.get_mut(partition as usize) else { return };
        let Some(slot) = lane.slots.get_mut(sequence) else { return };
        slot.waiting = slot.waiting.saturating_sub(1);
        // Without any group nobody is done with it: it waits for the next group to come.
        if slot.waiting == 0 && !lonely {
            let id = topic.id;
            self.remove(id, partition, sequence);
        }
    }

    /// Takes a message out of its partition; its payload is no longer needed.
    fn remove(&mut self, topic: TopicId, partition: u32, sequence: u64) {
        let Some(topic) = self.topics.get_mut(topic.0 as usize) else { return };
        let Some(lane) = topic.partitions.get_mut(partition as usize) else { return };
        let Some(slot) = lane.slots.get(sequence).copied() else { return };
        lane.messages -= 1;
        lane.bytes -= u64::from(slot.size);
        lane.slots.remove(sequence);
        self.policies.release(slot.policy);
        self.unpin(slot.position.segment(), slot.length);
    }

    fn unpin(&mut self, segment: u32, length: u32) {
        if let Some(live) = self.live.get_mut(&segment) {
            *live -= u64::from(length);
            if *live == 0 {
                self.live.remove(&segment);
            }
        }
    }

    fn on_group_expired(&mut self, id: TopicId, group: GroupId) -> Result<(), Malformed> {
        let topic = self.topic_mut(id)?;
        let group = topic.groups.remove(&group).ok_or(CONTRADICTION)?;
        topic.group_names.remove(&group.name);
        let mut owed = Vec::new();
        for (partition, progress) in (0..).zip(&group.progress) {
            let lane = &topic.partitions[partition as usize];
            let unsettled = lane.slots.iter().map(|(sequence, _)| sequence);
            owed.extend(unsettled.filter(|sequence| !progress.is_settled(*sequence)).map(|s| (partition, s)));
        }
        self.done_records -= group.done.len() as u64;
        for (partition, sequence) in owed {
            self.let_go(id, partition, sequence);
        }
        Ok(())
    }

    fn on_expired(&mut self, id: TopicId, partition: u32, below: u64) -> Result<(), Malformed> {
        let topic = self.topic_mut(id)?;
        let lane = topic.partitions.get(partition as usize).ok_or(CONTRADICTION)?;
        let leaving: Vec<u64> = lane
            .slots
            .iter()
            .take_while(|(_, slot)| slot.offset < below)
            .map(|(sequence, _)| sequence)
            .collect();
        for group in topic.groups.values_mut() {
            let progress = group.progress.get_mut(partition as usize).ok_or(CONTRADICTION)?;
            for &sequence in &leaving {
                progress.settle(sequence);
            }
        }
        for sequence in leaving {
            self.remove(id, partition, sequence);
        }
        Ok(())
    }

    fn on_forgotten(
        &mut self,
        group: Option<(TopicId, GroupId)>,
        upto: Time,
        most: u32,
    ) -> Result<(), Malformed> {
        let Some((topic, group)) = group else {
            self.stored.forget(upto, most);
            return Ok(());
        };
        let done = &mut self.topic_mut(topic)?.groups.get_mut(&group).ok_or(CONTRADICTION)?.done;
        let before = done.len();
        done.forget(upto, most);
        let gone = before - done.len();
        self.done_records -= gone as u64;
        Ok(())
    }

    fn on_moved(
        &mut self,
        end: Position,
        id: TopicId,
        partition: u32,
        offset: u64,
        length: usize,
    ) -> Result<(), Malformed> {
        let lane = self.topic_mut(id)?.partitions.get_mut(partition as usize).ok_or(CONTRADICTION)?;
        let Found::Here(sequence) = lane.slots.find(offset) else { return Err(CONTRADICTION) };
        let slot = lane.slots.get_mut(sequence).ok_or(CONTRADICTION)?;
        if slot.length as usize != length {
            return Err(CONTRADICTION);
        }
        let (old, length) = (slot.position.segment(), slot.length);
        slot.position = Position(end.0 - u64::from(length));
        let new = slot.position.segment();
        *self.live.entry(new).or_default() += u64::from(length);
        self.unpin(old, length);
        Ok(())
    }
}
