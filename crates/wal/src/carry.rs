//! Carries a log from one place to another: reads what a directory holds, also while a broker is at work on it, and makes
//! the files that hold the same again.

use std::io;

use crate::disk::{Disk, DiskFile, read_all, write_all};
use crate::error::{FileError, OpenError};
use crate::examine::{damage, open_segment};
use crate::fill::zero;
use crate::frame::encode;
use crate::names;
use crate::open::survey;
use crate::scan::{Scanner, Slot};
use crate::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::snapshot;
use crate::{Lsn, Options, SEGMENT_BYTES_MAX, Snapshot};

/// What a directory holds, by its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The newest snapshot.
    pub snapshot: Option<Snapshot>,
    /// The numbers of its segments, lowest first.
    pub segments: Vec<u32>,
}

/// Lists a log. A broker may be at work on it: then a file of the list may be gone a moment later.
pub fn holding<D: Disk>(disk: &D) -> Result<Holding, OpenError> {
    let survey = survey(disk)?;
    let snapshot = match survey.snapshots.last_key_value() {
        Some((&upto, &bytes)) => Some(snapshot::load(disk, upto, bytes)?),
        None => None,
    };
    Ok(Holding { snapshot, segments: survey.segments.into_keys().collect() })
}

/// The unbroken run of batches at the start of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where it ends.
    pub end: Lsn,
    /// Whether the log goes on in the next segment.
    pub is_full: bool,
    /// How long the file of a last segment has to be.
    pub file_bytes: u32,
}

/// One batch where it lies.
#[derive(Clone, Copy, Debug)]
pub struct Carried<'a> {
    /// Where its frame begins.
    pub frame: Lsn,
    /// Where it ends, and the next one of this segment begins.
    pub end: Lsn,
    /// Its bytes.
    pub body: &'a [u8],
    /// The frame as it lies in the file.
    pub raw: &'a [u8],
}

/// Measures the run of a segment. A batch that is not whole ends it, unless the log says that it had been synced: that is
/// damage, or, if a broker is at work, a batch that was being written a moment ago.
pub fn run<D: Disk>(disk: &D, number: u32) -> Result<Run, OpenError> {
    let (header, file, bytes) = opened(disk, number)?;
    let failed = |error| FileError::new("read", names::segment(number), error);
    let mut scanner = Scanner::new(header, bytes, |buffer: &mut [u8], at| read_all(&file, buffer, at));
    let mut end = SEGMENT_HEADER_BYTES;
    while end < header.roll_at
        && let Slot::Frame { end: after, .. } = scanner.slot(end).map_err(failed)?
    {
        end = after;
    }
    let run = Run {
        end: Lsn::new(number, end),
        is_full: end >= header.roll_at,
        file_bytes: header.file_bytes().max(end),
    };
    let mut after = end;
    while !run.is_full
        && let Some(at) = scanner.search(after).map_err(failed)?
    {
        after = at;
        if let Slot::Frame { header, .. } = scanner.slot(at).map_err(failed)?
            && header.durable > run.end
        {
            let what = "a frame is not valid although the log says that it had been synced";
            return Err(damage(disk, number, end, what).into());
        }
    }
    Ok(run)
}

/// The first bytes of a segment's file, which are no batch.
pub fn head<D: Disk>(disk: &D, number: u32) -> Result<Vec<u8>, OpenError> {
    opened(disk, number).map(|(header, ..)| header.encode().to_vec())
}

