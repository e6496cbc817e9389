//! Looking into a log that no broker has open, and mending it.

use std::collections::BTreeMap;
use std::path::Path;

use driftq_core::{Fact, Malformed, Position, State};
use driftq_wal::{
    Disk, DiskFile, FRAME_HEADER_BYTES, Finding, Lsn, OpenError, RealDisk, RepairError,
    SNAPSHOT_HEADER_BYTES, Verdict, segment_file,
};

use crate::recover::LostPayloads;
use crate::words::words;

/// Why a log could not be looked at or mended.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// There is no such directory.
    #[error("there is no directory {0}")]
    NoDirectory(String),
    /// Another process uses it.
    #[error("the data directory {0} is in use; stop the server first")]
    Locked(String),
    /// The disk failed, or the log cannot be mended; the text says which and what to do.
    #[error("{0}")]
    Log(String),
}

/// One thing found in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// `snapshot`, `segment`, `batch`, `fact`, `end`, `broken`, `unusable` or `other`.
    pub kind: &'static str,
    /// The file, for what is a file.
    pub file: Option<String>,
    /// Where in the log, as `segment:byte`, for what has a place there.
    pub at: Option<String>,
    /// How long it is.
    pub bytes: u64,
    /// What it is, in words.
    pub text: String,
}

/// What a start would come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// There is no log; one would be begun.
    Empty,
    /// It would start as it is.
    Sound,
    /// It would start, and cut off what a crash left at the end.
    TornTail,
    /// It would refuse to start: something that was durable is damaged.
    Damaged,
    /// It would refuse to start: a newer version wrote the log.
    Newer,
}

/// The result of an inspection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// A server is at work on it: what was found may be changing.
    pub in_use: bool,
    /// What a start would come to.
    pub outlook: Outlook,
    /// The same in words, with the file, the byte and the command that helps.
    pub text: String,
}

/// What a repair does, or would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The damage found, in words.
    pub damage: Vec<String>,
    /// Segment files whose header is written again from what their frames repeat; nothing is lost by it.
    pub headers: Vec<String>,
    /// What has to go for the log to open again.
    pub cuts: Vec<Cut>,
    /// Whether it was done.
    pub applied: bool,
}

/// One piece to cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The file.
    pub file: String,
    /// From this byte on; zero means that the whole file goes.
    pub byte: u64,
    /// How many bytes.
    pub bytes: u64,
    /// How many whole batches are lost with them.
    pub batches: u64,
    /// The file beside it that keeps what is cut.
    pub kept_in: String,
}

/// Feeds what is found in `dir` to `each`, in the order of the log; with `facts`, also what every batch says.
pub fn inspect(dir: &Path, facts: bool, each: &mut dyn FnMut(Line)) -> Result<Inspection, ToolError> {
    let disk = existing(dir)?;
    let mut segment = None;
    let mut contents = Contents::default();
    let mut visit = |finding: Finding| {
        if let Finding::Segment { file, .. } = &finding {
            segment = disk.open(file).ok();
        }
        contents.note(&finding);
        let batch = match finding {
            Finding::Frame { at, body_bytes, .. } if facts => Some((at, body_bytes)),
            _ => None,
        };
        each(line(finding));
        if let (Some((at, length)), Some(segment)) = (batch, &segment) {
            say_facts(segment, at, length, each);
        }
    };
    let inspection = driftq_wal::inspect(&disk, &mut visit).map_err(|error| fault(dir, &error))?;
    let opens = matches!(inspection.verdict, Verdict::Sound(_) | Verdict::TornTail(_)) && !inspection.in_use;
    if let Some(lost) = if opens { contents.lost(&disk) } else { None } {
        return Ok(Inspection { in_use: false, outlook: Outlook::Damaged, text: lost.to_string() });
    }
    let (outlook, text) = match inspection.verdict {
        Verdict::Empty => (Outlook::Empty, "there is no log here yet".to_owned()),
        Verdict::Sound(end) => (Outlook::Sound, format!("the log is sound and ends at {end}")),
        Verdict::TornTail(torn) => (Outlook::TornTail, crate::recover::torn_tail(&torn)),
        Verdict::Damaged(damage) => (Outlook::Damaged, damage.to_string()),
        Verdict::Newer(text) => (Outlook::Newer, text),
    };
    Ok(Inspection { in_use: inspection.in_use, outlook, text })
}

/// Finds what has to be cut for the log in `dir` to open, and cuts it unless this is a dry run. Everything that is
/// cut is kept in a file beside it.
pub fn repair(dir: &Path, dry_run: bool) -> Result<Repair, ToolError> {
    let disk = existing(dir)?;
    let plan = driftq_wal::repair(&disk, dry_run).map_err(|error| match error {
        RepairError::Open(error) => fault(dir, &error),
        RepairError::Hopeless(_) => ToolError::Log(error.to_string()),
    })?;
    if plan.damage.is_empty() {
        let mut contents = Contents::default();
        let looked = driftq_wal::inspect(&disk, &mut |finding| contents.note(&finding));
        looked.map_err(|error| fault(dir, &error))?;
        // No cut brings back what a file has lost, and the rest needs no repair.
        if let Some(lost) = contents.lost(&disk) {
            return Err(ToolError::Log(lost.to_string()));
        }
    }
    let cuts = plan.cuts.into_iter().map(|cut| Cut {
        file: cut.file,
        byte: cut.byte,
        bytes: cut.bytes,
        batches: cut.frames,
        kept_in: cut.kept_in,
    });
    Ok(Repair {
        damage: plan.damage.iter().map(ToString::to_string).collect(),
        headers: plan.headers,
        cuts: cuts.collect(),
        applied: plan.applied,
    })
}

