//! What is remembered of commits for a while, for callers that did not hear the answer.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::log::commit::{CommitFact, Results};
use crate::state::gate::Gate;
use crate::words::codec::{CONTRADICTION, Malformed, Put, Take};
use crate::words::id::{Identity, RequestHash, Time};
use crate::words::receipt::Stored;

/// Bytes of results that lie in the record itself: no more than those of a commit that has produced one message.
const SHORT_MAX: usize = 8 + Stored::BYTES;
/// Stands for the length of results that do not.
const LONG: u8 = u8::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    request: RequestHash,
    length: u8,
    short: [u8; SHORT_MAX],
}

/// Commits that are remembered. There may be a million, most of them with next to nothing to tell: what each did stays as
/// the bytes that the log has of it.
#[derive(Clone, Debug)]
pub(crate) struct Commits {
    records: Gate<Record>,
    /// The results that are too long for a record.
    long: BTreeMap<Identity, Box<[u8]>>,
    /// Which of them has sent a parcel that has not arrived yet.
    senders: BTreeMap<u64, Identity>,
}

impl Commits {
    pub(crate) fn new(seed: u64) -> Self {
        Self { records: Gate::new(seed), long: BTreeMap::new(), senders: BTreeMap::new() }
    }

    /// What a commit asked for and did, unless its time has passed.
    pub(crate) fn get(&self, name: &Identity, now: Time) -> Option<(RequestHash, Results)> {
        let record = self.records.get(name, now)?;
        Some((record.request, decoded(bytes_of(&self.long, name, &record))))
    }

    /// Moves the time until which each commit is remembered.
    pub(crate) fn shift_back(&mut self, by_ms: u64) {
        self.records.shift_back(by_ms);
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn first_to_go(&self) -> Option<Time> {
        self.records.next_expiry()
    }

    /// Parcels on their way that were sent by a commit which is remembered.
    pub(crate) fn away(&self) -> impl Iterator<Item = u64> {
        self.senders.keys().copied()
    }

    /// A parcel has arrived: the commit that has sent it, if it is remembered, knows from now on where its message lies.
    pub(crate) fn arrive(&mut self, number: u64, stored: Stored) {
        let Some(name) = self.senders.remove(&number) else { return };
        let Some(record) = self.records.known(&name) else { return };
        let Results { mut done, mut away } = decoded(bytes_of(&self.long, &name, &record));
        if let Some(unknown) = away.remove(&number).and_then(|place| done.stored.get_mut(place)) {
            *unknown = stored;
        }
        let record = self.kept(name, record.request, &Results { done, away }.encode());
        self.records.change(&name, record);
    }

    /// Changes by a fact; `is_away` tells whether a parcel is on its way.
    pub(crate) fn apply(
        &mut self,
        fact: &CommitFact<'_>,
        is_away: impl Fn(u64) -> bool,
    ) -> Result<(), Malformed> {
        match *fact {
            CommitFact::Done { name, request, until, results } => {
                // Its time had passed. What is forgotten next must not depend on what was there before.
                if let Some(before) = self.records.remove_whole(&name) {
                    clear(&mut self.long, &mut self.senders, name, &before);
                }
                self.add(name, request, until, results, is_away)?;
            }
            CommitFact::Forgotten { upto, most } => {
                let Self { records, long, senders } = self;
                records.forget_each(upto, most, |name, record| clear(long, senders, name, &record));
            }
        }
        Ok(())
    }

    /// Remembers a commit of which nothing is known.
    fn add(
        &mut self,
        name: Identity,
        request: RequestHash,
        until: Time,
        results: &[u8],
        is_away: impl Fn(u64) -> bool,
    ) -> Result<(), Malformed> {
        for number in Results::decode(results)?.away.into_keys() {
            if !is_away(number) || self.senders.insert(number, name).is_some() {
                return Err(CONTRADICTION);
            }
        }
        let record = self.kept(name, request, results);
        if self.records.add(until, name, record) { Ok(()) } else { Err(CONTRADICTION) }
    }

    /// A record of these results; what of them does not fit into it is put aside.
    fn kept(&mut self, name: Identity, request: RequestHash, results: &[u8]) -> Record {
        let mut short = [0; SHORT_MAX];
        let length = match (short.get_mut(..results.len()), u8::try_from(results.len())) {
            (Some(place), Ok(length)) => {
                place.copy_from_slice(results);
                length
            }
            _ => {
                self.long.insert(name, results.into());
                LONG
            }
        };
        Record { request, length, short }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_length(self.records.len());
        for (until, name, record) in self.records.entries() {
            let Some(record) = record else { continue };
            out.put_u64(until.0);
            out.extend_from_slice(&name.0);
            out.put_u64(record.request.0);
            out.put_bytes(bytes_of(&self.long, &name, &record));
        }
    }

    pub(crate) fn decode(take: &mut Take<'_>, seed: u64) -> Result<Self, Malformed> {
        let mut commits = Self::new(seed);
        for _ in 0..take.count(36)? {
            let (until, name) = (Time(take.u64()?), take.identity()?);
            let request = RequestHash(take.u64()?);
            // What is on its way is read after this, and looked at then.
            commits.add(name, request, until, take.bytes()?, |_| true)?;
        }
        Ok(commits)
    }
}

fn bytes_of<'a>(long: &'a BTreeMap<Identity, Box<[u8]>>, name: &Identity, record: &'a Record) -> &'a [u8] {
    match record.short.get(..usize::from(record.length)) {
        Some(short) => short,
        None => long.get(name).map_or(&[], |long| long),
    }
}

/// Results that were read before they were kept.
fn decoded(bytes: &[u8]) -> Results {
    Results::decode(bytes).unwrap_or_default()
}

/// Clears away what is kept of a commit beside its record.
fn clear(
    long: &mut BTreeMap<Identity, Box<[u8]>>,
    senders: &mut BTreeMap<u64, Identity>,
    name: Identity,
    record: &Record,
) {
    if !senders.is_empty() {
        for number in decoded(bytes_of(long, &name, record)).away.keys() {
            senders.remove(number);
        }
    }
    if record.length == LONG {
        long.remove(&name);
    }
}
