//! Facts about runs, and their bytes.

use alloc::vec::Vec;

use crate::log::delivery::Place;
use crate::words::codec::{Malformed, Put, Take, UNKNOWN_KIND};
use crate::words::id::{Time, TopicId};
use crate::words::run::{How, Lineage};

/// Kinds of facts about runs: the first, and the last.
pub(crate) const FIRST_KIND: u8 = STEP_ENDED;
pub(crate) const LAST_KIND: u8 = FORGOTTEN;
/// The kind of a fact that versions were read; the one after its family is that of an effect.
pub(crate) const READ: u8 = 43;

const STEP_ENDED: u8 = 40;
const FORGOTTEN: u8 = 41;

/// Something that happened in a run and is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunFact<'a> {
    /// A group is done with a message of a run.
    StepEnded {
        /// Which.
        place: Place,
        /// When.
        at: Time,
        /// How.
        how: How,
        /// Deliveries of it.
        attempts: u32,
        /// When the last of them began; zero if there was none.
        leased: Time,
        /// Attempts that failed, encoded.
        history: &'a [u8],
    },
    /// Versions of datasets were read for a message of a run.
    Read {
        /// The topic.
        topic: TopicId,
        /// The message's offset.
        offset: u64,
        /// When.
        at: Time,
        /// Datasets and versions, encoded.
        reads: &'a [u8],
    },
    /// Entries of a run were dropped: at most `most`, the oldest first. The last one takes the run along.
    Forgotten {
        /// Which run.
        run: u64,
        /// How many entries at most.
        most: u32,
    },
}

impl How {
    const ALL: [Self; 4] = [Self::Done, Self::Dead, Self::Skipped, Self::Cancelled];

    pub(crate) const fn byte(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Dead => 1,
            Self::Skipped => 2,
            Self::Cancelled => 3,
        }
    }

    pub(crate) fn take(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let byte = take.u8()?;
        Self::ALL.into_iter().find(|how| how.byte() == byte).ok_or_else(|| take.malformed())
    }
}

impl<'a> Lineage<'a> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for text in [self.run, self.step, self.parent] {
            out.put_text(text);
        }
    }

    pub(crate) fn decode(take: &mut Take<'a>) -> Result<Self, Malformed> {
        Ok(Self { tenant: "", run: take.text()?, step: take.text()?, parent: take.text()? })
    }
}

impl<'a> RunFact<'a> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::StepEnded { place, at, how, attempts, leased, history } => {
                out.put_u8(STEP_ENDED);
                place.encode(out);
                out.put_u64(at.0);
                out.put_u8(how.byte());
                out.put_u32(*attempts);
                out.put_u64(leased.0);
                out.put_bytes(history);
            }
            Self::Read { topic, offset, at, reads } => {
                out.put_u8(READ);
                out.put_u32(topic.0);
                out.put_u64(*offset);
                out.put_u64(at.0);
                out.put_bytes(reads);
            }
            Self::Forgotten { run, most } => {
                out.put_u8(FORGOTTEN);
                out.put_u64(*run);
                out.put_u32(*most);
            }
        }
    }

    pub(crate) fn decode(kind: u8, take: &mut Take<'a>) -> Result<Self, Malformed> {
        Ok(match kind {
            STEP_ENDED => Self::StepEnded {
                place: Place::decode(take)?,
                at: Time(take.u64()?),
                how: How::take(take)?,
                attempts: take.u32()?,
                leased: Time(take.u64()?),
                history: take.bytes()?,
            },
            READ => Self::Read {
                topic: TopicId(take.u32()?),
                offset: take.u64()?,
                at: Time(take.u64()?),
                reads: take.bytes()?,
            },
            FORGOTTEN => Self::Forgotten { run: take.u64()?, most: take.u32()? },
            _ => return Err(UNKNOWN_KIND),
        })
    }
}
