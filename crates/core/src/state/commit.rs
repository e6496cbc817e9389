//! What is remembered of commits for a while, for callers that did not hear the answer.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::log::commit::{CommitFact, Results};
use crate::words::codec::{CONTRADICTION, Malformed, Put, Take};
use crate::words::id::{Identity, RequestHash, Time};
use crate::words::receipt::Stored;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    until: Time,
    request: RequestHash,
    results: Results,
}

/// Commits that are remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Commits {
    records: BTreeMap<Identity, Record>,
    /// In the order in which they are forgotten.
    queue: BTreeSet<(Time, Identity)>,
    /// Which of them has sent a parcel that has not arrived yet.
    senders: BTreeMap<u64, Identity>,
}

impl Commits {
    /// What a commit asked for and did, unless its time has passed.
    pub(crate) fn get(&self, name: &Identity, now: Time) -> Option<(RequestHash, &Results)> {
        let record = self.records.get(name).filter(|record| record.until > now)?;
        Some((record.request, &record.results))
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

    /// Parcels on their way that were sent by a commit which is remembered.
    pub(crate) fn away(&self) -> impl Iterator<Item = u64> {
        self.senders.keys().copied()
    }

    /// A parcel has arrived: the commit that has sent it, if it is remembered, knows from now on where its message lies.
    pub(crate) fn arrive(&mut self, number: u64, stored: Stored) {
        let Some(name) = self.senders.remove(&number) else { return };
        let Some(Record { results: Results { done, away }, .. }) = self.records.get_mut(&name) else {
            return;
        };
        if let Some(unknown) = away.remove(&number).and_then(|place| done.stored.get_mut(place)) {
            *unknown = stored;
        }
    }

    /// Changes by a fact; `is_away` tells whether a parcel is on its way.
    pub(crate) fn apply(
        &mut self,
        fact: &CommitFact<'_>,
        is_away: impl Fn(u64) -> bool,
    ) -> Result<(), Malformed> {
        match *fact {
            CommitFact::Done { name, request, until, results } => {
                let results = Results::decode(results)?;
                self.forget(name);
                for number in results.away.keys() {
                    if !is_away(*number) || self.senders.insert(*number, name).is_some() {
                        return Err(CONTRADICTION);
                    }
                }
                self.records.insert(name, Record { until, request, results });
                self.queue.insert((until, name));
            }
            CommitFact::Forgotten { upto, most } => {
                for _ in 0..most {
                    let Some((_, name)) = self.queue.first().copied().filter(|(until, _)| *until <= upto)
                    else {
                        break;
                    };
                    self.forget(name);
                }
            }
        }
        Ok(())
    }

    fn forget(&mut self, name: Identity) {
        let Some(record) = self.records.remove(&name) else { return };
        self.queue.remove(&(record.until, name));
        for number in record.results.away.keys() {
            self.senders.remove(number);
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_length(self.queue.len());
        for (until, name) in &self.queue {
            out.put_u64(until.0);
            out.extend_from_slice(&name.0);
            if let Some(record) = self.records.get(name) {
                out.put_u64(record.request.0);
                out.put_bytes(&record.results.encode());
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
            let done = CommitFact::Done { name, request, until, results: take.bytes()? };
            // What is on its way is read after this, and looked at then.
            commits.apply(&done, |_| true)?;
        }
        Ok(commits)
    }
}
