//! Facts of the audit, and their bytes.

use alloc::vec::Vec;

use crate::words::audit::{
    AUDIT_ACTION_BYTES_MAX, AUDIT_ACTOR_BYTES_MAX, AUDIT_DETAIL_BYTES_MAX, AUDIT_FROM_BYTES_MAX,
    AUDIT_NOTE_BYTES_MAX, AUDIT_OUTCOME_BYTES_MAX, AUDIT_REQUEST_ID_BYTES_MAX, AUDIT_TARGET_BYTES_MAX,
    AuditWords,
};
use crate::words::codec::{Malformed, Put, Take, UNKNOWN_KIND};
use crate::words::id::Time;

/// Kinds of facts of the audit: the first, and the last.
pub(crate) const FIRST_KIND: u8 = RECORDED;
pub(crate) const LAST_KIND: u8 = DROPPED;

const RECORDED: u8 = 98;
const DROPPED: u8 = 99;

/// Something that happened to the audit and is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditFact<'a> {
    /// A call was written down.
    Recorded {
        /// The entry's number.
        sequence: u64,
        /// When.
        at: Time,
        /// What is written.
        words: AuditWords<'a>,
    },
    /// The oldest entries are gone.
    Dropped {
        /// Those with a number below this one.
        below: u64,
    },
}

impl<'a> AuditFact<'a> {
    pub(crate) const fn told_at(&self) -> Option<Time> {
        match self {
            Self::Recorded { at, .. } => Some(*at),
            Self::Dropped { .. } => None,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Recorded { sequence, at, words } => {
                out.put_u8(RECORDED);
                out.put_u64(*sequence);
                out.put_u64(at.0);
                put_words(out, words);
            }
            Self::Dropped { below } => {
                out.put_u8(DROPPED);
                out.put_u64(*below);
            }
        }
    }

    pub(crate) fn decode(kind: u8, take: &mut Take<'a>) -> Result<Self, Malformed> {
        Ok(match kind {
            RECORDED => {
                Self::Recorded { sequence: take.u64()?, at: Time(take.u64()?), words: take_words(take)? }
            }
            DROPPED => Self::Dropped { below: take.u64()? },
            _ => return Err(UNKNOWN_KIND),
        })
    }
}

pub(crate) fn put_words(out: &mut Vec<u8>, words: &AuditWords<'_>) {
    for text in [
        words.actor,
        words.note,
        words.action,
        words.target,
        words.outcome,
        words.from,
        words.request_id,
        words.detail,
    ] {
        out.put_text(text);
    }
    out.put_u32(words.suppressed);
}

pub(crate) fn take_words<'a>(take: &mut Take<'a>) -> Result<AuditWords<'a>, Malformed> {
    Ok(AuditWords {
        actor: text(take, AUDIT_ACTOR_BYTES_MAX)?,
        note: text(take, AUDIT_NOTE_BYTES_MAX)?,
        action: text(take, AUDIT_ACTION_BYTES_MAX)?,
        target: text(take, AUDIT_TARGET_BYTES_MAX)?,
        outcome: text(take, AUDIT_OUTCOME_BYTES_MAX)?,
        from: text(take, AUDIT_FROM_BYTES_MAX)?,
        request_id: text(take, AUDIT_REQUEST_ID_BYTES_MAX)?,
        detail: text(take, AUDIT_DETAIL_BYTES_MAX)?,
        suppressed: take.u32()?,
    })
}

fn text<'a>(take: &mut Take<'a>, bytes_max: usize) -> Result<&'a str, Malformed> {
    let text = take.text()?;
    if text.len() <= bytes_max { Ok(text) } else { Err(take.malformed()) }
}
