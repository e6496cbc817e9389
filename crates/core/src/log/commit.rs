//! Facts of commits.

use crate::words::codec::{Malformed, Put, Take, UNKNOWN_KIND};
use crate::words::commit::Committed;
use crate::words::id::{Identity, NO_TOPIC, RequestHash, Time, TopicId};
use crate::words::output::OutputDone;
use crate::words::receipt::Stored;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Kinds of facts about commits: the first, and the last.
pub(crate) const FIRST_KIND: u8 = DONE;

pub(crate) const LAST_KIND: u8 = FORGOTTEN;

const DONE: u8 = 56;

const FORGOTTEN: u8 = 57;

/// Stands in the place of "a duplicate" for a message that is on its way: its offset is the number of its parcel.
const AWAY: u8 = 2;

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

/// What a commit did, as it is remembered.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Results {
    pub(crate) done: Committed,
    /// Messages that are on their way to other shards: the numbers of their parcels and their places in `done.stored`,
    /// which rise together. Of these `done.stored` knows topic and partition only.
    pub(crate) away: BTreeMap<u64, usize>,
}

impl Stored {
    /// How many bytes it takes.
    pub(crate) const BYTES: usize = 17;

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.encode_as(out, self.offset, u8::from(self.duplicate));
    }

    fn encode_as(&self, out: &mut Vec<u8>, offset: u64, how: u8) {
        out.put_u32(self.topic.unwrap_or(NO_TOPIC).0);
        out.put_u32(self.partition);
        out.put_u64(offset);
        out.put_u8(how);
    }

    pub(crate) fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let (stored, how) = Self::decode_as(take)?;
        Ok(Self { duplicate: how != 0, ..stored })
    }

    /// The place, and how the message came to it.
    fn decode_as(take: &mut Take<'_>) -> Result<(Self, u8), Malformed> {
        let topic = Some(TopicId(take.u32()?)).filter(|topic| *topic != NO_TOPIC);
        let (partition, offset) = (take.u32()?, take.u64()?);
        Ok((Self { topic, partition, offset, duplicate: false }, take.u8()?))
    }
}

impl Results {
    /// What is known of it. A message on its way to another shard lies nowhere yet: it has no topic.
    pub(crate) fn shown(&self) -> Committed {
        let mut done = self.done.clone();
        for place in self.away.values() {
            done.stored[*place].topic = None;
        }
        done
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let Self { done, away } = self;
        let mut out = Vec::with_capacity(8 + done.stored.len() * Stored::BYTES + done.outputs.len());
        out.put_length(done.stored.len());
        let mut away = away.iter().peekable();
        for (place, stored) in done.stored.iter().enumerate() {
            match away.next_if(|(_, of)| **of == place) {
                Some((number, _)) => stored.encode_as(&mut out, *number, AWAY),
                None => stored.encode(&mut out),
            }
        }
        out.put_length(done.outputs.len());
        for output in &done.outputs {
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
        let (mut done, mut away) = (Committed::default(), BTreeMap::new());
        for place in 0..take.count(Stored::BYTES)? {
            let (stored, how) = Stored::decode_as(&mut take)?;
            if how == AWAY {
                if away.last_key_value().is_some_and(|(last, _)| *last >= stored.offset) {
                    return Err(take.malformed());
                }
                away.insert(stored.offset, place);
                done.stored.push(Stored { offset: 0, ..stored });
            } else {
                done.stored.push(Stored { duplicate: how != 0, ..stored });
            }
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
        Ok(Self { done, away })
    }
}
