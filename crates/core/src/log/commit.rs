//! Facts of commits.

use crate::words::codec::{Malformed, Put, Take, UNKNOWN_KIND};
use crate::words::commit::Committed;
use crate::words::id::{Identity, NO_TOPIC, RequestHash, Time, TopicId};
use crate::words::output::OutputDone;
use crate::words::receipt::Stored;
use alloc::vec::Vec;

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
        /// How many at most.
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
            _ => return Err(UNKNOWN_KIND),
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

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
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
