//! Takes a log elsewhere while no server is at work on it: from a directory into a database, and back.
//!
//! Batches keep their positions, so that everything which the state says about them stays true: offsets, tokens, effects
//! and runs are the same ones afterwards. What was taken counts only once it was read back from its new place and found
//! to be the same; until then a server refuses to start there, and the same command goes on where it broke off.

mod copy;
mod directory;

use std::path::{Path, PathBuf};

use driftq_core::ShardId;

use crate::config::Storage;
use crate::failure::StartError;
use crate::log::{Lsn, Snapshot};
use crate::start::{shard_directory, shards_in};
use driftq_wal::{OpenError, SEGMENT_HEADER_BYTES};

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

/// Takes one batch.
pub(crate) type Each<'a> = &'a mut dyn FnMut(Batch<'_>) -> Result<(), TransferError>;

/// A log to be read, on which nobody else is at work.
pub(crate) trait Source {
    /// The newest snapshot.
    fn snapshot(&mut self) -> Result<Option<Snapshot>, TransferError>;
    /// Feeds every batch, lowest first.
    fn each(&mut self, each: Each<'_>) -> Result<(), TransferError>;
}

/// A place that a log is taken to.
pub(crate) trait Target {
    /// Whether everything below this position is there already.
    fn has(&self, batch: &Batch<'_>) -> bool;
    /// Puts the next batch; `previous` is where the one before it ends.
    fn put(&mut self, batch: Batch<'_>, previous: Lsn) -> Result<(), TransferError>;
    /// Puts the snapshot, after all batches.
    fn put_snapshot(&mut self, snapshot: Option<&Snapshot>) -> Result<(), TransferError>;
    /// What was put, to be read again.
    fn read_back(&self) -> Result<Box<dyn Source + '_>, TransferError>;
    /// Throws away what is there: it is not what the source has.
    fn clear(&mut self) -> Result<(), TransferError>;
    /// From now on it counts, at once and for good.
    fn finish(self: Box<Self>) -> Result<(), TransferError>;
}

/// What was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// How many batches.
    pub batches: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many of them were there already, from an attempt that broke off.
    pub resumed: u64,
    /// Where the log ends.
    pub end: String,
    /// BLAKE3 over every batch with its position, and the snapshot; the same on both sides.
    pub digest: String,
}

/// Takes the log from one place to another, which must hold none. Nothing at the first place is changed, but that a
/// database is claimed: a server that is still at work on it steps down.
pub fn migrate(from: &Storage, to: &Storage) -> Result<Moved, TransferError> {
    if from == to {
        return Err(TransferError::refused("both places are the same", "name another one with --to"));
    }
    let mut source = source(from)?;
    let target = target(to)?;
    carry(&mut *source, target)
}

fn source(storage: &Storage) -> Result<Box<dyn Source>, TransferError> {
    match storage {
        Storage::Directory(path) => Ok(Box::new(DirectorySource::claim(path)?)),
        #[cfg(feature = "postgres")]
        Storage::Postgres(place) => Ok(Box::new(crate::log::PostgresSource::claim(place.clone())?)),
        other => Err(absent(other)),
    }
}

fn target(storage: &Storage) -> Result<Box<dyn Target>, TransferError> {
    match storage {
        Storage::Directory(path) => Ok(Box::new(DirectoryTarget::begin(path)?)),
        #[cfg(feature = "postgres")]
        Storage::Postgres(place) => Ok(Box::new(crate::log::PostgresTarget::begin(place.clone())?)),
        other => Err(absent(other)),
    }
}

fn absent(storage: &Storage) -> TransferError {
    match storage {
        Storage::Ephemeral => TransferError::refused(
            "a log in memory is gone with its server",
            "name a directory, or postgres://user@host/database",
        ),
        Storage::Nats(_) => TransferError::refused(
            "a log in NATS is not taken elsewhere, and none is taken there",
            "name a directory, or postgres://user@host/database",
        ),
        Storage::Directory(_) | Storage::Postgres(_) => TransferError::refused(
            "this build keeps no log in PostgreSQL",
            "build it with `cargo build --release --features full`",
        ),
    }
}

fn carry(source: &mut dyn Source, mut target: Box<dyn Target>) -> Result<Moved, TransferError> {
    let snapshot = source.snapshot()?;
    let upto = snapshot.as_ref().map(|snapshot| snapshot.upto);
    let (mut sum, mut resumed, mut previous) = (Sum::default(), 0, Lsn::new(1, SEGMENT_HEADER_BYTES));
    source.each(&mut |batch| {
        sum.add(batch);
        if target.has(&batch) {
            resumed += 1;
        } else {
            // A replay begins at the snapshot's position, which may be the start of a segment.
            target.put(batch, if upto == Some(batch.frame) { batch.frame } else { previous })?;
        }
        previous = batch.end;
        Ok(())
    })?;
    if let Some(upto) = upto.filter(|upto| *upto > previous) {
        // The log ends with a segment that holds nothing yet. An empty batch says where, in a place that knows no
        // segments but by what is in them.
        let end = Lsn::new(upto.segment(), upto.offset() + driftq_wal::FRAME_HEADER_BYTES);
        let batch = Batch { frame: upto, end, body: &[] };
        sum.add(batch);
        if !target.has(&batch) {
            target.put(batch, upto)?;
        }
        previous = end;
    }
    target.put_snapshot(snapshot.as_ref())?;
    sum.close(snapshot.as_ref());
    let there = {
        let mut back = target.read_back()?;
        let mut there = Sum::default();
        let snapshot = back.snapshot()?;
        back.each(&mut |batch| {
            there.add(batch);
            Ok(())
        })?;
        there.close(snapshot.as_ref());
        there
    };
    let digest = sum.digest();
    if there.digest() != digest {
        target.clear()?;
        return Err(TransferError::refused(
            "what was read back is not what the log holds: it has changed since an earlier attempt, or was damaged on \
             the way. What was there has been thrown away",
            "run the same command again",
        ));
    }
    target.finish()?;
    Ok(Moved { batches: sum.batches, bytes: sum.bytes, resumed, end: previous.to_string(), digest })
}

/// What a log amounts to.
#[derive(Default)]
struct Sum {
    hasher: blake3::Hasher,
    batches: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, batch: Batch<'_>) {
        self.batches += 1;
        self.bytes += batch.body.len() as u64;
        for number in [batch.frame.0, batch.end.0, batch.body.len() as u64] {
            self.hasher.update(&number.to_le_bytes());
        }
        self.hasher.update(batch.body);
    }

    fn close(&mut self, snapshot: Option<&Snapshot>) {
        // No batch begins at zero.
        let (upto, bytes) = snapshot.map_or((0, &[][..]), |snapshot| (snapshot.upto.0, &snapshot.bytes));
        for number in [0, upto, bytes.len() as u64] {
            self.hasher.update(&number.to_le_bytes());
        }
        self.hasher.update(bytes);
    }

    fn digest(&self) -> String {
        self.hasher.finalize().to_hex().to_string()
    }
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
