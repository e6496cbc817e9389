//! Lines of history, and their bytes.
//!
//! A fact is written as `length: u32, kind: u8, fields…`; the length counts what follows it. A fact that carries
//! a payload has it as its last field, so that its place in the log is the end of the fact less its length.

use alloc::vec::Vec;

use crate::codec::{Malformed, Put, Take};
use crate::id::{GroupId, Identity, Position, Time, Token, TopicId};
use crate::message::RetryPolicy;

/// A message as it was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageFact<'a> {
    /// Its topic.
    pub topic: TopicId,
    /// Its partition.
    pub partition: u32,
    /// Its offset; rises within the topic.
    pub offset: u64,
    /// When it was stored.
    pub at: Time,
    /// Key and value bytes.
    pub size: u32,
    /// Checksum of `bytes`.
    pub check: u32,
    /// How often and when to try again.
    pub retry: Option<RetryPolicy>,
    /// Its identity, and until when it is remembered.
    pub identity: Option<(Identity, Time)>,
    /// The encoded message.
    pub bytes: &'a [u8],
}

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

/// Something that happened and is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact<'a> {
    /// A run of the shard began; every older lease is void.
    Opened {
        /// The run.
        epoch: u64,
        /// When.
        at: Time,
    },
    /// A topic was created.
    TopicCreated {
        /// Its number.
        topic: TopicId,
        /// Its partitions.
        partitions: u32,
        /// When.
        at: Time,
        /// Its name.
        name: &'a str,
    },
    /// A message was stored.
    Appended(MessageFact<'a>),
    /// A group began to read a topic, at the earliest message kept.
    GroupCreated {
        /// The topic.
        topic: TopicId,
        /// Its number.
        group: GroupId,
        /// When.
        at: Time,
        /// Its name.
        name: &'a str,
    },
    /// A message was handed to a reader.
    Leased {
        /// Which.
        place: Place,
        /// The fencing token.
        token: Token,
        /// 1-based count of deliveries.
        attempt: u32,
        /// When the lease lapses.
        expires: Time,
        /// Who holds it.
        owner: &'a str,
    },
    /// A group is done with a message.
    Acked {
        /// Which.
        place: Place,
        /// Until when its identity stays committed for the group; [`Time`] 0 if it has none.
        remembered: Time,
    },
    /// An attempt failed, by word or by lapse.
    Failed {
        /// Which.
        place: Place,
        /// When the next attempt is due.
        retry_at: Time,
        /// Why.
        error: &'a str,
    },
    /// A delivery came back unused; the attempt does not count.
    Released {
        /// Which.
        place: Place,
    },
    /// A group gives a message up: it was dead-lettered, or its identity was committed before.
    Retired {
        /// Which.
        place: Place,
        /// True if a dead letter was stored in the same batch; false if it was skipped.
        dead: bool,
    },
    /// A group was forgotten.
    GroupExpired {
        /// The topic.
        topic: TopicId,
        /// The group.
        group: GroupId,
    },
    /// Messages left by retention, read or not.
    Expired {
        /// The topic.
        topic: TopicId,
        /// The partition.
        partition: u32,
        /// Every message below this offset is gone.
        below: u64,
    },
    /// Identities whose time had come were forgotten: at most `most`, the oldest first.
    Forgotten {
        /// Of the produce gate if `None`, else of that group's consume gate.
        group: Option<(TopicId, GroupId)>,
        /// Those remembered until then.
        upto: Time,
        /// How many at the most.
        most: u32,
    },
    /// A payload was written again, so that the segment with its old copy can go.
    Moved {
        /// The topic.
        topic: TopicId,
        /// The partition.
        partition: u32,
        /// The message's offset.
        offset: u64,
        /// The encoded message.
        bytes: &'a [u8],
    },
}

