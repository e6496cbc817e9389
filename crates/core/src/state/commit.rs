//! What is remembered of commits for a while, for callers that did not hear the answer.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::log::commit::CommitFact;
use crate::words::codec::{Malformed, Put, Take};
use crate::words::commit::Committed;
use crate::words::id::{Identity, RequestHash, Time};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    until: Time,
    request: RequestHash,
    done: Committed,
}

/// Commits that are remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Commits {
    records: BTreeMap<Identity, Record>,
    /// In the order in which they are forgotten.
    queue: BTreeSet<(Time, Identity)>,
}

impl Commits {
    /// What a commit asked for and did, unless its time has passed.
    pub(crate) fn get(&self, name: &Identity, now: Time) -> Option<(RequestHash, &Committed)> {
        let record = self.records.get(name).filter(|record| record.until > now)?;
        Some((record.request, &record.done))
    }

    /// Moves the time until which each commit is remembered.
    pub(crate) fn move_ends(&mut self, moved: impl Fn(Time) -> Time) {
        self.queue = self.queue.iter().map(|(until, name)| (moved(*until), *name)).collect();
        for record in self.records.values_mut() {
            record.until = moved(record.until);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn first_to_go(&self) -> Option<Time> {
        self.queue.first().map(|(until, _)| *until)
    }

    pub(crate) fn apply(&mut self, fact: &CommitFact<'_>) -> Result<(), Malformed> {
        match *fact {
            CommitFact::Done { name, request, until, results } => {
                let record = Record { until, request, done: Committed::decode(results)? };
                if let Some(before) = self.records.insert(name, record) {
                    self.queue.remove(&(before.until, name));
                }
                self.queue.insert((until, name));
            }
            CommitFact::Forgotten { upto, most } => {
                for _ in 0..most {
                    let Some((_, name)) = self.queue.first().copied().filter(|(until, _)| *until <= upto)
                    else {
                        break;
                    };
                    self.queue.pop_first();
                    self.records.remove(&name);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_length(self.queue.len());
        for (until, name) in &self.queue {
            out.put_u64(until.0);
            out.extend_from_slice(&name.0);
            if let Some(record) = self.records.get(name) {
                out.put_u64(record.request.0);
                out.put_bytes(&record.done.encode());
            }
        }
    }

    pub(crate) fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let mut commits = Self::default();
        for _ in 0..take.count(36)? {
            let (until, name) = (Time(take.u64()?), take.identity()?);
            let request = RequestHash(take.u64()?);
            if commits.records.contains_key(&name) {
                return Err(take.malformed());
            }
            commits.apply(&CommitFact::Done { name, request, until, results: take.bytes()? })?;
        }
        Ok(commits)
    }
}
