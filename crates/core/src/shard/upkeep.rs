//! What time alone does: lapses, retries, forgetting, retention, groups that never came back.

use alloc::vec::Vec;

use crate::log::fact::Fact;
use crate::shard::Shard;
use crate::turn::journal::Haste;
use crate::turn::timer::{Due, Spot};
use crate::words::action::Output;
use crate::words::id::{GroupId, Time, TopicId};
use crate::words::reject::Reject;

/// Deadlines handled by one tick; the rest is due at once again, so that other inputs get their turn.
pub(crate) const DUE_PER_TICK_MAX: usize = 256;
/// Identities forgotten by one fact.
const FORGOTTEN_PER_FACT_MAX: u32 = 1024;
/// Messages dropped by one fact.
const EXPIRED_PER_FACT_MAX: usize = 1024;
/// Identities are swept this much after their time, so that one sweep takes many. Nobody sees the difference: a
/// record whose time has passed is not found any more.
pub(crate) const FORGET_SLACK_MS: u64 = 10_000;

impl Shard {
    /// Sets the timers that outlive a run.
    pub(crate) fn schedule_upkeep(&mut self) {
        self.schedule_forget(None);
        let (mut gates, mut lanes) = (Vec::new(), Vec::new());
        for topic in self.journal.state.each_topic() {
            gates.extend(topic.groups.keys().map(|group| (topic.id, *group)));
            lanes.extend((0..topic.info().partitions).map(|partition| (topic.id, partition)));
        }
        self.schedule_effects();
        self.schedule_commits();
        self.schedule_runs();
        for gate in gates {
            self.schedule_forget(Some(gate));
        }
        for (topic, partition) in lanes {
            self.schedule_retention(topic, partition);
            self.review_history(topic, partition);
            self.watch_deadlines(topic, partition);
        }
    }

    /// Sets the timer of a partition's oldest message, unless one is set: that one comes no later.
    pub(crate) fn schedule_retention(&mut self, topic: TopicId, partition: u32) {
        let Some(retention_ms) = self.retention_ms(topic) else { return };
        if self.retaining.contains(&(topic, partition)) {
            return;
        }
        let lane = self.journal.state.lane(topic, partition);
        if let Some((_, slot)) = lane.and_then(|lane| lane.slots.iter().next()) {
            self.timers.set(slot.at.after_ms(retention_ms), Due::Retain(topic, partition));
            self.retaining.insert((topic, partition));
        }
    }

    fn retention_ms(&self, topic: TopicId) -> Option<u64> {
        self.journal.state.topic(topic)?.settings.retention_ms.or(self.settings.retention_ms)
    }

    fn schedule_forget(&mut self, gate: Option<(TopicId, GroupId)>) {
        let state = &self.journal.state;
        let next = match gate {
            None => state.stored.next_expiry(),
            Some((topic, group)) => state
                .topic(topic)
                .and_then(|t| t.groups.get(&group))
                .and_then(|group| group.done.next_expiry()),
        };
        if let Some(next) = next {
            // What is overdue already is taken on at once.
            let at = if next <= self.now { self.now } else { next.after_ms(FORGET_SLACK_MS) };
            self.timers.set(at, Due::Forget(gate));
        }
    }

    pub(crate) fn handle_tick(&mut self, out: &mut Output) {
        // Taken off first: what comes up anew while these are handled waits for the next tick, even if it is due now.
        let due = core::iter::from_fn(|| self.timers.pop(self.now)).take(DUE_PER_TICK_MAX);
        let due: Vec<(Time, Due)> = due.collect();
        for (at, due) in due {
            match due {
                Due::Lapse(spot) => self.on_lapse(spot, out),
                Due::Retry(spot) => self.on_retry(spot, out),
                Due::Bury(spot) => self.on_bury_again(spot, out),
                Due::Forget(gate) => self.on_forget(gate, out),
                Due::Idle(topic, group) => self.on_idle(topic, group, out),
                Due::Retain(topic, partition) => self.on_retain(topic, partition, out),
                Due::Trim(topic, partition) => self.on_trim(topic, partition, out),
                Due::Deadline(topic, partition) => self.on_deadline(topic, partition, out),
                Due::Begin(topic, partition) => self.on_begin(topic, partition, out),
                Due::Waited(group, ticket) => self.on_waited(group, ticket, out),
                // It keeps its place, or those in front of it would be the only ones who ever go on.
                Due::GoOn(..) if self.is_turn_over(out) => self.timers.set(at, due),
                Due::GoOn(_, group) => self.go_on(group, out),
                Due::Unreserve(identity) => self.unreserve(identity),
                Due::EffectLapse(number) => self.on_effect_lapse(number, out),
                Due::EffectWaited(ticket) => self.on_effect_waited(ticket, out),
                Due::Sweep => self.on_sweep(out),
                Due::ForgetCommits => self.on_forget_commits(out),
                Due::RunOld(run) => self.on_run_old(run, out),
            }
        }
    }

