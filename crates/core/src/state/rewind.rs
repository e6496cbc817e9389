//! A clock that was set back between two runs.
//!
//! What the state counts from times that the clock had told then lies in the future: leases would not lapse, outcomes
//! and keys would not be forgotten, messages would not grow old, for as long as the clock was set back by. So all of it
//! is moved back by as much, and everything has left what it had left when the last run told the time for the last
//! time. What was promised for a moment of the calendar (a message's due time, its deadline) stays where it is.

use alloc::vec::Vec;

use crate::state::State;
use crate::state::effect::record::Effects;
use crate::state::gate::Gate;
use crate::state::group::{Group, Pending};
use crate::state::run::record::Runs;
use crate::state::slot::Slots;
use crate::words::id::Time;

impl Time {
    /// This time, earlier. Zero stands for "not yet" and [`Time::NEVER`] for itself, whatever the clock does, and no
    /// other time becomes either.
    pub(crate) const fn moved_back(self, by_ms: u64) -> Self {
        match self {
            Self(0) | Self::NEVER => self,
            Self(ms) if ms > by_ms => Self(ms - by_ms),
            Self(_) => Self(1),
        }
    }
}

impl State {
    /// Moves everything back that is counted from times of a clock that has since been set back.
    pub(crate) fn shift_back(&mut self, by_ms: u64) {
        if by_ms == 0 {
            return;
        }
        for topic in self.topics.iter_mut().flatten() {
            topic.paused = topic.paused.map(|since| since.moved_back(by_ms));
            for lane in &mut topic.partitions {
                lane.slots.shift_back(by_ms);
            }
            for group in topic.groups.values_mut() {
                group.shift_back(by_ms);
            }
        }
        self.stored.shift_back(by_ms);
        self.effects.shift_back(by_ms);
        self.commits.shift_back(by_ms);
        self.runs.shift_back(by_ms);
        // The audit tells what the clock told then: its entries stay, and stay the longer.
    }
}

impl Slots {
    fn shift_back(&mut self, by_ms: u64) {
        for slot in self.chunks.iter_mut().flat_map(|chunk| &mut chunk.slots) {
            slot.at = slot.at.moved_back(by_ms);
        }
    }
}

impl Group {
    fn shift_back(&mut self, by_ms: u64) {
        self.paused = self.paused.map(|since| since.moved_back(by_ms));
        self.done.shift_back(by_ms);
        for pending in self.progress.iter_mut().flat_map(|progress| progress.pending.values_mut()) {
            pending.shift_back(by_ms);
        }
    }
}

impl Pending {
    fn shift_back(&mut self, by_ms: u64) {
        self.lease = self.lease.map(|expires| expires.moved_back(by_ms));
        for time in [&mut self.leased_at, &mut self.ended_at, &mut self.retry_at] {
            *time = time.moved_back(by_ms);
        }
    }
}

impl<V: Copy> Gate<V> {
    pub(crate) fn shift_back(&mut self, by_ms: u64) {
        let mut moved = self.emptied();
        for (until, identity, value) in self.entries() {
            moved.restore(until.moved_back(by_ms), identity, value);
        }
        *self = moved;
    }
}

impl Effects {
    fn shift_back(&mut self, by_ms: u64) {
        let numbers: Vec<u64> = self.after(0).map(|(number, _)| number).collect();
        for number in numbers {
            self.change(number, |effect| {
                for time in [&mut effect.created, &mut effect.begun, &mut effect.until, &mut effect.ended] {
                    *time = time.moved_back(by_ms);
                }
            });
        }
    }
}

impl Runs {
    fn shift_back(&mut self, by_ms: u64) {
        for run in self.runs.values_mut() {
            run.started = run.started.moved_back(by_ms);
            run.touched = run.touched.moved_back(by_ms);
        }
        for step in self.steps.values_mut() {
            step.at = step.at.moved_back(by_ms);
            for ended in &mut step.ended {
                ended.at = ended.at.moved_back(by_ms);
                ended.leased = ended.leased.moved_back(by_ms);
            }
        }
    }
}
