//! Questions about the state, answered without changing it.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::id::{Time, TopicId};

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// One topic.
    Topic(TopicId),
    /// All groups of a topic.
    Groups(TopicId),
    /// One group of a topic.
    Group(TopicId, String),
    /// Everything that metrics need.
    Tally,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Description {
    /// To [`Query::Topic`].
    Topic(TopicDescription),
    /// To [`Query::Groups`] and [`Query::Group`]; empty if there is none of that name.
    Groups(Vec<GroupDescription>),
    /// To [`Query::Tally`].
    Tally(Tally),
}

/// A topic, described.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TopicDescription {
    /// Its name.
    pub name: Arc<str>,
    /// When it was created.
    pub created: Time,
    /// The offset that the next message gets.
    pub next_offset: u64,
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
    /// Messages kept.
    pub messages: u64,
    /// Their key and value bytes.
    pub bytes: u64,
    /// Offset of the oldest message kept.
    pub oldest_offset: Option<u64>,
    /// Time of the oldest message kept.
    pub oldest_at: Option<Time>,
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
    /// Last sign of life.
    pub seen: Time,
    /// Per partition.
    pub partitions: Vec<GroupPartition>,
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
    /// All kept messages below this offset are acked; `None` if nothing is.
    pub acked_below: Option<u64>,
}

/// Numbers for metrics.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Tally {
    /// All topics.
    pub topics: Vec<TopicDescription>,
    /// All groups.
    pub groups: Vec<GroupDescription>,
    /// Idempotency records remembered.
    pub idempotency_records: u64,
    /// The run of the shard.
    pub epoch: u64,
}