    fn on_forget(&mut self, gate: Option<(TopicId, GroupId)>, out: &mut Output) {
        let alive = gate.is_none_or(|(_, group)| self.crews.contains_key(&group));
        if alive {
            let fact = Fact::Forgotten { group: gate, upto: self.now, most: FORGOTTEN_PER_FACT_MAX };
            self.journal.emit(Haste::Lazy, out, &fact);
            self.schedule_forget(gate);
        }
    }

    /// Forgets a group that has had no reader and given no sign of life for too long.
    fn on_idle(&mut self, topic: TopicId, group: GroupId, out: &mut Output) {
        let Some(crew) = self.crews.get_mut(&group) else { return };
        if crew.is_attended() {
            crew.watched = false;
            return;
        }
        let members = self.journal.state.topic(topic).and_then(|topic| topic.groups.get(&group));
        let leased = members.is_some_and(|group| group.progress.iter().any(|progress| progress.leased > 0));
        let since = if leased { self.now } else { crew.seen };
        let expiry = since.after_ms(self.settings.group_expiry_ms);
        if expiry > self.now {
            self.timers.set(expiry, Due::Idle(topic, group));
            return;
        }
        self.dismiss(group, Reject::GroupUnknown, out);
        self.journal.emit(Haste::Lazy, out, &Fact::GroupExpired { topic, group });
        self.prune_schedule(topic);
    }

    /// Drops messages that are older than the retention allows.
    fn on_retain(&mut self, topic: TopicId, partition: u32, out: &mut Output) {
        self.retaining.remove(&(topic, partition));
        let Some(retention_ms) = self.retention_ms(topic) else { return };
        let Some(lane) = self.journal.state.lane(topic, partition) else { return };
        let old = |at: Time| at.after_ms(retention_ms) <= self.now;
        let below = lane.slots.iter().take(EXPIRED_PER_FACT_MAX).take_while(|(_, slot)| old(slot.at)).last();
        if let Some(below) = below.map(|(_, slot)| slot.offset + 1) {
            self.expire(topic, partition, below, out);
        }
        self.schedule_retention(topic, partition);
    }

    /// Drops the oldest messages beyond the bytes that retention allows.
    pub(crate) fn enforce_bytes(&mut self, topic: TopicId, partition: u32, out: &mut Output) {
        let Some(source) = self.journal.state.topic(topic) else { return };
        let Some(most) = source.settings.retention_bytes.or(self.settings.retention_bytes) else { return };
        let lane = &source.partitions[partition as usize];
        let mut excess = lane.bytes.saturating_sub(most);
        if excess == 0 {
            if lane.past_bytes > most - lane.bytes {
                self.review_history(topic, partition);
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
            self.expire(topic, partition, below, out);
        }
    }

    /// Drops every message of a partition below an offset, for every group.
    pub(crate) fn expire(&mut self, topic: TopicId, partition: u32, below: u64, out: &mut Output) {
        let Some(source) = self.journal.state.topic(topic) else { return };
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
            self.unschedule_start(topic, partition, sequence);
        }
        for spot in spots {
            self.retire(spot);
        }
        // Urgent: an ack that comes now is told that all is settled, and that must not be taken back by a crash.
        self.journal.emit(Haste::Urgent, out, &Fact::Expired { topic, partition, below });
        for group in groups {
            if let Some(crew) = self.crews.get_mut(&group) {
                crew.hot.insert(partition);
                self.dispatch(group, out);
            }
        }
    }
}
