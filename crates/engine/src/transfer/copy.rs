//! Copies the log of a directory while a server is at work on it.
//!
//! Segments only grow until they are full, and are given up only when a newer snapshot needs nothing in them. So a copy
//! takes the newest snapshot first and the segments after it, from the lowest to the last: whatever was acknowledged
//! before it began is in one of them. What the copy holds is folded on the way, as a start would do it; if a file that it
//! needs was given up meanwhile, that is found out, and the copy begins again.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::path::Path;

use driftq_core::{Malformed, Position, State};
use driftq_wal::{
    FRAME_HEADER_BYTES, FileError, OpenError, RealDisk, Run, carry, head, holding, run, segment_file,
    snapshot_file,
};

use super::TransferError;
use crate::log::{Lsn, Snapshot};
use crate::recover::LostPayloads;

/// How often a copy, or the end of its last segment, is tried while the server keeps changing things.
const TRIES_MAX: usize = 16;

/// A copy under way.
pub struct Copy {
    disk: RealDisk,
    snapshot: Option<Snapshot>,
    /// Segments that are not copied yet, highest first.
    segments: Vec<u32>,
    state: State,
    /// The end of every segment that was copied.
    ends: BTreeMap<u32, u64>,
    upto: Option<Lsn>,
    end: Lsn,
    /// A file became another one while it was copied.
    is_overtaken: bool,
}

/// One file of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// What it is called in a data directory.
    pub name: String,
    /// How long it has to be there: what is missing at its end are zeros.
    pub length: u64,
}

/// How a copy ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyEnd {
    /// Everything up to this position is in it.
    Whole {
        /// As `segment:byte`.
        end: String,
        /// Messages in it.
        messages: u64,
    },
    /// The server has given up a file that it needs: begin again.
    Overtaken,
}

/// What became of a file.
enum Fate {
    Copied(Copied),
    Gone,
}

impl Copy {
    /// Begins a copy of what is in `dir` now.
    pub fn begin(dir: &Path) -> Result<Self, TransferError> {
        let disk = RealDisk::existing(dir).map_err(|_| {
            let what = format!("there is no directory {}", dir.display());
            TransferError::refused(what, "name the directory of `driftq serve` with --data")
        })?;
        let held = again(|| holding(&disk))?;
        if held.segments.is_empty() {
            let what = format!("there is no log in {}", dir.display());
            return Err(TransferError::refused(what, "name the directory of `driftq serve` with --data"));
        }
        let state = match &held.snapshot {
            None => State::new(0),
            Some(snapshot) => State::decode(&snapshot.bytes, 0).map_err(|Malformed(what)| {
                TransferError::Failed(format!("the snapshot cannot be understood: {what}"))
            })?,
        };
        let upto = held.snapshot.as_ref().map(|snapshot| snapshot.upto);
        let (ends, segments) = (BTreeMap::new(), held.segments.into_iter().rev().collect());
        Ok(Self {
            disk,
            snapshot: held.snapshot,
            segments,
            state,
            ends,
            upto,
            end: Lsn::ZERO,
            is_overtaken: false,
        })
    }

    /// Writes the next file; `None` when there is none left. A file that the server has given up is passed over.
    pub fn next(&mut self, out: &mut dyn Write) -> Result<Option<Copied>, TransferError> {
        if let Some(snapshot) = self.snapshot.take() {
            let (name, head) = snapshot_file(&snapshot);
            out.write_all(&head)?;
            out.write_all(&snapshot.bytes)?;
            return Ok(Some(Copied { name, length: (head.len() + snapshot.bytes.len()) as u64 }));
        }
        while let Some(number) = self.segments.pop() {
            if let Fate::Copied(copied) = self.segment(number, out)? {
                return Ok(Some(copied));
            }
        }
        Ok(None)
    }

