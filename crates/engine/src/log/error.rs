//! What can go wrong with a log, one closed list per operation. The words come from the adapter, which knows what it
//! was doing to what.

use thiserror::Error;

/// Why nothing was appended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AppendError {
    /// There is no space. Nothing was written and the same append may be tried again.
    #[error("the disk is full")]
    NoSpace,
    /// Another one has claimed the log, for good. Nothing was written.
    #[error("{0}")]
    Fenced(String),
    /// The log failed; what it holds is unknown until it is opened again.
    #[error("{0}")]
    Failed(String),
}

/// Why bytes could not be read back.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// The segment was dropped.
    #[error("the log no longer holds this position")]
    Gone,
    /// Nothing has been appended there (yet).
    #[error("the log does not reach this position")]
    OutOfRange,
    /// The log failed.
    #[error("{0}")]
    Failed(String),
}

/// Why a replay stopped early.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReplayError {
    /// What was once durable is no longer what it was.
    #[error("{0}")]
    Damaged(String),
    /// The log could not be read.
    #[error("{0}")]
    Failed(String),
}

/// Why housekeeping did nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeepError {
    /// A snapshot may only cover batches that are durable, and may not be older than the one it replaces; a segment
    /// that recovery needs is not dropped.
    #[error("{0}")]
    Refused(String),
    /// Another one has claimed the log, for good. Nothing was changed.
    #[error("{0}")]
    Fenced(String),
    /// The log failed, or has no space.
    #[error("{0}")]
    Failed(String),
}
