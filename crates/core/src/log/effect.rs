//! Facts about effects, and their bytes.

use alloc::vec::Vec;

use crate::ledger::{OnLapse, Status};
use crate::words::codec::{Malformed, Put, Take, UNKNOWN_KIND};
use crate::words::effect::EffectPart;
use crate::words::id::{GroupId, Identity, RequestHash, Time, Token, TopicId};
use crate::words::receipt::Receipt;

/// Kinds of facts about effects: the first, and the last.
pub(crate) const FIRST_KIND: u8 = BEGUN;
pub(crate) const LAST_KIND: u8 = RELEASED;

const BEGUN: u8 = 32;
const TAKEN: u8 = 33;
const RENEWED: u8 = 34;
const ENDED: u8 = 35;
const LAPSED: u8 = 36;
const SWEPT: u8 = 37;
const MOVED: u8 = 38;
const RELEASED: u8 = 39;
/// As `BEGUN`, in a run of a tenant, which goes before the rest; its family was full.
pub(crate) const BEGUN_OF_TENANT: u8 = 42;

/// A lease of an effect, as it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent<'a> {
    /// The fencing number.
    pub epoch: u32,
    /// Which attempt it is.
    pub attempt: u32,
    /// When it was given.
    pub at: Time,
    /// When it lapses.
    pub until: Time,
    /// How long the outcome is to be remembered.
    pub ttl_ms: u64,
    /// What its lapse means.
    pub on_lapse: OnLapse,
    /// The most attempts there may be.
    pub attempts_max: Option<u32>,
    /// Names the call that got it; zero if it has no name.
    pub caller: u64,
    /// The delivery that it is tied to.
    pub tie: Option<Receipt>,
    /// Who has it, for display; may be empty.
    pub owner: &'a str,
}

/// An effect was begun that had no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BegunFact<'a> {
    /// Its number; never used twice.
    pub number: u64,
    /// Its identity.
    pub identity: Identity,
    /// What was asked for.
    pub request: RequestHash,
    /// Hash of its tenant, for lists.
    pub tenant: u32,
    /// Hash of its scope, for lists.
    pub scope: u32,
    /// The first lease.
    pub lent: Lent<'a>,
    /// The run that it belongs to, if the delivery does not say.
    pub run: &'a str,
    /// Whose that run is; may be empty.
    pub whose: &'a str,
    /// Checksum of `bytes`.
    pub check: u32,
    /// Its identity in full.
    pub bytes: &'a [u8],
}

/// An effect ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedFact<'a> {
    /// Which.
    pub number: u64,
    /// The lease that says so, or the epoch of the resolver.
    pub epoch: u32,
    /// How.
    pub status: Status,
    /// The most attempts there may be from now on.
    pub attempts_max: Option<u32>,
    /// When.
    pub at: Time,
    /// Until when it is remembered.
    pub expires: Time,
    /// Tells this ending from any other.
    pub digest: u64,
    /// Checksum of `bytes`.
    pub check: u32,
    /// How it ended in full.
    pub bytes: &'a [u8],
}

