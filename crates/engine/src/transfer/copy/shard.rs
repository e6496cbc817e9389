//! Copies the log of one shard.
//!
//! Segments only grow until they are full, and are given up only when a newer snapshot needs nothing in them. So a copy
//! takes the newest snapshot first and the segments after it, from the lowest to the last: whatever was acknowledged
//! before it began is in one of them. What the copy holds is folded on the way, as a start would do it; if a file that it
//! needs was given up meanwhile, that is found out, and the copy begins again.

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Write};
use std::path::Path;

use driftq_core::{Malformed, Position, State};
use driftq_wal::{
    Disk as _, FRAME_HEADER_BYTES, FileError, OpenError, RealDisk, Run, carry, head, holding, run,
    segment_file, snapshot_file,
};

use super::Copied;
use super::cut::Crossings;
use crate::log::{Lsn, Snapshot};
use crate::recover::LostPayloads;
use crate::transfer::TransferError;

/// How often a copy, or the end of its last segment, is tried while the server keeps changing things.
const TRIES_MAX: usize = 16;

/// The copy of one shard.
pub(super) struct ShardCopy {
    disk: RealDisk,
    snapshot: Option<Snapshot>,
    /// Segments that are not copied yet, lowest first.
    segments: VecDeque<u32>,
    /// The last segment when the copy began: those below are in it to their ends.
    open: u32,
    /// Where the copy ends.
    cut: Lsn,
    state: State,
    /// The end of every segment that was copied.
    ends: BTreeMap<u32, u64>,
    upto: Option<Lsn>,
    end: Lsn,
    /// A file became another one while it was copied.
    is_overtaken: bool,
}

/// What became of a file.
enum Fate {
    Copied(Copied),
    Gone,
}

impl ShardCopy {
    /// Begins a copy of what is in `dir` now.
    pub(super) fn begin(dir: &Path) -> Result<Self, TransferError> {
        let disk = RealDisk::existing(dir).map_err(|_| {
            let what = format!("there is no directory {}", dir.display());
            TransferError::refused(what, "name the directory of `driftq serve` with --data")
        })?;
        let held = again(|| holding(&disk))?;
        let Some(&open) = held.segments.last() else {
            let what = format!("there is no log in {}", dir.display());
            return Err(TransferError::refused(what, "name the directory of `driftq serve` with --data"));
        };
        let upto = held.snapshot.as_ref().map(|snapshot| snapshot.upto);
        Ok(Self {
            disk,
            snapshot: held.snapshot,
            segments: held.segments.into(),
            open,
            cut: Lsn::ZERO,
            state: State::new(0),
            ends: BTreeMap::new(),
            upto,
            end: Lsn::ZERO,
            is_overtaken: false,
        })
    }

    /// Finds out where the log ends now. So far the copy goes, unless it is shortened.
    pub(super) fn reach(&mut self) -> Result<(), TransferError> {
        let later = self.listed()?.into_iter().filter(|number| *number > self.open);
        self.segments.extend(later);
        let last = self.segments.back().copied().unwrap_or(self.open);
        match self.measured(last, true)? {
            Some(run) => self.cut = run.end,
            None => self.is_overtaken = true,
        }
        Ok(())
    }

    /// Whether it is known already that no server would start on the copy.
    pub(super) const fn is_overtaken(&self) -> bool {
        self.is_overtaken
    }

    /// Where the copy ends.
    pub(super) const fn cut(&self) -> Lsn {
        self.cut
    }

    /// The copy ends there, where a batch begins or the log ends.
    pub(super) fn shorten(&mut self, cut: Lsn) {
        self.cut = cut;
        self.segments.retain(|number| *number <= cut.segment());
    }

    /// What the log says of other shards by now, as far as the copy may have to be shortened for it.
    pub(super) fn crossings(&mut self) -> Result<Crossings, TransferError> {
        let mut crossings = Crossings::default();
        let mut segments = self.listed()?;
        segments.retain(|number| *number >= self.open);
        let last = segments.last().copied().unwrap_or(self.open);
        if !segments.into_iter().eq(self.open..=last) {
            self.is_overtaken = true;
        }
        for number in self.open..=last {
            if self.is_overtaken {
                break;
            }
            let Some(run) = self.measured(number, number == last)? else {
                self.is_overtaken = true;
                break;
            };
            let mut fault = None;
            let whole = carry(&self.disk, run.end, |carried| {
                if fault.is_none() {
                    fault = crossings.note(carried.frame, carried.body).err();
                }
                Ok::<(), TransferError>(())
            });
            self.judge(number, whole, fault)?;
        }
        Ok(crossings)
    }

