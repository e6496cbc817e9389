//! What is remembered of commits for a while, for callers that did not hear the answer.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::commit::Committed;
use crate::log::codec::{Malformed, Put, Take};
use crate::output::OutputDone;
use crate::state::NO_TOPIC;
use crate::words::action::Stored;
use crate::words::id::{Identity, RequestHash, Time, TopicId};

/// Kinds of facts about commits: the first, and the last.
pub(crate) const FIRST_KIND: u8 = DONE;
pub(crate) const LAST_KIND: u8 = FORGOTTEN;

const DONE: u8 = 56;
const FORGOTTEN: u8 = 57;

/// Something that happened to commits and is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitFact<'a> {
    /// Everything that a commit asked for was done; it is in the same batch, before this.
    Done {
        /// Names the commit.
        name: Identity,
        /// What it asked for.
        request: RequestHash,
        /// Until when it is remembered.
        until: Time,
        /// What it did, encoded.
        results: &'a [u8],
    },
    /// Commits were forgotten: at most `most` of those that are remembered until `upto` or less.
    Forgotten {
        /// The time.
        upto: Time,
        /// How many at the most.
        most: u32,
    },
}

impl<'a> CommitFact<'a> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Done { name, request, until, results } => {
                out.put_u8(DONE);
                out.extend_from_slice(&name.0);
                out.put_u64(request.0);
                out.put_u64(until.0);
                out.put_bytes(results);
            }
            Self::Forgotten { upto, most } => {
                out.put_u8(FORGOTTEN);
                out.put_u64(upto.0);
                out.put_u32(*most);
            }
        }
    }

    pub(crate) fn decode(kind: u8, take: &mut Take<'a>) -> Result<Self, Malformed> {
        Ok(match kind {
            DONE => Self::Done {
                name: take.identity()?,
                request: RequestHash(take.u64()?),
                until: Time(take.u64()?),
                results: take.bytes()?,
            },
            FORGOTTEN => Self::Forgotten { upto: Time(take.u64()?), most: take.u32()? },
            _ => return Err(Malformed("fact of an unknown kind")),
        })
    }
}

impl Committed {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8 + self.stored.len() * 17 + self.outputs.len());
        out.put_length(self.stored.len());
        for stored in &self.stored {
            out.put_u32(stored.topic.unwrap_or(NO_TOPIC).0);
            out.put_u32(stored.partition);
            out.put_u64(stored.offset);
            out.put_u8(u8::from(stored.duplicate));
        }
        out.put_length(self.outputs.len());
        for output in &self.outputs {
            out.put_u8(match output {
                OutputDone::Replaced => 0,
                OutputDone::Appended => 1,
                OutputDone::Duplicate => 2,
            });
        }
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes, "results of a commit");
        let mut done = Self::default();
        for _ in 0..take.count(17)? {
            done.stored.push(Stored {
                topic: Some(TopicId(take.u32()?)).filter(|topic| *topic != NO_TOPIC),
                partition: take.u32()?,
                offset: take.u64()?,
                duplicate: take.u8()? != 0,
            });
        }
        for _ in 0..take.count(1)? {
            done.outputs.push(match take.u8()? {
                0 => OutputDone::Replaced,
                1 => OutputDone::Appended,
                2 => OutputDone::Duplicate,
                _ => return Err(take.malformed()),
            });
        }
        take.done()?;
        Ok(done)
    }
}

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

    /// Lets every commit be remembered until another time.
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
