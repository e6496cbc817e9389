//! A log in a directory, read and written as a whole.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use driftq_wal::{Disk as _, LockError, Making, Options, RealDisk, carry, holding, put_snapshot, run};

use super::{Batch, Each, Source, Target, TransferError, logs_in, unfinished};
use crate::log::{Lsn, Snapshot};
use crate::tools::{self, Outlook, ToolError};

/// What a directory is called until it is whole.
const UNFINISHED: &str = ".migrating";

/// A directory on which no server is at work.
pub(super) struct DirectorySource {
    disk: RealDisk,
    /// Keeps servers out.
    _lock: File,
    snapshot: Option<Snapshot>,
    segments: Vec<u32>,
}

impl DirectorySource {
    /// Keeps servers out, and refuses a log on which none would start.
    pub(super) fn claim(path: &Path) -> Result<Self, TransferError> {
        let shards = logs_in(path)?.len();
        if shards > 1 {
            let what = format!(
                "there are {shards} shards in {}, and a log that is moved has one: a log in PostgreSQL has no more for now",
                path.display()
            );
            let help =
                "keep it in a directory: `driftq backup` and `driftq restore` take all shards to another one";
            return Err(TransferError::refused(what, help));
        }
        let looked = tools::inspect(path, false, &mut |_| {}).map_err(|error| match error {
            ToolError::NoDirectory(what) => TransferError::refused(
                format!("there is no directory {what}"),
                "name the data directory of `driftq serve`",
            ),
            ToolError::Locked(dir) => TransferError::Locked(dir),
            ToolError::Log(what) => TransferError::Failed(what),
        })?;
        match looked.outlook {
            _ if looked.in_use => Err(TransferError::Locked(path.display().to_string())),
            Outlook::Sound | Outlook::TornTail => Self::open(path),
            Outlook::Empty => Err(TransferError::refused(
                format!("there is no log in {}", path.display()),
                "name the data directory of `driftq serve`",
            )),
            Outlook::Damaged | Outlook::Newer => Err(TransferError::Failed(looked.text)),
        }
    }

    fn open(path: &Path) -> Result<Self, TransferError> {
        let disk = RealDisk::existing(path)?;
        let lock = disk.lock().map_err(|error| match error {
            LockError::Busy => TransferError::Locked(path.display().to_string()),
            LockError::Io(error) => error.into(),
        })?;
        let held = holding(&disk)?;
        Ok(Self { disk, _lock: lock, snapshot: held.snapshot, segments: held.segments })
    }
}

impl Source for DirectorySource {
    fn snapshot(&mut self) -> Result<Option<Snapshot>, TransferError> {
        Ok(self.snapshot.clone())
    }

    fn each(&mut self, each: Each<'_>) -> Result<(), TransferError> {
        for &number in &self.segments {
            let end = run(&self.disk, number)?.end;
            let whole = carry(&self.disk, end, |carried| {
                each(Batch { frame: carried.frame, end: carried.end, body: carried.body })
            })?;
            if !whole {
                return Err(TransferError::Failed(format!("{end}: a batch changed while it was read")));
            }
        }
        Ok(())
    }
}

/// A directory that is filled under another name.
pub(super) struct DirectoryTarget {
    path: PathBuf,
    unfinished: PathBuf,
    disk: RealDisk,
    /// Only one attempt at a time fills it.
    lock: File,
    /// Segments that an earlier attempt has finished.
    there: BTreeSet<u32>,
    options: Options,
    /// The segment that is being filled.
    making: Option<Making<RealDisk>>,
}

impl DirectoryTarget {
    pub(super) fn begin(path: &Path) -> Result<Self, TransferError> {
        let path = std::path::absolute(path)?;
        match fs::read_dir(&path).map(|mut entries| entries.next().is_some()) {
            Ok(true) => {
                let what = format!("the directory {} is not empty", path.display());
                return Err(TransferError::refused(what, "name a directory that does not exist yet"));
            }
            Ok(false) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        let unfinished = unfinished(&path, UNFINISHED);
        let disk = RealDisk::create(&unfinished)?;
        let lock = disk.lock().map_err(|error| match error {
            LockError::Busy => TransferError::Locked(unfinished.display().to_string()),
            LockError::Io(error) => error.into(),
        })?;
        let there = holding(&disk)?.segments.into_iter().collect();
        let options = Options::default();
        Ok(Self { path, unfinished, disk, lock, there, options, making: None })
    }

    fn end_segment(&mut self, is_last: bool) -> Result<(), TransferError> {
        match self.making.take() {
            Some(making) => Ok(making.finish(is_last, &self.options)?),
            None => Ok(()),
        }
    }
}

impl Target for DirectoryTarget {
    fn has(&self, batch: &Batch<'_>) -> bool {
        self.there.contains(&batch.frame.segment())
    }

    fn put(&mut self, batch: Batch<'_>, _: Lsn) -> Result<(), TransferError> {
        let number = batch.frame.segment();
        if self.making.as_ref().is_some_and(|making| making.number() != number) {
            self.end_segment(false)?;
        }
        let mut making = match self.making.take() {
            Some(making) => making,
            None => Making::begin(self.disk.clone(), number, &self.options)?,
        };
        making.put(batch.frame, batch.body)?;
        self.making = Some(making);
        Ok(())
    }

    fn put_snapshot(&mut self, snapshot: Option<&Snapshot>) -> Result<(), TransferError> {
        self.end_segment(true)?;
        match snapshot {
            Some(snapshot) => Ok(put_snapshot(&self.disk, snapshot)?),
            None => Ok(()),
        }
    }

    fn read_back(&self) -> Result<Box<dyn Source + '_>, TransferError> {
        let held = holding(&self.disk)?;
        let lock = self.lock.try_clone()?;
        let disk = self.disk.clone();
        Ok(Box::new(DirectorySource { disk, _lock: lock, snapshot: held.snapshot, segments: held.segments }))
    }

    fn clear(&mut self) -> Result<(), TransferError> {
        Ok(fs::remove_dir_all(&self.unfinished)?)
    }

    fn finish(self: Box<Self>) -> Result<(), TransferError> {
        put_in_place(&self.unfinished, &self.path)
    }
}

/// Gives a directory the name under which it counts. The other one is missing or empty.
pub fn put_in_place(unfinished: &Path, path: &Path) -> Result<(), TransferError> {
    for dir in logs_in(unfinished)?.iter().rev() {
        File::open(dir)?.sync_all()?;
    }
    fs::rename(unfinished, path)?;
    if let Some(parent) = path.parent() {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}
