//! Questions about the state, answered without changing it.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::words::audit::{AuditList, AuditPage};
use crate::words::blob::Blob;
use crate::words::commit::Committed;
use crate::words::definition::{DefinitionKind, DefinitionPage, DefinitionView};
use crate::words::effect::{EffectList, EffectPage, EffectTally, EffectView};
use crate::words::entity::{EntityList, EntityView};
use crate::words::id::{Identity, KeyHash, Position, Spotted, Time, TopicId};
use crate::words::key::KeyView;
use crate::words::letter::AttemptDescription;
use crate::words::output::{DatasetSummary, DatasetView, OutputList, OutputPage, VersionsList};
use crate::words::policy::RetryPolicy;
use crate::words::receipt::Receipt;
use crate::words::reject::Reject;
use crate::words::run::{RunList, RunPage, RunSummary};
use crate::words::scoped::Named;
use crate::words::tenant::TenantView;
use crate::words::topic::TopicSettings;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// One topic.
    Topic(TopicId),
    /// All groups of a topic.
    Groups(TopicId),
    /// One group of a topic.
    Group(TopicId, String),
    /// The group of a topic that is furthest behind: what keeps it full.
    Slowest(TopicId),
    /// One message, and how every group stands to it.
    Message(Spotted),
    /// Where the payloads of some messages lie.
    Payloads(Vec<Spotted>),
    /// A stretch of messages.
    Browse(Browse),
    /// Where the first message under an identity was stored, as long as that is remembered.
    Whereabouts(TopicId, Identity),
    /// Everything that metrics need.
    Tally,
    /// One effect.
    Effect(Identity),
    /// Some effects.
    Effects(EffectList),
    /// Datasets of a tenant whose name comes after this one, and how many at most.
    Datasets(String, Option<String>, u32),
    /// One dataset and some of its versions.
    Dataset(VersionsList),
    /// Some outputs.
    Outputs(OutputList),
    /// Some runs.
    Runs(RunList),
    /// A stretch of one run: where it begins, and how much of it at most.
    Run(Named, u64, u32),
    /// What a commit did.
    Commit(Identity),
    /// All keys.
    Keys,
    /// What a delivery is about, if its lease is the newest and live.
    Lease(Receipt),
    /// All definitions of a kind.
    Definitions(DefinitionKind),
    /// One definition.
    Definition(DefinitionKind, String),
    /// The tenants that have topics or limits.
    Tenants,
    /// One tenant, whatever it has.
    Tenant(String),
    /// Some entries of the audit.
    Audit(AuditList),
    /// One entity.
    Entity(Named),
    /// Some entities.
    Entities(EntityList),
}

/// Which messages are wanted, as far as the shard can tell without their payloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Browse {
    /// The topic.
    pub topic: TopicId,
    /// The partition to begin with.
    pub partition: u32,
    /// Only this partition, or all from it on.
    pub alone: bool,
    /// Offsets of the first partition begin here.
    pub from: u64,
    /// How many messages to give at most; as many again are looked at for each.
    pub limit: u32,
    /// Only messages with this key, or all.
    pub key: KeyHash,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Description {
    /// To [`Query::Topic`].
    Topic(TopicDescription),
    /// To [`Query::Groups`] and [`Query::Group`]; empty if there is none of that name.
    Groups(Vec<GroupDescription>),
    /// To [`Query::Slowest`]; `None` if the topic has no group.
    Slowest(Option<SlowestGroup>),
    /// To [`Query::Message`]; `None` if it is not kept.
    Message(Option<MessageDescription>),
    /// To [`Query::Payloads`], in order; `None` for what is not kept.
    Payloads(Vec<Option<Blob>>),
    /// To [`Query::Browse`].
    Browse(Stretch),
    /// To [`Query::Whereabouts`].
    Whereabouts(Option<Spotted>),
    /// To [`Query::Tally`].
    Tally(Tally),
    /// To [`Query::Effect`]; `None` if the ledger has none.
    Effect(Option<EffectView>),
    /// To [`Query::Effects`].
    Effects(EffectPage),
    /// To [`Query::Datasets`], and whether there are more.
    Datasets(Vec<DatasetSummary>, bool),
    /// To [`Query::Dataset`]; `None` if there is none.
    Dataset(Option<DatasetView>),
    /// To [`Query::Outputs`]; `None` if there are none.
    Outputs(Option<OutputPage>),
    /// To [`Query::Runs`], and where to go on.
    Runs(Vec<RunSummary>, Option<u64>),
    /// To [`Query::Run`]; `None` if there is none.
    Run(Option<RunPage>),
    /// To [`Query::Commit`]; `None` if it is not remembered.
    Commit(Option<Committed>),
    /// To [`Query::Keys`].
    Keys(Vec<KeyView>),
    /// To [`Query::Lease`].
    Lease(Result<LeaseView, Reject>),
    /// To [`Query::Definitions`].
    Definitions(DefinitionPage),
    /// To [`Query::Definition`].
    Definition(Option<DefinitionView>),
    /// To [`Query::Tenants`], by name.
    Tenants(Vec<TenantView>),
    /// To [`Query::Tenant`].
    Tenant(TenantView),
    /// To [`Query::Audit`].
    Audit(AuditPage),
    /// To [`Query::Entity`].
    Entity(EntityView),
    /// To [`Query::Entities`], and whether there are more.
    Entities(Vec<EntityView>, bool),
}

