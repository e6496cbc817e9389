//! The books, kept a second time and the slow way: sets instead of counters, straight from the facts.

use std::collections::{BTreeMap, BTreeSet};

use driftq_core::{DeliveryFact, Fact, GroupId, OrderFact, Place, Position, Tally, Time, TopicId};

use super::Rig;
use super::books::Books;

/// A message: (partition, offset).
type Spot = (u32, u64);

#[derive(Default)]
struct Kept {
    size: u64,
    length: u64,
    segment: u32,
    due: Option<Time>,
    cancelled: bool,
    /// Every group was done with it once, and it stayed.
    past: bool,
    /// It is past, and no group owes it.
    idle: bool,
}

#[derive(Default)]
struct Topic {
    name: String,
    partitions: u32,
    next_offset: u64,
    kept: BTreeMap<Spot, Kept>,
    /// Whether it keeps what is done.
    keeps: bool,
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
pub(crate) struct Model {
    /// By number; a topic that was deleted leaves its place empty.
    topics: Vec<Option<Topic>>,
    ledger: Books,
    /// Batches folded.
    folded: usize,
}

impl Model {
    /// Folds every batch written, once.
    pub(crate) fn fold(&mut self, rig: &Rig) {
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
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Whether a message that was cancelled is still on loan.
    pub(crate) fn has_cancelled(&self) -> bool {
        self.topics.iter().flatten().any(|topic| topic.kept.values().any(|kept| kept.cancelled))
    }

    fn topic(&mut self, id: TopicId) -> &mut Topic {
        self.topics[id.0 as usize].as_mut().expect("the topic was not deleted")
    }

    fn apply(&mut self, end: Position, fact: &Fact<'_>) {
        self.ledger.apply(end, fact);
        match *fact {
            Fact::Opened { epoch: 1, .. } | Fact::Opened { keeps_leases: false, .. } => {
                for topic in self.topics.iter_mut().flatten() {
                    topic.void_leases();
                }
            }
            Fact::Opened { .. } => {}
            Fact::TopicCreated { name, partitions, .. } => {
                self.topics.push(Some(Topic { name: name.into(), partitions, ..Topic::default() }));
            }
            Fact::Order(OrderFact::TopicDeleted { topic }) => self.topics[topic.0 as usize] = None,
            Fact::Appended(message) => {
                let spot = (message.partition, message.offset);
                let topic = self.topic(message.topic);
                topic.next_offset = message.offset + 1;
                let (size, length) = (u64::from(message.size), message.bytes.len() as u64);
                let (segment, due) = (end.segment(), message.due);
                topic.kept.insert(spot, Kept { size, length, segment, due, ..Kept::default() });
                for (id, group) in &mut topic.groups {
                    if message.only.is_none_or(|only| only == *id) {
                        group.owed.insert(spot);
                    }
                }
            }
            Fact::GroupCreated { topic, group, name, .. } => {
                let topic = self.topic(topic);
                let owed = topic.wanted().collect();
                topic.groups.insert(group, Group { name: name.into(), owed, ..Group::default() });
                topic.clean();
            }
            Fact::Delivery(place, DeliveryFact::Leased { .. }) => {
                assert!(self.owed(place), "leased and not owed: {place:?}");
                self.group(place).leased.insert((place.partition, place.offset));
            }
            Fact::Delivery(place, DeliveryFact::Extended { .. }) => {
                assert!(self.owed(place), "extended and not owed: {place:?}");
                self.group(place).leased.insert((place.partition, place.offset));
            }
            Fact::Delivery(
                place,
                DeliveryFact::Failed { .. }
                | DeliveryFact::Released
                | DeliveryFact::Snoozed { .. }
                | DeliveryFact::SnoozedFor { .. },
            ) => {
                self.group(place).leased.remove(&(place.partition, place.offset));
            }
            Fact::Delivery(place, DeliveryFact::Hurried { .. }) => {
                let leased = self.group(place).leased.contains(&(place.partition, place.offset));
                assert!(!leased, "hurried while a reader has it: {place:?}");
            }
            Fact::Delivery(place, DeliveryFact::Acked { .. } | DeliveryFact::Retired { .. }) => {
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
            Fact::Trimmed { topic, partition, below } => {
                let goes = |spot: &Spot, kept: &Kept| spot.0 == partition && spot.1 < below && kept.idle;
                self.topic(topic).kept.retain(|spot, kept| !goes(spot, kept));
            }
            Fact::Order(OrderFact::Configured { topic, settings }) => {
                self.topic(topic).keeps = settings.keep_ms.is_some() || settings.keep_bytes.is_some();
            }
            Fact::Order(OrderFact::Cancelled { topic, partition, offset }) => {
                self.topic(topic).cancel((partition, offset))
            }
            Fact::Order(OrderFact::Removed { topic, partition, offset }) => {
                self.topic(topic).remove((partition, offset))
            }
            Fact::Order(OrderFact::Sought { topic, group, partition, from }) => {
                self.topic(topic).seek(group, partition, from)
            }
            Fact::Forgotten { .. }
            | Fact::Order(OrderFact::Paused { .. })
            | Fact::Keyed { .. }
            | Fact::Effect(_)
            | Fact::Run(_)
            | Fact::Output(_)
            | Fact::Commit(_)
            | Fact::Entity(_)
            | Fact::Key(_)
            | Fact::Audit(_)
            | Fact::Tenant(_)
            | Fact::Definition(_)
            | Fact::Outbox(_) => {}
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
    pub(crate) fn audit(&mut self, rig: &mut Rig) {
        self.fold(rig);
        let tally: Tally = rig.tally();
        assert_eq!(tally.topics.len(), self.topics.iter().flatten().count());
        let mut groups = tally.groups.iter();
        let mut live = BTreeMap::new();
        for (described, topic) in tally.topics.iter().zip(self.topics.iter().flatten()) {
            assert_eq!((&*described.name, described.next_offset), (&*topic.name, topic.next_offset));
            for (partition, described) in (0..topic.partitions).zip(&described.partitions) {
                let kept = || topic.kept.iter().filter(|(spot, _)| spot.0 == partition);
                let count = |past: bool| {
                    let counted = kept().filter(|(_, kept)| kept.past == past);
                    counted.fold((0, 0), |(count, bytes), (_, kept)| (count + 1, bytes + kept.size))
                };
                assert_eq!((described.messages, described.bytes), count(false));
                assert_eq!((described.kept_messages, described.kept_bytes), count(true));
                let wanted = kept().find(|(_, kept)| !kept.idle);
                assert_eq!(described.oldest_offset, wanted.map(|(spot, _)| spot.1));
                assert_eq!(described.earliest_offset, kept().next().map(|(spot, _)| spot.1));
            }
            let scheduled = |least: Time| {
                let due = topic.kept.values().filter(|kept| !kept.cancelled).filter_map(|kept| kept.due);
                due.filter(|due| *due >= least).count() as u64
            };
            // What is due this very moment is on the list until the next tick, or is not any more.
            let range = scheduled(rig.now.after_ms(1))..=scheduled(rig.now);
            assert!(range.contains(&described.scheduled), "{} of {range:?}", described.scheduled);
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
                }
            }
        }
        assert_eq!(groups.next(), None);
        let kept = |(topic, offset): (TopicId, u64)| {
            let topic = self.topics.get(topic.0 as usize).and_then(Option::as_ref);
            topic.is_some_and(|topic| topic.kept.iter().any(|(spot, kept)| spot.1 == offset && !kept.past))
        };
        self.ledger.audit(rig, &tally, kept);
        self.ledger.add_live(&mut live);
        assert_eq!(*rig.shard.state().live_bytes(), live);
        for (segment, bytes) in live {
            let pinned = rig.shard.state().pinned_in(segment, usize::MAX);
            let pieces = rig.shard.state().effects_pinned_in(segment, usize::MAX);
            let lengths = pinned.iter().map(|pinned| pinned.length);
            let lengths = lengths.chain(pieces.iter().map(|piece| piece.blob.length));
            assert_eq!(lengths.map(u64::from).sum::<u64>(), bytes);
        }
    }
}

impl Topic {
    /// What a group that comes now would owe.
    fn wanted(&self) -> impl Iterator<Item = Spot> {
        self.kept.iter().filter(|(_, kept)| !kept.cancelled).map(|(spot, _)| *spot)
    }

    /// A new run began: nobody holds anything, and what was cancelled meanwhile is over.
    fn void_leases(&mut self) {
        let kept = &self.kept;
        for group in self.groups.values_mut() {
            group.leased.clear();
            group.owed.retain(|spot| !kept[spot].cancelled);
        }
        self.clean();
    }

    fn cancel(&mut self, spot: Spot) {
        self.kept.get_mut(&spot).expect("what is cancelled is kept").cancelled = true;
        for group in self.groups.values_mut().filter(|group| !group.leased.contains(&spot)) {
            group.owed.remove(&spot);
        }
        self.clean();
    }

    fn remove(&mut self, spot: Spot) {
        self.kept.remove(&spot).expect("what is removed is kept");
        for group in self.groups.values_mut() {
            group.owed.remove(&spot);
            group.leased.remove(&spot);
        }
    }

    fn seek(&mut self, id: GroupId, partition: u32, from: u64) {
        let again: Vec<Spot> = self.wanted().filter(|spot| spot.0 == partition && spot.1 >= from).collect();
        let group = self.groups.get_mut(&id).expect("the group exists");
        group.owed.retain(|spot| spot.0 != partition);
        group.leased.retain(|spot| spot.0 != partition);
        group.owed.extend(again);
        self.clean();
    }

    /// Once there is a group, what nobody owes is gone, or history where the topic keeps it. Without any, a message
    /// waits for the first to come, unless nobody is to get it any more.
    fn clean(&mut self) {
        let (groups, keeps) = (&self.groups, self.keeps);
        self.kept.retain(|spot, kept| {
            let owed = groups.values().any(|group| group.owed.contains(spot));
            if owed || kept.cancelled {
                kept.idle = false;
                return owed;
            }
            let done = !groups.is_empty();
            // What is history already goes when it is trimmed, also from a topic that keeps nothing any more.
            let stays = kept.idle || !done || keeps;
            kept.past |= done && keeps;
            kept.idle = kept.past;
            stays
        });
    }
}
