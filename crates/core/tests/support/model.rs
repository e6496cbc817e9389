//! The books, kept a second time and the slow way: sets instead of counters, straight from the facts.

use std::collections::{BTreeMap, BTreeSet};

use driftq_core::{Fact, GroupId, Place, Position, Tally, TopicId};

use super::Rig;

/// A message: (partition, offset).
type Spot = (u32, u64);

#[derive(Default)]
struct Kept {
    size: u64,
    length: u64,
    segment: u32,
}

#[derive(Default)]
struct Topic {
    name: String,
    partitions: u32,
    next_offset: u64,
    kept: BTreeMap<Spot, Kept>,
    groups: BTreeMap<GroupId, Group>,
}

#[derive(Default)]
struct Group {
    name: String,
    owed: BTreeSet<Spot>,
    leased: BTreeSet<Spot>,
}

/// What the facts so far amount to.
#[derive(Default)]
pub struct Model {
    topics: Vec<Topic>,
    /// Batches folded.
    folded: usize,
}

impl Model {
    /// Folds every batch written, once.
    pub fn fold(&mut self, rig: &Rig) {
        if self.folded > rig.log.batches.len() {
            *self = Self::default();
        }
        for batch in &rig.log.batches[self.folded..] {
            Fact::each(batch.base, &batch.bytes, |end, fact| {
                self.apply(end, &fact);
                Ok(())
            })
            .expect("history can be read");
        }
        self.folded = rig.log.batches.len();
    }

    /// Some of what was folded is lost.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    fn topic(&mut self, id: TopicId) -> &mut Topic {
        &mut self.topics[id.0 as usize]
    }

    fn apply(&mut self, end: Position, fact: &Fact<'_>) {
        match *fact {
            Fact::Opened { .. } => {
                for group in self.topics.iter_mut().flat_map(|topic| topic.groups.values_mut()) {
                    group.leased.clear();
                }
            }
            Fact::TopicCreated { name, partitions, .. } => {
                self.topics.push(Topic { name: name.into(), partitions, ..Topic::default() });
            }
            Fact::Appended(message) => {
                let spot = (message.partition, message.offset);
                let topic = self.topic(message.topic);
                topic.next_offset = message.offset + 1;
                let (size, length) = (u64::from(message.size), message.bytes.len() as u64);
                topic.kept.insert(spot, Kept { size, length, segment: end.segment() });
                for group in topic.groups.values_mut() {
                    group.owed.insert(spot);
                }
            }
            Fact::GroupCreated { topic, group, name, .. } => {
                let topic = self.topic(topic);
                let owed = topic.kept.keys().copied().collect();
                topic.groups.insert(group, Group { name: name.into(), owed, ..Group::default() });
            }
            Fact::Leased { place, .. } => {
                assert!(self.owed(place), "leased and not owed: {place:?}");
                self.group(place).leased.insert((place.partition, place.offset));
            }
            Fact::Failed { place, .. } | Fact::Released { place } => {
                self.group(place).leased.remove(&(place.partition, place.offset));
            }
            Fact::Acked { place, .. } | Fact::Retired { place, .. } => {
                assert!(self.owed(place), "settled twice: {place:?}");
                let spot = (place.partition, place.offset);
                self.group(place).leased.remove(&spot);
                self.group(place).owed.remove(&spot);
                self.topic(place.topic).clean();
            }
            Fact::GroupExpired { topic, group } => {
                self.topic(topic).groups.remove(&group);
                self.topic(topic).clean();
            }
            Fact::Expired { topic, partition, below } => {
                let topic = self.topic(topic);
                let stays = |spot: &Spot| spot.0 != partition || spot.1 >= below;
                topic.kept.retain(|spot, _| stays(spot));
                for group in topic.groups.values_mut() {
                    group.owed.retain(stays);
                    group.leased.retain(stays);
                }
            }
            Fact::Forgotten { .. } => {}
            Fact::Moved { topic, partition, offset, .. } => {
                let kept = self.topic(topic).kept.get_mut(&(partition, offset));
                kept.expect("what moves is kept").segment = end.segment();
            }
        }
    }

    fn group(&mut self, place: Place) -> &mut Group {
        self.topic(place.topic).groups.get_mut(&place.group).expect("the group exists")
    }

    fn owed(&mut self, place: Place) -> bool {
        self.group(place).owed.contains(&(place.partition, place.offset))
    }

    /// Compares the books with what the shard says of itself.
    pub fn audit(&mut self, rig: &mut Rig) {
        self.fold(rig);
        let tally: Tally = rig.tally();
        assert_eq!(tally.topics.len(), self.topics.len());
        let mut groups = tally.groups.iter();
        let mut live = BTreeMap::new();
        for (described, topic) in tally.topics.iter().zip(&self.topics) {
            assert_eq!((&*described.name, described.next_offset), (&*topic.name, topic.next_offset));
            for (partition, described) in (0..topic.partitions).zip(&described.partitions) {
                let kept = || topic.kept.iter().filter(|(spot, _)| spot.0 == partition);
                assert_eq!(described.messages, kept().count() as u64);
                assert_eq!(described.bytes, kept().map(|(_, kept)| kept.size).sum::<u64>());
                assert_eq!(described.oldest_offset, kept().next().map(|(spot, _)| spot.1));
            }
            for kept in topic.kept.values() {
                *live.entry(kept.segment).or_insert(0) += kept.length;
            }
            for group in topic.groups.values() {
                let described = groups.next().expect("every group is described");
                assert_eq!((&*described.topic, &*described.name), (&*topic.name, &*group.name));
                for (partition, described) in (0..topic.partitions).zip(&described.partitions) {
                    let count = |set: &BTreeSet<Spot>| set.iter().filter(|spot| spot.0 == partition).count();
                    assert_eq!(described.lag, count(&group.owed) as u64, "lag in {}", topic.name);
                    assert_eq!(
                        described.in_flight as usize,
                        count(&group.leased),
                        "leases in {}",
                        topic.name
                    );
                    assert!(described.in_flight <= rig.settings.in_flight_max);
                }
            }
        }
        assert_eq!(groups.next(), None);
        assert_eq!(*rig.shard.state().live_bytes(), live);
        for (segment, bytes) in live {
            let pinned = rig.shard.state().pinned_in(segment, usize::MAX);
            assert_eq!(pinned.iter().map(|pinned| u64::from(pinned.length)).sum::<u64>(), bytes);
        }
    }
}

impl Topic {
    /// Once there is a group, what nobody owes is gone.
    fn clean(&mut self) {
        if !self.groups.is_empty() {
            let groups = &self.groups;
            self.kept.retain(|spot, _| groups.values().any(|group| group.owed.contains(spot)));
        }
    }
}