/// What a log holds, as far as it takes to know what must be there.
#[derive(Default)]
struct Contents {
    snapshot: Option<(Lsn, u64)>,
    segments: BTreeMap<u32, u64>,
    batches: Vec<(Lsn, u32)>,
}

impl Contents {
    fn note(&mut self, finding: &Finding) {
        match finding {
            Finding::Snapshot { bytes, upto, .. } => self.snapshot = Some((*upto, *bytes)),
            Finding::Segment { number, bytes, .. } => drop(self.segments.insert(*number, *bytes)),
            Finding::Frame { at, body_bytes, .. } if self.snapshot.is_none_or(|(upto, _)| *at >= upto) => {
                self.batches.push((*at, *body_bytes));
            }
            _ => {}
        }
    }

    /// A file that has lost what the log needs of it. What cannot be understood is reported elsewhere.
    fn lost(&self, disk: &RealDisk) -> Option<LostPayloads> {
        let mut state = match self.snapshot {
            None => State::new(0),
            Some((upto, bytes)) => {
                let file_bytes = bytes + u64::from(SNAPSHOT_HEADER_BYTES);
                State::decode(&driftq_wal::load_snapshot(disk, upto, file_bytes).ok()?.bytes, 0).ok()?
            }
        };
        for &(at, length) in &self.batches {
            let segment = disk.open(&segment_file(at.segment())).ok()?;
            let base = Lsn::new(at.segment(), at.offset() + FRAME_HEADER_BYTES);
            let body = read_body(&segment, base.offset().into(), length as usize)?;
            state.apply_batch(Position(base.0), &body).ok()?;
        }
        LostPayloads::find(&state, |number| self.segments.get(&number).copied(), segment_file)
    }
}

fn existing(dir: &Path) -> Result<RealDisk, ToolError> {
    RealDisk::existing(dir).map_err(|_| ToolError::NoDirectory(dir.display().to_string()))
}

fn fault(dir: &Path, error: &OpenError) -> ToolError {
    match error {
        OpenError::Locked { .. } => ToolError::Locked(dir.display().to_string()),
        other => ToolError::Log(other.to_string()),
    }
}

fn line(finding: Finding) -> Line {
    let file_line = |kind, file, bytes, text| Line { kind, file: Some(file), at: None, bytes, text };
    let log_line =
        |kind, at: Lsn, bytes, text| Line { kind, file: None, at: Some(at.to_string()), bytes, text };
    match finding {
        Finding::Segment { file, bytes, number, .. } => {
            file_line("segment", file, bytes, format!("segment {number}"))
        }
        Finding::Snapshot { file, bytes, upto } => {
            file_line("snapshot", file, bytes, format!("snapshot of everything below {upto}"))
        }
        Finding::Unusable { file, why } => file_line("unusable", file, 0, why),
        Finding::Other { file, bytes } => {
            file_line("other", file, bytes, "spare, reserve or unfinished".into())
        }
        Finding::Frame { at, body_bytes, durable } => {
            log_line("batch", at, body_bytes.into(), format!("batch, written when {durable} was synced"))
        }
        Finding::Broken { at, bytes } => log_line("broken", at, bytes.into(), "beginnings of a batch".into()),
        Finding::End { at, full: true } => log_line("end", at, 0, "end of a full segment".into()),
        Finding::End { at, full: false } => {
            log_line("end", at, 0, "end of the unbroken run of batches".into())
        }
    }
}

/// Reads one batch again and says what is in it.
fn say_facts(segment: &impl DiskFile, frame: Lsn, length: u32, each: &mut dyn FnMut(Line)) {
    let base = Lsn::new(frame.segment(), frame.offset() + FRAME_HEADER_BYTES);
    let mut say = |kind, at: Lsn, bytes, text| {
        each(Line { kind, file: None, at: Some(at.to_string()), bytes, text });
    };
    let Some(body) = read_body(segment, base.offset().into(), length as usize) else {
        return say("unusable", base, length.into(), "the batch could not be read again".into());
    };
    let mut start = Position(base.0);
    let walked = Fact::each(start, &body, |end, fact| {
        say("fact", Lsn(start.0), end.0 - start.0, words(&fact));
        start = end;
        Ok(())
    });
    if let Err(Malformed(what)) = walked {
        say("unusable", Lsn(start.0), 0, format!("what follows is no fact that this version knows: {what}"));
    }
}

fn read_body(segment: &impl DiskFile, at: u64, length: usize) -> Option<Vec<u8>> {
    let mut body = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match segment.read_at(&mut body[filled..], at + filled as u64).ok()? {
            0 => return None,
            count => filled += count,
        }
    }
    Some(body)
}
