//! Consumer groups, listed and described.

use serde::{Deserialize, Serialize};

use crate::moment::Moment;

/// To `GET /v2/topics/{topic}/groups`: one page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groups {
    /// Groups in order of their names.
    pub groups: Vec<Group>,
    /// Cursor of the next page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// To `GET /v2/topics/{topic}/groups/{group}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The topic it reads.
    pub topic: String,
    /// Its name.
    pub name: String,
    /// Open streams.
    pub consumers: u32,
    /// Last sign of life.
    pub seen_at: Moment,
    /// Messages kept and not yet acked, in all partitions.
    pub lag: u64,
    /// Deliveries on loan.
    pub in_flight: u64,
    /// Failed deliveries that wait for their next attempt.
    pub retrying: u64,
    /// Its partitions, in order.
    pub partitions: Vec<GroupPartition>,
}

/// A group in one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupPartition {
    /// The partition's number.
    pub partition: u64,
    /// Messages kept and not yet acked.
    pub lag: u64,
    /// Deliveries on loan.
    pub in_flight: u32,
    /// Failed deliveries that wait for their next attempt.
    pub retrying: u32,
    /// Every kept message below this offset is acked.
    pub acked_below: Option<u64>,
}
