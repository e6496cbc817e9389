//! Opening a log: claim the directory, judge what is there, settle the end.

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::cursor::{Cursor, first_frame};
use crate::disk::{Disk, DiskFile, LockError};
use crate::error::{FileError, OpenError, ReplayError};
use crate::examine::{Examined, FoundSegment, Tail, examine};
use crate::fill::zeroed;
use crate::names::{self, Survey};
use crate::newest;
use crate::segment::{SEGMENT_HEADER_BYTES, Segment, SegmentHeader};
use crate::settle::settle;
use crate::shared::{Shared, Spare, Start};
use crate::snapshot;
use crate::{Keeper, Lsn, Options, Reader, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, Snapshot, Writer};

/// An open log, and what was found in it.
pub struct Opened<D: Disk> {
    /// Appends and syncs; for the log thread.
    pub writer: Writer<D>,
    /// Reads and replays; for any thread.
    pub reader: Reader<D>,
    /// Spares, snapshots, dropping; for the housekeeping thread.
    pub keeper: Keeper<D>,
    /// The newest snapshot, if one was ever put.
    pub snapshot: Option<Snapshot>,
    /// What recovery did.
    pub recovery: RecoveryReport,
    /// Where replay starts: the snapshot's position, or the start of the log.
    pub start: Lsn,
    /// Where the log ends; everything below is durable.
    pub end: Lsn,
}

/// What recovery read and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Segment files in the directory.
    pub segments: usize,
    /// Frames that replay will feed.
    pub frames: u64,
    /// Bytes these frames take on disk.
    pub bytes: u64,
    /// The torn tail that was cut off, if there was one.
    pub truncated: Option<Truncated>,
}

/// Remains of a batch that never became durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// The segment file.
    pub file: String,
    /// Where the log now ends.
    pub at_byte: u64,
    /// How many bytes after that were made unreadable.
    pub bytes: u64,
}

impl Truncated {
    /// What is cut off between the end of the log and the end of what was found after it.
    pub(crate) fn new(end: Lsn, torn_end: u32) -> Self {
        Self {
            file: names::segment(end.segment()),
            at_byte: u64::from(end.offset()),
            bytes: u64::from(torn_end.saturating_sub(end.offset())),
        }
    }
}

/// Opens the log in `disk`, or starts one if the directory holds none.
pub fn open<D: Disk>(disk: D, options: Options) -> Result<Opened<D>, OpenError> {
    check(&options)?;
    let lock = claim(&disk)?;
    let survey = survey(&disk)?;
    // Names that another life of this process left in memory only must be durable before use.
    disk.sync_dir().map_err(|error| FileError::new("sync", disk.name(), error))?;
    let snapshot = match survey.snapshots.last_key_value() {
        Some((&upto, &bytes)) => Some(snapshot::load(&disk, upto, bytes)?),
        None => None,
    };
    let upto = snapshot.as_ref().map(|snapshot| snapshot.upto);
    let examined = match (survey.segments.is_empty(), upto, survey.newest) {
        (true, None, None) => begin(&disk, &options)?,
        _ => examine(&disk, &survey, upto)?,
    };
    let (active, report) = finish(&disk, &examined)?;
    if survey.newest != Some(examined.tail.end.segment()) {
        let noted = newest::note(&disk, examined.tail.end.segment());
        match noted.map_err(|error| FileError::new("write", names::NEWEST, error)) {
            // Without it only less is checked at the next start.
            Err(error) if !error.is_full() => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
    }
    remove_leftovers(&disk, &survey)?;
    let (spares, spare_next) = spares(&disk, &options, &survey)?;
    let reserve = survey.reserve.unwrap_or(0);
    let recovered = Recovered { examined, active, snapshot, report, spares, spare_next, reserve };
    Ok(assemble(disk, options, lock, recovered))
}

fn check(options: &Options) -> Result<(), OpenError> {
    if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&options.segment_bytes) {
        return Err(OpenError::Options("segment_bytes must be between 4 KiB and 1 GiB"));
    }
    if !options.segment_bytes.is_multiple_of(64) {
        return Err(OpenError::Options("segment_bytes must be a multiple of 64"));
    }
    Ok(())
}

/// Takes the directory's lock.
pub(crate) fn claim<D: Disk>(disk: &D) -> Result<D::Lock, OpenError> {
    disk.lock().map_err(|error| match error {
        LockError::Busy => OpenError::Locked { dir: disk.name() },
        LockError::Io(error) => FileError::new("lock", names::LOCK, error).into(),
    })
}

/// Lists the directory.
pub(crate) fn survey<D: Disk>(disk: &D) -> Result<Survey, FileError> {
    let entries = disk.list().map_err(|error| FileError::new("list", disk.name(), error))?;
    let mut survey = Survey::of(entries);
    survey.newest = newest::noted(disk);
    Ok(survey)
}

