//! Requests and answers about outputs.

use crate::words::id::{Ticket, Time, TopicId};
use crate::words::scoped::Named;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// An output that a commit moves.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NewOutput {
    /// The dataset.
    pub dataset: String,
    /// Its version.
    pub version: String,
    /// The partition of it.
    pub partition_key: String,
    /// Under which it is added once; empty if it replaces what was there.
    pub dedupe_key: String,
    /// Where the output lies.
    pub location: String,
    /// Digest of its manifest.
    pub digest: String,
}

/// A version of a dataset that a task has read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Read {
    /// The dataset.
    pub dataset: String,
    /// Its version.
    pub version: String,
}

/// The longest location.
pub const OUTPUT_LOCATION_BYTES_MAX: usize = 2048;

/// What became of one output of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputDone {
    /// The pointer was moved.
    Replaced,
    /// It was added.
    Appended,
    /// One with the same `dedupe_key` was there; it stays.
    Duplicate,
}

/// A dataset in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetSummary {
    /// Its name.
    pub dataset: Arc<str>,
    /// The version seen by readers that do not say which one they want.
    pub current: Option<Arc<str>>,
    /// How many versions it has.
    pub versions: u64,
    /// How many pointers they have together.
    pub outputs: u64,
}

/// Which versions of a dataset are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionsList {
    /// The dataset.
    pub dataset: Named,
    /// Only versions with a greater name.
    pub after: Option<String>,
    /// How many at most.
    pub limit: u32,
}

/// A dataset, described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetView {
    /// In numbers.
    pub summary: DatasetSummary,
    /// Since when that version has been current.
    pub cut_over: Option<Time>,
    /// What was current before, newest first, and since when; `None` for nothing.
    pub history: Vec<(Option<Arc<str>>, Time)>,
    /// Its versions, by name.
    pub versions: Vec<VersionSummary>,
    /// Whether there are more of them.
    pub more: bool,
}

/// A version in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionSummary {
    /// Its name.
    pub version: Arc<str>,
    /// How many pointers it has.
    pub outputs: u64,
    /// When one was moved last.
    pub updated: Time,
    /// Whether its pointers no longer move.
    pub sealed: bool,
}

/// Which outputs are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputList {
    /// The dataset.
    pub dataset: Named,
    /// Its version, or `current`.
    pub version: String,
    /// Of one partition only.
    pub partition_key: Option<String>,
    /// Where to go on: the partition, and how many of its pointers were seen.
    pub from: Option<(String, u64)>,
    /// How many at most.
    pub limit: u32,
}

/// Some outputs of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputPage {
    /// The version that they are of.
    pub version: Arc<str>,
    /// The outputs, by partition and in the order in which they came.
    pub outputs: Vec<OutputView>,
    /// Where to go on; `None` at the end.
    pub next: Option<(Arc<str>, u64)>,
}

/// An output, described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputView {
    /// Its partition.
    pub partition_key: Arc<str>,
    /// Whether it was added, or replaced what was there.
    pub append: bool,
    /// Under which it was added; empty if it replaced.
    pub dedupe_key: Arc<str>,
    /// Where it lies.
    pub location: Arc<str>,
    /// Digest of its manifest.
    pub digest: Arc<str>,
    /// When it was committed.
    pub at: Time,
    /// By whose authority: topic, partition, offset and attempt. The topic's name is known to its own shard only.
    pub by: Option<(Arc<str>, u32, u64, u32)>,
    /// The same, with the topic's number.
    pub author: Option<OutputAuthor>,
}

/// The delivery by whose authority a pointer was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputAuthor {
    /// The topic.
    pub topic: TopicId,
    /// The partition.
    pub partition: u32,
    /// The message's offset.
    pub offset: u64,
    /// Which attempt.
    pub attempt: u32,
}

/// What can happen to outputs other than by a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputInput {
    /// Show readers of a dataset another version.
    CutOver {
        /// Who asks.
        ticket: Ticket,
        /// The dataset.
        dataset: Named,
        /// The version.
        version: String,
        /// Only if this one is current.
        expect: Option<String>,
    },
    /// Show readers of a dataset what they saw before the last cut-over.
    RollBack {
        /// Who asks.
        ticket: Ticket,
        /// The dataset.
        dataset: Named,
        /// The version that is current.
        from: String,
    },
    /// Seal a version of a dataset: its pointers no longer move.
    Seal {
        /// Who asks.
        ticket: Ticket,
        /// The dataset.
        dataset: Named,
        /// The version.
        version: String,
    },
    /// Drop a version of a dataset.
    Drop {
        /// Who asks.
        ticket: Ticket,
        /// The dataset.
        dataset: Named,
        /// The version.
        version: String,
    },
}
