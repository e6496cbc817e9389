//! Housekeeping beside the writer: spares, snapshots, dropping old segments.

use std::sync::{Arc, MutexGuard, PoisonError};

use crate::disk::{Disk, DiskFile};
use crate::error::{FileError, KeepError, OpenError};
use crate::fill::{extended, zeroed};
use crate::open::survey;
use crate::shared::{Shared, Spare};
use crate::snapshot::Readable;
use crate::{Lsn, Room, Snapshot, names, snapshot};

/// Does what may take long, in any thread, without disturbing the writer.
pub struct Keeper<D: Disk> {
    shared: Arc<Shared<D>>,
}

impl<D: Disk> Clone for Keeper<D> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

/// Outcome of preparing a file ahead of its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// It was there already.
    Enough,
    /// It was made.
    Made,
    /// The disk is full. Nothing was left behind.
    NoSpace,
}

/// One segment of an open log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its number.
    pub number: u32,
    /// Bytes in use, header included; the whole file for segments that were not replayed.
    pub bytes: u32,
    /// Whether the writer is (or may still be) appending to it.
    pub active: bool,
}

impl<D: Disk> Keeper<D> {
    pub(crate) fn new(shared: Arc<Shared<D>>) -> Self {
        Self { shared }
    }

    /// Makes a zero-filled segment file ready, unless there are as many as should be made ahead.
    pub fn prepare_spare(&self) -> Result<Prepared, KeepError> {
        let _one_at_a_time = self.housekeeping();
        if self.spares_complete() {
            return Ok(Prepared::Enough);
        }
        let bytes = u64::from(self.shared.options.segment_bytes);
        if self.shared.disk.free_bytes().is_some_and(|free| free < bytes + self.snapshot_needs()) {
            return Ok(Prepared::NoSpace);
        }
        let name = self.shared.spare_name();
        match zeroed(&self.shared.disk, &name, &[], bytes) {
            Ok(file) => {
                self.shared.add_spare(Spare { name, file });
                Ok(Prepared::Made)
            }
            Err(error) if error.is_full() => Ok(Prepared::NoSpace),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the disk is close to full, so that the next snapshot should not wait until there is much to fold.
    pub fn is_tight(&self) -> bool {
        let options = &self.shared.options;
        let segments = u64::from(options.segment_bytes) * (options.spares_made() as u64 + 1);
        self.shared.disk.free_bytes().is_some_and(|free| free < segments + self.snapshot_needs())
    }

    /// Space that the next snapshot may need besides the reserve: what was appended since the last one tells how much
    /// larger than that it can be. A disk that is nearly full is not filled by segments as long as a snapshot might
    /// not fit afterwards; one that is made now is small again.
    fn snapshot_needs(&self) -> u64 {
        if self.shared.options.reserve_bytes == 0 {
            return 0;
        }
        let upto = self.shared.snapshot();
        let since =
            self.shared.segments().into_iter().filter(|segment| segment.header.number >= upto.segment());
        let appended: u64 = since.map(|segment| u64::from(segment.end())).sum();
        let appended = appended.saturating_sub(u64::from(upto.offset()));
        (self.shared.snapshot_bytes() + appended).saturating_sub(self.shared.reserve())
    }

    /// Whether the writer can start another segment. Cheap.
    pub fn spare_ready(&self) -> bool {
        self.shared.spares_ready() > 0
    }

    /// Whether there are as many spares as should be made ahead, those for acks included. Cheap.
    pub fn spares_complete(&self) -> bool {
        self.shared.spares_ready() >= self.shared.options.spares_made()
    }

    /// Whether the next segment would be one that is kept for acks. Cheap.
    pub fn only_for_acks(&self) -> bool {
        self.shared.spares_ready() <= self.shared.options.spares_for_acks
    }

    /// Whether all that is kept for acks is there. Cheap.
    pub fn acks_provided(&self) -> bool {
        self.shared.spares_ready() >= self.shared.options.spares_for_acks
    }

    /// Whether a snapshot will find room on a full disk. Cheap.
    pub fn reserve_ready(&self) -> bool {
        self.shared.reserve() >= self.shared.reserve_wanted()
    }

    /// How much can be appended without asking the disk for space. Cheap.
    pub fn room(&self) -> Room {
        let (used, roll_at) = (self.shared.appended().offset(), self.shared.roll_at());
        match Room::of(used, roll_at, self.shared.spares_ready(), self.shared.options.spares_for_acks) {
            // Without a snapshot nothing that acks free is given back.
            Room::Plenty if !self.reserve_ready() => Room::Scarce,
            room => room,
        }
    }

    /// Everything below is durable.
    pub fn durable(&self) -> Lsn {
        self.shared.durable()
    }

    /// Position of the newest durable snapshot; [`Lsn::ZERO`] if there is none.
    pub fn snapshot_upto(&self) -> Lsn {
        self.shared.snapshot()
    }

    /// Reads the newest durable snapshot back; `None` if there is none.
    pub fn snapshot(&self) -> Result<Option<Snapshot>, OpenError> {
        let _one_at_a_time = self.housekeeping();
        let upto = self.snapshot_upto();
        match self.survey()?.snapshots.get(&upto) {
            Some(&bytes) => snapshot::load(&self.shared.disk, upto, bytes).map(Some),
            None => Ok(None),
        }
    }

    /// Stores a snapshot that stands for every frame below `upto` and removes the one before it.
    ///
    /// On a full disk the reserve is given up to make room; [`Keeper::restore_reserve`] brings it back.
    pub fn put_snapshot(&self, upto: Lsn, bytes: &[u8]) -> Result<(), KeepError> {
        self.put_snapshot_if(upto, bytes, &mut |_| true)
    }

    /// As [`Keeper::put_snapshot`], unless `readable` makes no sense of the bytes: the one before it then stays.
    pub fn put_snapshot_if(&self, upto: Lsn, bytes: &[u8], readable: Readable<'_>) -> Result<(), KeepError> {
        let _one_at_a_time = self.housekeeping();
        let (durable, latest) = (self.shared.durable(), self.shared.snapshot());
        if upto > durable {
            return Err(KeepError::NotDurable { upto, durable });
        }
        if upto < latest {
            return Err(KeepError::Outdated { upto, latest });
        }
        let disk = &self.shared.disk;
        let written = match snapshot::write(disk, upto, bytes, readable) {
            Err(error) if error.is_full() && disk.remove(names::RESERVE).is_ok() => {
                self.shared.set_reserve(0);
                // Some file systems hand the space out again only after this.
                disk.sync_dir().map_err(|error| FileError::new("sync", disk.name(), error))?;
                snapshot::write(disk, upto, bytes, readable)
            }
            written => written,
        };
        match written {
            Ok(()) => {}
            Err(error) if error.is_full() => return Err(KeepError::NoSpace),
            Err(error) => return Err(error.into()),
        }
        self.shared.set_snapshot(upto, bytes.len() as u64);
        // Best effort: the new snapshot is in force, and opening the log removes older ones.
        let older = self.survey()?.snapshots;
        for (&older, _) in older.range(..upto) {
            let _ = disk.remove(&names::snapshot(older));
        }
        if older.range(..upto).next().is_some() {
            let _ = disk.sync_dir();
        }
        Ok(())
    }

    /// Makes the reserve again if it is missing or too small for the next snapshot.
    pub fn restore_reserve(&self) -> Result<Prepared, KeepError> {
        let _one_at_a_time = self.housekeeping();
        if self.reserve_ready() {
            return Ok(Prepared::Enough);
        }
        let (disk, bytes) = (&self.shared.disk, self.shared.reserve_wanted());
        // What is there stays there: a reserve that is too small is better than none.
        let made = match self.shared.reserve() {
            0 => zeroed(disk, names::RESERVE, &[], bytes).map(drop),
            old => extended(disk, names::RESERVE, old, bytes),
        };
        match made {
            Ok(()) => {
                self.shared.set_reserve(bytes);
                Ok(Prepared::Made)
            }
            Err(error) if error.is_full() => Ok(Prepared::NoSpace),
            Err(error) => Err(error.into()),
        }
    }

    /// Drops segments: their files are recycled as spares or removed. Unknown ones are passed over.
    ///
    /// Only segments numbered below the one that the newest snapshot continues in are accepted;
    /// one that is not refuses the whole call. Returns once no read can touch the files any more.
    pub fn drop_segments(&self, numbers: &[u32]) -> Result<(), KeepError> {
        let _one_at_a_time = self.housekeeping();
        let needed_from = self.shared.snapshot().segment();
        if let Some(&segment) = numbers.iter().find(|&&number| number >= needed_from) {
            return Err(KeepError::StillNeeded { segment });
        }
        let mut recycled = Vec::new();
        for &number in numbers {
            if let Some(segment) = self.shared.remove_segment(number) {
                segment.forget();
                recycled.extend(self.retire(&segment.name(), recycled.len())?);
            }
        }
        let disk = &self.shared.disk;
        disk.sync_dir().map_err(|error| FileError::new("sync", disk.name(), error))?;
        // Not before their old names are gone for good: a crash must not bring back a segment whose contents have
        // been replaced or cut, and a backup must not find one.
        for spare in recycled {
            self.trim(&spare)?;
            self.shared.add_spare(spare);
        }
        Ok(())
    }

    /// Gives an unused segment file a new life as a spare, or none.
    fn retire(&self, name: &str, recycled: usize) -> Result<Option<Spare<D>>, FileError> {
        let (disk, options) = (&self.shared.disk, &self.shared.options);
        let failed = |error| FileError::new("recycle", name, error);
        let spares = self.shared.spares_ready() + recycled;
        // Without a reserve the space is needed for that, once acks have what they need.
        let wanted = if self.reserve_ready() { options.spares_max } else { options.spares_for_acks.max(1) };
        if spares < options.spares_max.min(wanted) {
            let file = disk.open(name).map_err(failed)?;
            if file.bytes().map_err(failed)? >= options.segment_bytes.into() {
                let spare = Spare { name: self.shared.spare_name(), file };
                disk.rename(name, &spare.name).map_err(failed)?;
                return Ok(Some(spare));
            }
        }
        disk.remove(name).map_err(failed)?;
        Ok(None)
    }

    /// Cuts a spare to the size of a new segment: the last batch of the segment that it was may reach beyond that.
    fn trim(&self, spare: &Spare<D>) -> Result<(), FileError> {
        let failed = |error| FileError::new("recycle", &spare.name, error);
        let wanted = u64::from(self.shared.options.segment_bytes);
        if spare.file.bytes().map_err(failed)? > wanted {
            spare.file.set_bytes(wanted).map_err(failed)?;
            spare.file.sync_data().map_err(failed)?;
        }
        Ok(())
    }

    /// Every segment, lowest first.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        let segments = self.shared.segments();
        let last = segments.last().map_or(0, |segment| segment.header.number);
        let info = segments.iter().map(|segment| SegmentInfo {
            number: segment.header.number,
            bytes: segment.end(),
            active: segment.header.number == last,
        });
        info.collect()
    }

    /// Bytes that the log's files take, spares and reserve included.
    pub fn disk_bytes(&self) -> Result<u64, KeepError> {
        Ok(self.survey()?.bytes)
    }

    fn survey(&self) -> Result<names::Survey, FileError> {
        survey(&self.shared.disk)
    }

    fn housekeeping(&self) -> MutexGuard<'_, ()> {
        self.shared.housekeeping.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
