//! Cuts damage out of a log, keeping a copy of everything that is cut.

use crate::disk::{Disk, DiskFile, read_all, write_all};
use crate::error::{Damage, FileError, OpenError};
use crate::examine::{examine, open_segment};
use crate::fill::zero;
use crate::frame::FRAME_ALIGN;
use crate::names::{self, Survey};
use crate::newest;
use crate::open::{claim, survey};
use crate::rebuild::rebuild;
use crate::scan::{Scanner, Slot};
use crate::segment::SEGMENT_HEADER_BYTES;
use crate::{Lsn, snapshot};

/// How much is copied at once.
const CHUNK_BYTES: u64 = 1 << 20;

/// What a repair does, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairPlan {
    /// The damage found, in the order in which it was found.
    pub damage: Vec<Damage>,
    /// Segments whose header is written again, from what their frames repeat. Nothing is lost by it.
    pub headers: Vec<String>,
    /// What has to go for the log to open again, in the order it is done.
    pub cuts: Vec<Cut>,
    /// Whether it was done.
    pub applied: bool,
}

/// One piece to cut: a file, or the rest of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The file.
    pub file: String,
    /// From this byte on; zero means that the whole file goes.
    pub byte: u64,
    /// How many bytes.
    pub bytes: u64,
    /// How long the file is afterwards, if it stays: one that was cut short gets its length back.
    pub file_bytes: u64,
    /// How many whole frames are lost with them.
    pub frames: u64,
    /// The file beside it that keeps what is cut.
    pub kept_in: String,
}

/// Why a log cannot be repaired.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// It cannot be examined at all.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Nothing that could be cut would leave a log.
    #[error("{} cannot be repaired by cutting: {} (byte {}). Restore it from a copy", .0.file, .0.what, .0.byte)]
    Hopeless(Damage),
}

impl From<FileError> for RepairError {
    fn from(error: FileError) -> Self {
        Self::Open(error.into())
    }
}

/// Finds what has to be cut for the log to open, and cuts it unless this is a dry run.
///
/// A torn tail is not damage: opening the log takes care of it.
pub fn repair<D: Disk>(disk: &D, dry_run: bool) -> Result<RepairPlan, RepairError> {
    let _lock = claim(disk)?;
    let mut survey = survey(disk)?;
    let taken: Vec<String> = disk
        .list()
        .map_err(|error| FileError::new("list", disk.name(), error))?
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    let mut plan = RepairPlan::default();
    let upto = plan_snapshots(disk, &mut survey, &taken, &mut plan)?;
    plan_segments(disk, &mut survey, upto, &taken, &mut plan)?;
    if !dry_run {
        for (&number, header) in &survey.headers {
            let name = names::segment(number);
            let file = disk.open(&name);
            let written = file.and_then(|file| {
                write_all(&file, &header.encode(), 0)?;
                file.sync_data()
            });
            written.map_err(|error| FileError::new("write the header of", name, error))?;
        }
        for cut in &plan.cuts {
            apply(disk, cut).map_err(|error| FileError::new("cut", &cut.file, error))?;
        }
        if survey.newest.is_some() {
            let left = crate::open::survey(disk)?.segments.keys().next_back().copied();
            newest::correct(disk, left).map_err(|error| FileError::new("write", names::NEWEST, error))?;
        }
        plan.applied = true;
    }
    Ok(plan)
}

