//! The servers that share a log.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

use super::read::{self, text};
use crate::fault::Fault;

/// Longest URL of a server.
pub const NODE_URL_BYTES_MAX: usize = 512;

/// To `GET /v2/cluster`: the servers that share the log, and which of them serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cluster<'a> {
    /// Whether this server shares its log with others at all.
    pub clustered: bool,
    /// The URL of the server that serves: it has the log open, and the others pass requests on to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serving: Option<Cow<'a, str>>,
    /// All servers that were seen within the last hour, and those that are drained.
    pub nodes: Vec<ClusterNode<'a>>,
}

/// One of the servers that share a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterNode<'a> {
    /// Where the others reach it.
    pub url: Cow<'a, str>,
    /// Whether it serves.
    pub serving: bool,
    /// Whether it was heard of lately enough to take over.
    pub alive: bool,
    /// Whether an operator has asked it to leave the work to others.
    pub drained: bool,
    /// How long ago it was last heard of, in milliseconds.
    pub seen_ms_ago: u64,
}

/// `POST /v2/cluster/drain` and `/resume`: which server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec<'a> {
    /// Its URL, as `GET /v2/cluster` shows it.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, NODE_URL_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 512)]
    pub node: Cow<'a, str>,
}

impl<'a> NodeSpec<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        read::object(body)
    }
}