/// Something that happened to an effect and is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectFact<'a> {
    /// It was begun, and had no record.
    Begun(BegunFact<'a>),
    /// It was begun again, with a newer lease.
    Taken {
        /// Which.
        number: u64,
        /// The newer lease.
        lent: Lent<'a>,
    },
    /// Its lease ends at another time.
    Renewed {
        /// Which.
        number: u64,
        /// When it ends now.
        until: Time,
    },
    /// It ended.
    Ended(EndedFact<'a>),
    /// Its lease lapsed, and whether it happened is not known.
    Lapsed {
        /// Which.
        number: u64,
        /// When that was noticed.
        at: Time,
    },
    /// Records whose time was over were dropped.
    Swept {
        /// Their numbers, eight bytes each.
        numbers: &'a [u8],
    },
    /// Bytes of it were written again, so that the segment with their old copy can go.
    Moved {
        /// Which.
        number: u64,
        /// Which bytes.
        part: EffectPart,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// The holder of its newest lease gave it up: nothing was sent, and the attempt does not count.
    Released {
        /// Which.
        number: u64,
        /// The epoch from now on.
        epoch: u32,
        /// When.
        at: Time,
    },
}

impl<'a> Lent<'a> {
    fn encode(&self, out: &mut Vec<u8>) {
        let hold = self.on_lapse == OnLapse::Hold;
        let capped = self.attempts_max.is_some();
        out.put_u8(u8::from(hold) | u8::from(capped) << 1 | u8::from(self.tie.is_some()) << 2);
        out.put_u32(self.epoch);
        out.put_u32(self.attempt);
        out.put_u64(self.at.0);
        out.put_u64(self.until.0);
        out.put_u64(self.ttl_ms);
        out.put_u64(self.caller);
        if let Some(most) = self.attempts_max {
            out.put_u32(most);
        }
        if let Some(tie) = &self.tie {
            put_receipt(out, tie);
        }
        out.put_text(self.owner);
    }

    fn decode(take: &mut Take<'a>) -> Result<Self, Malformed> {
        let given = take.u8()?;
        let mut lent = Self {
            epoch: take.u32()?,
            attempt: take.u32()?,
            at: Time(take.u64()?),
            until: Time(take.u64()?),
            ttl_ms: take.u64()?,
            on_lapse: if given & 1 == 0 { OnLapse::Retry } else { OnLapse::Hold },
            attempts_max: None,
            caller: take.u64()?,
            tie: None,
            owner: "",
        };
        if given & 2 != 0 {
            // As with an ending, zero says nothing: no asker could ask for it.
            lent.attempts_max = Some(take.u32()?).filter(|most| *most > 0);
        }
        if given & 4 != 0 {
            lent.tie = Some(take_receipt(take)?);
        }
        lent.owner = take.text()?;
        Ok(lent)
    }
}

impl<'a> EffectFact<'a> {
    /// The time that the shard's clock told when it happened, if the fact says so.
    pub(crate) const fn told_at(&self) -> Option<Time> {
        match self {
            Self::Begun(begun) => Some(begun.lent.at),
            Self::Taken { lent, .. } => Some(lent.at),
            Self::Ended(ended) => Some(ended.at),
            Self::Lapsed { at, .. } => Some(*at),
            _ => None,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Begun(begun) => {
                let is_told = !(begun.run.is_empty() || begun.whose.is_empty());
                out.put_u8(if is_told { BEGUN_OF_TENANT } else { BEGUN });
                if is_told {
                    out.put_text(begun.whose);
                }
                out.put_u64(begun.number);
                out.extend_from_slice(&begun.identity.0);
                out.put_u64(begun.request.0);
                out.put_u32(begun.tenant);
                out.put_u32(begun.scope);
                begun.lent.encode(out);
                out.put_text(begun.run);
                out.put_u32(begun.check);
                out.put_bytes(begun.bytes);
            }
            Self::Taken { number, lent } => {
                out.put_u8(TAKEN);
                out.put_u64(*number);
                lent.encode(out);
            }
            Self::Renewed { number, until: time } | Self::Lapsed { number, at: time } => {
                out.put_u8(if matches!(self, Self::Renewed { .. }) { RENEWED } else { LAPSED });
                out.put_u64(*number);
                out.put_u64(time.0);
            }
            Self::Ended(ended) => {
                out.put_u8(ENDED);
                out.put_u64(ended.number);
                out.put_u32(ended.epoch);
                out.put_u8(status_byte(ended.status));
                out.put_u32(ended.attempts_max.unwrap_or(0));
                out.put_u64(ended.at.0);
                out.put_u64(ended.expires.0);
                out.put_u64(ended.digest);
                out.put_u32(ended.check);
                out.put_bytes(ended.bytes);
            }
            Self::Swept { numbers } => {
                out.put_u8(SWEPT);
                out.put_bytes(numbers);
            }
            Self::Moved { number, part, bytes } => {
                out.put_u8(MOVED);
                out.put_u64(*number);
                out.put_u8(u8::from(*part == EffectPart::Ending));
                out.put_bytes(bytes);
            }
            Self::Released { number, epoch, at } => {
                out.put_u8(RELEASED);
                out.put_u64(*number);
                out.put_u32(*epoch);
                out.put_u64(at.0);
            }
        }
    }

    pub(crate) fn decode(kind: u8, take: &mut Take<'a>) -> Result<Self, Malformed> {
        if kind == SWEPT {
            return Ok(Self::Swept { numbers: take.bytes()? });
        }
        let whose = if kind == BEGUN_OF_TENANT { take.text()? } else { "" };
        let number = take.u64()?;
        Ok(match kind {
            BEGUN | BEGUN_OF_TENANT => {
                let begun = BegunFact {
                    number,
                    identity: take.identity()?,
                    request: RequestHash(take.u64()?),
                    tenant: take.u32()?,
                    scope: take.u32()?,
                    lent: Lent::decode(take)?,
                    run: take.text()?,
                    whose,
                    check: take.u32()?,
                    bytes: take.bytes()?,
                };
                // No run is nobody's: what no broker writes must not be read as more than it can be written as.
                Self::Begun(if begun.run.is_empty() { BegunFact { whose: "", ..begun } } else { begun })
            }
            TAKEN => Self::Taken { number, lent: Lent::decode(take)? },
            RENEWED => Self::Renewed { number, until: Time(take.u64()?) },
            LAPSED => Self::Lapsed { number, at: Time(take.u64()?) },
            RELEASED => Self::Released { number, epoch: take.u32()?, at: Time(take.u64()?) },
            ENDED => Self::Ended(EndedFact {
                number,
                epoch: take.u32()?,
                status: take_status(take)?,
                attempts_max: Some(take.u32()?).filter(|most| *most > 0),
                at: Time(take.u64()?),
                expires: Time(take.u64()?),
                digest: take.u64()?,
                check: take.u32()?,
                bytes: take.bytes()?,
            }),
            MOVED => {
                let part = if take.u8()? == 0 { EffectPart::About } else { EffectPart::Ending };
                Self::Moved { number, part, bytes: take.bytes()? }
            }
            _ => return Err(UNKNOWN_KIND),
        })
    }
}

pub(crate) const fn status_byte(status: Status) -> u8 {
    match status {
        Status::InProgress => 0,
        Status::Succeeded => 1,
        Status::FailedFinal => 2,
        Status::FailedRetryable => 3,
        Status::Unknown => 4,
    }
}

pub(crate) fn take_status(take: &mut Take<'_>) -> Result<Status, Malformed> {
    let byte = take.u8()?;
    status_of(byte, take)
}

pub(crate) fn status_of(byte: u8, take: &Take<'_>) -> Result<Status, Malformed> {
    Status::ALL.into_iter().find(|status| status_byte(*status) == byte).ok_or_else(|| take.malformed())
}

pub(crate) fn put_receipt(out: &mut Vec<u8>, receipt: &Receipt) {
    out.put_u32(receipt.topic.0);
    out.put_u32(receipt.group.0);
    out.put_u32(receipt.partition);
    out.put_u64(receipt.offset);
    out.put_u64(receipt.token.epoch);
    out.put_u64(receipt.token.n);
}

pub(crate) fn take_receipt(take: &mut Take<'_>) -> Result<Receipt, Malformed> {
    Ok(Receipt {
        topic: TopicId(take.u32()?),
        group: GroupId(take.u32()?),
        partition: take.u32()?,
        offset: take.u64()?,
        token: Token { epoch: take.u64()?, n: take.u64()? },
    })
}
