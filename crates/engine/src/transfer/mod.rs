//! Takes a log elsewhere while no server is at work on it: from a directory into a database or a stream, and back.
//!
//! Batches keep their positions, so that everything which the state says about them stays true: offsets, tokens, effects
//! and runs are the same ones afterwards. A log has a part for each shard, and all of them are taken, one after the
//! other. What was taken counts only once all of it was read back from its new place and found to be the same; until
//! then a server refuses to start there, and the same command goes on where it broke off.

mod carry;
mod copy;
mod directory;

use std::path::{Path, PathBuf};

use driftq_core::ShardId;

use crate::config::Storage;
use crate::failure::StartError;
use crate::log::{Lsn, Snapshot};
use crate::start::{shard_directory, shards_in};
use driftq_wal::OpenError;

use carry::carry;
pub use carry::{Moved, MovedShard};
pub use copy::{Copied, Copy, CopyEnd};
pub use directory::put_in_place;
use directory::{DirectorySource, DirectoryTarget};

/// Why a log was not taken elsewhere.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// It cannot be done like this.
    #[error("{what}")]
    Refused {
        /// What is in the way.
        what: String,
        /// The next step.
        help: String,
    },
    /// A server is at work there.
    #[error("the data directory {0} is in use")]
    Locked(String),
    /// The disk or the database failed, or the log is damaged.
    #[error("{0}")]
    Failed(String),
}

impl TransferError {
    pub(crate) fn refused(what: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Refused { what: what.into(), help: help.into() }
    }

    /// Somebody has claimed the first place while it was read.
    #[cfg(any(feature = "nats", feature = "postgres"))]
    pub(crate) fn deposed() -> Self {
        Self::refused(
            "a server has taken over the log while it was being taken elsewhere: what it wrote since is not there",
            "stop that server, and run the same command again",
        )
    }
}