/// Feeds the batches of a segment up to `end`; says whether all of them were there.
pub fn carry<D: Disk, E: From<OpenError>>(
    disk: &D,
    end: Lsn,
    mut each: impl FnMut(Carried<'_>) -> Result<(), E>,
) -> Result<bool, E> {
    let number = end.segment();
    let (header, file, bytes) = opened(disk, number)?;
    let mut scanner = Scanner::new(header, bytes, |buffer: &mut [u8], at| read_all(&file, buffer, at));
    let (mut at, mut raw) = (SEGMENT_HEADER_BYTES, Vec::new());
    while at < end.offset() {
        let slot = scanner.slot(at).map_err(|error| FileError::new("read", names::segment(number), error));
        let Slot::Frame { header: found, body, end } = slot.map_err(OpenError::from)? else {
            return Ok(false);
        };
        let frame = Lsn::new(number, at);
        encode(&mut raw, frame, found.durable, header.salt, body);
        each(Carried { frame, end: Lsn::new(number, end), body, raw: &raw })?;
        at = end;
    }
    Ok(at == end.offset())
}

fn opened<D: Disk>(disk: &D, number: u32) -> Result<(SegmentHeader, D::File, u64), OpenError> {
    let mut survey = names::Survey::default();
    let file = disk.open(&names::segment(number));
    let bytes = file.and_then(|file| file.bytes());
    let bytes = bytes.map_err(|error| FileError::new("read", names::segment(number), error))?;
    survey.segments.insert(number, bytes);
    let (header, file) = open_segment(disk, &survey, number)?;
    Ok((header, file, bytes))
}

/// A segment that is made of batches whose places are known.
pub struct Making<D: Disk> {
    disk: D,
    file: D::File,
    salt: u64,
    end: Lsn,
    frame: Vec<u8>,
}

impl<D: Disk> Making<D> {
    /// Begins it. It has its name only once it is [whole](Self::finish).
    pub fn begin(disk: D, number: u32, options: &Options) -> Result<Self, FileError> {
        let name = names::temp(&names::segment(number));
        let file = disk.create(&name).map_err(|error| FileError::new("create", name, error))?;
        let end = Lsn::new(number, SEGMENT_HEADER_BYTES);
        Ok(Self { disk, file, salt: options.salt_of(number), end, frame: Vec::new() })
    }

    /// The number of the segment.
    pub fn number(&self) -> u32 {
        self.end.segment()
    }

    /// Puts the next batch, which must begin where the one before it ends.
    pub fn put(&mut self, frame: Lsn, body: &[u8]) -> Result<(), OpenError> {
        if frame != self.end {
            let what = "a batch does not begin where the one before it ends";
            return Err(damage(&self.disk, self.end.segment(), self.end.offset(), what).into());
        }
        // All that lies below will have been synced when somebody reads this.
        encode(&mut self.frame, frame, frame, self.salt, body);
        write_all(&self.file, &self.frame, u64::from(frame.offset())).map_err(|error| self.failed(error))?;
        self.end = Lsn::new(frame.segment(), frame.offset() + self.frame.len() as u32);
        Ok(())
    }

    /// Ends it. The log goes on in the next segment, unless this is the last one.
    pub fn finish(self, is_last: bool, options: &Options) -> Result<(), FileError> {
        let end = self.end.offset();
        let reached = end.min(SEGMENT_BYTES_MAX);
        let roll_at = if is_last { options.roll_at().max(reached) } else { reached };
        let header = SegmentHeader { number: self.end.segment(), roll_at, salt: self.salt };
        let name = names::segment(header.number);
        let made = (|| -> io::Result<()> {
            if is_last {
                zero(&self.file, end.into(), u64::from(header.file_bytes().max(end)))?;
            }
            write_all(&self.file, &header.encode(), 0)?;
            self.file.sync_data()?;
            self.disk.rename(&names::temp(&name), &name)?;
            self.disk.sync_dir()
        })();
        made.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> FileError {
        FileError::new("write", names::segment(self.end.segment()), error)
    }
}

/// Puts a snapshot into a directory in which no broker is at work.
pub fn put_snapshot<D: Disk>(disk: &D, snapshot: &Snapshot) -> Result<(), FileError> {
    snapshot::write(disk, snapshot.upto, &snapshot.bytes, &mut |_| true)
}

/// The file of a snapshot: its name, and what stands before its bytes.
pub fn snapshot_file(snapshot: &Snapshot) -> (String, Vec<u8>) {
    let head = snapshot::encode_header(snapshot.upto, &snapshot.bytes);
    (names::snapshot(snapshot.upto), head.to_vec())
}
