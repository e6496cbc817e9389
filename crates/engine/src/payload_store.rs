//! Where payloads are read: the cache first, the log otherwise, and nothing unchecked leaves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use bytes::Bytes;
use driftq_core::{Burial, Delivery, Position};
use driftq_wal::segment_file;
use tokio::sync::Semaphore;

use crate::cache::Cache;
use crate::counters::Meters;
use crate::locks::{lock, read, write};

/// Reads of the log by streams that may be under way at once. Each occupies one blocking thread.
const STREAM_READS_MAX: usize = 8;
/// A read of the log takes this much in one go: a reader that works through old messages finds the next ones in
/// memory.
const READ_AHEAD_BYTES: usize = 64 << 10;
/// Share of the payload cache's size that is added for stretches read ahead.
const READ_AHEAD_SHARE: usize = 8;

/// Where a payload lies and how to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) position: Position,
    pub(crate) length: u32,
    pub(crate) check: u32,
}

impl Extent {
    /// What is said of bytes that are not those that were stored.
    pub(crate) fn damage(&self) -> String {
        let (file, byte) = (segment_file(self.position.segment()), self.position.0 & u64::from(u32::MAX));
        let length = self.length;
        format!("the stored bytes do not match their checksum: {file}, {length} bytes from byte {byte} on")
    }
}

impl From<&Delivery> for Extent {
    fn from(delivery: &Delivery) -> Self {
        Self { position: delivery.position, length: delivery.length, check: delivery.check }
    }
}

impl From<&Burial> for Extent {
    fn from(burial: &Burial) -> Self {
        Self { position: burial.position, length: burial.length, check: burial.check }
    }
}

/// Why a payload cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Lost {
    /// It is no longer there: it was moved, or no group needs it any more.
    #[error("the segment is gone")]
    Gone,
    /// The disk could not read it.
    #[error("the disk could not be read")]
    Unreadable,
    /// The bytes are not those that were stored.
    #[error("the checksum does not match")]
    Damaged,
}

/// What the payload store needs from a log.
pub(crate) trait ReadLog: Send + Sync {
    /// Exactly `length` bytes at `position`.
    fn read_at(&self, position: Position, length: usize) -> Result<Vec<u8>, Lost>;
}