impl From<StartError> for TransferError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Database { what, help } => Self::Refused { what, help },
            StartError::Locked { path } => Self::Locked(path),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<OpenError> for TransferError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Locked { dir } => Self::Locked(dir),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<driftq_wal::FileError> for TransferError {
    fn from(error: driftq_wal::FileError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<std::io::Error> for TransferError {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// One batch where it lies.
#[derive(Clone, Copy)]
pub(crate) struct Batch<'a> {
    /// Where its frame begins.
    pub(crate) frame: Lsn,
    /// Where it ends.
    pub(crate) end: Lsn,
    pub(crate) body: &'a [u8],
}

impl Batch<'_> {
    /// Whether it is there in a place where there is everything below this position; `None` if only part of it would be.
    #[cfg(any(feature = "nats", feature = "postgres"))]
    pub(crate) fn is_below(&self, reached: Lsn) -> Option<bool> {
        (self.end <= reached || reached <= self.frame).then_some(self.end <= reached)
    }
}

/// Takes one batch.
pub(crate) type Each<'a> = &'a mut dyn FnMut(Batch<'_>) -> Result<(), TransferError>;

/// A place whose logs are read. All of its shards are claimed before the first is read: nobody else appends to any of
/// them, so that what they say of each other is true of what is taken.
pub(crate) trait Source {
    /// How many shards it has.
    fn shards(&self) -> u8;
    /// The log of one of them.
    fn shard(&mut self, shard: ShardId) -> Result<Box<dyn Reading + '_>, TransferError>;
    /// Refuses if somebody else has claimed one of them since: what that one wrote was not taken.
    fn check(&mut self) -> Result<(), TransferError>;
}

/// The log of one shard, as it is read.
pub(crate) trait Reading {
    /// The newest snapshot.
    fn snapshot(&mut self) -> Result<Option<Snapshot>, TransferError>;
    /// Feeds every batch, lowest first.
    fn each(&mut self, each: Each<'_>) -> Result<(), TransferError>;
}

/// A place that the logs of all shards are taken to. None of them counts before all are there.
pub(crate) trait Target {
    /// The log of one shard, with what an earlier attempt has put into it.
    fn shard(&mut self, shard: ShardId) -> Result<Box<dyn Filling + '_>, TransferError>;
    /// Throws away what is there, of all shards: it is not what the source has.
    fn clear(&mut self) -> Result<(), TransferError>;
    /// From now on all of it counts, at once and for good.
    fn finish(self: Box<Self>) -> Result<(), TransferError>;
}

/// The log of one shard, as it is written.
pub(crate) trait Filling {
    /// Whether everything up to the end of this batch is there already; `None` if what is there ends in the middle of
    /// it, and so is of another log.
    fn has(&self, batch: &Batch<'_>) -> Option<bool>;
    /// Puts the next batch; `previous` is where the one before it ends.
    fn put(&mut self, batch: Batch<'_>, previous: Lsn) -> Result<(), TransferError>;
    /// Puts the snapshot, after all batches.
    fn put_snapshot(&mut self, snapshot: Option<&Snapshot>) -> Result<(), TransferError>;
    /// What was put, to be read again.
    fn read_back(&mut self) -> Result<Box<dyn Reading + '_>, TransferError>;
}

/// Takes the logs of all shards from one place to another, which must hold none. Nothing at the first place is changed,
/// but that a log which others can reach is claimed: a server that is still at work on it steps down.
pub fn migrate(from: &Storage, to: &Storage) -> Result<Moved, TransferError> {
    if from == to {
        return Err(TransferError::refused("both places are the same", "name another one with --to"));
    }
    let mut source = source(from)?;
    let target = target(to, source.shards())?;
    carry(&mut *source, target)
}

fn source(storage: &Storage) -> Result<Box<dyn Source>, TransferError> {
    match storage {
        Storage::Directory(path) => Ok(Box::new(DirectorySource::claim(path)?)),
        #[cfg(feature = "postgres")]
        Storage::Postgres(place) => Ok(Box::new(crate::log::PostgresSource::claim(place)?)),
        #[cfg(feature = "nats")]
        Storage::Nats(place) => Ok(Box::new(crate::log::NatsSource::claim(place)?)),
        other => Err(absent(other)),
    }
}

fn target(storage: &Storage, shards: u8) -> Result<Box<dyn Target>, TransferError> {
    match storage {
        Storage::Directory(path) => Ok(Box::new(DirectoryTarget::begin(path, shards)?)),
        #[cfg(feature = "postgres")]
        Storage::Postgres(place) => Ok(Box::new(crate::log::PostgresTarget::begin(place, shards)?)),
        #[cfg(feature = "nats")]
        Storage::Nats(place) => Ok(Box::new(crate::log::NatsTarget::begin(place, shards)?)),
        other => Err(absent(other)),
    }
}

fn absent(storage: &Storage) -> TransferError {
    let what = match storage {
        Storage::Ephemeral => {
            return TransferError::refused(
                "a log in memory is gone with its server",
                "name a directory, postgres://user@host/database or nats://host:port/stream",
            );
        }
        Storage::Nats(_) => "this build keeps no log in NATS",
        Storage::Directory(_) | Storage::Postgres(_) => "this build keeps no log in PostgreSQL",
    };
    TransferError::refused(what, "build it with `cargo build --release --features full`")
}

/// Refuses to go on with an attempt that had more shards: those beyond would be taken for part of this log.
pub(crate) fn check_begun(
    place: &str,
    begun: u8,
    shards: u8,
    remove: impl Into<String>,
) -> Result<(), TransferError> {
    if begun <= shards {
        return Ok(());
    }
    let what = format!(
        "a log of {begun} shards was being taken to {place}, and is not whole yet; the one that is to be taken there \
         now has {shards}"
    );
    Err(TransferError::refused(what, remove))
}

/// A directory that does not exist yet, beside the one that it becomes when it is whole.
#[must_use]
pub fn unfinished(path: &Path, what: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(what);
    path.with_file_name(name)
}

/// The directories in which the logs of a data directory lie: that of the first shard is the data directory itself.
pub fn logs_in(data: &Path) -> Result<Vec<PathBuf>, TransferError> {
    Ok((0..shards_in(data)?).map(|shard| shard_directory(data, ShardId(shard))).collect())
}
