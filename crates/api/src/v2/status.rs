//! The server about itself.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

/// To `GET /v2/healthz` and a good `GET /v2/readyz`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health<'a> {
    /// `ok`, or `ready`.
    pub status: Cow<'a, str>,
    /// What it cannot do although it is ready: on a full disk, take new messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Cow<'a, str>>,
}

/// To `GET /v2/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Status<'a> {
    /// The release.
    pub version: Cow<'a, str>,
    /// The source it was built from.
    pub commit: Cow<'a, str>,
    /// Whether requests are served.
    pub ready: bool,
    /// Whether new messages are taken.
    pub writable: bool,
    /// Why not, if not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Cow<'a, str>>,
    /// What an answered request is worth, in words.
    pub durability: Cow<'a, str>,
    /// Whether messages survive the process.
    pub durable: bool,
    /// The data directory, if there is one; not told to a key that is bound to tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// Counts the starts of this data directory.
    pub epoch: u64,
    /// How long the server has been up.
    pub uptime_ms: u64,
    /// Topics that exist for the caller.
    pub topics: u64,
    /// Open streams; not told to a key that is bound to tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<u64>,
    /// Open connections; not told to a key that is bound to tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u64>,
    /// Segment files of the log; not told to a key that is bound to tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments: Option<u64>,
    /// Shards, each with a log of its own; not told to a key that is bound to tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<u64>,
    /// How the last start went.
    pub recovery: Recovery,
}

/// How the last start went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Recovery {
    /// How long it took.
    pub duration_ms: u64,
}