    fn segment(&mut self, number: u32, out: &mut dyn Write) -> Result<Fate, TransferError> {
        let is_last = self.segments.is_empty();
        let measured = if is_last { self.measure(number) } else { full(number, || self.measure(number)) };
        let measured = match measured {
            Err(TransferError::Failed(_)) if self.is_left_behind()? => None,
            measured => measured?,
        };
        let Some(run) = measured else { return Ok(Fate::Gone) };
        let (state, upto, mut fault) = (&mut self.state, self.upto, None);
        let head = match head(&self.disk, number) {
            Ok(head) => head,
            Err(OpenError::Io(error)) if is_gone(&error) => return Ok(Fate::Gone),
            Err(error) => return Err(error.into()),
        };
        out.write_all(&head)?;
        let whole = carry(&self.disk, run.end, |carried| {
            let base = Lsn::new(number, carried.frame.offset() + FRAME_HEADER_BYTES);
            if fault.is_none() && upto.is_none_or(|upto| carried.frame >= upto) {
                fault = state.apply_batch(Position(base.0), carried.body).err();
            }
            Ok::<(), TransferError>(out.write_all(carried.raw)?)
        });
        if let Some(Malformed(what)) = fault {
            if !self.is_left_behind()? {
                return Err(TransferError::Failed(format!("{}: {what}", segment_file(number))));
            }
            // What comes before it was given up, so that it makes no sense any more.
            self.is_overtaken = true;
        }
        match whole {
            Ok(true) => {}
            // Its file has become another segment in the middle of it: what was written of it is no use to anybody.
            Ok(false) => self.is_overtaken = true,
            Err(_) if self.measure(number)?.is_none() => self.is_overtaken = true,
            Err(error) => return Err(error),
        }
        self.ends.insert(number, run.end.offset().into());
        self.end = run.end;
        let length = if is_last { run.file_bytes } else { run.end.offset() };
        Ok(Fate::Copied(Copied { name: segment_file(number), length: length.into() }))
    }

    /// Measures a segment; `None` if it is gone.
    fn measure(&self, number: u32) -> Result<Option<Run>, TransferError> {
        match again(|| run(&self.disk, number)) {
            Ok(run) => Ok(Some(run)),
            Err(OpenError::Io(error)) if is_gone(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the server has made a newer snapshot since the copy began. Only then are segments given up, and what
    /// looks like damage need not be any.
    fn is_left_behind(&self) -> Result<bool, TransferError> {
        let newest = again(|| holding(&self.disk))?.snapshot.map(|snapshot| snapshot.upto);
        Ok(newest != self.upto)
    }

    /// Says whether a server would start on what was copied.
    pub fn finish(self) -> CopyEnd {
        let first = self.upto.map_or(1, Lsn::segment);
        let runs_on = (first..=self.end.segment()).all(|number| self.ends.contains_key(&number));
        let ends = &self.ends;
        let lost = LostPayloads::find(&self.state, |number| ends.get(&number).copied(), segment_file);
        let reached = self.upto.is_none_or(|upto| self.end >= upto);
        if runs_on && reached && lost.is_none() && !self.is_overtaken {
            CopyEnd::Whole { end: self.end.to_string(), messages: self.state.messages() }
        } else {
            CopyEnd::Overtaken
        }
    }
}

/// Measures a segment that is not the last one; `None` if it is gone. A file that the server gives up loses its name
/// first, and then becomes another segment: whoever has it open by then finds that its batches end too soon, and the next
/// look finds nothing.
fn full(
    number: u32,
    mut measure: impl FnMut() -> Result<Option<Run>, TransferError>,
) -> Result<Option<Run>, TransferError> {
    for _ in 0..TRIES_MAX {
        match measure()? {
            Some(run) if !run.is_full => {}
            measured => return Ok(measured),
        }
    }
    let what = format!("{}: a batch is not whole, and later segments exist", segment_file(number));
    Err(TransferError::Failed(what))
}

fn is_gone(error: &FileError) -> bool {
    error.source.kind() == ErrorKind::NotFound
}

/// Asks again what a server at work may have changed between two looks.
fn again<R>(mut ask: impl FnMut() -> Result<R, OpenError>) -> Result<R, OpenError> {
    let mut answer = ask();
    for _ in 1..TRIES_MAX {
        match &answer {
            Err(OpenError::Damaged(_)) => answer = ask(),
            Err(OpenError::Io(error)) if is_gone(error) => answer = ask(),
            _ => break,
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(is_full: bool) -> Run {
        Run { end: Lsn::new(19, 4096), is_full, file_bytes: 65_536 }
    }

    #[test]
    fn a_segment_that_is_given_up_while_it_is_measured_is_gone() {
        let mut looks = [Some(run(false)), None].into_iter();
        assert!(full(19, || Ok(looks.next().flatten())).is_ok_and(|found| found.is_none()));
        let mut looks = [Some(run(false)), Some(run(true))].into_iter();
        assert!(full(19, || Ok(looks.next().flatten())).is_ok_and(|found| found == Some(run(true))));
    }

    #[test]
    fn a_segment_that_stays_cut_short_is_damaged() {
        let mut looks = 0;
        let found = full(19, || {
            looks += 1;
            Ok(Some(run(false)))
        });
        let Err(TransferError::Failed(what)) = found else { panic!("{found:?}") };
        assert!(what.starts_with(&segment_file(19)), "{what}");
        assert_eq!(looks, TRIES_MAX);
    }
}