const OPENED: u8 = 1;
const TOPIC_CREATED: u8 = 2;
const APPENDED: u8 = 3;
const GROUP_CREATED: u8 = 4;
const LEASED: u8 = 5;
const ACKED: u8 = 6;
const FAILED: u8 = 7;
const RELEASED: u8 = 8;
const RETIRED: u8 = 9;
const GROUP_EXPIRED: u8 = 10;
const EXPIRED: u8 = 11;
const FORGOTTEN: u8 = 12;
const MOVED: u8 = 13;

impl Place {
    fn encode(self, out: &mut Vec<u8>) {
        out.put_u32(self.topic.0);
        out.put_u32(self.group.0);
        out.put_u32(self.partition);
        out.put_u64(self.offset);
    }

    fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            topic: TopicId(take.u32()?),
            group: GroupId(take.u32()?),
            partition: take.u32()?,
            offset: take.u64()?,
        })
    }
}

impl<'a> MessageFact<'a> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.topic.0);
        out.put_u32(self.partition);
        out.put_u64(self.offset);
        out.put_u64(self.at.0);
        out.put_u32(self.size);
        out.put_u32(self.check);
        out.put_u8(u8::from(self.retry.is_some()) | u8::from(self.identity.is_some()) << 1);
        if let Some(retry) = self.retry {
            retry.encode(out);
        }
        if let Some((identity, until)) = self.identity {
            out.extend_from_slice(&identity.0);
            out.put_u64(until.0);
        }
        out.put_bytes(self.bytes);
    }

    fn decode(take: &mut Take<'a>) -> Result<Self, Malformed> {
        let topic = TopicId(take.u32()?);
        let partition = take.u32()?;
        let offset = take.u64()?;
        let at = Time(take.u64()?);
        let size = take.u32()?;
        let check = take.u32()?;
        let options = take.u8()?;
        let retry = if options & 1 == 0 { None } else { Some(RetryPolicy::decode(take)?) };
        let identity = if options & 2 == 0 { None } else { Some((take.identity()?, Time(take.u64()?))) };
        let bytes = take.bytes()?;
        Ok(Self { topic, partition, offset, at, size, check, retry, identity, bytes })
    }
}

