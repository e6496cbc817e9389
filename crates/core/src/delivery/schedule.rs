//! Messages that are not due yet, and those that the cursor of a group passes over.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::delivery::Deliveries;
use crate::delivery::crew::Crew;
use crate::state::partition::Topic;
use crate::turn::Turn;
use crate::turn::timer::Due;
use crate::words::action::Output;
use crate::words::id::{GroupId, Time, TopicId};

/// Scheduled messages that go out in one go; then other inputs get their turn.
const BEGUN_PER_TICK_MAX: usize = 256;

impl Deliveries {
    /// A message was stored that the cursor passes over: it waits for its time, or goes on every group's list.
    pub(crate) fn list_special(
        &mut self,
        turn: &mut Turn,
        topic: TopicId,
        partition: u32,
        sequence: u64,
        due: Option<Time>,
        out: &Output,
    ) {
        match due.filter(|due| *due > turn.now) {
            Some(due) => self.schedule(turn, topic, partition, sequence, due),
            // Not on the lists before it is durable: there, every group that looks for a message would step over it.
            None => {
                let end = turn.journal.base.plus(out.facts.len());
                self.unlisted.push_back((end, topic, partition, sequence));
            }
        }
    }

    /// Puts messages on the groups' lists that have become durable.
    pub(crate) fn list_durable(&mut self, turn: &mut Turn) {
        let durable = turn.journal.durable;
        while let Some((_, topic, partition, sequence)) =
            self.unlisted.pop_front_if(|(end, ..)| *end <= durable)
        {
            self.begin(turn, topic, partition, sequence);
        }
    }

    fn schedule(&mut self, turn: &mut Turn, topic: TopicId, partition: u32, sequence: u64, due: Time) {
        let queue = self.scheduled.entry((topic, partition)).or_default();
        queue.insert((due, sequence));
        // One timer for the earliest: a million scheduled messages are one entry among the timers.
        if queue.first() == Some(&(due, sequence)) {
            turn.timers.set(due, Due::Begin(topic, partition));
        }
    }

    /// A scheduled message is not wanted any more.
    pub(crate) fn unschedule_start(
        &mut self,
        turn: &mut Turn,
        topic: TopicId,
        partition: u32,
        sequence: u64,
    ) {
        let due = turn.journal.state.lane(topic, partition).map_or(Time(0), |lane| lane.slots.due(sequence));
        if let Some(queue) = self.scheduled.get_mut(&(topic, partition)) {
            queue.remove(&(due, sequence));
        }
    }

    /// Takes messages off the list that are not kept any more: a group that was the last to wait for them left.
    pub(crate) fn prune_schedule(&mut self, turn: &mut Turn, topic: TopicId) {
        let state = &turn.journal.state;
        for ((_, partition), queue) in self.scheduled.range_mut((topic, 0)..=(topic, u32::MAX)) {
            let lane = state.lane(topic, *partition);
            queue.retain(|(_, sequence)| lane.is_some_and(|lane| lane.slots.get(*sequence).is_some()));
        }
    }

    /// The message may be delivered from now on.
    fn begin(&mut self, turn: &mut Turn, topic: TopicId, partition: u32, sequence: u64) {
        let Some(source) = turn.journal.state.topic(topic) else { return };
        for group in source.groups.keys() {
            list(source, self.crews.get_mut(group), *group, partition, sequence);
        }
    }

    /// Scheduled messages of a partition are due.
    pub(crate) fn on_begin(&mut self, turn: &mut Turn, topic: TopicId, partition: u32) {
        let Some(queue) = self.scheduled.get_mut(&(topic, partition)) else { return };
        let mut due = Vec::new();
        while due.len() < BEGUN_PER_TICK_MAX && queue.first().is_some_and(|(at, _)| *at <= turn.now) {
            due.extend(queue.pop_first().map(|(_, sequence)| sequence));
        }
        match queue.first() {
            Some(&(next, _)) => turn.timers.set(next.max(turn.now), Due::Begin(topic, partition)),
            None => drop(self.scheduled.remove(&(topic, partition))),
        }
        for sequence in due {
            self.begin(turn, topic, partition, sequence);
        }
        self.touch_topic(turn, topic);
    }

    /// How many messages of a partition are not due yet.
    pub(crate) fn scheduled_at(&self, topic: TopicId, partition: u32) -> usize {
        self.scheduled.get(&(topic, partition)).map_or(0, BTreeSet::len)
    }

    /// How many messages of a topic are not due yet.
    pub(crate) fn scheduled_in(&self, topic: TopicId) -> u64 {
        let partitions = self.scheduled.range((topic, 0)..=(topic, u32::MAX));
        partitions.map(|(_, queue)| queue.len() as u64).sum()
    }

    /// Puts what is scheduled back on its list: a new run began.
    pub(crate) fn rebuild_schedule(&mut self, turn: &mut Turn) {
        let mut waiting = Vec::new();
        for topic in turn.journal.state.each_topic() {
            for (partition, lane) in (0_u32..).zip(&topic.partitions) {
                let due = lane.slots.special().filter(|(_, due, _)| (turn.now..Time::NEVER).contains(due));
                waiting.extend(due.map(|(sequence, due, _)| (topic.id, partition, sequence, due)));
            }
        }
        for (topic, partition, sequence, due) in waiting {
            self.schedule(turn, topic, partition, sequence, due);
        }
    }
}

/// Puts a message that the cursor passes over on a group's list, if it is the group's to get for the first time.
pub(crate) fn list(topic: &Topic, crew: Option<&mut Crew>, group: GroupId, partition: u32, sequence: u64) {
    let Some(progress) = topic.progress(group, partition) else { return };
    if !progress.is_settled(sequence)
        && !progress.pending.contains_key(&sequence)
        && let Some(crew) = crew
    {
        crew.make_fresh(partition, topic.rank(partition, sequence));
    }
}