/// Starts a log in an empty directory.
fn begin<D: Disk>(disk: &D, options: &Options) -> Result<Examined, OpenError> {
    let number = 1;
    let header = SegmentHeader { number, roll_at: options.roll_at(), salt: options.salt_of(number) };
    let bytes = u64::from(options.segment_bytes);
    zeroed(disk, &names::segment(number), &header.encode(), bytes)?;
    let start = first_frame(number);
    let tail = Tail { end: start, confirmed: start, torn_end: None };
    let segments = vec![FoundSegment { header, end: SEGMENT_HEADER_BYTES }];
    Ok(Examined { segments, start, tail, frames: 0, bytes: 0 })
}

/// The file that is appended to, and its length.
struct Active<D: Disk> {
    file: D::File,
    bytes: u32,
}

/// Settles the end of the log and reports.
fn finish<D: Disk>(disk: &D, examined: &Examined) -> Result<(Active<D>, RecoveryReport), FileError> {
    let tail = &examined.tail;
    let name = names::segment(tail.end.segment());
    let failed = |error| FileError::new("settle the end of", &name, error);
    let file = disk.open(&name).map_err(failed)?;
    settle(&file, tail).map_err(failed)?;
    let bytes = u32::try_from(file.bytes().map_err(failed)?).unwrap_or(u32::MAX);
    let report = RecoveryReport {
        segments: examined.segments.len(),
        frames: examined.frames,
        bytes: examined.bytes,
        truncated: tail.torn_end.map(|torn_end| Truncated::new(tail.end, torn_end)),
    };
    Ok((Active { file, bytes }, report))
}

/// Removes unfinished files, and snapshots that a newer, intact one replaced.
fn remove_leftovers<D: Disk>(disk: &D, survey: &Survey) -> Result<(), FileError> {
    let older = survey.snapshots.keys().rev().skip(1).map(|&upto| names::snapshot(upto));
    for name in survey.temps.iter().cloned().chain(older) {
        match disk.remove(&name) {
            // Starting a log may have finished the file under its temporary name.
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(FileError::new("remove", name, error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Takes over usable spares and removes the others.
fn spares<D: Disk>(
    disk: &D,
    options: &Options,
    survey: &Survey,
) -> Result<(VecDeque<Spare<D>>, u64), FileError> {
    let mut spares = VecDeque::new();
    for (&number, &bytes) in &survey.spares {
        let name = names::spare(number);
        // Another segment size may have been configured since the spare was made.
        if bytes == u64::from(options.segment_bytes) && spares.len() < options.spares_kept_max() {
            let file = disk.open(&name).map_err(|error| FileError::new("open", &name, error))?;
            spares.push_back(Spare { name, file });
        } else {
            disk.remove(&name).map_err(|error| FileError::new("remove", &name, error))?;
        }
    }
    let next = survey.spares.last_key_value().map_or(0, |(&number, _)| number.wrapping_add(1));
    Ok((spares, next))
}

/// Everything recovery came up with.
struct Recovered<D: Disk> {
    examined: Examined,
    active: Active<D>,
    snapshot: Option<Snapshot>,
    report: RecoveryReport,
    spares: VecDeque<Spare<D>>,
    spare_next: u64,
    /// Bytes of the reserve.
    reserve: u64,
}

/// Makes the handles of a recovered log.
fn assemble<D: Disk>(disk: D, options: Options, lock: D::Lock, recovered: Recovered<D>) -> Opened<D> {
    let Recovered { examined, active, snapshot, report, spares, spare_next, reserve } = recovered;
    let (start, end) = (examined.start, examined.tail.end);
    // Only the active file stays open; the others are opened when they are read.
    let mut segments: Vec<Segment<D>> =
        examined.segments.iter().map(|found| Segment::new(found.header, found.end, None)).collect();
    let last = segments.pop().expect("an examined log has a segment");
    let (header, roll_at) = (last.header, last.header.roll_at);
    segments.push(Segment::new(header, end.offset(), Some(active.file)));
    let start_state = Start {
        segments,
        spares,
        spare_next,
        end,
        roll_at,
        snapshot: snapshot.as_ref().map_or(Lsn::ZERO, |snapshot| snapshot.upto),
        snapshot_bytes: snapshot.as_ref().map_or(0, |snapshot| snapshot.bytes.len() as u64),
        reserve,
    };
    let cursor = Cursor::new(end, roll_at, options.roll_at());
    let shared = Arc::new(Shared::new(disk, options, lock, start_state));
    let segment = shared.segment(header.number).expect("the active segment was just listed");
    Opened {
        writer: Writer::new(Arc::clone(&shared), segment, cursor, active.bytes),
        reader: Reader::new(Arc::clone(&shared)),
        keeper: Keeper::new(shared),
        snapshot,
        recovery: report,
        start,
        end,
    }
}

impl<D: Disk> Opened<D> {
    /// Feeds every recovered body after the snapshot, in order, with the position of its first byte.
    pub fn replay(&self, each: &mut dyn FnMut(Lsn, &[u8]) -> ControlFlow<()>) -> Result<Lsn, ReplayError> {
        self.reader.replay(self.start, Some(self.end), each)
    }
}
