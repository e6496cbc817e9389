//! Ready messages meet readers with credit.

use alloc::sync::Arc;

use crate::action::{Action, Delivery, Output, Receipt};
use crate::fact::{Fact, Place};
use crate::group::{Group, Progress};
use crate::id::{GroupId, Identity, Position};
use crate::journal::Haste;
use crate::lane::{Crew, Lane};
use crate::partition::{Partition, Topic};
use crate::shard::Shard;
use crate::timer::{Due, Spot};

/// What a partition has for a group right now.
enum Next {
    /// Nothing.
    Nothing,
    /// A message that can be delivered.
    Deliver(u64),
    /// A message whose identity the group is done with.
    Skip(u64),
}

impl Shard {
    /// Delivers to the group what can be delivered, one partition after the other, one reader after the other.
    pub(crate) fn dispatch(&mut self, group: GroupId, out: &mut Output) {
        if self.journal.durable < self.opened {
            return;
        }
        while let Some((partition, next)) = self.next_for(group) {
            match next {
                Next::Nothing => {}
                Next::Deliver(sequence) => self.deliver(group, partition, sequence, out),
                Next::Skip(sequence) => self.skip(group, partition, sequence, out),
            }
        }
    }

    /// The next partition in turn and what it has; `None` when nothing more can be delivered.
    fn next_for(&mut self, group: GroupId) -> Option<(u32, Next)> {
        let crew = self.crews.get_mut(&group)?;
        if !crew.can_take() {
            return None;
        }
        let partition = crew.next_hot()?;
        let topic = self.journal.state.topic(crew.topic)?;
        let members = topic.groups.get(&group)?;
        let progress = members.progress.get(partition as usize)?;
        let lane = topic.partitions.get(partition as usize)?;
        if progress.leased >= self.settings.in_flight_max {
            crew.hot.remove(&partition);
            return Some((partition, Next::Nothing));
        }
        let Some(sequence) = crew.lanes[partition as usize].candidate(lane, progress, self.journal.durable)
        else {
            crew.hot.remove(&partition);
            return Some((partition, Next::Nothing));
        };
        let Some(identity) = lane.slots.identity(sequence) else {
            return Some((partition, Next::Deliver(sequence)));
        };
        if members.done.get(&identity, self.now).is_some() {
            return Some((partition, Next::Skip(sequence)));
        }
        if crew.running.contains_key(&identity) {
            crew.set_aside(identity, partition, sequence);
            return Some((partition, Next::Nothing));
        }
        crew.running.insert(identity, (partition, sequence));
        Some((partition, Next::Deliver(sequence)))
    }

    fn deliver(&mut self, group: GroupId, partition: u32, sequence: u64, out: &mut Output) {
        let token = self.next_token();
        let Some(crew) = self.crews.get_mut(&group) else { return };
        let Some(topic) = self.journal.state.topic(crew.topic) else { return };
        let Some(slot) = topic.partitions[partition as usize].slots.get(sequence).copied() else { return };
        let pending =
            topic.groups.get(&group).and_then(|g| g.progress[partition as usize].pending.get(&sequence));
        let attempt = pending.map_or(0, |pending| pending.attempts).saturating_add(1);
        let last_error = pending.map_or_else(Arc::default, |pending| Arc::clone(&pending.last_error));
        let place = Place { topic: topic.id, group, partition, offset: slot.offset };
        crew.lanes[partition as usize].take(sequence);
        crew.next_partition = partition + 1;
        let Some(consumer) = crew.next_consumer() else { return };
        consumer.credit -= 1;
        let expires = self.now.after_ms(consumer.lease_ms);
        let consumer_id = consumer.id;
        let fact = Fact::Leased { place, token, attempt, expires, owner: &consumer.owner };
        self.journal.emit(Haste::Lazy, out, &fact);
        let spot = Spot { topic: place.topic, group, partition, sequence };
        self.timers.set(expires, Due::Lapse(spot));
        let receipt = Receipt { topic: place.topic, group, partition, offset: slot.offset, token };
        let delivery = Delivery {
            receipt,
            attempt,
            last_error,
            expires,
            position: slot.position,
            length: slot.length,
            check: slot.check,
        };
        out.actions.push(Action::Deliver { consumer: consumer_id, delivery });
    }

