//! A ledger in plain seconds, written from the decision table of the documentation and from nothing else.

use driftq_ledger::{End, Lease, Status};

use crate::memory_model::step::{Asking, KEYS};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Running {
        until: u64,
    },
    /// It was written down that nobody knows.
    Unknown {
        until: u64,
    },
    Ended {
        end: End,
        said: u8,
        by_person: bool,
        at: u64,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// Tells it from an earlier record of the same key.
    pub(crate) record: usize,
    pub(crate) request: u8,
    pub(crate) epoch: u32,
    pub(crate) attempts: u32,
    pub(crate) cap: Option<u32>,
    pub(crate) retry: bool,
    pub(crate) call: Option<u8>,
    pub(crate) ttl: u64,
    pub(crate) phase: Phase,
}

impl Known {
    pub(crate) fn left(&self, cap: Option<u32>) -> Option<u32> {
        match (self.cap, cap) {
            (None, None) => None,
            (Some(one), None) | (None, Some(one)) => Some(one.saturating_sub(self.attempts)),
            (Some(one), Some(other)) => Some(one.max(other).saturating_sub(self.attempts)),
        }
    }

    pub(crate) fn is_held(&self, now: u64) -> bool {
        match self.phase {
            Phase::Running { until } => until <= now && (!self.retry || self.left(None) == Some(0)),
            Phase::Unknown { .. } => true,
            Phase::Ended { .. } => false,
        }
    }

    pub(crate) fn is_over(&self, now: u64) -> bool {
        match self.phase {
            Phase::Running { until } => until + self.ttl <= now && !self.is_held(now),
            Phase::Unknown { .. } => false,
            Phase::Ended { at, .. } => at + self.ttl <= now,
        }
    }

    pub(crate) fn status(&self, now: u64) -> Status {
        match self.phase {
            Phase::Ended { end, .. } => end.into(),
            _ if self.is_held(now) => Status::Unknown,
            _ => Status::InProgress,
        }
    }

    pub(crate) fn lend(&mut self, asked: &Asking, now: u64) {
        self.cap = self.cap.max(asked.cap);
        self.retry = asked.retry;
        self.call = asked.call;
        self.ttl = asked.ttl;
        self.phase = Phase::Running { until: now + asked.lease };
    }
}

/// A lease, as the model knows it.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) key: usize,
    pub(crate) record: usize,
    pub(crate) epoch: u32,
    pub(crate) lease: Lease,
}

#[derive(Default)]
pub(crate) struct Model {
    pub(crate) now: u64,
    pub(crate) records: usize,
    pub(crate) known: [Option<Known>; KEYS],
    pub(crate) given: Vec<Given>,
}

/// What somebody is told, in words and numbers.
pub(crate) type Told = (&'static str, u32, u32);

impl Model {
    pub(crate) fn begin(&mut self, asked: &Asking, is_worker: bool) -> Told {
        let now = self.now;
        let slot = &mut self.known[asked.key];
        let Some(known) = slot.as_mut().filter(|known| !known.is_over(now)) else {
            if is_worker {
                return ("not_found", 0, 0);
            }
            self.records += 1;
            let mut known = Known {
                record: self.records,
                request: asked.request,
                epoch: 1,
                attempts: 1,
                cap: None,
                retry: asked.retry,
                call: None,
                ttl: 0,
                phase: Phase::Unknown { until: 0 },
            };
            known.lend(asked, now);
            *slot = Some(known);
            return ("execute", 1, 1);
        };
        if known.request != asked.request {
            return ("conflict", 0, 0);
        }
        let left = known.left(asked.cap);
        let word = match known.phase {
            Phase::Ended { end: End::Succeeded | End::FailedFinal, .. } => "replay",
            Phase::Ended { .. } if !asked.reacquire && !is_worker => "retryable",
            Phase::Ended { .. } if left == Some(0) && is_worker => "exhausted",
            Phase::Ended { .. } if left == Some(0) => "retryable",
            Phase::Ended { .. } => "next",
            Phase::Unknown { .. } => "unknown",
            Phase::Running { until } if until > now => {
                let is_same = asked.call.is_some() && asked.call == known.call;
                if is_same { "execute" } else { "in_progress" }
            }
            Phase::Running { .. } if known.retry && left != Some(0) => "next",
            // Its own cap stops the asker, and nobody else.
            Phase::Running { .. } if known.retry && known.left(None) != Some(0) => "exhausted",
            Phase::Running { until } => {
                known.phase = Phase::Unknown { until };
                "unknown"
            }
        };
        if word == "next" {
            (known.epoch, known.attempts) = (known.epoch + 1, known.attempts + 1);
            known.lend(asked, now);
            return ("execute", known.epoch, known.attempts);
        }
        (word, known.epoch, known.attempts)
    }

    /// The record that a lease is the newest one of.
    pub(crate) fn held(&mut self, given: &Given) -> Option<&mut Known> {
        let known = self.known[given.key].as_mut();
        known.filter(|known| (known.record, known.epoch) == (given.record, given.epoch))
    }

    pub(crate) fn finish(&mut self, given: &Given, (end, said): (End, u8)) -> &'static str {
        let at = self.now;
        let Some(known) = self.held(given) else { return "stale" };
        let ended = Phase::Ended { end, said, by_person: false, at };
        match &known.phase {
            Phase::Ended { end: before, said: word, .. } if (*before, *word) == (end, said) => {
                "already_committed"
            }
            Phase::Ended { .. } => "stale",
            _ => {
                known.phase = ended;
                "committed"
            }
        }
    }

    pub(crate) fn renew(&mut self, given: &Given, lasts: u64) -> Option<u64> {
        let now = self.now;
        let known = self.held(given)?;
        match known.phase {
            Phase::Ended { .. } => None,
            Phase::Running { until } | Phase::Unknown { until } => {
                let until = until.max(now + lasts);
                known.phase = Phase::Running { until };
                Some(until)
            }
        }
    }

    pub(crate) fn resolve(
        &mut self,
        key: usize,
        (end, said): (End, u8),
        seen: Option<u32>,
        ttl: u64,
    ) -> &'static str {
        let now = self.now;
        let Some(known) = self.known[key].as_mut().filter(|known| !known.is_over(now)) else {
            return "not_found";
        };
        match known.phase {
            Phase::Running { until } if until > now => return "running",
            Phase::Ended { end: before, said: word, by_person: true, .. }
                if (before, word) == (end, said) =>
            {
                return "already_committed";
            }
            Phase::Ended { end: End::Succeeded | End::FailedFinal, .. } => return "final",
            _ => {}
        }
        if seen.is_some_and(|seen| seen != known.epoch) {
            return "stale";
        }
        known.epoch += 1;
        known.ttl = ttl;
        if end == End::FailedRetryable {
            known.cap = known.cap.map(|cap| cap.max(known.attempts + 1));
        }
        known.phase = Phase::Ended { end, said, by_person: true, at: now };
        "committed"
    }

    /// What a sweep without a limit would find: records to remove, and records to hold.
    pub(crate) fn due(&self) -> (u64, u64) {
        let known = || self.known.iter().flatten();
        let held = |one: &&Known| matches!(one.phase, Phase::Running { .. }) && one.is_held(self.now);
        (known().filter(|one| one.is_over(self.now)).count() as u64, known().filter(held).count() as u64)
    }

    /// Does to the model what the store did: what is written down decides nothing that was not decided before.
    pub(crate) fn swept(&mut self) {
        for slot in &mut self.known {
            if slot.as_ref().is_some_and(|known| known.is_over(self.now)) {
                *slot = None;
            }
        }
    }
}
