//! What changes, told as it does.

use crate::ToSchema;
use serde::{Deserialize, Serialize};

use crate::moment::Moment;

/// One event of `GET /v2/events`. Numbers that only rise begin at zero when the server starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// How the server does.
    pub sample: Sample,
    /// What it was like before; in the first event alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
    /// Topics that are new or have changed; all of them in the first event, or as many as an event holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<TopicRow>,
    /// Topics that are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
    /// Partitions of topics or of groups that no number here counts, because there are too many.
    pub left_out: u64,
}

/// The last hour, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// How long it is from one to the next.
    pub every_ms: u64,
    /// How the server did.
    pub samples: Vec<Sample>,
}

/// How the server does at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sample {
    /// The moment.
    pub at: Moment,
    /// The run of the log: another one means that the server was started anew.
    pub epoch: u64,
    /// Messages stored.
    pub produced: u64,
    /// Messages handed out.
    pub delivered: u64,
    /// Those among them that were not the first attempt.
    pub redelivered: u64,
    /// Messages that a worker was done with.
    pub acked: u64,
    /// Messages that a worker failed with.
    pub nacked: u64,
    /// Messages that became dead letters.
    pub buried: u64,
    /// Effects that an asker was told to run.
    pub effects_executed: u64,
    /// Effects answered with the outcome of an earlier run.
    pub effects_replayed: u64,
    /// Commits done.
    pub commits: u64,
    /// Bytes written to the log.
    pub written_bytes: u64,
    /// Topics that there are, those of dead letters among them.
    pub topics: u64,
    /// Messages that wait for some group, without dead letters.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What all groups together have not done yet.
    pub lag: u64,
    /// Deliveries on loan.
    pub in_flight: u64,
    /// Failed deliveries that wait for their next attempt.
    pub retrying: u64,
    /// Messages that are not due yet.
    pub scheduled: u64,
    /// Dead letters that are there.
    pub dead_letters: u64,
    /// The oldest message that some group has not done, dead letters left aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_at: Option<Moment>,
    /// Effects that somebody runs, or ran when the lease lapsed.
    pub effects_in_progress: u64,
    /// Effects that failed and may be tried again.
    pub effects_retryable: u64,
    /// Effects of which it is not known whether they happened.
    pub effects_unknown: u64,
    /// Open streams.
    pub streams: u64,
    /// Segment files of the log.
    pub segments: u64,
}

/// A topic, in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopicRow {
    /// Its name.
    pub name: String,
    /// Messages that wait for some group.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The offset that the next message gets.
    pub next_offset: u64,
    /// What its groups together have not done yet.
    pub lag: u64,
    /// Deliveries on loan.
    pub in_flight: u64,
    /// Failed deliveries that wait for their next attempt.
    pub retrying: u64,
    /// Messages that are not due yet.
    pub scheduled: u64,
    /// Open subscriptions.
    pub consumers: u64,
    /// Its groups.
    pub groups: u64,
    /// Whether deliveries are stopped.
    pub paused: bool,
    /// The oldest message that some group has not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_at: Option<Moment>,
}
