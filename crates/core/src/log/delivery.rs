//! Facts about what became of a message for one group, and their bytes.

use alloc::vec::Vec;

use crate::words::codec::{Malformed, Put, Take, UNKNOWN_KIND};
use crate::words::id::{GroupId, Time, Token, TopicId};
use crate::words::input::Style;

pub(crate) const LEASED: u8 = 5;
pub(crate) const ACKED: u8 = 6;
pub(crate) const FAILED: u8 = 7;
pub(crate) const RELEASED: u8 = 8;
pub(crate) const RETIRED: u8 = 9;
// The same facts as their namesakes above, with a time or a token that those lacked.
pub(crate) const LEASED_AT: u8 = 14;
pub(crate) const FAILED_AT: u8 = 15;
pub(crate) const ACKED_BY: u8 = 16;
pub(crate) const EXTENDED: u8 = 18;
pub(crate) const SNOOZED: u8 = 27;
pub(crate) const SNOOZED_FOR: u8 = 30;
// A failure by word of the holder: what else it said goes before the error.
pub(crate) const FAILED_BY_WORD: u8 = 31;
// As `LEASED_AT`, to a reader into whose stream it was pushed.
pub(crate) const LEASED_PUSHED: u8 = 88;
pub(crate) const HURRIED: u8 = 89;

/// A message as one group sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The topic.
    pub topic: TopicId,
    /// The group.
    pub group: GroupId,
    /// The partition.
    pub partition: u32,
    /// The message's offset.
    pub offset: u64,
}

/// What became of a message for one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryFact<'a> {
    /// It was handed to a reader.
    Leased {
        /// The fencing token.
        token: Token,
        /// 1-based count of deliveries.
        attempt: u32,
        /// When.
        at: Time,
        /// When the lease lapses.
        expires: Time,
        /// Who holds it.
        owner: &'a str,
        /// How it was handed over. Facts from before this was recorded say [`Style::Borrowed`].
        style: Style,
    },
    /// The group is done with it.
    Acked {
        /// Until when its identity stays committed for the group; [`Time`] 0 if it has none.
        remembered: Time,
        /// The token by which it was settled; zero if by name.
        token: Token,
    },
    /// An attempt failed, by word or by lapse.
    Failed {
        /// When.
        at: Time,
        /// When the next attempt is due.
        retry_at: Time,
        /// By word of its holder, whose token is spent with it.
        nacked: bool,
        /// Its holder said that there is no use in trying again.
        dead: bool,
        /// Why.
        error: &'a str,
    },
    /// Its lease ends at another time.
    Extended {
        /// When it ends now.
        expires: Time,
    },
    /// It came back unused; the attempt does not count.
    Released,
    /// It came back to wait; the attempt does not count.
    Snoozed {
        /// When it came back.
        at: Time,
        /// When the next attempt is due.
        until: Time,
    },
    /// It came back to wait for an effect; the attempt does not count.
    SnoozedFor {
        /// When it came back.
        at: Time,
        /// When the next attempt is due, whatever becomes of the effect.
        until: Time,
        /// The number of the effect's record.
        effect: u64,
    },
    /// An operator does not want to wait: its next attempt is due now.
    Hurried {
        /// When that was.
        at: Time,
    },
    /// The group gives it up: it was dead-lettered, or its identity was committed before.
    Retired {
        /// True if a dead letter was stored in the same batch; false if it was skipped.
        dead: bool,
    },
}

impl Place {
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        out.put_u32(self.topic.0);
        out.put_u32(self.group.0);
        out.put_u32(self.partition);
        out.put_u64(self.offset);
    }

    pub(crate) fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            topic: TopicId(take.u32()?),
            group: GroupId(take.u32()?),
            partition: take.u32()?,
            offset: take.u64()?,
        })
    }
}

