//! What the writer, the readers and the keeper of one open log have in common.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::disk::Disk;
use crate::segment::Segment;
use crate::{Lsn, Options, names};

/// How many segment files are kept open.
const FILES_OPEN_MAX: usize = 256;

/// A segment file that is not in use.
pub(crate) struct Spare<D: Disk> {
    pub(crate) name: String,
    pub(crate) file: D::File,
}

pub(crate) struct Shared<D: Disk> {
    pub(crate) disk: D,
    pub(crate) options: Options,
    segments: RwLock<BTreeMap<u32, Arc<Segment<D>>>>,
    spares: Mutex<VecDeque<Spare<D>>>,
    /// Length of `spares`, readable without its lock.
    spares_ready: AtomicUsize,
    spare_next: AtomicU64,
    /// End of the last appended frame.
    appended: AtomicU64,
    durable: AtomicU64,
    /// Roll mark of the active segment.
    roll_at: AtomicU32,
    /// Position of the newest durable snapshot, zero if there is none.
    snapshot: AtomicU64,
    /// Its size.
    snapshot_bytes: AtomicU64,
    /// Size of the reserve, zero if there is none.
    reserve: AtomicU64,
    /// Keeps housekeeping steps from overlapping.
    pub(crate) housekeeping: Mutex<()>,
    /// Held as long as any handle of the log lives.
    _lock: D::Lock,
}

/// Where a freshly opened log stands.
pub(crate) struct Start<D: Disk> {
    pub(crate) segments: Vec<Segment<D>>,
    pub(crate) spares: VecDeque<Spare<D>>,
    pub(crate) spare_next: u64,
    pub(crate) end: Lsn,
    pub(crate) roll_at: u32,
    pub(crate) snapshot: Lsn,
    pub(crate) snapshot_bytes: u64,
    pub(crate) reserve: u64,
}

impl<D: Disk> Shared<D> {
    pub(crate) fn new(disk: D, options: Options, lock: D::Lock, start: Start<D>) -> Self {
        let segments = start.segments.into_iter().map(|segment| (segment.header.number, Arc::new(segment)));
        Self {
            disk,
            options,
            segments: RwLock::new(segments.collect()),
            spares_ready: AtomicUsize::new(start.spares.len()),
            spares: Mutex::new(start.spares),
            spare_next: AtomicU64::new(start.spare_next),
            appended: AtomicU64::new(start.end.0),
            durable: AtomicU64::new(start.end.0),
            roll_at: AtomicU32::new(start.roll_at),
            snapshot: AtomicU64::new(start.snapshot.0),
            snapshot_bytes: AtomicU64::new(start.snapshot_bytes),
            reserve: AtomicU64::new(start.reserve),
            housekeeping: Mutex::new(()),
            _lock: lock,
        }
    }

    pub(crate) fn segment(&self, number: u32) -> Option<Arc<Segment<D>>> {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        let segment = segments.get(&number).cloned()?;
        if !segment.is_open() {
            self.close_some(&segments);
        }
        Some(segment)
    }

    /// Makes room for one more open file. The active segment, the last, is never closed.
    fn close_some(&self, segments: &BTreeMap<u32, Arc<Segment<D>>>) {
        if segments.len() <= FILES_OPEN_MAX {
            return;
        }
        let idle = segments.values().rev().skip(1).filter(|segment| segment.is_open());
        for segment in idle.skip(FILES_OPEN_MAX) {
            segment.close();
        }
    }

    pub(crate) fn segments(&self) -> Vec<Arc<Segment<D>>> {
        self.segments.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Lists a segment; it becomes the active one.
    pub(crate) fn add_segment(&self, segment: Arc<Segment<D>>) {
        self.roll_at.store(segment.header.roll_at, Ordering::Release);
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        segments.insert(segment.header.number, segment);
        self.close_some(&segments);
    }

    pub(crate) fn remove_segment(&self, number: u32) -> Option<Arc<Segment<D>>> {
        self.segments.write().unwrap_or_else(PoisonError::into_inner).remove(&number)
    }

    fn spares(&self) -> MutexGuard<'_, VecDeque<Spare<D>>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a spare. It still counts as ready until [`Shared::count_spares`]: while the writer is
    /// changing segments there is neither a spare nor room in the old one, which must not look like
    /// a full disk.
    pub(crate) fn take_spare(&self) -> Option<Spare<D>> {
        self.spares().pop_front()
    }

    pub(crate) fn add_spare(&self, spare: Spare<D>) {
        self.spares().push_back(spare);
        self.count_spares();
    }

    pub(crate) fn count_spares(&self) {
        let spares = self.spares();
        self.spares_ready.store(spares.len(), Ordering::Release);
    }

    pub(crate) fn spares_ready(&self) -> usize {
        self.spares_ready.load(Ordering::Acquire)
    }

    /// A spare name that was not used before.
    pub(crate) fn spare_name(&self) -> String {
        names::spare(self.spare_next.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn appended(&self) -> Lsn {
        Lsn(self.appended.load(Ordering::Acquire))
    }

    pub(crate) fn set_appended(&self, end: Lsn) {
        self.appended.store(end.0, Ordering::Release);
    }

    pub(crate) fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    pub(crate) fn set_durable(&self, upto: Lsn) {
        self.durable.store(upto.0, Ordering::Release);
    }

    pub(crate) fn snapshot(&self) -> Lsn {
        Lsn(self.snapshot.load(Ordering::Acquire))
    }

    pub(crate) fn set_snapshot(&self, upto: Lsn, bytes: u64) {
        self.snapshot.store(upto.0, Ordering::Release);
        self.snapshot_bytes.store(bytes, Ordering::Release);
    }

    pub(crate) fn snapshot_bytes(&self) -> u64 {
        self.snapshot_bytes.load(Ordering::Acquire)
    }

    /// How large the reserve should be now.
    pub(crate) fn reserve_wanted(&self) -> u64 {
        self.options.reserve_bytes_for(self.snapshot_bytes())
    }

    pub(crate) fn reserve(&self) -> u64 {
        self.reserve.load(Ordering::Acquire)
    }

    pub(crate) fn set_reserve(&self, bytes: u64) {
        self.reserve.store(bytes, Ordering::Release);
    }

    pub(crate) fn roll_at(&self) -> u32 {
        self.roll_at.load(Ordering::Acquire)
    }
}
