//! Facts about what goes from one shard to another, and about which of them this is.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use crate::log::fact::MessageFact;
use crate::words::codec::{Malformed, Put, Take, UNKNOWN_KIND};
use crate::words::draft::{NewLineage, NewMessage, Payload, Start};
use crate::words::id::{ShardId, Time};
use crate::words::outbox::Parcel;
use crate::words::receipt::Stored;
use crate::words::run::Lineage;

/// Kinds of facts about shards: the first, and the last.
pub(crate) const FIRST_KIND: u8 = HOUSED;
pub(crate) const LAST_KIND: u8 = SETTLED;

const HOUSED: u8 = 103;
const SENT: u8 = 104;
const POSTED: u8 = 105;
const RECEIVED: u8 = 106;
const SETTLED: u8 = 107;

/// What a parcel says of its message beside what every stored message does.
const NATIVE: u8 = 1;
const RESERVED: u8 = 1 << 1;

/// The bytes of [`OutboxFact::Received`], and those of [`OutboxFact::Posted`] at most: length, kind, sender, number,
/// place.
pub(crate) const ARRIVAL_BYTES: usize = 4 + 1 + 1 + 8 + Stored::BYTES;

/// Something that happened between shards and is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one fact at a time is looked at, and others are as large")]
pub enum OutboxFact<'a> {
    /// This is the log of that shard. The log of the first one does not say so.
    Housed {
        /// Which.
        shard: ShardId,
    },
    /// A message is on its way to another shard.
    Sent {
        /// Rises with every message that is sent.
        number: u64,
        /// Whether it came the way that has defaults and keeps deadlines.
        native: bool,
        /// Whether its identity is its own already: it is stored even if another one has it.
        reserved: bool,
        /// The message. It has no offset yet, and its identity is remembered by the shard that stores it: both are zero.
        message: MessageFact<'a>,
    },
    /// It has arrived, and is not kept here any more.
    Posted {
        /// Its number.
        number: u64,
        /// Where it lies.
        stored: Stored,
    },
    /// A message of another shard has arrived. It is in the same batch, before this, if it was stored.
    Received {
        /// The sender.
        from: ShardId,
        /// The sender's number.
        number: u64,
        /// Where it lies.
        stored: Stored,
    },
    /// The sender knows where everything below a number lies: here it is forgotten.
    Settled {
        /// The sender.
        from: ShardId,
        /// The number.
        below: u64,
    },
}

impl<'a> OutboxFact<'a> {
    pub(crate) const fn told_at(&self) -> Option<Time> {
        match self {
            Self::Sent { message, .. } => Some(message.at),
            Self::Housed { .. } | Self::Posted { .. } | Self::Received { .. } | Self::Settled { .. } => None,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Housed { shard } => {
                out.put_u8(HOUSED);
                out.put_u8(shard.0);
            }
            Self::Sent { number, native, reserved, message } => {
                out.put_u8(SENT);
                out.put_u64(*number);
                out.put_u8(if *native { NATIVE } else { 0 } | if *reserved { RESERVED } else { 0 });
                message.encode(out);
            }
            Self::Posted { number, stored } => {
                out.put_u8(POSTED);
                out.put_u64(*number);
                stored.encode(out);
            }
            Self::Received { from, number, stored } => {
                out.put_u8(RECEIVED);
                out.put_u8(from.0);
                out.put_u64(*number);
                stored.encode(out);
            }
            Self::Settled { from, below } => {
                out.put_u8(SETTLED);
                out.put_u8(from.0);
                out.put_u64(*below);
            }
        }
    }

    pub(crate) fn decode(kind: u8, take: &mut Take<'a>) -> Result<Self, Malformed> {
        Ok(match kind {
            HOUSED => Self::Housed { shard: ShardId(take.u8()?) },
            SENT => {
                let (number, flags) = (take.u64()?, take.u8()?);
                if flags & !(NATIVE | RESERVED) != 0 {
                    return Err(Malformed("parcel with parts of an unknown kind"));
                }
                let kind = take.u8()?;
                Self::Sent {
                    number,
                    native: flags & NATIVE != 0,
                    reserved: flags & RESERVED != 0,
                    message: MessageFact::decode_kind(kind, take)?,
                }
            }
            POSTED => Self::Posted { number: take.u64()?, stored: Stored::decode(take)? },
            RECEIVED => Self::Received {
                from: ShardId(take.u8()?),
                number: take.u64()?,
                stored: Stored::decode(take)?,
            },
            SETTLED => Self::Settled { from: ShardId(take.u8()?), below: take.u64()? },
            _ => return Err(UNKNOWN_KIND),
        })
    }
}

impl Parcel {
    /// The parcel as it is written down. A delay begins to count where the message is sent.
    pub(crate) fn fact(&self, at: Time) -> OutboxFact<'_> {
        let NewMessage { deadline, retry, native, identity, reserved, request, .. } = self.message;
        let NewMessage { topic, partition, key, priority, start, ref lineage, origin, ref payload, .. } =
            self.message;
        let due = match start {
            Start::Now => None,
            Start::At(due) => Some(due),
            Start::After(ms) => Some(at.after_ms(ms)),
        };
        let message = MessageFact {
            topic,
            partition,
            offset: 0,
            at,
            size: payload.size,
            check: payload.check,
            retry,
            identity: identity.map(|identity| (identity, Time(0))),
            request,
            key,
            priority,
            due,
            only: None,
            lineage: lineage.as_deref().map(NewLineage::borrowed),
            origin,
            deadline,
            bytes: &payload.bytes,
        };
        OutboxFact::Sent { number: self.number, native, reserved, message }
    }

    /// What [`Parcel::fact`] wrote down.
    pub(crate) fn of(number: u64, native: bool, reserved: bool, message: &MessageFact<'_>) -> Self {
        let MessageFact { topic, partition, retry, request, key, priority, origin, deadline, .. } = *message;
        let lineage = message.lineage.map(|lineage| {
            let Lineage { tenant, run, step, parent } = lineage;
            let [tenant, run, step, parent] = [tenant, run, step, parent].map(String::from);
            Box::new(NewLineage { tenant, run, step, parent })
        });
        let payload = Payload { bytes: message.bytes.into(), check: message.check, size: message.size };
        let message = NewMessage {
            topic,
            partition,
            deadline,
            retry,
            native,
            identity: message.identity.map(|(identity, _)| identity),
            reserved,
            request,
            key,
            priority,
            start: message.due.map_or(Start::Now, Start::At),
            lineage,
            origin,
            payload,
        };
        Self { number, message }
    }
}