impl<'a> DeliveryFact<'a> {
    /// The time that the shard's clock told when it happened, if the fact says so.
    pub(crate) const fn told_at(&self) -> Option<Time> {
        match self {
            Self::Leased { at, .. }
            | Self::Failed { at, .. }
            | Self::Snoozed { at, .. }
            | Self::SnoozedFor { at, .. }
            | Self::Hurried { at } => Some(*at),
            Self::Acked { .. } | Self::Extended { .. } | Self::Released | Self::Retired { .. } => None,
        }
    }

    pub(crate) fn encode(&self, place: Place, out: &mut Vec<u8>) {
        let mut begin = |kind: u8| {
            out.put_u8(kind);
            place.encode(out);
        };
        match *self {
            Self::Leased { token, attempt, at, expires, owner, style } => {
                begin(if style == Style::Pushed { LEASED_PUSHED } else { LEASED_AT });
                out.put_u64(token.epoch);
                out.put_u64(token.n);
                out.put_u32(attempt);
                out.put_u64(at.0);
                out.put_u64(expires.0);
                out.put_text(owner);
            }
            Self::Acked { remembered, token } => {
                begin(if token == Token::default() { ACKED } else { ACKED_BY });
                out.put_u64(remembered.0);
                if token != Token::default() {
                    out.put_u64(token.epoch);
                    out.put_u64(token.n);
                }
            }
            Self::Failed { at, retry_at, nacked, dead, error } => {
                begin(if nacked { FAILED_BY_WORD } else { FAILED_AT });
                out.put_u64(at.0);
                out.put_u64(retry_at.0);
                if nacked {
                    out.put_u8(u8::from(dead));
                }
                out.put_text(error);
            }
            Self::Extended { expires } => {
                begin(EXTENDED);
                out.put_u64(expires.0);
            }
            Self::Released => begin(RELEASED),
            Self::Snoozed { at, until } => {
                begin(SNOOZED);
                out.put_u64(at.0);
                out.put_u64(until.0);
            }
            Self::SnoozedFor { at, until, effect } => {
                begin(SNOOZED_FOR);
                out.put_u64(at.0);
                out.put_u64(until.0);
                out.put_u64(effect);
            }
            Self::Hurried { at } => {
                begin(HURRIED);
                out.put_u64(at.0);
            }
            Self::Retired { dead } => {
                begin(RETIRED);
                out.put_u8(u8::from(dead));
            }
        }
    }

    pub(crate) fn decode(kind: u8, take: &mut Take<'a>) -> Result<(Place, Self), Malformed> {
        let place = Place::decode(take)?;
        let fact = match kind {
            LEASED | LEASED_AT | LEASED_PUSHED => Self::Leased {
                token: Token { epoch: take.u64()?, n: take.u64()? },
                attempt: take.u32()?,
                at: if kind == LEASED { Time(0) } else { Time(take.u64()?) },
                expires: Time(take.u64()?),
                owner: take.text()?,
                style: if kind == LEASED_PUSHED { Style::Pushed } else { Style::Borrowed },
            },
            ACKED => Self::Acked { remembered: Time(take.u64()?), token: Token::default() },
            ACKED_BY => Self::Acked {
                remembered: Time(take.u64()?),
                token: Token { epoch: take.u64()?, n: take.u64()? },
            },
            FAILED | FAILED_AT | FAILED_BY_WORD => Self::Failed {
                at: if kind == FAILED { Time(0) } else { Time(take.u64()?) },
                retry_at: Time(take.u64()?),
                nacked: kind == FAILED_BY_WORD,
                dead: kind == FAILED_BY_WORD && take.u8()? != 0,
                error: take.text()?,
            },
            EXTENDED => Self::Extended { expires: Time(take.u64()?) },
            RELEASED => Self::Released,
            SNOOZED => Self::Snoozed { at: Time(take.u64()?), until: Time(take.u64()?) },
            SNOOZED_FOR => {
                Self::SnoozedFor { at: Time(take.u64()?), until: Time(take.u64()?), effect: take.u64()? }
            }
            HURRIED => Self::Hurried { at: Time(take.u64()?) },
            RETIRED => Self::Retired { dead: take.u8()? != 0 },
            _ => return Err(UNKNOWN_KIND),
        };
        Ok((place, fact))
    }
}
