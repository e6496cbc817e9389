//! How far a log reaches that is kept elsewhere: what the adapters for a database and for a stream have in common.

use std::collections::BTreeMap;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use driftq_wal::{FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES};

use super::{KeepError, Lsn, ReadError, SegmentInfo};
use crate::locks::{read, write};
use crate::payload_store::check_of;

/// Where the first batch of a log begins.
pub(super) const START: Lsn = Lsn::new(1, SEGMENT_HEADER_BYTES);
/// Snapshots that one epoch may put: what is above that would take the number of the next epoch's first.
const PUT_MAX: i64 = 1 << 20;
/// How long an append goes on when the log cannot be reached. After that the shard is rebuilt, and says so.
const PATIENCE: Duration = Duration::from_secs(10);
/// First pause before the log is asked again; it doubles.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
/// The longest such pause.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Where the bytes of a batch lie that begins at `frame`.
pub(super) const fn body_at(frame: Lsn) -> Lsn {
    Lsn::new(frame.segment(), frame.offset() + FRAME_HEADER_BYTES)
}

/// How long it is worth while to ask again.
pub(super) struct Patience {
    begun: Instant,
    pause: Duration,
}

impl Patience {
    pub(super) fn new() -> Self {
        Self { begun: Instant::now(), pause: PAUSE_FIRST }
    }

    /// Waits for a moment, each time longer; false if it has been long enough.
    pub(super) fn wait(&mut self) -> bool {
        if self.begun.elapsed() + self.pause >= PATIENCE {
            return false;
        }
        thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        true
    }
}

/// The segments of an open log and its snapshot's position, for any thread.
pub(super) struct Extent {
    /// The end of every segment.
    segments: RwLock<BTreeMap<u32, u32>>,
    durable: AtomicU64,
    snapshot_upto: AtomicU64,
}

impl Extent {
    pub(super) fn new(segments: BTreeMap<u32, u32>, snapshot_upto: Lsn) -> Self {
        let end = segments.last_key_value().map_or(START, |(&number, &bytes)| Lsn::new(number, bytes));
        let (durable, snapshot_upto) = (AtomicU64::new(end.0), AtomicU64::new(snapshot_upto.0));
        Self { segments: RwLock::new(segments), durable, snapshot_upto }
    }

    pub(super) fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    pub(super) fn set_durable(&self, end: Lsn) {
        // First the segment: who sees the end must find the segment that it is in.
        write(&self.segments).insert(end.segment(), end.offset());
        self.durable.store(end.0, Ordering::Release);
    }

    pub(super) fn snapshot_upto(&self) -> Lsn {
        Lsn(self.snapshot_upto.load(Ordering::Acquire))
    }

    pub(super) fn set_snapshot_upto(&self, upto: Lsn) {
        self.snapshot_upto.store(upto.0, Ordering::Release);
    }

    pub(super) fn segments(&self) -> Vec<SegmentInfo> {
        let segments = read(&self.segments);
        let last = segments.last_key_value().map_or(0, |(&number, _)| number);
        segments
            .iter()
            .map(|(&number, &bytes)| SegmentInfo { number, bytes, active: number == last })
            .collect()
    }

    /// About how many bytes a replay from here reads.
    pub(super) fn bytes_from(&self, start: Lsn) -> u64 {
        let segments = self.segments().into_iter().filter(|segment| segment.number >= start.segment());
        let bytes = segments.map(|segment| u64::from(segment.bytes)).sum::<u64>();
        bytes.saturating_sub(start.offset().into())
    }

    /// Whether all of these bytes were appended. Checked before anything is allocated: a wrong length must not cost
    /// memory.
    pub(super) fn check_read(&self, at: Lsn, bytes: u32) -> Result<(), ReadError> {
        let Some(&end) = read(&self.segments).get(&at.segment()) else {
            let reached = at.segment() <= self.durable().segment();
            return Err(if reached { ReadError::Gone } else { ReadError::OutOfRange });
        };
        let beyond = u64::from(at.offset()) + u64::from(bytes) > u64::from(end);
        if beyond { Err(ReadError::OutOfRange) } else { Ok(()) }
    }

