//! The knobs of a shard, with every default in one place.

use crate::words::id::ShardId;
use crate::words::policy::{Jitter, RetryPolicy};

/// Limits and times that decisions use. Facts carry outcomes, so changing a setting never rewrites history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Unacked deliveries at once per (topic, group, partition) for pushed streams.
    pub in_flight_max: u32,
    /// The same for readers that hold tokens: leases by long poll, and streams with credit.
    pub lease_in_flight_max: u32,
    /// Deliveries that may be under way to one stream with credit and not yet be written out, however large its credit is:
    /// what its peer does not take stays where it is, and others may have it.
    pub stream_unwritten_max: u32,
    /// Messages that dispatch looks at for one input, for all groups that it touches together. The rest goes on with the
    /// next tick, so that other inputs get their turn. At least 1.
    pub turn_steps_max: u32,
    /// How long a token is good for, for readers that do not say.
    pub lease_ms_default: u64,
    /// For messages that come over `/v2` without a policy, to topics without one.
    pub retry: RetryPolicy,
    /// Of a hundred deliveries, how many may be retries while fresh messages wait.
    pub retry_share: u8,
    /// Messages that wait for some group, per partition.
    pub partition_messages_max: u64,
    /// Key and value bytes that wait for some group, per partition.
    pub partition_bytes_max: u64,
    /// How long an idempotency key is remembered.
    pub idempotency_ttl_ms: u64,
    /// Idempotency records in the whole shard, produce and consume gates together.
    pub idempotency_records_max: u64,
    /// A group without readers and without acks for this long is forgotten; it no longer holds messages back.
    pub group_expiry_ms: u64,
    /// Messages older than this are dropped, read or not. `None`: kept until every group has acked them.
    pub retention_ms: Option<u64>,
    /// The oldest messages beyond this many payload bytes per partition are dropped. `None`: no such limit.
    pub retention_bytes: Option<u64>,
    /// Messages per partition that are kept although every group is done with them, in topics that keep such.
    pub kept_messages_max: u64,
    /// Dead letters kept per partition of a dead-letter topic; beyond it the oldest goes, so that a full
    /// dead-letter topic never holds a poison message in its source.
    pub dead_letters_max: u64,
    /// Topics in the shard.
    pub topics_max: u32,
    /// Partitions of one topic.
    pub partitions_max: u32,
    /// Consumer groups of one topic.
    pub groups_max: u32,
    /// Open subscriptions in the shard.
    pub consumers_max: u32,
    /// The longest lease a reader may ask for.
    pub lease_ms_max: u64,
    /// Effects that the ledger remembers.
    pub effects_max: u64,
    /// How long an effect is on loan, for callers that do not say.
    pub effect_lease_ms_default: u64,
    /// How long the outcome of an effect is remembered, for callers that do not say.
    pub effect_ttl_ms_default: u64,
    /// The largest outcome of an effect that is kept: code, headers, body and error together.
    pub effect_result_bytes_max: u32,
    /// How long a commit is remembered, for callers that did not hear the answer.
    pub commit_ttl_ms: u64,
    /// Commits that are remembered; the oldest go first.
    pub commits_max: u64,
    /// Output pointers in the whole shard.
    pub outputs_max: u64,
    /// Bytes of all output pointers together.
    pub output_bytes_max: u64,
    /// Entities whose versions are remembered.
    pub entities_max: u64,
    /// A run in which nothing has happened for this long is forgotten.
    pub run_ttl_ms: u64,
    /// Messages and effects that are listed for runs; the oldest run goes first.
    pub run_entries_max: u64,
    /// How long an entry of the audit is kept.
    pub audit_keep_ms: u64,
    /// Memory that entries of the audit may take; the oldest go first.
    pub audit_keep_bytes: u64,
    /// Whether deliveries tell what their messages waited for. Only where somebody wants to know: it costs a little each
    /// time.
    pub tells_waits: bool,
    /// Which of the broker's shards it is.
    pub shard: ShardId,
    /// Bytes of messages that may wait for their way to other shards.
    pub outbox_bytes_max: u64,
    /// Seeds the hash maps and the jitter; any number will do, a secret one keeps both unguessable.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            in_flight_max: 2,
            lease_in_flight_max: 10_000,
            stream_unwritten_max: 64,
            turn_steps_max: 2_048,
            lease_ms_default: 30_000,
            retry: RetryPolicy {
                max_attempts: 20,
                backoff_ms: 100,
                max_backoff_ms: 10 * 60 * 1000,
                jitter: Jitter::Full,
            },
            retry_share: 20,
            partition_messages_max: 1_000_000,
            partition_bytes_max: 1 << 30,
            idempotency_ttl_ms: 24 * 60 * 60 * 1000,
            idempotency_records_max: 20_000_000,
            group_expiry_ms: 7 * 24 * 60 * 60 * 1000,
            retention_ms: None,
            retention_bytes: None,
            kept_messages_max: 1_000_000,
            dead_letters_max: 1_000_000,
            topics_max: 100_000,
            partitions_max: 4_096,
            groups_max: 10_000,
            consumers_max: 100_000,
            lease_ms_max: 7 * 24 * 60 * 60 * 1000,
            effects_max: 10_000_000,
            effect_lease_ms_default: 30_000,
            effect_ttl_ms_default: 24 * 60 * 60 * 1000,
            effect_result_bytes_max: 256 << 10,
            commit_ttl_ms: 60 * 60 * 1000,
            commits_max: 1_000_000,
            outputs_max: 1_000_000,
            output_bytes_max: 512 << 20,
            entities_max: 1_000_000,
            run_ttl_ms: 7 * 24 * 60 * 60 * 1000,
            run_entries_max: 1_000_000,
            audit_keep_ms: 90 * 24 * 60 * 60 * 1000,
            audit_keep_bytes: 16 << 20,
            tells_waits: false,
            shard: ShardId(0),
            outbox_bytes_max: 64 << 20,
            seed: 0,
        }
    }
}

impl Settings {
    /// The values that the v1 specification gives for development, exactly.
    #[must_use]
    pub fn v1_dev() -> Self {
        Self {
            in_flight_max: 2,
            partition_messages_max: 2,
            partition_bytes_max: 20,
            idempotency_ttl_ms: 10 * 60 * 1000,
            // With room for two messages only, a group that left must not hold the topic for a week.
            group_expiry_ms: 10 * 60 * 1000,
            ..Self::default()
        }
    }
}
