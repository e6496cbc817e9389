//! Reads a log from its snapshot to its end and judges it. Changes nothing.

use crate::cursor::first_frame;
use crate::disk::{Disk, DiskFile, read_all};
use crate::error::{Damage, FileError, OpenError};
use crate::names::{self, Survey};
use crate::scan::{Scanner, Slot};
use crate::segment::{BadHeader, SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::{FORMAT_VERSION, Lsn};

/// A segment file whose header was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundSegment {
    pub(crate) header: SegmentHeader,
    /// End of what is readable: of the last frame, or of the file for segments that are not replayed.
    pub(crate) end: u32,
}

/// Where the log ends, and what lies beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    /// End of the last valid frame.
    pub(crate) end: Lsn,
    /// Everything below is known to have been synced.
    pub(crate) confirmed: Lsn,
    /// End of the remains of frames that never became durable, if there are any after `end`.
    pub(crate) torn_end: Option<u32>,
}

/// A log without damage.
pub(crate) struct Examined {
    /// Every segment, lowest first; never empty.
    pub(crate) segments: Vec<FoundSegment>,
    /// Where replay starts.
    pub(crate) start: Lsn,
    pub(crate) tail: Tail,
    /// Valid frames from `start` on.
    pub(crate) frames: u64,
    /// What they take on disk.
    pub(crate) bytes: u64,
}

/// What a walk through one segment found.
struct Walk {
    end: u32,
    frames: u64,
    /// Highest `durable` of any valid frame.
    durable: Lsn,
    /// Remains after `end`; only looked for in the last segment.
    torn_end: Option<u32>,
}

/// Examines a log that has at least one segment. `upto` is the snapshot's position, if there is one.
pub(crate) fn examine<D: Disk>(disk: &D, survey: &Survey, upto: Option<Lsn>) -> Result<Examined, OpenError> {
    let start = upto.unwrap_or_else(|| first_frame(1));
    check_chain(disk, survey, start.segment())?;
    let mut segments = Vec::with_capacity(survey.segments.len());
    for (&number, &bytes) in &survey.segments {
        // Not kept open: there may be more segments than a process may have files.
        let (header, _) = open_segment(disk, survey, number)?;
        // No frame reaches past 32 bits of offset, so nor does anything that is read back.
        segments.push(FoundSegment { header, end: u32::try_from(bytes).unwrap_or(u32::MAX) });
    }
    let last = segments.len() - 1;
    let (mut frames, mut bytes, mut confirmed, mut torn_end) = (0, 0, start, None);
    let first = segments.partition_point(|found| found.header.number < start.segment());
    for (index, found) in segments.iter_mut().enumerate().skip(first) {
        let number = found.header.number;
        if index == last && found.end < found.header.file_bytes() {
            // What the missing bytes held cannot be told: perhaps nothing, perhaps what was acknowledged last.
            return Err(damage(disk, number, found.end, "the file is shorter than it was made").into());
        }
        let from = if number == start.segment() { start.offset() } else { SEGMENT_HEADER_BYTES };
        if from > found.end {
            let what = "the file ends before the position its snapshot continues from";
            return Err(damage(disk, number, found.end, what).into());
        }
        let file = disk.open(&names::segment(number));
        let walked = file.and_then(|file| walk(&file, found, from, index == last));
        let walk = walked.map_err(|error| FileError::new("read", names::segment(number), error))?;
        confirmed = confirmed.max(walk.durable).max(Lsn::new(number, from));
        judge(disk, &found.header, &walk, index == last, confirmed)?;
        frames += walk.frames;
        bytes += u64::from(walk.end - from);
        found.end = walk.end;
        torn_end = walk.torn_end;
    }
    let end = Lsn::new(segments[last].header.number, segments[last].end);
    let tail = Tail { end, confirmed, torn_end };
    Ok(Examined { segments, start, tail, frames, bytes })
}