    /// Writes the next file; `None` when there is none left. A file that the server has given up is passed over.
    pub(super) fn next(&mut self, out: &mut dyn Write) -> Result<Option<Copied>, TransferError> {
        if let Some(snapshot) = self.snapshot.take() {
            self.state = State::decode(&snapshot.bytes, 0).map_err(|Malformed(what)| {
                TransferError::Failed(format!("the snapshot cannot be understood: {what}"))
            })?;
            let (name, head) = snapshot_file(&snapshot);
            out.write_all(&head)?;
            out.write_all(&snapshot.bytes)?;
            return Ok(Some(Copied { name, length: (head.len() + snapshot.bytes.len()) as u64 }));
        }
        while let Some(number) = self.segments.pop_front() {
            if let Fate::Copied(copied) = self.segment(number, out)? {
                return Ok(Some(copied));
            }
        }
        Ok(None)
    }

    fn segment(&mut self, number: u32, out: &mut dyn Write) -> Result<Fate, TransferError> {
        let is_last = number == self.cut.segment();
        let Some(run) = self.measured(number, is_last)? else { return Ok(Fate::Gone) };
        let end = if is_last { self.cut } else { run.end };
        let (state, upto, mut fault) = (&mut self.state, self.upto, None);
        let head = match head(&self.disk, number) {
            Ok(head) => head,
            Err(OpenError::Io(error)) if is_gone(&error) => return Ok(Fate::Gone),
            Err(error) => return Err(error.into()),
        };
        out.write_all(&head)?;
        let whole = carry(&self.disk, end, |carried| {
            let base = Lsn::new(number, carried.frame.offset() + FRAME_HEADER_BYTES);
            if fault.is_none() && upto.is_none_or(|upto| carried.frame >= upto) {
                fault = state.apply_batch(Position(base.0), carried.body).err();
            }
            Ok::<(), TransferError>(out.write_all(carried.raw)?)
        });
        self.judge(number, whole, fault)?;
        self.ends.insert(number, end.offset().into());
        self.end = end;
        let length = if is_last { run.file_bytes } else { end.offset() };
        Ok(Fate::Copied(Copied { name: segment_file(number), length: length.into() }))
    }

    /// Whether what was read of a segment is what lies in it. What was read of a file that the server has given up is no
    /// use to anybody.
    fn judge(
        &mut self,
        number: u32,
        whole: Result<bool, TransferError>,
        fault: Option<Malformed>,
    ) -> Result<(), TransferError> {
        if let Some(Malformed(what)) = fault {
            if !self.is_left_behind()? {
                return Err(TransferError::Failed(format!("{}: {what}", segment_file(number))));
            }
            // What comes before it was given up, so that it makes no sense any more.
            self.is_overtaken = true;
        }
        match whole {
            Ok(true) => {}
            // Its file has become another segment in the middle of it.
            Ok(false) => self.is_overtaken = true,
            Err(_) if self.measure(number)?.is_none() => self.is_overtaken = true,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The segments that are there now, lowest first.
    fn listed(&self) -> Result<Vec<u32>, TransferError> {
        let entries = self.disk.list()?;
        let mut numbers: Vec<u32> = entries.iter().filter_map(|entry| segment_number(&entry.name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Measures a segment; `None` if it is gone. All but the last one are full.
    fn measured(&self, number: u32, is_last: bool) -> Result<Option<Run>, TransferError> {
        let measured = if is_last { self.measure(number) } else { full(number, || self.measure(number)) };
        match measured {
            Err(TransferError::Failed(_)) if self.is_left_behind()? => Ok(None),
            measured => measured,
        }
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

    /// Where the copy ends, and how many messages are in it; `None` if no server would start on it.
    pub(super) fn finish(self) -> Option<(Lsn, u64)> {
        let first = self.upto.map_or(1, Lsn::segment);
        let runs_on = (first..=self.end.segment()).all(|number| self.ends.contains_key(&number));
        let ends = &self.ends;
        let lost = LostPayloads::find(&self.state, |number| ends.get(&number).copied(), segment_file);
        let reached = self.end == self.cut && self.upto.is_none_or(|upto| self.end >= upto);
        let is_whole = runs_on && reached && lost.is_none() && !self.is_overtaken;
        is_whole.then(|| (self.end, self.state.messages()))
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

/// The number of the segment that a file is; `None` if it is none.
fn segment_number(name: &str) -> Option<u32> {
    let number = u32::from_str_radix(name.strip_prefix("seg-")?.strip_suffix(".log")?, 16).ok()?;
    (segment_file(number) == name).then_some(number)
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
