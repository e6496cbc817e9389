//! Topics, listed and described.

use crate::ToSchema;
use serde::{Deserialize, Serialize};

use super::settings::TopicSettings;
use crate::moment::Moment;

/// To `GET /v2/topics`: one page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Topics {
    /// Topics in order of their names.
    pub topics: Vec<TopicSummary>,
    /// Cursor of the next page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A topic in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopicSummary {
    /// Its name.
    pub name: String,
    /// How many partitions it has.
    pub partitions: u64,
    /// How many groups read it.
    pub groups: u64,
    /// Messages kept.
    pub messages: u64,
    /// Their key and value bytes.
    pub bytes: u64,
    /// The tenant that it belongs to; shared by all if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// To `GET /v2/topics/{topic}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// The tenant that it belongs to; shared by all if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// When it was created.
    pub created_at: Moment,
    /// The offset that the next message gets.
    pub next_offset: u64,
    /// Messages kept, in all partitions.
    pub messages: u64,
    /// Their key and value bytes.
    pub bytes: u64,
    /// Time of the oldest message kept.
    pub oldest_at: Option<Moment>,
    /// Messages dead-lettered out of it since the server started.
    pub dead_letters: u64,
    /// Its partitions, in order.
    pub partitions: Vec<Partition>,
    /// Names of its groups.
    pub groups: Vec<String>,
    /// Messages whose time has not come.
    pub scheduled: u64,
    /// Since when nothing is lent, if it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_at: Option<Moment>,
    /// Its settings.
    pub settings: TopicSettings,
}

/// To `PUT /v2/topics/{topic}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopicPut {
    /// Whether it was created now; `false` if it was there and is as asked for.
    pub created: bool,
    /// The topic.
    #[serde(flatten)]
    pub topic: Topic,
}

/// One partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Partition {
    /// Its number.
    pub partition: u64,
    /// Messages that wait for some group, or for a first one to come.
    pub messages: u64,
    /// Their key and value bytes.
    pub bytes: u64,
    /// Offset of the oldest message that some group is not done with.
    pub oldest_offset: Option<u64>,
    /// Time of that message.
    pub oldest_at: Option<Moment>,
    /// Messages that every group was done with and that the topic keeps.
    #[serde(default)]
    #[schema(required = false)]
    pub kept_messages: u64,
    /// Their key and value bytes.
    #[serde(default)]
    #[schema(required = false)]
    pub kept_bytes: u64,
    /// Offset of the earliest message that can be read: where a new group begins.
    #[serde(default)]
    pub earliest_offset: Option<u64>,
}