/// Sets damaged snapshots aside until one is intact; returns its position.
fn plan_snapshots<D: Disk>(
    disk: &D,
    survey: &mut Survey,
    taken: &[String],
    plan: &mut RepairPlan,
) -> Result<Option<Lsn>, RepairError> {
    while let Some((&upto, &bytes)) = survey.snapshots.last_key_value() {
        match snapshot::load(disk, upto, bytes) {
            Ok(_) => return Ok(Some(upto)),
            Err(OpenError::Damaged(damage)) => {
                let kept_in = free_name(taken, upto);
                let file = damage.file.clone();
                plan.cuts.push(Cut { file, byte: 0, bytes, file_bytes: bytes, frames: 0, kept_in });
                plan.damage.push(damage);
                survey.snapshots.remove(&upto);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

fn plan_segments<D: Disk>(
    disk: &D,
    survey: &mut Survey,
    upto: Option<Lsn>,
    taken: &[String],
    plan: &mut RepairPlan,
) -> Result<(), RepairError> {
    let first = upto.map_or(1, Lsn::segment);
    while !survey.segments.is_empty() || upto.is_some() || survey.newest.is_some() {
        let damage = match examine(disk, survey, upto) {
            Ok(_) => return Ok(()),
            Err(OpenError::Damaged(damage)) => damage,
            Err(error) => return Err(error.into()),
        };
        let Some(number) = names::segment_number(&damage.file) else {
            return Err(RepairError::Hopeless(damage));
        };
        if damage.byte == 0 && plan_header(disk, survey, number)? {
            plan.headers.push(damage.file.clone());
            plan.damage.push(damage);
            continue;
        }
        let byte = u32::try_from(damage.byte).unwrap_or(u32::MAX);
        let last = survey.segments.keys().next_back().copied();
        if last.is_some_and(|last| number > last) {
            // It is gone, and nothing can be cut that would bring it back: the log ends before it.
            plan.damage.push(damage);
            survey.newest = last;
            continue;
        }
        if number < first {
            // Only payloads are lost; the log itself does not need it.
            plan.cuts.push(cut_of(disk, survey, Lsn::new(number, 0), taken)?);
            plan.damage.push(damage);
            survey.segments.remove(&number);
            continue;
        }
        let start = upto.unwrap_or(Lsn::new(1, SEGMENT_HEADER_BYTES));
        if Lsn::new(number, byte) < start {
            return Err(RepairError::Hopeless(damage));
        }
        plan.damage.push(damage);
        // From the end backwards: stopped at any point, what is left is still one run of segments.
        let later: Vec<u32> = survey.segments.range(number..).map(|(&later, _)| later).rev().collect();
        for later in later {
            let from = if later == number { byte } else { 0 };
            plan.cuts.push(cut_of(disk, survey, Lsn::new(later, from), taken)?);
        }
        return Ok(());
    }
    Ok(())
}

/// Plans a new header for a segment that lost its own; false if it cannot be known.
fn plan_header<D: Disk>(disk: &D, survey: &mut Survey, number: u32) -> Result<bool, FileError> {
    let Some(&bytes) = survey.segments.get(&number) else { return Ok(false) };
    if survey.headers.contains_key(&number) {
        return Ok(false);
    }
    let has_next = survey.segments.range(number..).nth(1).is_some();
    let rebuilt = disk.open(&names::segment(number)).and_then(|file| rebuild(&file, number, bytes, has_next));
    let header = rebuilt.map_err(|error| FileError::new("read", names::segment(number), error))?;
    survey.headers.extend(header.map(|header| (number, header)));
    Ok(header.is_some())
}

/// Describes the cut of a segment from `from` to its end.
fn cut_of<D: Disk>(disk: &D, survey: &Survey, from: Lsn, taken: &[String]) -> Result<Cut, RepairError> {
    let number = from.segment();
    let file_bytes = survey.segments.get(&number).copied().unwrap_or(0);
    let (mut frames, mut whole_bytes) = (0, file_bytes);
    if let Ok((header, file)) = open_segment(disk, survey, number) {
        whole_bytes = whole_bytes.max(u64::from(header.file_bytes()));
        let read = |buffer: &mut [u8], at| read_all(&file, buffer, at);
        let mut scanner = Scanner::new(header, file_bytes, read);
        let failed = |error| FileError::new("read", names::segment(number), error);
        let mut after = from.offset().max(SEGMENT_HEADER_BYTES) - FRAME_ALIGN;
        while let Some(at) = scanner.search(after).map_err(failed)? {
            after = at;
            if let Slot::Frame { end, .. } = scanner.slot(at).map_err(failed)? {
                frames += 1;
                after = end - FRAME_ALIGN;
            }
        }
    }
    Ok(Cut {
        file: names::segment(number),
        byte: u64::from(from.offset()),
        bytes: file_bytes.saturating_sub(u64::from(from.offset())),
        file_bytes: whole_bytes,
        frames,
        kept_in: free_name(taken, from),
    })
}

/// A name for what is cut that does not replace what an earlier repair kept.
fn free_name(taken: &[String], from: Lsn) -> String {
    let name = names::damaged(from);
    let numbered = (1u32..).map(|again| format!("{name}.{again}"));
    std::iter::once(name.clone())
        .chain(numbered)
        .find(|name| !taken.contains(name))
        .expect("a directory holds fewer files than there are numbers")
}

/// Carries out one cut: the copy is durable before the original is touched.
fn apply<D: Disk>(disk: &D, cut: &Cut) -> std::io::Result<()> {
    if cut.byte == 0 {
        disk.rename(&cut.file, &cut.kept_in)?;
        return disk.sync_dir();
    }
    let temp = names::temp(&cut.kept_in);
    let (from, to) = (disk.open(&cut.file)?, disk.create(&temp)?);
    let mut buffer = vec![0; CHUNK_BYTES.min(cut.bytes) as usize];
    let mut done = 0;
    while done < cut.bytes {
        let now = CHUNK_BYTES.min(cut.bytes - done);
        let chunk = &mut buffer[..now as usize];
        read_all(&from, chunk, cut.byte + done)?;
        write_all(&to, chunk, done)?;
        done += now;
    }
    to.sync_data()?;
    disk.rename(&temp, &cut.kept_in)?;
    disk.sync_dir()?;
    zero(&from, cut.byte, cut.file_bytes)?;
    from.sync_data()
}
