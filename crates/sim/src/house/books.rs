//! What clients of a house were told, and what must therefore be true.

use std::collections::{BTreeMap, BTreeSet};

use driftq_core::{Time, TopicId};

use crate::oracle::CheckResult;

/// An effect: of a message, at one place of its way.
pub(super) type EffectKey = (u64, usize);

#[derive(Default)]
pub(super) struct Books {
    /// Messages that were sent to the first topic of a chain.
    pub(super) sent: BTreeMap<u64, usize>,
    /// Where each message lies in each topic, as anybody was told or saw it.
    places: BTreeMap<(TopicId, u64), u64>,
    /// Until when each effect was last on loan, and the lease.
    loans: BTreeMap<EffectKey, (Time, u32)>,
    /// Effects of which it was told that they ended.
    ended: BTreeSet<EffectKey>,
    /// Messages that are known to be stored at the beginning of their way.
    begun: BTreeSet<u64>,
    /// Messages that are done with at the end of it.
    arrived: BTreeSet<u64>,
}

impl Books {
    /// A message lies there: told by a shard, or seen by a worker.
    pub(super) fn lies(&mut self, topic: TopicId, value: u64, offset: u64) -> CheckResult {
        match self.places.insert((topic, value), offset) {
            Some(other) if other != offset => {
                Err(format!("once: message {value} lies in {topic:?} at {other} and at {offset}"))
            }
            _ => Ok(()),
        }
    }

    /// A message is on its way.
    pub(super) fn begun(&mut self, value: u64) {
        self.begun.insert(value);
    }

    /// A worker runs an effect.
    pub(super) fn runs(&mut self, key: EffectKey, until: Time, epoch: u32, now: Time) -> CheckResult {
        if self.ended.contains(&key) {
            return Err(format!("effect: {key:?} is run again under {epoch}, and was told to have ended"));
        }
        match self.loans.insert(key, (until, epoch)) {
            Some((before, older)) if before > now => {
                Err(format!("effect: {key:?} is run under {epoch} while {older} has it until {before:?}"))
            }
            _ => Ok(()),
        }
    }

    /// A commit was told to be done.
    pub(super) fn committed(&mut self, key: EffectKey, is_last: bool) {
        self.ended.insert(key);
        if is_last {
            self.arrived.insert(key.0);
        }
    }

    /// Effects that were run.
    pub(super) fn effects(&self) -> impl Iterator<Item = EffectKey> {
        self.loans.keys().copied()
    }

    pub(super) fn has_arrived(&self, value: u64) -> bool {
        self.arrived.contains(&value)
    }

    /// A message that has not arrived.
    pub(super) fn missing(&self) -> Option<u64> {
        self.begun.difference(&self.arrived).next().copied()
    }
}