    fn skip(&mut self, group: GroupId, partition: u32, sequence: u64, out: &mut Output) {
        let Some(crew) = self.crews.get_mut(&group) else { return };
        let Some(topic) = self.journal.state.topic(crew.topic) else { return };
        let Some(slot) = topic.partitions[partition as usize].slots.get(sequence) else { return };
        let place = Place { topic: topic.id, group, partition, offset: slot.offset };
        crew.lanes[partition as usize].take(sequence);
        // Urgent: an ack that comes now is told that all is settled, and that must not be taken back by a crash.
        self.journal.emit(Haste::Urgent, out, &Fact::Retired { place, dead: false });
    }

    /// Brings every group back to work after recovery: what was on loan may be delivered again at once, what
    /// waits for its next attempt goes on waiting, what has used up its attempts dies.
    pub(crate) fn rebuild_crews(&mut self, out: &mut Output) {
        let mut groups = alloc::vec::Vec::new();
        for topic in &self.journal.state.topics {
            groups.extend(topic.groups.keys().map(|group| (topic.id, *group)));
        }
        for (topic, group) in groups {
            self.add_crew(topic, group);
            self.reschedule(topic, group, out);
        }
    }

    /// Sets up the volatile side of a group.
    pub(crate) fn add_crew(&mut self, topic: crate::id::TopicId, group: GroupId) {
        let floors = self.journal.state.topic(topic).and_then(|topic| topic.groups.get(&group)).map(floors);
        let mut crew = Crew::new(topic, floors.into_iter().flatten(), self.now);
        crew.watched = true;
        self.crews.insert(group, crew);
        self.timers.set(self.now.after_ms(self.settings.group_expiry_ms), Due::Idle(topic, group));
    }

    fn reschedule(&mut self, topic: crate::id::TopicId, group: GroupId, out: &mut Output) {
        let Some(members) = self.journal.state.topic(topic).and_then(|topic| topic.groups.get(&group)) else {
            return;
        };
        let waiting: alloc::vec::Vec<_> = (0..)
            .zip(&members.progress)
            .flat_map(|(partition, progress): (u32, &Progress)| {
                progress
                    .pending
                    .iter()
                    .map(move |(&sequence, pending)| (partition, sequence, pending.retry_at))
            })
            .collect();
        for (partition, sequence, retry_at) in waiting {
            let spot = Spot { topic, group, partition, sequence };
            if self.is_exhausted(spot) {
                self.start_burial(spot, out);
            } else if let Some(crew) = self.crews.get_mut(&group).filter(|_| retry_at <= self.now) {
                // Not by way of a timer: a reader that comes before the next tick gets the old before the new.
                crew.make_ready(partition, sequence);
            } else {
                self.timers.set(retry_at, Due::Retry(spot));
            }
        }
    }
}

fn floors(group: &Group) -> impl Iterator<Item = u64> {
    group.progress.iter().map(|progress| progress.floor)
}

impl Lane {
    /// The message to deliver next: what came back first, then what is new, in the order of offsets.
    fn candidate(&mut self, lane: &Partition, progress: &Progress, durable: Position) -> Option<u64> {
        while let Some(&sequence) = self.ready.first() {
            let slot = lane.slots.get(sequence).filter(|_| !progress.is_settled(sequence));
            match slot {
                Some(slot) if slot.position < durable => return Some(sequence),
                // It was moved and its new copy is not durable yet; it will be looked at again when it is.
                Some(_) => break,
                None => self.ready.remove(&sequence),
            };
        }
        loop {
            let from = progress.settled.next_gap(self.cursor.max(progress.floor));
            let Some(sequence) = lane.slots.next_alive(from) else {
                self.cursor = lane.slots.next();
                return None;
            };
            self.cursor = sequence;
            if progress.pending.contains_key(&sequence) || progress.is_settled(sequence) {
                self.cursor += 1;
                continue;
            }
            let visible = lane.slots.get(sequence).is_some_and(|slot| slot.position < durable);
            return visible.then_some(sequence);
        }
    }

    /// The message is no longer to be looked at.
    fn take(&mut self, sequence: u64) {
        if !self.ready.remove(&sequence) {
            self.cursor = self.cursor.max(sequence + 1);
        }
    }
}

impl Crew {
    fn set_aside(&mut self, identity: Identity, partition: u32, sequence: u64) {
        self.lanes[partition as usize].take(sequence);
        self.aside.entry(identity).or_default().push((partition, sequence));
    }
}

impl Topic {
    /// The group's progress in a partition.
    pub(crate) fn progress(&self, group: GroupId, partition: u32) -> Option<&Progress> {
        self.groups.get(&group)?.progress.get(partition as usize)
    }
}
