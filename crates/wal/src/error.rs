//! What can go wrong, one closed list per operation.

use std::io;

use thiserror::Error;

use crate::Lsn;
use crate::frame::FRAME_BODY_BYTES_MAX;

/// An I/O error together with what was being done to which file.
#[derive(Debug, Error)]
#[error("cannot {action} {file}: {source}")]
pub struct FileError {
    /// What was attempted, as a verb.
    pub action: &'static str,
    /// The file, without its directory.
    pub file: String,
    /// What the system said.
    pub source: io::Error,
}

impl FileError {
    pub(crate) fn new(action: &'static str, file: impl Into<String>, source: io::Error) -> Self {
        Self { action, file: file.into(), source }
    }

    /// Whether the disk is full, which passes, as opposed to broken, which does not.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}

/// Bytes that were once durable and are no longer what they were.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{dir}/{file} is damaged at byte {byte}: {what}. Nothing was changed. Run `driftq wal inspect --data {dir}` \
     to see what is left, then `driftq wal repair --dry-run --data {dir}` to see what a repair would cut"
)]
pub struct Damage {
    /// The data directory.
    pub dir: String,
    /// The damaged file, without its directory.
    pub file: String,
    /// Where in the file the damage starts.
    pub byte: u64,
    /// What is wrong there.
    pub what: &'static str,
}

/// Why a log does not open.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process has the directory.
    #[error(
        "the data directory {dir} is in use by another driftq; stop it or choose another --data directory"
    )]
    Locked {
        /// The data directory.
        dir: String,
    },
    /// A newer driftq wrote this file.
    #[error("{dir}/{file} has format version {found}, this driftq knows up to {known}; use a newer driftq")]
    NewerVersion {
        /// The data directory.
        dir: String,
        /// The file, without its directory.
        file: String,
        /// The version in the file.
        found: u32,
        /// The newest version this build reads.
        known: u32,
    },
    /// The log contradicts itself.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The options make no usable log.
    #[error("{0}")]
    Options(&'static str),
    /// The disk failed, or has no room for the first segment.
    #[error(transparent)]
    Io(#[from] FileError),
}

/// Why nothing was appended or synced.
#[derive(Debug, Error)]
pub enum WriteError {
    /// An earlier call failed; what is on disk is unknown until the log is opened again.
    #[error("the log stopped after an earlier disk error; it must be opened again")]
    Poisoned,
    /// A new segment (or a longer one) is due and there is no space. Nothing was written and the
    /// same append may be tried again.
    #[error("the disk is full")]
    NoSpace,
    /// The body does not fit a frame. Nothing was written.
    #[error("a batch of {bytes} bytes is above the limit of {FRAME_BODY_BYTES_MAX}")]
    TooLarge {
        /// Length of the refused body.
        bytes: usize,
    },
    /// The disk failed; every later call answers [`WriteError::Poisoned`].
    #[error(transparent)]
    Io(#[from] FileError),
}

/// Why bytes could not be read back.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The segment was dropped.
    #[error("the log no longer holds this position")]
    Gone,
    /// Nothing has been appended there (yet).
    #[error("the log does not reach this position")]
    OutOfRange,
    /// The disk failed.
    #[error(transparent)]
    Io(#[from] FileError),
}

/// Why a replay stopped early.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// A segment of the range was dropped.
    #[error("the log no longer holds this position")]
    Gone,
    /// The range does not start at the edge of a frame inside the log.
    #[error("{0} is not a position between two frames of this log")]
    OutOfRange(Lsn),
    /// A frame that was valid when the log opened no longer is.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The disk failed.
    #[error(transparent)]
    Io(#[from] FileError),
}

/// Why housekeeping did nothing.
#[derive(Debug, Error)]
pub enum KeepError {
    /// The disk is full, the reserve included. Nothing was changed.
    #[error("the disk is full")]
    NoSpace,
    /// A snapshot may only cover frames that survive a power cut.
    #[error("a snapshot up to {upto} would cover frames that are not durable (up to {durable})")]
    NotDurable {
        /// Where the refused snapshot ends.
        upto: Lsn,
        /// Where the durable log ends.
        durable: Lsn,
    },
    /// A snapshot may not be older than the one it replaces.
    #[error("a snapshot up to {upto} is older than the present one (up to {latest})")]
    Outdated {
        /// Where the refused snapshot ends.
        upto: Lsn,
        /// Where the present snapshot ends.
        latest: Lsn,
    },
    /// Recovery still needs this segment. No segment of the call was dropped.
    #[error("segment {segment} is not entirely below the latest snapshot")]
    StillNeeded {
        /// The refused segment.
        segment: u32,
    },
    /// The disk failed.
    #[error(transparent)]
    Io(#[from] FileError),
}
