//! What time alone does to topics and groups: retention, forgetting, groups that never came back.

use crate::delivery::Deliveries;
use crate::log::fact::Fact;
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::turn::timer::{Due, FORGET_SLACK_MS, Spot};
use crate::words::action::Output;
use crate::words::id::{GroupId, Time, TopicId};
use crate::words::reject::Reject;
use alloc::vec::Vec;

/// Identities forgotten by one fact.
const FORGOTTEN_PER_FACT_MAX: u32 = 1024;
/// Messages dropped by one fact.
const EXPIRED_PER_FACT_MAX: usize = 1024;

impl Deliveries {
    /// The retention of a topic has changed: the timer that is set knows only the old one.
    pub(crate) fn reschedule_retention(&mut self, turn: &mut Turn, topic: TopicId, partition: u32) {
        self.retaining.remove(&(topic, partition));
        self.schedule_retention(turn, topic, partition);
    }

    /// Sets the timer of a partition's oldest message, unless one is set: that one comes no later.
    pub(crate) fn schedule_retention(&mut self, turn: &mut Turn, topic: TopicId, partition: u32) {
        let Some(retention_ms) = turn.retention_ms(topic) else { return };
        if self.retaining.contains(&(topic, partition)) {
            return;
        }
        let lane = turn.journal.state.lane(topic, partition);
        if let Some((_, slot)) = lane.and_then(|lane| lane.slots.iter().next()) {
            turn.timers.set(slot.at.after_ms(retention_ms), Due::Retain(topic, partition));
            self.retaining.insert((topic, partition));
        }
    }

    /// Drops messages that are older than the retention allows.
    pub(crate) fn on_retain(&mut self, turn: &mut Turn, topic: TopicId, partition: u32, out: &mut Output) {
        self.retaining.remove(&(topic, partition));
        let Some(retention_ms) = turn.retention_ms(topic) else { return };
        let Some(lane) = turn.journal.state.lane(topic, partition) else { return };
        let old = |at: Time| at.after_ms(retention_ms) <= turn.now;
        let below = lane.slots.iter().take(EXPIRED_PER_FACT_MAX).take_while(|(_, slot)| old(slot.at)).last();
        if let Some(below) = below.map(|(_, slot)| slot.offset + 1) {
            self.expire(turn, topic, partition, below, out);
        }
        self.schedule_retention(turn, topic, partition);
    }

    /// Drops every message of a partition below an offset, for every group.
    pub(crate) fn expire(
        &mut self,
        turn: &mut Turn,
        topic: TopicId,
        partition: u32,
        below: u64,
        out: &mut Output,
    ) {
        let Some(source) = turn.journal.state.topic(topic) else { return };
        let lane = &source.partitions[partition as usize];
        let leaving = lane.slots.iter().take_while(|(_, slot)| slot.offset < below).last();
        let Some((last, _)) = leaving else { return };
        let mut spots = Vec::new();
        for group in source.groups.values() {
            let pending = group.progress[partition as usize].pending.range(..=last);
            spots.extend(pending.map(|(&sequence, _)| Spot { topic, group: group.id, partition, sequence }));
        }
        let groups: Vec<GroupId> = source.groups.keys().copied().collect();
        // Those that leave are few; those that are scheduled may be a million.
        let leaving =
            lane.slots.iter().map(|(sequence, _)| sequence).take_while(|sequence| *sequence <= last);
        let scheduled: Vec<u64> = leaving.filter(|sequence| lane.slots.due(*sequence) > Time(0)).collect();
        for sequence in scheduled {
            self.unschedule_start(turn, topic, partition, sequence);
        }
        for spot in spots {
            self.retire(turn, spot);
        }
        // Urgent: an ack that comes now is told that all is settled, and that must not be taken back by a crash.
        turn.journal.emit(Haste::Urgent, out, &Fact::Expired { topic, partition, below });
        for group in groups {
            if let Some(crew) = self.crews.get_mut(&group) {
                crew.hot.insert(partition);
                self.touch(group);
            }
        }
    }

    /// Drops the oldest messages beyond the bytes that retention allows.
    pub(crate) fn enforce_bytes(
        &mut self,
        turn: &mut Turn,
        topic: TopicId,
        partition: u32,
        out: &mut Output,
    ) {
        let Some(source) = turn.journal.state.topic(topic) else { return };
        let Some(most) = source.settings.retention_bytes.or(turn.settings.retention_bytes) else { return };
        let lane = &source.partitions[partition as usize];
        let mut excess = lane.bytes.saturating_sub(most);
        if excess == 0 {
            if lane.past_bytes > most - lane.bytes {
                self.review_history(turn, topic, partition);
            }
            return;
        }
        // The message that was just stored is never the one to go. What is history weighs nothing here: it goes along.
        let candidates = usize::try_from(lane.messages.saturating_sub(1)).unwrap_or(usize::MAX);
        let mut below = None;
        let wanted = lane.slots.iter().filter(|(sequence, _)| !lane.slots.is_past(*sequence));
        for (_, slot) in wanted.take(candidates.min(EXPIRED_PER_FACT_MAX)) {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(u64::from(slot.size));
            below = Some(slot.offset + 1);
        }
        if let Some(below) = below {
            self.expire(turn, topic, partition, below, out);
        }
    }

    pub(crate) fn on_forget(&mut self, turn: &mut Turn, gate: Option<(TopicId, GroupId)>, out: &mut Output) {
        let alive = gate.is_none_or(|(_, group)| self.crews.contains_key(&group));
        if alive {
            let fact = Fact::Forgotten { group: gate, upto: turn.now, most: FORGOTTEN_PER_FACT_MAX };
            turn.journal.emit(Haste::Lazy, out, &fact);
            turn.schedule_forget(gate);
        }
    }

    /// Forgets a group that has had no reader and given no sign of life for too long.
    pub(crate) fn on_idle(&mut self, turn: &mut Turn, topic: TopicId, group: GroupId, out: &mut Output) {
        let Some(crew) = self.crews.get_mut(&group) else { return };
        if crew.is_attended() {
            crew.watched = false;
            return;
        }
        let members = turn.journal.state.topic(topic).and_then(|topic| topic.groups.get(&group));
        let leased = members.is_some_and(|group| group.progress.iter().any(|progress| progress.leased > 0));
        let since = if leased { turn.now } else { crew.seen };
        let expiry = since.after_ms(turn.settings.group_expiry_ms);
        if expiry > turn.now {
            turn.timers.set(expiry, Due::Idle(topic, group));
            return;
        }
        self.dismiss(turn, group, Reject::GroupUnknown, out);
        turn.journal.emit(Haste::Lazy, out, &Fact::GroupExpired { topic, group });
        self.prune_schedule(turn, topic);
    }
}

impl Turn {
    fn retention_ms(&self, topic: TopicId) -> Option<u64> {
        self.journal.state.topic(topic)?.settings.retention_ms.or(self.settings.retention_ms)
    }

    pub(crate) fn schedule_forget(&mut self, gate: Option<(TopicId, GroupId)>) {
        let state = &self.journal.state;
        let next = match gate {
            None => state.stored.next_expiry(),
            Some((topic, group)) => state
                .topic(topic)
                .and_then(|t| t.groups.get(&group))
                .and_then(|group| group.done.next_expiry()),
        };
        if let Some(next) = next {
            // What is overdue already is handled at once.
            let at = if next <= self.now { self.now } else { next.after_ms(FORGET_SLACK_MS) };
            self.timers.set(at, Due::Forget(gate));
        }
    }
}
