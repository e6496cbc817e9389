//! The log in files of one directory, or of a disk in memory. Its claim is the lock on the directory: the operating
//! system refuses a second one, so that nobody is ever deposed.

use driftq_wal::{Disk, Keeper, Options, Prepared, Reader, Writer, segment_file};

use super::{
    Append, AppendError, Archive, Cursor, Each, KeepError, Log, Lsn, Opened, ReadError, Readable,
    ReplayError, Room, SegmentInfo, Snapshot, Space,
};
use crate::failure::StartError;
use crate::memory::MemoryDisk;
use crate::recover::torn_tail;

/// A directory, and how the log is laid out in it.
pub struct FileLog<D: Disk> {
    disk: D,
    options: Options,
}

impl<D: Disk> FileLog<D> {
    /// The log on this disk.
    pub const fn new(disk: D, options: Options) -> Self {
        Self { disk, options }
    }
}

/// A log in memory, which is gone with the value.
pub fn in_memory(segment_bytes: u32) -> FileLog<impl Disk> {
    // Nothing to recycle and nothing to reserve: memory is given back and asked for again.
    let options = Options {
        segment_bytes,
        spares_max: 0,
        spares_ahead: 1,
        spares_for_acks: 0,
        reserve_bytes: 0,
        ..Options::default()
    };
    FileLog::new(MemoryDisk::default(), options)
}

impl<D: Disk> Log for FileLog<D> {
    type Writer = Writer<D>;
    type Archive = FileArchive<D>;

    fn open(&self) -> Result<Opened<Self>, StartError> {
        let opened = driftq_wal::open(self.disk.clone(), self.options.clone())?;
        let driftq_wal::Opened { writer, reader, keeper, snapshot, recovery, start, end } = opened;
        Ok(Opened {
            writer,
            archive: FileArchive { reader, keeper },
            snapshot,
            start,
            end,
            replay_bytes: recovery.bytes,
            torn: recovery.truncated.as_ref().map(torn_tail),
        })
    }
}

impl<D: Disk> Append for Writer<D> {
    fn cursor(&self) -> Cursor {
        self.cursor()
    }

    fn append(&mut self, body: &[u8]) -> Result<Lsn, AppendError> {
        Ok(self.append(body)?)
    }

    fn sync(&mut self) -> Result<Lsn, AppendError> {
        Ok(self.sync()?)
    }
}

/// The files of an open log.
pub struct FileArchive<D: Disk> {
    reader: Reader<D>,
    keeper: Keeper<D>,
}

impl<D: Disk> Clone for FileArchive<D> {
    fn clone(&self) -> Self {
        Self { reader: self.reader.clone(), keeper: self.keeper.clone() }
    }
}

impl<D: Disk> Archive for FileArchive<D> {
    fn read_at(&self, at: Lsn, bytes: u32) -> Result<Vec<u8>, ReadError> {
        Ok(self.reader.read_at(at, bytes)?)
    }

    fn replay(&self, from: Lsn, to: Lsn, each: Each<'_>) -> Result<(), ReplayError> {
        Ok(self.reader.replay(from, Some(to), each).map(drop)?)
    }

    fn segments(&self) -> Vec<SegmentInfo> {
        self.keeper.segments()
    }

    fn trim(&self, segments: &[u32]) -> Result<(), KeepError> {
        Ok(self.keeper.drop_segments(segments)?)
    }

    fn durable(&self) -> Lsn {
        self.keeper.durable()
    }

    fn snapshot_upto(&self) -> Lsn {
        self.keeper.snapshot_upto()
    }

    fn snapshot(&self) -> Result<Option<Snapshot>, KeepError> {
        self.keeper.snapshot().map_err(|error| KeepError::Failed(error.to_string()))
    }

    fn put_snapshot(&self, upto: Lsn, bytes: &[u8], readable: Readable<'_>) -> Result<(), KeepError> {
        Ok(self.keeper.put_snapshot_if(upto, bytes, readable)?)
    }

    fn segment_end(&self, number: u32) -> Option<u64> {
        self.reader.segment_end(number)
    }

    fn segment_name(&self, number: u32) -> String {
        segment_file(number)
    }
}

impl<D: Disk> Space for FileArchive<D> {
    fn room(&self) -> Room {
        self.keeper.room()
    }

    fn can_roll(&self) -> bool {
        self.keeper.spare_ready()
    }

    fn next_is_for_acks(&self) -> bool {
        self.keeper.only_for_acks() && self.keeper.spare_ready()
    }

    fn acks_provided(&self) -> bool {
        self.keeper.acks_provided()
    }

    fn is_stocked(&self) -> bool {
        self.keeper.spares_complete()
    }

    fn is_provided(&self) -> bool {
        self.keeper.reserve_ready() && self.keeper.spares_complete()
    }

    fn provide(&self) -> bool {
        // A segment first, if the log could not go on without it; then the reserve: without a snapshot nothing that is
        // acked is given back.
        let log_goes_on = self.keeper.spare_ready() || made(self.keeper.prepare_spare(), "a spare segment");
        if !log_goes_on || !made(self.keeper.restore_reserve(), "the reserve") {
            return false;
        }
        while !self.keeper.spares_complete() {
            if !made(self.keeper.prepare_spare(), "a spare segment") {
                return false;
            }
        }
        true
    }

    fn is_tight(&self) -> bool {
        self.keeper.is_tight()
    }
}

fn made(outcome: Result<Prepared, driftq_wal::KeepError>, what: &str) -> bool {
    match outcome {
        Ok(Prepared::Enough | Prepared::Made) => true,
        Ok(Prepared::NoSpace) => false,
        Err(error) => {
            tracing::error!(%error, "{what} could not be made");
            false
        }
    }
}

impl From<driftq_wal::WriteError> for AppendError {
    fn from(error: driftq_wal::WriteError) -> Self {
        match error {
            driftq_wal::WriteError::NoSpace => Self::NoSpace,
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<driftq_wal::ReadError> for ReadError {
    fn from(error: driftq_wal::ReadError) -> Self {
        match error {
            driftq_wal::ReadError::Gone => Self::Gone,
            driftq_wal::ReadError::OutOfRange => Self::OutOfRange,
            driftq_wal::ReadError::Io(error) => Self::Failed(error.to_string()),
        }
    }
}

impl From<driftq_wal::ReplayError> for ReplayError {
    fn from(error: driftq_wal::ReplayError) -> Self {
        match error {
            driftq_wal::ReplayError::Damaged(damage) => Self::Damaged(damage.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<driftq_wal::KeepError> for KeepError {
    fn from(error: driftq_wal::KeepError) -> Self {
        match error {
            driftq_wal::KeepError::NoSpace | driftq_wal::KeepError::Io(_) => Self::Failed(error.to_string()),
            error => Self::Refused(error.to_string()),
        }
    }
}

impl From<driftq_wal::OpenError> for StartError {
    fn from(error: driftq_wal::OpenError) -> Self {
        use driftq_wal::OpenError;
        match error {
            OpenError::Locked { dir } => Self::Locked { path: dir },
            OpenError::Damaged(damage) => Self::Damaged(damage.to_string()),
            OpenError::NewerVersion { .. } | OpenError::Io(_) => Self::Log(error.to_string()),
            OpenError::Options(what) => Self::Config(what),
        }
    }
}
