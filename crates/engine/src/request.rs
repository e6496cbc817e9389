//! What can be asked of a broker, and what it answers.

use std::time::Duration;

/// A reader that wants messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumeRequest {
    /// What it reads.
    pub topic: String,
    /// For which group; created if it is new.
    pub group: String,
    /// The name under which it will ack.
    pub owner: String,
    /// How long each delivery is on loan.
    pub lease_ms: u64,
}

/// One message that one group is done with, or is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AckRequest {
    /// The topic.
    pub topic: String,
    /// The group.
    pub group: String,
    /// The partition.
    pub partition: u32,
    /// The message's offset.
    pub offset: u64,
    /// Who held it.
    pub owner: String,
}

/// A topic exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicReady {
    /// Partitions that it really has.
    pub partitions: u32,
    /// Whether this call made it.
    pub created: bool,
}

/// A message is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Produced {
    /// Where.
    pub partition: u32,
    /// Under which offset.
    pub offset: u64,
    /// Whether an earlier message with the same identity stands for it.
    pub duplicate: bool,
}

/// What a start found.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Messages kept.
    pub messages: u64,
    /// Topics.
    pub topics: u64,
    /// Consumer groups.
    pub groups: u64,
    /// Bytes of log that were replayed on top of the snapshot.
    pub replayed_bytes: u64,
    /// Batches that were replayed.
    pub replayed_batches: u64,
    /// How long it took.
    pub duration: Duration,
    /// The torn tail that was cut off, in words.
    pub truncated: Option<String>,
    /// The run of the shard that begins.
    pub epoch: u64,
    /// Where in the log the snapshot stands, in words; `None` without one.
    pub snapshot_at: Option<String>,
}
