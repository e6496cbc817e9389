//! Consumer groups, listed and described.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

use crate::moment::Moment;

/// To `GET /v2/topics/{topic}/groups`: one page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Groups {
    /// Groups in order of their names.
    pub groups: Vec<Group>,
    /// Cursor of the next page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// To `GET /v2/topics/{topic}/groups/{group}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Group {
    /// The topic it reads.
    pub topic: String,
    /// Its name.
    pub name: String,
    /// Open streams.
    pub consumers: u32,
    /// Owners that read: each has an open stream, waits for messages, has asked for some within the last five seconds,
    /// or holds some.
    #[serde(default)]
    #[schema(required = false)]
    pub readers: u32,
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
    /// Since when nothing is lent to it, if it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_at: Option<Moment>,
    /// How many messages wait, by the name of the state that they wait in.
    #[serde(default)]
    #[schema(required = false)]
    pub waiting: BTreeMap<Cow<'static, str>, u64>,
    /// Who reads.
    #[serde(default)]
    #[schema(required = false)]
    pub members: Vec<Member>,
    /// What is on loan, what lapses first before the rest: at most 100, and only where one group is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub leases: Vec<GroupLease>,
}

/// A message that a reader of a group holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupLease {
    /// The partition.
    pub partition: u32,
    /// The offset.
    pub offset: u64,
    /// Who holds it.
    pub owner: String,
    /// Which attempt it is, counted from 1.
    pub attempt: u32,
    /// When it was handed out.
    pub leased_at: Moment,
    /// When the lease ends, unless its holder extends it.
    pub expires_at: Moment,
}

/// A reader of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Member {
    /// Its name.
    pub owner: String,
    /// How it reads.
    pub kind: MemberKind,
    /// Deliveries on loan to it.
    pub in_flight: u64,
}

/// How a reader reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemberKind {
    /// By an open stream.
    Stream,
    /// Call by call.
    Lease,
}

/// A group in one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
