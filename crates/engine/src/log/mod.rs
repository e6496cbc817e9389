//! The port to the log: what a shard needs from the place that remembers its facts, and nothing more.
//!
//! A [`Log`] is opened, which claims it: whoever had it open before can append nothing more. Out come a writer and an
//! archive. The writer appends batches, each whole or never, at positions that are known before their length is
//! ([`Cursor`]). The archive reads, replays, keeps one snapshot and trims what it stands for.
//!
//! What is special about a place stays in its adapter. A disk can be full, and the keeper can do something about that;
//! this is all that [`Space`] says, and a log without such worries says nothing.

mod error;
#[cfg(any(feature = "nats", feature = "postgres"))]
mod extent;
mod file;
#[cfg(feature = "nats")]
mod nats;
mod place;
#[cfg(feature = "postgres")]
mod postgres;

use std::ops::ControlFlow;

pub use driftq_wal::{Cursor, Lsn, Room, SegmentInfo, Snapshot};
pub use error::{AppendError, KeepError, ReadError, ReplayError};
pub use file::{FileLog, in_memory};
#[cfg(feature = "nats")]
pub use nats::NatsLog;
#[cfg(feature = "nats")]
pub(crate) use nats::{NatsRegister, NatsSource, NatsTarget};
pub use place::{NatsPlace, PostgresPlace};
#[cfg(feature = "postgres")]
pub use postgres::PostgresLog;
#[cfg(feature = "postgres")]
pub(crate) use postgres::{PostgresRegister, PostgresSource, PostgresTarget};

pub use crate::clock::Reading;
use crate::failure::StartError;

/// Whether a later reader of a snapshot can make sense of it.
pub type Readable<'a> = &'a mut dyn FnMut(&[u8]) -> bool;
/// Takes one batch of a replay: the position of its first byte, and its bytes.
pub type Each<'a> = &'a mut dyn FnMut(Lsn, &[u8]) -> ControlFlow<()>;

/// A place where the log of one shard is kept.
pub trait Log: Send + Sync + Sized + 'static {
    /// Appends. One thread at a time has it.
    type Writer: Append;
    /// Reads and keeps, in any thread.
    type Archive: Archive;
    /// Whether somebody else can claim it while it is open: then [`Archive::check_claim`] is asked now and again.
    const CAN_BE_DEPOSED: bool = false;

    /// Claims the log and says what is in it. Only the newest claim can append.
    ///
    /// A value that has been opened before claims again only if nobody else has since; otherwise the answer is
    /// [`StartError::Fenced`].
    fn open(&self) -> Result<Opened<Self>, StartError>;
}

/// An open log, and what was found in it.
pub struct Opened<L: Log> {
    /// Appends.
    pub writer: L::Writer,
    /// Reads and keeps.
    pub archive: L::Archive,
    /// The newest snapshot, if one was ever put.
    pub snapshot: Option<Snapshot>,
    /// Where replay starts: the snapshot's position, or the start of the log.
    pub start: Lsn,
    /// Where the log ends; everything below is durable.
    pub end: Lsn,
    /// About how many bytes replay will read.
    pub replay_bytes: u64,
    /// What was cut off because it never became durable, in words.
    pub torn: Option<String>,
}

/// The only handle that appends.
pub trait Append: Send + 'static {
    /// Where the next batches will lie.
    fn cursor(&self) -> Cursor;
    /// Appends one batch where the cursor says, and returns its end. It is durable once [`Append::sync`] returned that
    /// end or a later one. After any failure but [`AppendError::NoSpace`] nothing more can be appended.
    fn append(&mut self, body: &[u8]) -> Result<Lsn, AppendError>;
    /// Makes every appended batch durable and returns the end of the last one.
    fn sync(&mut self) -> Result<Lsn, AppendError>;
}

/// Reads what was appended, keeps the snapshot, gives space back.
pub trait Archive: Space + Clone + Send + Sync + 'static {
    /// Reads `bytes` bytes from `at`, all in one segment. What lies between two batches may be anything.
    fn read_at(&self, at: Lsn, bytes: u32) -> Result<Vec<u8>, ReadError>;
    /// Feeds every batch in `[from, to)`, in order. Both are edges of batches: a start, an end, or a snapshot's
    /// position.
    fn replay(&self, from: Lsn, to: Lsn, each: Each<'_>) -> Result<(), ReplayError>;
    /// Every segment that holds batches, lowest first.
    fn segments(&self) -> Vec<SegmentInfo>;
    /// Drops segments. Only those below the one that the newest snapshot continues in are accepted; one that is not
    /// refuses the whole call, and unknown ones are passed over.
    fn trim(&self, segments: &[u32]) -> Result<(), KeepError>;
    /// Everything below is durable.
    fn durable(&self) -> Lsn;
    /// Position of the newest snapshot; [`Lsn::ZERO`] if there is none. Cheap.
    fn snapshot_upto(&self) -> Lsn;
    /// The newest snapshot; `None` if there is none.
    fn snapshot(&self) -> Result<Option<Snapshot>, KeepError>;
    /// Puts a snapshot that stands for every batch below `upto` in place of the one before it, at once and for good;
    /// unless `readable` makes no sense of what was stored: then the one before it stays.
    fn put_snapshot(&self, upto: Lsn, bytes: &[u8], readable: Readable<'_>) -> Result<(), KeepError>;
    /// About how many bytes of a log on a disk take as long to be read again as so many bytes in so many batches of this
    /// one: while a server takes over, nobody serves.
    fn replay_cost(&self, bytes: u64, _batches: u64) -> u64 {
        bytes
    }
    /// Whether nobody else has claimed the log since; [`KeepError::Fenced`] if somebody has. Cheap.
    fn check_claim(&self) -> Result<(), KeepError> {
        Ok(())
    }

    /// What the clock shows where the log is kept, if that may be another machine: whoever opens the log goes by it.
    fn clock(&self) -> Result<Option<Reading>, KeepError> {
        Ok(None)
    }

    /// Where a segment ends; `None` if there is none of this number.
    fn segment_end(&self, number: u32) -> Option<u64> {
        self.segments().iter().find(|segment| segment.number == number).map(|segment| segment.bytes.into())
    }
    /// A segment as a person would call it.
    fn segment_name(&self, number: u32) -> String {
        format!("segment {number} of the log")
    }
}

/// Whether there is room to append, where that is for us to see to. All of it is cheap but [`Space::provide`].
pub trait Space {
    /// What the space at hand allows.
    fn room(&self) -> Room {
        Room::Plenty
    }
    /// Whether a next segment is ready.
    fn can_roll(&self) -> bool {
        true
    }
    /// Whether the next segment is there, but kept for acks.
    fn next_is_for_acks(&self) -> bool {
        false
    }
    /// Whether all that is kept for acks is there.
    fn acks_provided(&self) -> bool {
        true
    }
    /// Whether there are as many segments ahead as should be.
    fn is_stocked(&self) -> bool {
        true
    }
    /// Whether [`Space::provide`] has nothing to do.
    fn is_provided(&self) -> bool {
        true
    }
    /// Makes what is missing; false if there is no space for it.
    fn provide(&self) -> bool {
        true
    }
    /// Whether space is about to run out, so that the next snapshot should not wait until there is much to fold.
    fn is_tight(&self) -> bool {
        false
    }
}
