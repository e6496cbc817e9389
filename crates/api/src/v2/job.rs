//! Work that goes on in the server after the answer.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

use crate::moment::Moment;

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// Dead letters go back to where they came from.
    Redrive,
    /// Dead letters are thrown away.
    Purge,
}

/// How a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// At work.
    Running,
    /// Through with everything it found.
    Done,
    /// Stopped by an error.
    Failed,
    /// Stopped by a caller; what was done stays done.
    Cancelled,
}

/// To `GET /v2/jobs/{id}`, and to the calls that start a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Job<'a> {
    /// Names it.
    pub id: Cow<'a, str>,
    /// What it does.
    pub kind: JobKind,
    /// The topic whose dead letters it works on.
    pub topic: Cow<'a, str>,
    /// How it stands.
    pub state: JobState,
    /// Whether it only counts.
    pub dry_run: bool,
    /// When it began.
    pub started_at: Moment,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Moment>,
    /// Letters found so far.
    pub matched: u64,
    /// Letters dealt with.
    pub done: u64,
    /// Letters that were gone, or dealt with by another caller.
    pub skipped: u64,
    /// Letters that stay because the group that gave them up is gone: no other group is to get them.
    #[serde(default)]
    #[schema(required = true)]
    pub refused: u64,
    /// Letters that could not be dealt with and stay where they are.
    pub failed: u64,
    /// Why it failed, or why the last letter was refused or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Cow<'a, str>>,
}

/// To `GET /v2/jobs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Jobs<'a> {
    /// Jobs that are still known, the newest first.
    pub jobs: Vec<Job<'a>>,
}