impl<'a> Fact<'a> {
    /// Appends the fact's bytes to a batch.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.put_u32(0);
        self.encode_fields(out);
        let length = u32::try_from(out.len() - start - 4).expect("inputs are capped far below 4 GiB");
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    fn encode_fields(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Opened { epoch, at } => {
                out.put_u8(OPENED);
                out.put_u64(epoch);
                out.put_u64(at.0);
            }
            Self::TopicCreated { topic, partitions, at, name } => {
                put_header(out, TOPIC_CREATED, topic, partitions, at.0);
                out.put_text(name);
            }
            Self::Appended(message) => {
                out.put_u8(APPENDED);
                message.encode(out);
            }
            Self::GroupCreated { topic, group, at, name } => {
                put_header(out, GROUP_CREATED, topic, group.0, at.0);
                out.put_text(name);
            }
            Self::Expired { topic, partition, below } => put_header(out, EXPIRED, topic, partition, below),
            Self::Moved { topic, partition, offset, bytes } => {
                put_header(out, MOVED, topic, partition, offset);
                out.put_bytes(bytes);
            }
            Self::GroupExpired { topic, group } => put_header(out, GROUP_EXPIRED, topic, group.0, 0),
            Self::Forgotten { group, upto, most } => {
                out.put_u8(FORGOTTEN);
                out.put_u8(u8::from(group.is_some()));
                let (topic, group) = group.unwrap_or_default();
                out.put_u32(topic.0);
                out.put_u32(group.0);
                out.put_u64(upto.0);
                out.put_u32(most);
            }
            Self::Leased { .. }
            | Self::Acked { .. }
            | Self::Failed { .. }
            | Self::Released { .. }
            | Self::Retired { .. } => self.encode_delivery(out),
        }
    }

    fn encode_delivery(&self, out: &mut Vec<u8>) {
        let mut begin = |kind: u8, place: Place| {
            out.put_u8(kind);
            place.encode(out);
        };
        match *self {
            Self::Leased { place, token, attempt, expires, owner } => {
                begin(LEASED, place);
                out.put_u64(token.epoch);
                out.put_u64(token.n);
                out.put_u32(attempt);
                out.put_u64(expires.0);
                out.put_text(owner);
            }
            Self::Acked { place, remembered } => {
                begin(ACKED, place);
                out.put_u64(remembered.0);
            }
            Self::Failed { place, retry_at, error } => {
                begin(FAILED, place);
                out.put_u64(retry_at.0);
                out.put_text(error);
            }
            Self::Released { place } => begin(RELEASED, place),
            Self::Retired { place, dead } => {
                begin(RETIRED, place);
                out.put_u8(u8::from(dead));
            }
            _ => unreachable!("encode_fields hands over deliveries only"),
        }
    }

    fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes, "fact");
        let fact = match take.u8()? {
            OPENED => Self::Opened { epoch: take.u64()?, at: Time(take.u64()?) },
            APPENDED => Self::Appended(MessageFact::decode(&mut take)?),
            FORGOTTEN => {
                let of_group = take.u8()? != 0;
                let group = (TopicId(take.u32()?), GroupId(take.u32()?));
                let upto = Time(take.u64()?);
                Self::Forgotten { group: of_group.then_some(group), upto, most: take.u32()? }
            }
            kind @ (LEASED | ACKED | FAILED | RELEASED | RETIRED) => Self::decode_delivery(kind, &mut take)?,
            kind => {
                let topic = TopicId(take.u32()?);
                let number = take.u32()?;
                let last = take.u64()?;
                match kind {
                    TOPIC_CREATED => {
                        Self::TopicCreated { topic, partitions: number, at: Time(last), name: take.text()? }
                    }
                    GROUP_CREATED => Self::GroupCreated {
                        topic,
                        group: GroupId(number),
                        at: Time(last),
                        name: take.text()?,
                    },
                    EXPIRED => Self::Expired { topic, partition: number, below: last },
                    MOVED => Self::Moved { topic, partition: number, offset: last, bytes: take.bytes()? },
                    GROUP_EXPIRED => Self::GroupExpired { topic, group: GroupId(number) },
                    _ => return Err(Malformed("fact of an unknown kind")),
                }
            }
        };
        take.done()?;
        Ok(fact)
    }

    fn decode_delivery(kind: u8, take: &mut Take<'a>) -> Result<Self, Malformed> {
        let place = Place::decode(take)?;
        Ok(match kind {
            LEASED => Self::Leased {
                place,
                token: Token { epoch: take.u64()?, n: take.u64()? },
                attempt: take.u32()?,
                expires: Time(take.u64()?),
                owner: take.text()?,
            },
            ACKED => Self::Acked { place, remembered: Time(take.u64()?) },
            FAILED => Self::Failed { place, retry_at: Time(take.u64()?), error: take.text()? },
            RELEASED => Self::Released { place },
            _ => Self::Retired { place, dead: take.u8()? != 0 },
        })
    }

    /// Walks the facts of one batch whose first byte lies at `base`; each comes with the position of its end.
    pub fn each(
        base: Position,
        batch: &'a [u8],
        mut visit: impl FnMut(Position, Self) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        let mut take = Take::new(batch, "batch");
        while take.remaining() > 0 {
            let fact = Self::decode(take.bytes()?)?;
            visit(base.plus(batch.len() - take.remaining()), fact)?;
        }
        Ok(())
    }
}

/// The fields that most facts about topics begin with.
fn put_header(out: &mut Vec<u8>, kind: u8, topic: TopicId, number: u32, last: u64) {
    out.put_u8(kind);
    out.put_u32(topic.0);
    out.put_u32(number);
    out.put_u64(last);
}