/// Where a stored message lies and what is known of it without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its partition.
    pub partition: u32,
    /// Its offset.
    pub offset: u64,
    /// When it was stored.
    pub at: Time,
    /// Its priority.
    pub priority: u8,
    /// When it is to go out, if it is scheduled.
    pub due: Option<Time>,
    /// No further attempt will be made.
    pub cancelled: bool,
    /// How often and when it is tried again; `None`: for ever.
    pub retry: Option<RetryPolicy>,
    /// How it stands: the furthest that any group is with it.
    pub stage: Stage,
    /// Where the payload lies.
    pub position: Position,
    /// How long the payload is.
    pub length: u32,
    /// Checksum of the payload.
    pub check: u32,
}

/// A live lease of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// Which message.
    pub message: Spotted,
    /// The group's name.
    pub group: Arc<str>,
    /// Which delivery of it to the group, counted from 1.
    pub attempt: u32,
    /// When the lease lapses, unless its holder extends it.
    pub expires: Time,
}

/// Messages in the order of partition and offset.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Stretch {
    /// What was found.
    pub found: Vec<Found>,
    /// How many were looked at.
    pub scanned: u64,
    /// Where to go on: partition and offset; `None` at the end.
    pub next: Option<(u32, u64)>,
}

/// How a message stands, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Not due yet.
    Scheduled,
    /// It can go out, or waits for something other than time.
    Ready,
    /// An attempt failed and the next one is not due yet.
    Backoff,
    /// A holder has it on loan.
    InFlight,
    /// Every group is done with it, and the topic keeps it.
    Done,
}

/// One message, and how every group stands to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageDescription {
    /// Where it lies and what is known of it.
    pub found: Found,
    /// Every group of the topic.
    pub groups: Vec<GroupStanding>,
}

/// How a group stands to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStanding {
    /// The group's name.
    pub group: Arc<str>,
    /// Why the message is not being delivered to it right now.
    pub wait: Wait,
    /// Since when.
    pub since: Time,
    /// Until when, where that is known.
    pub until: Option<Time>,
    /// Who has it on loan.
    pub owner: Option<Arc<str>>,
    /// Deliveries so far.
    pub attempts: u32,
    /// Why the last attempt failed; empty if none did.
    pub last_error: Arc<str>,
    /// Attempts that are over, the last few.
    pub history: Vec<AttemptDescription>,
}

/// Why a message is not being delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// It can be: it waits for its turn, or for a reader.
    Ready,
    /// It is not due yet.
    Scheduled,
    /// It is on loan.
    InFlight,
    /// Its next attempt is not due yet.
    Backoff,
    /// It waits for an effect that a holder runs, or of which it is not known whether it happened.
    Effect,
    /// An earlier message with the same key is not done.
    KeyBusy,
    /// A message with the same identity is being worked on.
    SameIdentityRunning,
    /// The in-flight window is full.
    WindowFull,
    /// Deliveries are stopped.
    Paused,
    /// It is being turned into a dead letter.
    Dying,
    /// The group is done with it.
    Done,
}

/// A topic, described.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TopicDescription {
    /// Its name.
    pub name: Arc<str>,
    /// The tenant that it belongs to.
    pub tenant: Option<Arc<str>>,
    /// When it was created.
    pub created: Time,
    /// The offset that the next message gets.
    pub next_offset: u64,
    /// Its own settings.
    pub settings: TopicSettings,
    /// Deliveries have been stopped since then.
    pub paused: Option<Time>,
    /// Messages that are not due yet.
    pub scheduled: u64,
    /// Messages ever dead-lettered out of it, since this start.
    pub dead_letters: u64,
    /// Per partition: messages kept, their bytes, the oldest one's offset and time.
    pub partitions: Vec<PartitionDescription>,
    /// Names of its groups.
    pub groups: Vec<Arc<str>>,
}

/// A partition, described.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PartitionDescription {
    /// Messages that wait for some group, or for a first one to come.
    pub messages: u64,
    /// Their key and value bytes.
    pub bytes: u64,
    /// Offset of the oldest message that some group has not settled.
    pub oldest_offset: Option<u64>,
    /// Time of that message.
    pub oldest_at: Option<Time>,
    /// Messages that every group was done with and that are kept all the same.
    pub kept_messages: u64,
    /// Their key and value bytes.
    pub kept_bytes: u64,
    /// Offset of the earliest message that can be read: where a new group begins.
    pub earliest_offset: Option<u64>,
}

