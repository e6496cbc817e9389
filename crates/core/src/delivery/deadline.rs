//! Messages on which no reader is to begin work any more: their deadline has passed, and they become dead letters.
//!
//! Dispatch never hands such a message out; a timer per partition gives up those that no reader asks for. Holders are
//! left alone: what they say still counts, and what they give back or let lapse is given up then.

use alloc::vec::Vec;

use crate::delivery::{Deliveries, Schedule};
use crate::log::delivery::{DeliveryFact, Place};
use crate::log::fact::Fact;
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::turn::timer::{Due, Spot};
use crate::words::action::Output;
use crate::words::id::{GroupId, Time, TopicId};
use crate::words::letter::Reason;
use crate::words::run::How;

/// Messages given up in one go, counted once per group; then other inputs get their turn.
const OVERDUE_PER_TICK_MAX: usize = 256;
/// A list of deadlines is rebuilt when it has this many entries more than twice what the partition has messages: those
/// that were settled in time are still on it.
const STALE_ENTRIES_MAX: u64 = 1024;

impl Deliveries {
    /// A message with a deadline was stored.
    pub(crate) fn watch_deadline(
        &mut self,
        turn: &mut Turn,
        topic: TopicId,
        partition: u32,
        sequence: u64,
        deadline: Time,
    ) {
        let Some(lane) = turn.journal.state.lane(topic, partition) else { return };
        let room = 2 * (lane.messages + lane.past_messages) + STALE_ENTRIES_MAX;
        let queue = self.deadlines.entry((topic, partition)).or_default();
        queue.insert((deadline, sequence));
        if queue.len() as u64 > room {
            return self.watch_deadlines(turn, topic, partition);
        }
        // One timer for the earliest, as with what is scheduled.
        if queue.first() == Some(&(deadline, sequence)) {
            turn.timers.set(deadline.max(turn.now), Due::Deadline(topic, partition));
        }
    }

    /// Rebuilds the list of deadlines of a partition: a run began, or a group has to settle messages that it had not.
    pub(crate) fn watch_deadlines(&mut self, turn: &mut Turn, topic: TopicId, partition: u32) {
        let Some(lane) = turn.journal.state.lane(topic, partition) else { return };
        let bound = lane.slots.deadlines().filter(|(sequence, _)| !lane.slots.is_kept(*sequence));
        let queue: Schedule = bound.map(|(sequence, deadline)| (deadline, sequence)).collect();
        match queue.first() {
            None => drop(self.deadlines.remove(&(topic, partition))),
            Some(&(first, _)) => {
                turn.timers.set(first.max(turn.now), Due::Deadline(topic, partition));
                self.deadlines.insert((topic, partition), queue);
            }
        }
    }

    /// Rebuilds the lists of deadlines of all partitions of a topic.
    pub(crate) fn watch_topic_deadlines(&mut self, turn: &mut Turn, topic: TopicId) {
        let partitions = turn.journal.state.topic(topic).map_or(0, |topic| topic.info().partitions);
        for partition in 0..partitions {
            self.watch_deadlines(turn, topic, partition);
        }
    }

    /// Messages of a partition have passed their deadline: groups that have not begun work on them give them up.
    pub(crate) fn on_deadline(&mut self, turn: &mut Turn, topic: TopicId, partition: u32, out: &mut Output) {
        let mut given_up = 0;
        while given_up < OVERDUE_PER_TICK_MAX
            && let Some(queue) = self.deadlines.get_mut(&(topic, partition))
            && let Some((_, sequence)) = queue.pop_first_if_due(turn.now)
        {
            self.unschedule_start(turn, topic, partition, sequence);
            let groups = turn.journal.state.topic(topic).map(|topic| topic.groups.keys().copied());
            let groups: Vec<GroupId> = groups.into_iter().flatten().collect();
            given_up += groups.len();
            for group in groups {
                self.end_overdue(turn, Spot { topic, group, partition, sequence }, out);
            }
        }
        let next = self.deadlines.get(&(topic, partition)).map(|queue| queue.first().copied());
        match next {
            Some(Some((next, _))) => turn.timers.set(next.max(turn.now), Due::Deadline(topic, partition)),
            Some(None) => drop(self.deadlines.remove(&(topic, partition))),
            None => {}
        }
        self.touch_topic(turn, topic);
    }

    /// Ends an overdue message for a group, unless the group is done with it, works on it, or has given it up.
    pub(crate) fn end_overdue(&mut self, turn: &mut Turn, spot: Spot, out: &mut Output) {
        let progress = turn.members(spot).and_then(|group| group.progress.get(spot.partition as usize));
        let settled = progress.is_none_or(|progress| progress.is_settled(spot.sequence));
        let Some(crew) = self.crews.get(&spot.group) else { return };
        if settled || crew.is_dying(spot) || turn.lease_of(spot).is_some() || !turn.is_overdue(spot) {
            return;
        }
        let identity = turn.slots(spot).and_then(|slots| slots.identity(spot.sequence));
        let runs = identity.and_then(|identity| crew.running.get(&identity).copied());
        // It may be done by what runs: it is looked at again when that has ended.
        if runs.is_some_and(|runs| runs != (spot.partition, spot.sequence)) {
            return;
        }
        let done = identity.is_some_and(|identity| {
            turn.members(spot).is_some_and(|group| group.done.get(&identity, turn.now).is_some())
        });
        // A late group reads history: what was useful in its time is not a failure now.
        let past = turn.slots(spot).is_some_and(|slots| slots.is_past(spot.sequence));
        if done || past {
            return self.pass_over(turn, spot, out);
        }
        self.bury(turn, spot, Reason::DeadlinePassed, out);
    }

    /// A group is done with a message that it never got.
    fn pass_over(&mut self, turn: &mut Turn, spot: Spot, out: &mut Output) {
        let Some(offset) = turn.offset_of(spot) else { return };
        turn.note_ending(spot, How::Skipped, out);
        self.retire(turn, spot);
        let place = Place { topic: spot.topic, group: spot.group, partition: spot.partition, offset };
        // Urgent: an ack that comes now is told that all is settled, and that must not be taken back by a crash.
        turn.journal.emit(Haste::Urgent, out, &Fact::Delivery(place, DeliveryFact::Retired { dead: false }));
    }
}

impl Turn {
    /// Whether no reader is to begin work on a message any more. A dead letter never dies again.
    pub(crate) fn is_overdue(&self, spot: Spot) -> bool {
        let deadline = self.slots(spot).map_or(Time(0), |slots| slots.deadline(spot.sequence));
        let mortal =
            || self.journal.state.topic(spot.topic).is_some_and(|topic| !topic.is_dead_letter_topic());
        deadline > Time(0) && deadline <= self.now && mortal()
    }
}

/// What is taken off a list by time.
trait Overdue {
    fn pop_first_if_due(&mut self, now: Time) -> Option<(Time, u64)>;
}

impl Overdue for Schedule {
    fn pop_first_if_due(&mut self, now: Time) -> Option<(Time, u64)> {
        if self.first()?.0 <= now { self.pop_first() } else { None }
    }
}
