//! Successful answers other than streams.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// To `GET /v1/healthz`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health<'a> {
    /// Always `ok`.
    pub status: Cow<'a, str>,
}

/// To `GET /v1/version`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version<'a> {
    /// The release.
    pub version: Cow<'a, str>,
    /// The source it was built from.
    pub commit: Cow<'a, str>,
    /// Whether messages survive the process.
    pub wal_enabled: bool,
}

/// To `GET /v1/topics`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topics {
    /// Names, sorted.
    pub topics: Vec<String>,
}

/// To `POST /v1/topics`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Created<'a> {
    /// Always `created`, also for a topic that was there before.
    pub status: Cow<'a, str>,
    /// Its name.
    pub name: Cow<'a, str>,
    /// How many partitions it really has.
    pub partitions: u32,
}

/// To `POST /v1/produce`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Produced<'a> {
    /// Always `produced`.
    pub status: Cow<'a, str>,
    /// The topic that the producer asked for, even if the message went elsewhere.
    pub topic: Cow<'a, str>,
}