/// Recovery needs an unbroken run of segments from `first` on.
fn check_chain<D: Disk>(disk: &D, survey: &Survey, first: u32) -> Result<(), Damage> {
    let last = survey.segments.keys().next_back().copied().unwrap_or(0);
    let mut expected = first;
    for (&number, _) in survey.segments.range(first..) {
        if number != expected {
            break;
        }
        expected = expected.saturating_add(1);
    }
    if expected == first {
        return Err(damage(disk, first, 0, "the segment that recovery starts from is missing"));
    }
    if expected <= last {
        return Err(damage(disk, expected, 0, "the segment is missing although later ones exist"));
    }
    if survey.newest.is_some_and(|newest| newest > last) {
        return Err(damage(disk, expected, 0, "the segment is missing although it had been begun"));
    }
    Ok(())
}

/// Opens a segment and reads its header.
pub(crate) fn open_segment<D: Disk>(
    disk: &D,
    survey: &Survey,
    number: u32,
) -> Result<(SegmentHeader, D::File), OpenError> {
    let name = names::segment(number);
    let failed = |error| FileError::new("read", name.clone(), error);
    let file = disk.open(&name).map_err(failed)?;
    if let Some(&header) = survey.headers.get(&number) {
        return Ok((header, file));
    }
    let bytes = survey.segments.get(&number).copied().unwrap_or(0);
    if bytes < u64::from(SEGMENT_HEADER_BYTES) {
        return Err(damage(disk, number, 0, "the file is shorter than its header").into());
    }
    let mut header = [0; SEGMENT_HEADER_BYTES as usize];
    read_all(&file, &mut header, 0).map_err(failed)?;
    match SegmentHeader::decode(&header, number) {
        Ok(header) => Ok((header, file)),
        Err(BadHeader::Damaged(what)) => Err(damage(disk, number, 0, what).into()),
        Err(BadHeader::Newer(found)) => Err(OpenError::NewerVersion {
            dir: disk.name(),
            file: name.clone(),
            found,
            known: FORMAT_VERSION,
        }),
    }
}

/// Walks valid frames from `from`, then, in the last segment, looks at what lies beyond them.
fn walk<F: DiskFile>(file: &F, found: &FoundSegment, from: u32, last: bool) -> std::io::Result<Walk> {
    let read = |buffer: &mut [u8], at| read_all(file, buffer, at);
    let mut scanner = Scanner::new(found.header, u64::from(found.end), read);
    let mut walk = Walk { end: from, frames: 0, durable: Lsn::ZERO, torn_end: None };
    while walk.end < found.header.roll_at {
        match scanner.slot(walk.end)? {
            Slot::Frame { header, end, .. } => {
                walk.end = end;
                walk.frames += 1;
                walk.durable = walk.durable.max(header.durable);
            }
            Slot::Torn { end } => {
                walk.torn_end = Some(end);
                break;
            }
            Slot::Nothing => break,
        }
    }
    if !last || walk.end >= found.header.roll_at {
        return Ok(walk);
    }
    // Unsynced frames may have reached the disk without the ones before them.
    let mut after = walk.end;
    while let Some(at) = scanner.search(after)? {
        let end = match scanner.slot(at)? {
            Slot::Frame { header, end, .. } => {
                walk.durable = walk.durable.max(header.durable);
                after = end - crate::frame::FRAME_ALIGN;
                end
            }
            Slot::Torn { end } => {
                after = at;
                end
            }
            Slot::Nothing => unreachable!("a search only returns places where a frame was begun"),
        };
        walk.torn_end = walk.torn_end.max(Some(end));
    }
    Ok(walk)
}

/// Tells a torn tail from damage.
fn judge<D: Disk>(
    disk: &D,
    header: &SegmentHeader,
    walk: &Walk,
    last: bool,
    confirmed: Lsn,
) -> Result<(), Damage> {
    let end = Lsn::new(header.number, walk.end);
    // A next segment is only started after this one was synced to its end.
    if !last && walk.end < header.roll_at {
        return Err(damage(disk, header.number, walk.end, "a frame is not valid and later segments exist"));
    }
    if confirmed > end {
        let what = "a frame is not valid although the log says that it had been synced";
        return Err(damage(disk, header.number, walk.end, what));
    }
    Ok(())
}

pub(crate) fn damage<D: Disk>(disk: &D, number: u32, byte: u32, what: &'static str) -> Damage {
    Damage { dir: disk.name(), file: names::segment(number), byte: u64::from(byte), what }
}
