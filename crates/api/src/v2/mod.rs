//! The words of `/v2`: resources, pages, problem details, and the table of operations that documents and routes.
//!
//! Requests are strict: a field that is not known, doubled or out of bounds is refused with its path. Readers of
//! answers ignore fields they do not know, so that an older command line can talk to a newer server.

mod audit;
mod batch;
mod browse;
mod cause;
mod cluster;
mod commit;
mod commit_many;
mod credential;
mod delivery;
mod dlq;
mod effect;
mod endpoint;
mod entity;
mod envelope;
mod event;
mod export;
mod group;
mod item;
mod job;
mod key;
mod labels;
mod lease;
mod limits;
mod message;
#[cfg(feature = "openapi")]
mod openapi;
#[cfg(test)]
mod openapi_tests;
mod operation;
mod output;
mod page;
mod parameters;
mod pieces;
mod problem;
mod produced;
mod read;
mod report;
mod retry_policy;
mod router;
mod run;
mod seek;
mod session;
mod settings;
mod settle;
#[cfg(feature = "openapi")]
mod shape;
mod state;
mod status;
mod tenant;
mod topic;
mod write;

pub use audit::{Audit, AuditEntry, AuditQuery};
pub use batch::{Form, each_message, expect_json, messages};
pub use browse::{BrowseQuery, Browsed, Position};
pub use cause::{Cause, Causes};
pub use cluster::{Cluster, ClusterNode, NODE_URL_BYTES_MAX, NodeSpec};
pub use commit::{
    Commit, CommitFound, CommitMessage, CommitOutput, Committed, CommittedOutput, OutputResult,
};
pub use commit_many::{CommitCall, CommitDone, Commits, CommitsDone};
pub use credential::{
    Claims, Credential, CredentialRequest, Introspect, Introspected, JsonWebKey, JsonWebKeys,
    OpenIdConfiguration,
};
pub use delivery::{
    CONTENT_TYPE_LABEL, Deliveries, DeliveriesQuery, DeliveryRecord, DeliverySpec, DeliveryTaken,
    ENDPOINT_VERSION_LABEL, HEADER_LABEL_PREFIX, RESEND_OF_LABEL, SendAttempt, SendAttempts, SendOutcome,
    SendState,
};
pub use dlq::{
    DeadTopic, DeadTopics, LetterFilter, LetterPlace, Letters, LettersQuery, Purge, Redrive, Selection,
};
pub use effect::{
    CommitResult, Effect, EffectBegin, EffectBeginCall, EffectBegins, EffectBegun, EffectDecision,
    EffectFinish, EffectFinished, EffectGet, EffectLease, EffectOutcome, EffectReacquire, EffectRefused,
    EffectRelease, EffectReleased, EffectRenew, EffectRenewed, EffectResolve, EffectResult, EffectState,
    EffectStatus, Effects, EffectsBegun, EffectsQuery, Headers, LastOutcome, MessagePlace, OnLapse,
    ReleaseResult,
};
pub use endpoint::{
    DELIVERIES_PREFIX, DELIVERY_SCOPE_PREFIX, DELIVERY_TIMEOUT_MS, DISABLE_AFTER_MS, Disabled,
    ENDPOINT_CONCURRENCY, ENDPOINT_GROUP_PREFIX, ENDPOINT_NAME_BYTES_MAX, Endpoint, EndpointKind,
    EndpointMethod, EndpointSpec, EndpointState, EndpointSwitch, Endpoints, EndpointsQuery, OnUnknown,
    RETRY_SCHEDULE_MS, Secret, fate_of_unknown,
};
pub use entity::{
    Entities, Entity, EntityRemoved, Expected, tenant, tenant_and_page, tenant_and_section, tenant_confirmed,
};
pub use envelope::Envelope;
pub use event::{Event, History, Sample, TopicRow};
pub use export::{
    EXPORT_DIGEST_HEADER, EXPORT_LOCATION_HEADER, EXPORT_PLACE_BYTES_MAX, EXPORT_SCOPE, EXPORTS_GROUP,
    EXPORTS_PREFIX, ExportFormat, ExportRecord, ExportSelection, ExportSpec, ExportState, ExportTaken,
    Exports, ExportsQuery, SelectionKind, is_export_id,
};
pub use group::{Group, GroupLease, GroupPartition, Groups, Member, MemberKind};
pub use item::{Attempt, DeadLetter, Item, ItemEnvelope, ItemOrigin, ItemRouting, Lease};
pub use job::{Job, JobKind, JobState, Jobs};
pub use key::{Key, KeyAction, KeyMade, KeyRotate, KeySpec, Keys, Limits, OVERLAP_MS_DEFAULT};
pub use labels::Labels;
pub use lease::{LeaseRequest, Leased, LeasedWriter, StreamQuery};
pub use limits::{
    ACTIONS_MAX, ATTEMPTS_MAX, AUDIENCE_BYTES_MAX, AUDIT_TARGET_BYTES_MAX, AUDIT_WORD_BYTES_MAX,
    BATCH_MESSAGES_MAX, COMMIT_ITEMS_MAX, COMMITS_MAX, COUNT_MAX, CREDENTIAL_BYTES_MAX,
    CREDENTIAL_TTL_MS_MAX, CREDIT_DEFAULT, CREDIT_MAX, CURSOR_BYTES_MAX, CUT_OVERS_MAX,
    DELIVERY_ID_BYTES_MAX, DELIVERY_TIMEOUT_MS_MAX, DELIVERY_TIMEOUT_MS_MIN, DIGEST_BYTES_MAX,
    DURATION_MS_MAX, EFFECT_ATTEMPTS_MAX, EFFECT_HASH_BYTES_MAX, EFFECT_KEY_BYTES_MAX,
    EFFECT_LINEAGE_BYTES_MAX, EFFECT_REQUEST_ID_BYTES_MAX, EFFECT_SCOPE_BYTES_MAX, EFFECT_TENANT_BYTES_MAX,
    EFFECTS_MAX, ENDPOINT_CONCURRENCY_MAX, ENDPOINT_DESCRIPTION_BYTES_MAX, ENDPOINT_RECIPIENTS_MAX,
    ENDPOINT_RETRIES_MAX, ENDPOINT_SECRETS_MAX, ENDPOINT_TOPICS_MAX, ENDPOINT_URL_BYTES_MAX, ERROR_BYTES_MAX,
    EXPECTED_MAX, EXPORT_ID_BYTES_MAX, EXPORT_PARAMETERS_MAX, EXPORT_PART_BYTES_MAX, EXPORT_PART_ROWS_MAX,
    EXPORT_STATEMENT_BYTES_MAX, HEADER_NAME_BYTES_MAX, HEADER_VALUE_BYTES_MAX, HEADERS_MAX,
    IDEMPOTENCY_HEADER_BYTES_MAX, IDENTITY_BYTES_MAX, IN_FLIGHT_MAX, KEY_BYTES_MAX, KEY_NOTE_BYTES_MAX,
    KEY_TENANTS_MAX, KEY_TOPICS_MAX, LABEL_NAME_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX,
    LEASE_MESSAGES_MAX, LEASE_MS_MAX, LETTERS_MAX, LOCATION_BYTES_MAX, NAME_BYTES_MAX, OFFSET_MAX,
    OUTPUT_NAME_BYTES_MAX, PARTITIONS_MAX, PLACE_BYTES_MAX, PRIORITY_MAX, RATE_PER_SECOND_MAX, READS_MAX,
    REASON_BYTES_MAX, REQUEST_HASH_BYTES_MAX, REQUEST_ID_BYTES_MAX, SECRET_BYTES_MAX, SETTLEMENTS_MAX,
    TOKEN_BYTES_MAX, WAIT_MS_MAX, WHY_BYTES_MAX,
};
pub use message::{Due, Message};
#[cfg(feature = "openapi")]
pub use openapi::{openapi, openapi_json};
pub use operation::{Allow, Lookup, Method, NeededTenants, NeededTopics, Needs, Operation, PATH_NAMES_MAX};
pub use output::{
    CurrentVersion, CutOver, Dataset, DatasetSummary, DatasetVersion, Datasets, Output, OutputMessage,
    OutputMode, PartitionOutputs, PastVersion, RollBack, Seal, VERSION_CURRENT, VersionDeleted,
    VersionOutputs, VersionSealed, VersionSummary,
};
pub use page::{LIMIT_DEFAULT, LIMIT_MAX, Page, Section, encode_cursor, encode_place};
pub use pieces::{
    confirmed, expect_no_parameters, idempotency_key, path_name, path_offset, path_partition, path_run,
};
pub use problem::Problem;
pub use produced::{Outcome, Outcomes, Produced, Refusal, Refused};
pub use report::{Area, Finding, Report, Urgency};
pub use retry_policy::{Jitter, RetryPolicy};
pub use router::{
    Breaker, Decision, OnError, RouterKind, RouterOutcome, RouterStatus, RouterTest, RouterTested,
};
pub use run::{
    Run, RunStep, RunSummary, Runs, StepGroup, StepMessage, StepOutput, StepState, StepWait, VersionRead,
};
pub use seek::{Paused, Seek, SeekTo, Sought, SoughtPartition};
pub use session::{Session, SessionSpec};
pub use settings::{Ordering, SettingChange, TopicChanged, TopicPatch, TopicSettings, TopicSpec};
pub use settle::{
    Ack, Extend, ExtendLease, Nack, NackLease, Release, ReleaseLease, Settled, SettledStatus, Settlements,
    Token,
};
pub use state::{Cancelled, DeliveryState, GroupState, MessageState, Retried};
pub use status::{Health, Recovery, Status};
pub use tenant::{Tenant, TenantLimits, Tenants};
pub use topic::{Partition, Topic, TopicPut, TopicSummary, Topics};
