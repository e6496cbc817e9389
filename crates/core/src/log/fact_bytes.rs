//! The bytes of facts.
//!
//! A fact is written as `length: u32, kind: u8, fields…`; the length counts what follows it. A fact that carries
//! a payload has it as its last field, so that its place in the log is the end of the fact less its length.

use alloc::vec::Vec;

use crate::log::audit as audit_fact;
use crate::log::audit::AuditFact;
use crate::log::commit as commit_fact;
use crate::log::commit::CommitFact;
use crate::log::definition as definition_fact;
use crate::log::definition::DefinitionFact;
use crate::log::delivery as delivery_fact;
use crate::log::delivery::DeliveryFact;
use crate::log::effect as effect_fact;
use crate::log::effect::EffectFact;
use crate::log::entity as entity_fact;
use crate::log::entity::EntityFact;
use crate::log::fact::{Fact, MessageFact};
use crate::log::header::{Header, put_header};
use crate::log::key as key_fact;
use crate::log::key::KeyFact;
use crate::log::message_bytes::{APPENDED, APPENDED_IN_RUN, APPENDED_MORE};
use crate::log::order as order_fact;
use crate::log::order::OrderFact;
use crate::log::outbox as outbox_fact;
use crate::log::outbox::OutboxFact;
use crate::log::output as output_fact;
use crate::log::output::OutputFact;
use crate::log::run as run_fact;
use crate::log::run::RunFact;
use crate::log::tenant as tenant_fact;
use crate::log::tenant::TenantFact;
use crate::words::codec::{Malformed, Put, Take, UNKNOWN_KIND};
use crate::words::id::{GroupId, Position, Time, TopicId};

const OPENED: u8 = 1;
const TOPIC_CREATED: u8 = 2;
const GROUP_CREATED: u8 = 4;
const GROUP_EXPIRED: u8 = 10;
const EXPIRED: u8 = 11;
const FORGOTTEN: u8 = 12;
const MOVED: u8 = 13;
// As its namesake above, with a scope.
const TOPIC_CREATED_SCOPED: u8 = 17;
const KEYED: u8 = 25;
const TOPIC_CREATED_OWNED: u8 = 73;
// A run that leaves the leases of the run before as they are.
const OPENED_KEEPING: u8 = 28;
const TRIMMED: u8 = 72;

impl<'a> Fact<'a> {
    /// Appends the fact's bytes to a batch.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.put_u32(0);
        self.encode_fields(out);
        let length = u32::try_from(out.len() - start - 4).expect("inputs are capped far below 4 GiB");
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
        debug_assert_eq!(
            Fact::decode(&out[start + 4..]),
            Ok(*self),
            "what is written is read back as it was"
        );
    }

    fn encode_fields(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Opened { epoch, at, keeps_leases } => {
                out.put_u8(if keeps_leases { OPENED_KEEPING } else { OPENED });
                out.put_u64(epoch);
                out.put_u64(at.0);
            }
            Self::TopicCreated { topic, partitions, at, name, scoped, tenant } => {
                let kind = match (scoped, tenant) {
                    (_, Some(_)) => TOPIC_CREATED_OWNED,
                    (true, None) => TOPIC_CREATED_SCOPED,
                    (false, None) => TOPIC_CREATED,
                };
                put_header(out, kind, topic, partitions, at.0);
                out.put_text(name);
                if let Some(tenant) = tenant {
                    out.put_text(tenant);
                }
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
            Self::Keyed { secret } => {
                put_header(out, KEYED, TopicId(0), 0, 0);
                out.extend_from_slice(&secret);
            }
            Self::Delivery(place, fact) => fact.encode(place, out),
            Self::Order(fact) => fact.encode(out),
            Self::Effect(fact) => fact.encode(out),
            Self::Run(fact) => fact.encode(out),
            Self::Output(fact) => fact.encode(out),
            Self::Commit(fact) => fact.encode(out),
            Self::Entity(fact) => fact.encode(out),
            Self::Key(fact) => fact.encode(out),
            Self::Audit(fact) => fact.encode(out),
            Self::Tenant(fact) => fact.encode(out),
            Self::Definition(fact) => fact.encode(out),
            Self::Outbox(fact) => fact.encode(out),
        }
    }

    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
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
            kind @ key_fact::FIRST_KIND..=key_fact::LAST_KIND => Self::Key(KeyFact::decode(kind, &mut take)?),
            kind @ audit_fact::FIRST_KIND..=audit_fact::LAST_KIND => {
                Self::Audit(AuditFact::decode(kind, &mut take)?)
            }
            kind @ definition_fact::FIRST_KIND..=definition_fact::LAST_KIND => {
                Self::Definition(DefinitionFact::decode(kind, &mut take)?)
            }
            kind @ outbox_fact::FIRST_KIND..=outbox_fact::LAST_KIND => {
                Self::Outbox(OutboxFact::decode(kind, &mut take)?)
            }
            kind @ tenant_fact::LIMITED => Self::Tenant(TenantFact::decode(kind, &mut take)?),
            FORGOTTEN => {
                let of_group = take.u8()? != 0;
                let group = (TopicId(take.u32()?), GroupId(take.u32()?));
                let upto = Time(take.u64()?);
                Self::Forgotten { group: of_group.then_some(group), upto, most: take.u32()? }
            }
            kind @ (delivery_fact::LEASED..=delivery_fact::RETIRED
            | delivery_fact::LEASED_AT..=delivery_fact::ACKED_BY
            | delivery_fact::EXTENDED
            | delivery_fact::SNOOZED
            | delivery_fact::SNOOZED_FOR
            | delivery_fact::FAILED_BY_WORD
            | delivery_fact::LEASED_PUSHED
            | delivery_fact::HURRIED) => {
                let (place, fact) = DeliveryFact::decode(kind, &mut take)?;
                Self::Delivery(place, fact)
            }
            kind @ order_fact::FIRST_KIND..=order_fact::LAST_KIND => {
                Self::Order(OrderFact::decode(kind, &mut take)?)
            }
            kind => Self::decode_headed(kind, &mut take)?,
        };
        take.done()?;
        Ok(fact)
    }

    fn decode_headed(kind: u8, take: &mut Take<'a>) -> Result<Self, Malformed> {
        let Header { topic, number, last } = Header::decode(take)?;
        let (at, group) = (Time(last), GroupId(number));
        Ok(match kind {
            TOPIC_CREATED | TOPIC_CREATED_SCOPED | TOPIC_CREATED_OWNED => {
                let (name, scoped) = (take.text()?, kind != TOPIC_CREATED);
                let tenant = (kind == TOPIC_CREATED_OWNED).then(|| take.text()).transpose()?;
                if tenant == Some("") {
                    return Err(take.malformed());
                }
                Self::TopicCreated { topic, partitions: number, at, name, scoped, tenant }
            }
            GROUP_CREATED => Self::GroupCreated { topic, group, at, name: take.text()? },
            EXPIRED => Self::Expired { topic, partition: number, below: last },
            TRIMMED => Self::Trimmed { topic, partition: number, below: last },
            MOVED => Self::Moved { topic, partition: number, offset: last, bytes: take.bytes()? },
            GROUP_EXPIRED => Self::GroupExpired { topic, group },
            KEYED => {
                let mut secret = [0; 32];
                secret.copy_from_slice(take.raw(32)?);
                Self::Keyed { secret }
            }
            _ => return Err(UNKNOWN_KIND),
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
