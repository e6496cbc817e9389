//! The bytes of facts.
//!
//! A fact is written as `length: u32, kind: u8, fields…`; the length counts what follows it. A fact that carries
//! a payload has it as its last field, so that its place in the log is the end of the fact less its length.

use alloc::vec::Vec;

use crate::log::commit as commit_fact;
use crate::log::commit::CommitFact;
use crate::log::effect as effect_fact;
use crate::log::effect::EffectFact;
use crate::log::entity as entity_fact;
use crate::log::entity::EntityFact;
use crate::log::fact::{Fact, MessageFact, Place};
use crate::log::message_bytes::{APPENDED, APPENDED_IN_RUN, APPENDED_MORE};
use crate::log::output as output_fact;
use crate::log::output::OutputFact;
use crate::log::run as run_fact;
use crate::log::run::RunFact;
use crate::words::codec::{Malformed, Put, Take};
use crate::words::id::{GroupId, Position, Time, Token, TopicId};
use crate::words::input::Style;
use crate::words::topic::TopicSettings;

const OPENED: u8 = 1;
const TOPIC_CREATED: u8 = 2;
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
// The same facts as their namesakes above, with a time, a token or a scope that those lacked.
const LEASED_AT: u8 = 14;
const FAILED_AT: u8 = 15;
const ACKED_BY: u8 = 16;
const TOPIC_CREATED_SCOPED: u8 = 17;
const EXTENDED: u8 = 18;
const CANCELLED: u8 = 19;
const REMOVED: u8 = 20;
const SOUGHT: u8 = 21;
const CONFIGURED: u8 = 22;
const TOPIC_DELETED: u8 = 23;
const PAUSED: u8 = 24;
const KEYED: u8 = 25;
const SNOOZED: u8 = 27;
const SNOOZED_FOR: u8 = 30;
// A run that leaves the leases of the run before as they are.
const OPENED_KEEPING: u8 = 28;
// A failure by word of the holder: what else it said goes before the error.
const FAILED_BY_WORD: u8 = 31;
// As `LEASED_AT`, to a reader into whose stream it was pushed.
const LEASED_PUSHED: u8 = 88;
const TRIMMED: u8 = 72;

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
            Self::Opened { epoch, at, keeps_leases } => {
                out.put_u8(if keeps_leases { OPENED_KEEPING } else { OPENED });
                out.put_u64(epoch);
                out.put_u64(at.0);
            }
            Self::TopicCreated { topic, partitions, at, name, scoped } => {
                let kind = if scoped { TOPIC_CREATED_SCOPED } else { TOPIC_CREATED };
                put_header(out, kind, topic, partitions, at.0);
                out.put_text(name);
            }
            Self::Appended(message) => {
                message.encode(out);
            }
            Self::GroupCreated { topic, group, at, name } => {
                put_header(out, GROUP_CREATED, topic, group.0, at.0);
                out.put_text(name);
            }
            Self::Expired { topic, partition, below } => put_header(out, EXPIRED, topic, partition, below),
            Self::Trimmed { topic, partition, below } => put_header(out, TRIMMED, topic, partition, below),
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
            Self::Effect(fact) => fact.encode(out),
            Self::Run(fact) => fact.encode(out),
            Self::Output(fact) => fact.encode(out),
            Self::Commit(fact) => fact.encode(out),
            Self::Entity(fact) => fact.encode(out),
            Self::Leased { .. }
            | Self::Acked { .. }
            | Self::Failed { .. }
            | Self::Extended { .. }
            | Self::Released { .. }
            | Self::Snoozed { .. }
            | Self::SnoozedFor { .. }
            | Self::Retired { .. } => self.encode_delivery(out),
            Self::Configured { .. }
            | Self::TopicDeleted { .. }
            | Self::Paused { .. }
            | Self::Keyed { .. }
            | Self::Cancelled { .. }
            | Self::Removed { .. }
            | Self::Sought { .. } => self.encode_order(out),
        }
    }

    fn encode_delivery(&self, out: &mut Vec<u8>) {
        let mut begin = |kind: u8, place: Place| {
            out.put_u8(kind);
            place.encode(out);
        };
        match *self {
            Self::Leased { place, token, attempt, at, expires, owner, style } => {
                begin(if style == Style::Pushed { LEASED_PUSHED } else { LEASED_AT }, place);
                out.put_u64(token.epoch);
                out.put_u64(token.n);
                out.put_u32(attempt);
                out.put_u64(at.0);
                out.put_u64(expires.0);
                out.put_text(owner);
            }
            Self::Acked { place, remembered, token } => {
                begin(if token == Token::default() { ACKED } else { ACKED_BY }, place);
                out.put_u64(remembered.0);
                if token != Token::default() {
                    out.put_u64(token.epoch);
                    out.put_u64(token.n);
                }
            }
            Self::Failed { place, at, retry_at, nacked, dead, error } => {
                begin(if nacked { FAILED_BY_WORD } else { FAILED_AT }, place);
                out.put_u64(at.0);
                out.put_u64(retry_at.0);
                if nacked {
                    out.put_u8(u8::from(dead));
                }
                out.put_text(error);
            }
            Self::Extended { place, expires } => {
                begin(EXTENDED, place);
                out.put_u64(expires.0);
            }
            Self::Released { place } => begin(RELEASED, place),
            Self::Snoozed { place, at, until } => {
                begin(SNOOZED, place);
                out.put_u64(at.0);
                out.put_u64(until.0);
            }
            Self::SnoozedFor { place, at, until, effect } => {
                begin(SNOOZED_FOR, place);
                out.put_u64(at.0);
                out.put_u64(until.0);
                out.put_u64(effect);
            }
            Self::Retired { place, dead } => {
                begin(RETIRED, place);
                out.put_u8(u8::from(dead));
            }
            _ => unreachable!("encode_fields hands over deliveries only"),
        }
    }

    /// What operators and their programs order: settings, pauses, moves, removals.
    fn encode_order(&self, out: &mut Vec<u8>) {
        match self {
            Self::Configured { topic, settings } => {
                put_header(out, CONFIGURED, *topic, 0, 0);
                settings.encode(out);
            }
            Self::TopicDeleted { topic } => put_header(out, TOPIC_DELETED, *topic, 0, 0),
            Self::Paused { topic, group, since } => {
                put_header(out, PAUSED, *topic, group.map_or(u32::MAX, |group| group.0), 0);
                out.put_u8(u8::from(since.is_some()));
                out.put_u64(since.unwrap_or_default().0);
            }
            Self::Keyed { secret } => {
                put_header(out, KEYED, TopicId(0), 0, 0);
                out.extend_from_slice(secret);
            }
            Self::Cancelled { topic, partition, offset } => {
                put_header(out, CANCELLED, *topic, *partition, *offset);
            }
            Self::Removed { topic, partition, offset } => {
                put_header(out, REMOVED, *topic, *partition, *offset);
            }
            Self::Sought { topic, group, partition, from } => {
                put_header(out, SOUGHT, *topic, *partition, *from);
                out.put_u32(group.0);
            }
            _ => unreachable!("encode_fields hands over orders only"),
        }
    }

    fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes, "fact");
        let fact = match take.u8()? {
            kind @ (OPENED | OPENED_KEEPING) => Self::Opened {
                epoch: take.u64()?,
                at: Time(take.u64()?),
                keeps_leases: kind == OPENED_KEEPING,
            },
            kind @ (APPENDED | APPENDED_IN_RUN | APPENDED_MORE) => {
                Self::Appended(MessageFact::decode(kind, &mut take)?)
            }
            kind @ (effect_fact::FIRST_KIND..=effect_fact::LAST_KIND | effect_fact::BEGUN_OF_TENANT) => {
                Self::Effect(EffectFact::decode(kind, &mut take)?)
            }
            kind @ (run_fact::FIRST_KIND..=run_fact::LAST_KIND | run_fact::READ) => {
                Self::Run(RunFact::decode(kind, &mut take)?)
            }
            kind @ (output_fact::FIRST_KIND..=output_fact::LAST_KIND | output_fact::SEALED) => {
                Self::Output(OutputFact::decode(kind, &mut take)?)
            }
            kind @ commit_fact::FIRST_KIND..=commit_fact::LAST_KIND => {
                Self::Commit(CommitFact::decode(kind, &mut take)?)
            }
            kind @ entity_fact::FIRST_KIND..=entity_fact::LAST_KIND => {
                Self::Entity(EntityFact::decode(kind, &mut take)?)
            }
            FORGOTTEN => {
                let of_group = take.u8()? != 0;
                let group = (TopicId(take.u32()?), GroupId(take.u32()?));
                let upto = Time(take.u64()?);
                Self::Forgotten { group: of_group.then_some(group), upto, most: take.u32()? }
            }
            kind @ (LEASED | ACKED | FAILED | RELEASED | RETIRED | LEASED_AT | FAILED_AT | ACKED_BY
            | EXTENDED | SNOOZED | SNOOZED_FOR | FAILED_BY_WORD | LEASED_PUSHED) => {
                Self::decode_delivery(kind, &mut take)?
            }
            kind => Self::decode_headed(kind, &mut take)?,
        };
        take.done()?;
        Ok(fact)
    }

    fn decode_headed(kind: u8, take: &mut Take<'a>) -> Result<Self, Malformed> {
        let topic = TopicId(take.u32()?);
        let number = take.u32()?;
        let last = take.u64()?;
        let (at, group) = (Time(last), GroupId(number));
        Ok(match kind {
            TOPIC_CREATED | TOPIC_CREATED_SCOPED => {
                let scoped = kind == TOPIC_CREATED_SCOPED;
                Self::TopicCreated { topic, partitions: number, at, name: take.text()?, scoped }
            }
            GROUP_CREATED => Self::GroupCreated { topic, group, at, name: take.text()? },
            EXPIRED => Self::Expired { topic, partition: number, below: last },
            TRIMMED => Self::Trimmed { topic, partition: number, below: last },
            MOVED => Self::Moved { topic, partition: number, offset: last, bytes: take.bytes()? },
            GROUP_EXPIRED => Self::GroupExpired { topic, group },
            CANCELLED => Self::Cancelled { topic, partition: number, offset: last },
            REMOVED => Self::Removed { topic, partition: number, offset: last },
            SOUGHT => Self::Sought { topic, group: GroupId(take.u32()?), partition: number, from: last },
            CONFIGURED => Self::Configured { topic, settings: TopicSettings::decode(take)? },
            TOPIC_DELETED => Self::TopicDeleted { topic },
            PAUSED => {
                let paused = take.u8()? != 0;
                let since = Time(take.u64()?);
                let group = (number != u32::MAX).then_some(group);
                Self::Paused { topic, group, since: paused.then_some(since) }
            }
            KEYED => {
                let mut secret = [0; 32];
                secret.copy_from_slice(take.raw(32)?);
                Self::Keyed { secret }
            }
            _ => return Err(Malformed("fact of an unknown kind")),
        })
    }

    fn decode_delivery(kind: u8, take: &mut Take<'a>) -> Result<Self, Malformed> {
        let place = Place::decode(take)?;
        Ok(match kind {
            LEASED | LEASED_AT | LEASED_PUSHED => Self::Leased {
                place,
                token: Token { epoch: take.u64()?, n: take.u64()? },
                attempt: take.u32()?,
                at: if kind == LEASED { Time(0) } else { Time(take.u64()?) },
                expires: Time(take.u64()?),
                owner: take.text()?,
                style: if kind == LEASED_PUSHED { Style::Pushed } else { Style::Borrowed },
            },
            ACKED => Self::Acked { place, remembered: Time(take.u64()?), token: Token::default() },
            ACKED_BY => Self::Acked {
                place,
                remembered: Time(take.u64()?),
                token: Token { epoch: take.u64()?, n: take.u64()? },
            },
            FAILED | FAILED_AT | FAILED_BY_WORD => Self::Failed {
                place,
                at: if kind == FAILED { Time(0) } else { Time(take.u64()?) },
                retry_at: Time(take.u64()?),
                nacked: kind == FAILED_BY_WORD,
                dead: kind == FAILED_BY_WORD && take.u8()? != 0,
                error: take.text()?,
            },
            EXTENDED => Self::Extended { place, expires: Time(take.u64()?) },
            RELEASED => Self::Released { place },
            SNOOZED => Self::Snoozed { place, at: Time(take.u64()?), until: Time(take.u64()?) },
            SNOOZED_FOR => Self::SnoozedFor {
                place,
                at: Time(take.u64()?),
                until: Time(take.u64()?),
                effect: take.u64()?,
            },
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
