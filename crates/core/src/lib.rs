//! Every decision of the broker, as a pure state machine.
//!
//! A [`Shard`] turns one [`Input`] and a [`Time`] into facts (remembered by the log) and [`Action`]s (done by the shell
//! that runs the shard). It cannot name a clock, a socket, a file, a thread or a random number: the crate is `no_std`,
//! so the compiler reviews that for us.
//!
//! Invariants that the whole crate leans on:
//! - State changes only in [`State::apply`], live and in recovery alike. Deciding never touches it directly.
//! - Nothing leaves before it is durable: an [`Action`] that tells the outside about a fact is held in the shard
//!   until the log has confirmed the position under it.
//! - `now` never goes back.
//! - No payload bytes live in the state: a slot knows where its payload lies in the log.
//! - No hash map is ever iterated, so that equal inputs give equal bytes.
#![no_std]

extern crate alloc;

mod audit;
mod commit;
mod definition;
mod delivery;
mod effect;
mod entity;
mod key;
mod log;
mod orders;
mod outbox;
mod output;
mod run;
mod shard;
mod state;
mod turn;
mod view;
mod words;

pub use commit::across::{Across, Next, Question, Reply};
pub use delivery::produce::PRIORITY_MAX;
/// The rules over effects, which a service without a broker shares.
pub use driftq_rules as ledger;
pub use effect::begin::EFFECTS_PER_CALL_MAX;
pub use log::audit::AuditFact;
pub use log::commit::CommitFact;
pub use log::definition::DefinitionFact;
pub use log::delivery::{DeliveryFact, Place};
pub use log::effect::{BegunFact, EffectFact, EndedFact, Lent};
pub use log::entity::EntityFact;
pub use log::fact::{Fact, MessageFact};
pub use log::key::KeyFact;
pub use log::order::OrderFact;
pub use log::outbox::OutboxFact;
pub use log::output::OutputFact;
pub use log::run::RunFact;
pub use log::tenant::TenantFact;
pub use shard::Shard;
pub use shard::bounds::{ASIDE_FACTS_BYTES_MAX, INPUT_FACTS_BYTES_MAX};
pub use state::State;
pub use view::survey::{Pinned, PinnedEffect};
pub use words::action::{Action, Answer, Burial, Delivery, Outcome, Output, TopicInfo};
pub use words::audit::{
    AUDIT_ACTION_BYTES_MAX, AUDIT_ACTOR_BYTES_MAX, AUDIT_DETAIL_BYTES_MAX, AUDIT_DONE, AUDIT_ENTRIES_MAX,
    AUDIT_FROM_BYTES_MAX, AUDIT_NOTE_BYTES_MAX, AUDIT_OUTCOME_BYTES_MAX, AUDIT_REFUSED,
    AUDIT_REQUEST_ID_BYTES_MAX, AUDIT_SCANNED_MAX, AUDIT_TARGET_BYTES_MAX, AuditEntry, AuditList, AuditPage,
    AuditView, AuditWords,
};
pub use words::blob::{About, Blob, Ending, NewBlob};
pub use words::codec::Malformed;
pub use words::commit::{
    COMMIT_PARTS_PER_CALL_MAX, COMMITS_PER_CALL_MAX, Commit, CommitInput, CommitPart, CommitResult,
    Committed, Refusal, Vouched,
};
pub use words::definition::{
    DEFINITION_BYTES_MAX, DEFINITIONS_BYTES_MAX, DEFINITIONS_MAX, DefinitionKind, DefinitionPage,
    DefinitionView,
};
pub use words::description::{
    Browse, Description, Found, GroupDescription, GroupPartition, GroupStanding, GroupTally, LaneTally,
    LeaseView, LoanDescription, Member, MessageDescription, PartitionDescription, Query, SlowestGroup, Stage,
    Stretch, Tally, TopicDescription, Wait,
};
pub use words::draft::{NewLineage, NewMessage, Payload, Start};
pub use words::effect::{
    Abroad, BeginEffect, EffectAnswer, EffectInput, EffectLease, EffectList, EffectPage, EffectPart,
    EffectReceipt, EffectTally, EffectView, FinishEffect, ResolveEffect, Urge,
};
pub use words::entity::{EXPECTED_MAX, EntityList, EntityView, Expected};
pub use words::id::{
    ConsumerId, GroupId, Identity, KeyHash, Position, RequestHash, SHARDS_MAX, ShardId, Spotted, Ticket,
    Time, Token, TopicId,
};
pub use words::input::{
    Address, INPUT_BYTES_MAX, INPUT_ITEMS_MAX, Input, LEASE_BYTES_MAX, LEASE_MESSAGES_MAX, LEASE_WAIT_MS_MAX,
    LeaseRequest, Settlement, Style, Subscription, Verdict,
};
pub use words::key::{
    KEY_DEPTH_MAX, KEY_NOTE_BYTES_MAX, KEY_TENANTS_MAX, KEY_TOPICS_MAX, KEYS_MAX, KeyId, KeyLimits, KeyScope,
    KeyView, NewKey, Permission, Permissions,
};
pub use words::letter::{Attempt, AttemptDescription, DeadLetter, Reason};
pub use words::message::{Deadline, Envelope, Message, Routing};
pub use words::order::{OrderInput, SeekTo};
pub use words::origin::Origin;
pub use words::outbox::{OutboxInput, Parcel};
pub use words::output::{
    DatasetSummary, DatasetView, NewOutput, OUTPUT_LOCATION_BYTES_MAX, OutputAuthor, OutputDone, OutputInput,
    OutputList, OutputPage, OutputView, Read, VersionSummary, VersionsList,
};
pub use words::policy::{Jitter, RetryPolicy};
pub use words::receipt::{Receipt, Stored};
pub use words::reject::{Overload, Reject};
pub use words::route::{
    Catalog, Keyless, NAME_BYTES_MAX, named_topic, partition_of_key, route, tenant_of, validate,
};
pub use words::run::{
    How, Lineage, RunEntry, RunGroup, RunList, RunMessage, RunOutput, RunPage, RunState, RunSummary,
};
pub use words::scoped::Named;
pub use words::settings::Settings;
pub use words::tenant::{LIMITED_TENANTS_MAX, Quota, TenantLimits, TenantView, short_hash};
pub use words::topic::{Order, TopicPatch, TopicSettings};
pub use words::waited::Waited;