    /// Whether the newest snapshot stands for all of these segments.
    pub(super) fn check_trim(&self, segments: &[u32]) -> Result<(), KeepError> {
        let needed_from = self.snapshot_upto().segment();
        match segments.iter().find(|&&segment| segment >= needed_from) {
            None => Ok(()),
            Some(segment) => Err(KeepError::Refused(format!(
                "segment {segment} is not entirely below the latest snapshot"
            ))),
        }
    }

    /// Who reads there from now on is told that it is gone.
    pub(super) fn forget(&self, segment: u32) {
        write(&self.segments).remove(&segment);
    }
}

/// A stored snapshot, by what is said of it where it is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) number: i64,
    pub(super) upto: Lsn,
    pub(super) bytes: i64,
    pub(super) crc: i64,
}

impl Stored {
    /// What the `put`th snapshot of an epoch is known by.
    pub(super) fn new(epoch: i64, put: i64, upto: Lsn, bytes: &[u8]) -> Self {
        let length = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
        Self { number: epoch * PUT_MAX + put, upto, bytes: length, crc: check_of(bytes).into() }
    }

    /// How many bytes it has.
    pub(super) fn length(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(0)
    }

    /// Whether these are its bytes.
    pub(super) fn is(&self, bytes: &[u8]) -> bool {
        bytes.len() == self.length() && i64::from(check_of(bytes)) == self.crc
    }
}

/// The snapshot that counts, and how many were put in this epoch.
pub(super) struct Current {
    pub(super) stored: Option<Stored>,
    pub(super) put: i64,
}

impl Current {
    /// What the next snapshot will be known by, if it may be put.
    pub(super) fn next(
        &mut self,
        epoch: i64,
        durable: Lsn,
        upto: Lsn,
        bytes: &[u8],
    ) -> Result<Stored, KeepError> {
        let latest = self.stored.map_or(Lsn::ZERO, |stored| stored.upto);
        if upto > durable || upto < latest {
            let what = format!("a snapshot up to {upto} does not lie between {latest} and {durable}");
            return Err(KeepError::Refused(what));
        }
        if self.put >= PUT_MAX {
            return Err(KeepError::Failed("this claim has put all the snapshots that it may".into()));
        }
        self.put += 1;
        Ok(Stored::new(epoch, self.put, upto, bytes))
    }
}

/// Part of a batch that was read: where its frame begins, where it ends, and its bytes from the later of its first one
/// and the position that was asked for.
pub(super) type Piece<'a> = (Lsn, Lsn, &'a [u8]);

/// Puts what was read where it lies in the segment. What lies between two batches is zeros.
pub(super) fn assemble<'a>(
    at: Lsn,
    bytes: u32,
    pieces: impl IntoIterator<Item = Piece<'a>>,
) -> Result<Vec<u8>, ReadError> {
    // Nothing may lie where no batch does: between two of them.
    if bytes == 0 {
        return Ok(Vec::new());
    }
    let missing = || ReadError::Failed(format!("the batch at {at} is missing in the log"));
    let mut pieces = pieces.into_iter().peekable();
    let begins = pieces.peek().ok_or(ReadError::Gone)?.0;
    if begins > at || begins.segment() != at.segment() {
        return Err(ReadError::Gone);
    }
    let mut buffer = vec![0; bytes as usize];
    let mut reached = at.offset();
    for (position, ended, piece) in pieces {
        let begins = body_at(position).offset().max(at.offset());
        let from = (begins - at.offset()) as usize;
        if position.offset() > reached {
            return Err(missing());
        }
        reached = ended.offset();
        let Some(room) = buffer.get_mut(from..) else { continue };
        let count = piece.len().min(room.len());
        room[..count].copy_from_slice(&piece[..count]);
    }
    if reached < at.offset() + bytes { Err(missing()) } else { Ok(buffer) }
}
