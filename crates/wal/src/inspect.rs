//! Shows what is in a data directory, damage included. Changes nothing.

use std::io;

use crate::disk::{Disk, LockError, read_all};
use crate::error::{Damage, FileError, OpenError};
use crate::examine::{examine, open_segment};
use crate::frame::FRAME_ALIGN;
use crate::names::{self, Survey};
use crate::open::{Truncated, survey};
use crate::scan::{Scanner, Slot};
use crate::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::{Lsn, snapshot};

/// One thing found in a data directory. Findings of a segment follow it, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A segment with a usable header.
    Segment {
        /// Its file.
        file: String,
        /// Length of the file.
        bytes: u64,
        /// Its number.
        number: u32,
        /// A frame ending at or past this byte is its last.
        roll_at: u32,
    },
    /// A whole frame whose checksum fits.
    Frame {
        /// Where it starts.
        at: Lsn,
        /// Length of its body.
        body_bytes: u32,
        /// How far the log was synced when it was written.
        durable: Lsn,
    },
    /// The beginnings of a frame, torn or damaged.
    Broken {
        /// Where it starts.
        at: Lsn,
        /// How much of it can be told.
        bytes: u32,
    },
    /// Where the unbroken run of frames of a segment ends. Frames found after it belong to no run.
    End {
        /// The end.
        at: Lsn,
        /// Whether the segment is full there, so that the log goes on in the next one.
        full: bool,
    },
    /// A snapshot whose checksums fit.
    Snapshot {
        /// Its file.
        file: String,
        /// Length of its body.
        bytes: u64,
        /// It stands for every frame below.
        upto: Lsn,
    },
    /// A file with a header or body that cannot be used.
    Unusable {
        /// The file.
        file: String,
        /// Why, in words.
        why: String,
    },
    /// A file without information: a spare, the reserve, or an unfinished file.
    Other {
        /// The file.
        file: String,
        /// Its length.
        bytes: u64,
    },
}

/// What opening the directory would come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is no log.
    Empty,
    /// It opens as it is; its end.
    Sound(Lsn),
    /// It opens, and what a crash left behind its end is cut off.
    TornTail(Truncated),
    /// It is refused.
    Damaged(Damage),
    /// It is refused because a newer driftq wrote it; the message.
    Newer(String),
}

/// The result of an inspection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Another process has the directory: what was found may be changing.
    pub in_use: bool,
    /// What opening would come to.
    pub verdict: Verdict,
}

/// Feeds everything found in the directory to `each`, then judges it.
pub fn inspect<D: Disk>(disk: &D, each: &mut dyn FnMut(Finding)) -> Result<Inspection, OpenError> {
    // Held to the end, so that no broker starts on what is being looked at.
    let lock = match disk.lock() {
        Ok(lock) => Some(lock),
        Err(LockError::Busy) => None,
        Err(LockError::Io(error)) => return Err(FileError::new("lock", names::LOCK, error).into()),
    };
    let survey = survey(disk)?;
    let mut newest = None;
    for (&upto, &bytes) in &survey.snapshots {
        let file = names::snapshot(upto);
        match snapshot::load(disk, upto, bytes) {
            Ok(found) => {
                each(Finding::Snapshot { file, bytes: found.bytes.len() as u64, upto });
                newest = Some(Ok(upto));
            }
            Err(error) => {
                let why = error.to_string();
                newest = Some(Err(verdict_of(error)?));
                each(Finding::Unusable { file, why });
            }
        }
    }
    for (&number, &bytes) in &survey.segments {
        inspect_segment(disk, &survey, number, bytes, each)?;
    }
    let spares = survey.spares.iter().map(|(&number, &bytes)| (names::spare(number), bytes));
    let temps = survey.temps.iter().map(|name| (name.clone(), 0));
    let reserve = survey.reserve.map(|bytes| (names::RESERVE.to_owned(), bytes));
    for (file, bytes) in spares.chain(temps).chain(reserve) {
        each(Finding::Other { file, bytes });
    }
    let verdict = match newest {
        Some(Err(verdict)) => verdict,
        Some(Ok(upto)) => judge(disk, &survey, Some(upto))?,
        None => judge(disk, &survey, None)?,
    };
    Ok(Inspection { in_use: lock.is_none(), verdict })
}

fn judge<D: Disk>(disk: &D, survey: &Survey, upto: Option<Lsn>) -> Result<Verdict, OpenError> {
    if survey.segments.is_empty() && upto.is_none() {
        return Ok(Verdict::Empty);
    }
    match examine(disk, survey, upto) {
        Ok(examined) => Ok(match examined.tail.torn_end {
            None => Verdict::Sound(examined.tail.end),
            Some(torn_end) => Verdict::TornTail(Truncated::new(examined.tail.end, torn_end)),
        }),
        Err(error) => verdict_of(error),
    }
}

/// A verdict, unless the disk itself failed.
fn verdict_of(error: OpenError) -> Result<Verdict, OpenError> {
    match error {
        OpenError::Damaged(damage) => Ok(Verdict::Damaged(damage)),
        error @ OpenError::NewerVersion { .. } => Ok(Verdict::Newer(error.to_string())),
        error => Err(error),
    }
}

fn inspect_segment<D: Disk>(
    disk: &D,
    survey: &Survey,
    number: u32,
    bytes: u64,
    each: &mut dyn FnMut(Finding),
) -> Result<(), OpenError> {
    let file = names::segment(number);
    let (header, handle) = match open_segment(disk, survey, number) {
        Ok(found) => found,
        Err(error @ (OpenError::Damaged(_) | OpenError::NewerVersion { .. })) => {
            each(Finding::Unusable { file, why: error.to_string() });
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    each(Finding::Segment { file: file.clone(), bytes, number, roll_at: header.roll_at });
    inspect_frames(&handle, &header, bytes, each).map_err(|error| FileError::new("read", file, error))?;
    Ok(())
}

fn inspect_frames<F: crate::DiskFile>(
    file: &F,
    segment: &SegmentHeader,
    bytes: u64,
    each: &mut dyn FnMut(Finding),
) -> io::Result<()> {
    let mut scanner = Scanner::new(*segment, bytes, |buffer: &mut [u8], at| read_all(file, buffer, at));
    let mut at = SEGMENT_HEADER_BYTES;
    let mut in_run = true;
    loop {
        let here = Lsn::new(segment.number, at);
        let full = in_run && at >= segment.roll_at;
        let after = match scanner.slot(at)? {
            Slot::Frame { header, end, .. } if !full => {
                each(Finding::Frame { at: here, body_bytes: header.body_bytes, durable: header.durable });
                end
            }
            slot => {
                if in_run {
                    each(Finding::End { at: here, full });
                }
                if full {
                    return Ok(());
                }
                in_run = false;
                if let Slot::Torn { end } = slot {
                    each(Finding::Broken { at: here, bytes: end - at });
                }
                at + FRAME_ALIGN
            }
        };
        if in_run {
            at = after;
            continue;
        }
        match scanner.search(after - FRAME_ALIGN)? {
            Some(next) => at = next,
            None => return Ok(()),
        }
    }
}
