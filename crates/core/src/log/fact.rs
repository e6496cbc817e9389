//! Facts: the lines of history.

use crate::log::audit::AuditFact;
use crate::log::commit::CommitFact;
use crate::log::definition::DefinitionFact;
use crate::log::delivery::{DeliveryFact, Place};
use crate::log::effect::EffectFact;
use crate::log::entity::EntityFact;
use crate::log::key::KeyFact;
use crate::log::order::OrderFact;
use crate::log::outbox::OutboxFact;
use crate::log::output::OutputFact;
use crate::log::run::RunFact;
use crate::log::tenant::TenantFact;
use crate::words::id::{GroupId, Identity, KeyHash, RequestHash, Spotted, Time, TopicId};
use crate::words::policy::RetryPolicy;
use crate::words::run::Lineage;

/// A message as it was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
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
    /// Its identity, and until when the identity is remembered.
    pub identity: Option<(Identity, Time)>,
    /// What it asked for, if the producer said so.
    pub request: RequestHash,
    /// Its key, if it has one.
    pub key: KeyHash,
    /// Its priority.
    pub priority: u8,
    /// When it may go out for the first time, if it is scheduled.
    pub due: Option<Time>,
    /// The only group that gets it: the one that had given it up.
    pub only: Option<GroupId>,
    /// The run that it belongs to.
    pub lineage: Option<Lineage<'a>>,
    /// Where it was born, if it was stored before: it is a dead letter, or was one.
    pub origin: Option<Spotted>,
    /// No reader is to begin work on it from then on: groups that have not begun give it up.
    pub deadline: Option<Time>,
    /// The encoded message.
    pub bytes: &'a [u8],
}

/// Something that happened and is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact<'a> {
    /// A run of the shard began.
    Opened {
        /// The run.
        epoch: u64,
        /// When.
        at: Time,
        /// Whether leases outlive the run: every delivery that supersedes a holder is durable before it is handed out.
        /// Earlier versions voided every lease of the run before. It also says whether a clock that was set back takes
        /// along what is counted from times that it had told before.
        keeps_leases: bool,
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
        /// Whether its number is part of the identities of its messages.
        scoped: bool,
        /// The tenant that it belongs to; only a topic whose number is part of identities can have one.
        tenant: Option<&'a str>,
    },
    /// The shard got its secret: tokens that leave it are sealed with it.
    Keyed {
        /// The secret.
        secret: [u8; 32],
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
    /// Something became of a message for one group.
    Delivery(Place, DeliveryFact<'a>),
    /// Operators or their programs ordered something.
    Order(OrderFact),
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
    /// Messages left that were kept although every group was done with them.
    Trimmed {
        /// The topic.
        topic: TopicId,
        /// The partition.
        partition: u32,
        /// Every such message below this offset is gone.
        below: u64,
    },
    /// Identities whose time had come were forgotten: at most `most`, oldest first.
    Forgotten {
        /// Of the produce gate if `None`, else of that group's consume gate.
        group: Option<(TopicId, GroupId)>,
        /// Those remembered until then.
        upto: Time,
        /// How many at most.
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
    /// Something happened to an effect.
    Effect(EffectFact<'a>),
    /// Something happened in a run.
    Run(RunFact<'a>),
    /// Something happened to outputs.
    Output(OutputFact<'a>),
    /// Something happened to commits.
    Commit(CommitFact<'a>),
    /// Something happened to entities.
    Entity(EntityFact<'a>),
    /// Something happened to a key.
    Key(KeyFact<'a>),
    /// Something happened to the audit.
    Audit(AuditFact<'a>),
    /// Something happened to a tenant.
    Tenant(TenantFact<'a>),
    /// Something happened to a definition.
    Definition(DefinitionFact<'a>),
    /// Something happened between shards.
    Outbox(OutboxFact<'a>),
}

impl Fact<'_> {
    /// The time that the shard's clock told when it happened, if the fact says so. The start of a run does not count:
    /// it is compared with this.
    pub(crate) const fn told_at(&self) -> Option<Time> {
        match self {
            Self::TopicCreated { at, .. } | Self::GroupCreated { at, .. } => Some(*at),
            Self::Appended(message) => Some(message.at),
            Self::Delivery(_, fact) => fact.told_at(),
            Self::Order(fact) => fact.told_at(),
            Self::Effect(fact) => fact.told_at(),
            Self::Entity(fact) => fact.told_at(),
            Self::Key(fact) => fact.told_at(),
            Self::Audit(fact) => fact.told_at(),
            Self::Tenant(fact) => fact.told_at(),
            Self::Definition(fact) => fact.told_at(),
            Self::Outbox(fact) => fact.told_at(),
            Self::Opened { .. }
            | Self::Keyed { .. }
            | Self::GroupExpired { .. }
            | Self::Expired { .. }
            | Self::Trimmed { .. }
            | Self::Forgotten { .. }
            | Self::Moved { .. }
            | Self::Run(_)
            | Self::Output(_)
            | Self::Commit(_) => None,
        }
    }
}
