//! History: what every group is done with and a topic keeps all the same, and when that goes.
//!
//! How much there may be is decided here and written down as [`Fact::Trimmed`]; that a message becomes history is not
//! decided at all: it follows from the topic's settings when the last group is done with it.

use alloc::vec::Vec;

use crate::delivery::Deliveries;
use crate::log::fact::Fact;
use crate::state::partition::{Partition, Topic};
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::turn::timer::Due;
use crate::words::action::Output;
use crate::words::id::{Time, TopicId};
use crate::words::settings::Settings;

/// Messages of history dropped by one fact; then other inputs get their turn.
const TRIMMED_PER_FACT_MAX: usize = 1024;

/// How much history a partition may have.
#[derive(Clone, Copy)]
struct Allowance {
    /// Nothing that is older.
    age_ms: Option<u64>,
    bytes: u64,
    messages: u64,
}

impl Settings {
    /// How much history a partition may have now. Without a bound in bytes of its own it has as much room as what
    /// waits: neither memory nor disk may grow without end because an operator set an age.
    fn allowance(&self, topic: &Topic, lane: &Partition) -> Allowance {
        let own = &topic.settings;
        if !own.keeps() {
            return Allowance { age_ms: Some(0), bytes: 0, messages: 0 };
        }
        let bytes = own.keep_bytes.or(own.bytes_max).unwrap_or(self.partition_bytes_max);
        // What waits goes before what is done: history takes what retention leaves.
        let retention = own.retention_bytes.or(self.retention_bytes).unwrap_or(u64::MAX);
        let bytes = bytes.min(retention.saturating_sub(lane.bytes));
        Allowance { age_ms: own.keep_ms, bytes, messages: self.kept_messages_max }
    }
}

impl Allowance {
    const fn is_exceeded(&self, lane: &Partition) -> bool {
        lane.past_bytes > self.bytes || lane.past_messages > self.messages
    }

    /// When a message that was stored at `at` is too old.
    fn end_of(&self, at: Time) -> Option<Time> {
        self.age_ms.map(|age| at.after_ms(age))
    }
}

impl Deliveries {
    /// Messages have become history: watches their age, and that there are not too many.
    pub(crate) fn watch_history(&mut self, turn: &mut Turn) {
        while let Some(((topic, partition), sequence)) = turn.journal.state.kept_anew.pop_first() {
            let Some(source) = turn.journal.state.topic(topic) else { continue };
            let Some(lane) = source.partitions.get(partition as usize) else { continue };
            let allowance = turn.settings.allowance(source, lane);
            let at = if allowance.is_exceeded(lane) {
                Some(turn.now)
            } else {
                // The first of them may have gone meanwhile, in this turn or in the history that was folded: the one
                // that goes next is the first that is still there.
                let first = lane.slots.next_kept(sequence).and_then(|first| lane.slots.get(first));
                first.and_then(|slot| allowance.end_of(slot.at))
            };
            if let Some(at) = at {
                self.trim_at(turn, topic, partition, at);
            }
        }
    }

    /// How much history there may be has changed, or has not been checked yet.
    pub(crate) fn review_history(&mut self, turn: &mut Turn, topic: TopicId, partition: u32) {
        let lane = turn.journal.state.lane(topic, partition);
        if lane.is_some_and(|lane| lane.past_messages > 0) {
            self.trim_at(turn, topic, partition, turn.now);
        }
    }

    /// Sets the one timer of a partition's history, unless it comes earlier.
    fn trim_at(&mut self, turn: &mut Turn, topic: TopicId, partition: u32, at: Time) {
        let at = at.max(turn.now);
        let set = self.trimming.get(&(topic, partition)).copied();
        if set.is_some_and(|set| set <= at) {
            return;
        }
        if let Some(set) = set {
            turn.timers.cancel(set, Due::Trim(topic, partition));
        }
        self.trimming.insert((topic, partition), at);
        turn.timers.set(at, Due::Trim(topic, partition));
    }

    /// Drops what history may not be any more, the oldest first.
    pub(crate) fn on_trim(&mut self, turn: &mut Turn, topic: TopicId, partition: u32, out: &mut Output) {
        self.trimming.remove(&(topic, partition));
        let Some(source) = turn.journal.state.topic(topic) else { return };
        let Some(lane) = source.partitions.get(partition as usize) else { return };
        let allowance = turn.settings.allowance(source, lane);
        let mut messages = lane.past_messages.saturating_sub(allowance.messages);
        let mut bytes = lane.past_bytes.saturating_sub(allowance.bytes);
        let mut early = Vec::new();
        let (mut below, mut next, mut count) = (None, lane.slots.next_kept(0), 0);
        let again = loop {
            let Some((sequence, slot)) = next.and_then(|at| Some((at, lane.slots.get(at)?))) else {
                break None;
            };
            let end = allowance.end_of(slot.at);
            if messages == 0 && bytes == 0 && end.is_none_or(|end| end > turn.now) {
                break end;
            }
            if count == TRIMMED_PER_FACT_MAX {
                break Some(turn.now);
            }
            if lane.slots.due(sequence) > turn.now {
                early.push(sequence);
            }
            messages = messages.saturating_sub(1);
            bytes = bytes.saturating_sub(u64::from(slot.size));
            below = Some(slot.offset + 1);
            count += 1;
            next = lane.slots.next_kept(sequence + 1);
        };
        // Groups may have moved on before it was due.
        for sequence in early {
            self.unschedule_start(turn, topic, partition, sequence);
        }
        if let Some(below) = below {
            // Lazy: every group is done with them, so that nothing rests on their being gone.
            turn.journal.emit(Haste::Lazy, out, &Fact::Trimmed { topic, partition, below });
        }
        if let Some(again) = again {
            self.trim_at(turn, topic, partition, again);
        }
    }
}