/// Checksum of a payload, as it is made at produce and tested at every read.
pub(crate) fn check_of(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

pub(crate) struct PayloadStore {
    tail: Mutex<Cache>,
    ahead: Mutex<Cache>,
    /// Nothing at or above this may be read from the log: it is not written yet.
    written: AtomicU64,
    log: RwLock<Option<Arc<dyn ReadLog>>>,
    stream_reads: Semaphore,
    meters: Arc<Meters>,
}

impl PayloadStore {
    pub(crate) fn new(cache_bytes: usize, meters: Arc<Meters>) -> Self {
        Self {
            tail: Mutex::new(Cache::new(cache_bytes)),
            ahead: Mutex::new(Cache::new((cache_bytes / READ_AHEAD_SHARE).max(2 * READ_AHEAD_BYTES))),
            written: AtomicU64::new(0),
            log: RwLock::new(None),
            stream_reads: Semaphore::new(STREAM_READS_MAX),
            meters,
        }
    }

    /// Reads from this log from now on. What an earlier one held is forgotten: bytes that it never synced may be
    /// different ones by now.
    pub(crate) fn attach(&self, log: Arc<dyn ReadLog>, written: Position) {
        self.detach();
        self.written.store(written.0, Ordering::Release);
        *write(&self.log) = Some(log);
    }

    /// Lets go of the log.
    pub(crate) fn detach(&self) {
        *write(&self.log) = None;
        lock(&self.tail).clear();
        lock(&self.ahead).clear();
    }

    /// Remembers a batch that was just sealed.
    pub(crate) fn put(&self, base: Position, bytes: Bytes) {
        let mut tail = lock(&self.tail);
        tail.put(base, bytes);
        self.meters.cache_bytes.set(tail.bytes() as u64);
    }

    /// Everything below `end` can now be read from the log.
    pub(crate) fn written(&self, end: Position) {
        self.written.store(end.0, Ordering::Release);
    }

    /// The payload, from memory; `None` if it is not there.
    fn cached(&self, extent: Extent) -> Option<Bytes> {
        let length = extent.length as usize;
        let found = lock(&self.tail).find_ordered(extent.position, length);
        found.or_else(|| lock(&self.ahead).find_any(extent.position, length))
    }

    /// The payload, for a task: never blocks its thread on a disk.
    pub(crate) async fn fetch(self: &Arc<Self>, extent: Extent) -> Result<Bytes, Lost> {
        if let Some(bytes) = self.cached(extent) {
            self.meters.cache_hits.one();
            return self.checked(extent, bytes);
        }
        // The semaphore is never closed; a runtime that is shutting down refuses the blocking task.
        let Ok(_permit) = self.stream_reads.acquire().await else { return Err(Lost::Unreadable) };
        let payload_store = Arc::clone(self);
        tokio::task::spawn_blocking(move || payload_store.read(extent)).await.unwrap_or(Err(Lost::Unreadable))
    }

    /// The payload, for a thread that may wait for a disk.
    pub(crate) fn read(&self, extent: Extent) -> Result<Bytes, Lost> {
        if let Some(bytes) = self.cached(extent) {
            self.meters.cache_hits.one();
            return self.checked(extent, bytes);
        }
        self.meters.cache_misses.one();
        let log = read(&self.log).clone().ok_or(Lost::Gone)?;
        let length = extent.length as usize;
        let stretch = self.stretch(extent);
        if stretch > length {
            // What lies behind the payload is only a guess at what is asked for next: if it cannot be read, the
            // payload alone still may.
            if let Ok(bytes) = log.read_at(extent.position, stretch) {
                let bytes = Bytes::from(bytes);
                self.keep_ahead(&log, extent.position, bytes.clone());
                return self.checked(extent, Bytes::copy_from_slice(&bytes[..length]));
            }
        }
        let bytes = log.read_at(extent.position, length)?;
        self.checked(extent, Bytes::from(bytes))
    }

    /// Remembers a stretch, unless its log was let go during the read: it would then serve bytes of an earlier run.
    fn keep_ahead(&self, source: &Arc<dyn ReadLog>, position: Position, bytes: Bytes) {
        // Held until the stretch is in: letting go of a log waits for this, and forgets stretches afterwards.
        let log = read(&self.log);
        if log.as_ref().is_some_and(|log| Arc::ptr_eq(log, source)) {
            lock(&self.ahead).put(position, bytes);
        }
    }

    /// How much to read at once: ahead, but not past what is written, where bytes are still going to change. An older
    /// segment no longer changes, and the log itself refuses to read past its end.
    fn stretch(&self, extent: Extent) -> usize {
        let written = Position(self.written.load(Ordering::Acquire));
        let rest = if written.segment() > extent.position.segment() {
            READ_AHEAD_BYTES
        } else {
            usize::try_from(written.0.saturating_sub(extent.position.0)).unwrap_or(0)
        };
        rest.min(READ_AHEAD_BYTES).max(extent.length as usize)
    }

    fn checked(&self, extent: Extent, bytes: Bytes) -> Result<Bytes, Lost> {
        if check_of(&bytes) == extent.check {
            return Ok(bytes);
        }
        self.meters.payloads_damaged.one();
        tracing::error!(
            segment = extent.position.segment(),
            byte = extent.position.0 & u64::from(u32::MAX),
            length = extent.length,
            "a stored payload does not match its checksum; it is not delivered"
        );
        Err(Lost::Damaged)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use super::*;

    const TEXT: &[u8] = b"bytes of the first run";

    /// A log that is let go while it is being read.
    struct Leaving(Weak<PayloadStore>);

    impl ReadLog for Leaving {
        fn read_at(&self, _: Position, length: usize) -> Result<Vec<u8>, Lost> {
            self.0.upgrade().ok_or(Lost::Gone)?.detach();
            Ok(TEXT[..length].to_vec())
        }
    }

    #[test]
    fn a_read_that_outlives_its_log_leaves_nothing_behind() {
        let payload_store = Arc::new(PayloadStore::new(1 << 20, Arc::default()));
        let end = Position(100 + TEXT.len() as u64);
        payload_store.attach(Arc::new(Leaving(Arc::downgrade(&payload_store))), end);
        let extent = Extent { position: Position(100), length: 5, check: check_of(&TEXT[..5]) };
        assert_eq!(payload_store.read(extent).as_deref(), Ok(&TEXT[..5]));
        assert_eq!(payload_store.cached(extent), None, "the next run may have other bytes there");
    }
}