/// A group, described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDescription {
    /// The topic's name.
    pub topic: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Open subscriptions.
    pub consumers: u32,
    /// Long polls that wait for messages.
    pub waiters: u32,
    /// Who reads or holds something, in order of their names.
    pub members: Vec<Member>,
    /// Deliveries have been stopped since then.
    pub paused: Option<Time>,
    /// Deliveries of the whole topic have been stopped since then.
    pub topic_paused: Option<Time>,
    /// Last sign of life.
    pub seen: Time,
    /// Per partition.
    pub partitions: Vec<GroupPartition>,
    /// What is on loan, what lapses first before the rest, and only so many; empty where many groups are described.
    pub loans: Vec<LoanDescription>,
}

/// A message on loan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoanDescription {
    /// Its partition.
    pub partition: u32,
    /// Its offset.
    pub offset: u64,
    /// Who holds it.
    pub owner: Arc<str>,
    /// Which delivery of it to the group, counted from 1.
    pub attempt: u32,
    /// When it was handed out.
    pub leased: Time,
    /// When the lease lapses, unless its holder extends it.
    pub expires: Time,
}

/// An owner that reads a group, or holds messages of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub owner: Arc<str>,
    /// Whether it has an open stream.
    pub streams: bool,
    /// Deliveries on loan to it.
    pub in_flight: u64,
}

/// A group in one partition, described.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct GroupPartition {
    /// Messages kept and not yet acked.
    pub lag: u64,
    /// Deliveries on loan.
    pub in_flight: u32,
    /// Failed deliveries that wait for their next attempt.
    pub retrying: u32,
    /// Messages of the partition that are not due yet.
    pub scheduled: u32,
    /// Messages that wait for another one with the same identity.
    pub same_identity: u32,
    /// The in-flight window is full.
    pub is_full: bool,
    /// Messages that wait for an earlier one with the same key, as far as dispatch has seen them.
    pub key_busy: u32,
    /// All kept messages below this offset are acked; `None` if nothing is.
    pub acked_below: Option<u64>,
}

/// The group of a topic that is furthest behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowestGroup {
    /// Its name.
    pub name: Arc<str>,
    /// Messages kept and not yet acked, over all partitions.
    pub lag: u64,
    /// Whether its deliveries are stopped, or those of the whole topic.
    pub is_paused: bool,
}

/// What metrics say of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupTally {
    /// The topic's name.
    pub topic: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Open subscriptions.
    pub consumers: u32,
    /// Per partition.
    pub partitions: Vec<LaneTally>,
}

/// What metrics say of a group in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LaneTally {
    /// Messages kept and not yet acked.
    pub lag: u64,
    /// Deliveries on loan.
    pub in_flight: u32,
    /// Failed deliveries that wait for their next attempt.
    pub retrying: u32,
}

/// Numbers for metrics.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Tally {
    /// The first topics, without the names of their groups.
    pub topics: Vec<TopicDescription>,
    /// The first groups.
    pub groups: Vec<GroupTally>,
    /// How many topics there are.
    pub topic_count: u64,
    /// How many groups there are.
    pub group_count: u64,
    /// Partitions of topics or of groups that are not listed, whichever are more.
    pub left_out: u64,
    /// Idempotency records remembered.
    pub idempotency_records: u64,
    /// The run of the shard.
    pub epoch: u64,
    /// The ledger.
    pub effects: EffectTally,
    /// Output pointers kept.
    pub outputs: u64,
    /// Runs remembered.
    pub runs: u64,
    /// Entities remembered.
    pub entities: u64,
    /// Messages on their way to other shards.
    pub parcels: u64,
}

impl Tally {
    /// This and what another shard of the same broker told.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        self.topics.extend(other.topics);
        self.groups.extend(other.groups);
        let (mine, theirs) = (self.effects, other.effects);
        Self {
            topic_count: self.topic_count + other.topic_count,
            group_count: self.group_count + other.group_count,
            left_out: self.left_out + other.left_out,
            idempotency_records: self.idempotency_records + other.idempotency_records,
            effects: EffectTally {
                records: mine.records + theirs.records,
                in_progress: mine.in_progress + theirs.in_progress,
                failed_retryable: mine.failed_retryable + theirs.failed_retryable,
                unknown: mine.unknown + theirs.unknown,
                waiting: mine.waiting + theirs.waiting,
            },
            outputs: self.outputs + other.outputs,
            runs: self.runs + other.runs,
            entities: self.entities + other.entities,
            parcels: self.parcels + other.parcels,
            ..self
        }
    }
}
