//! A log in a directory, read and written as a whole.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use driftq_core::{SHARDS_MAX, ShardId};
use driftq_wal::{
    Disk as _, Holding, LockError, Making, Options, RealDisk, carry, holding, put_snapshot, run,
};

use super::{Batch, Each, Filling, Reading, Source, Target, TransferError, check_begun, logs_in, unfinished};
use crate::log::{Lsn, Snapshot};
use crate::start::shard_directory;
use crate::tools::{self, Outlook, ToolError};

/// What a directory is called until it is whole.
const UNFINISHED: &str = ".migrating";

/// A directory on which no server is at work.
pub(super) struct DirectorySource {
    /// The log of each shard, and the lock that keeps servers out of it.
    logs: Vec<(RealDisk, File)>,
}

impl DirectorySource {
    /// Keeps servers out, and refuses logs on which none would start.
    pub(super) fn claim(path: &Path) -> Result<Self, TransferError> {
        let logs = logs_in(path)?.iter().map(|log| claimed(log, log == path)).collect::<Result<_, _>>()?;
        Ok(Self { logs })
    }
}

fn claimed(path: &Path, is_first: bool) -> Result<(RealDisk, File), TransferError> {
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
        Outlook::Sound | Outlook::TornTail => locked(RealDisk::existing(path)?, path),
        Outlook::Empty => Err(TransferError::refused(
            format!("there is no log in {}", path.display()),
            if is_first {
                "name the data directory of `driftq serve`"
            } else {
                "put the log of this shard back; if there never was one, start the server once, which makes it"
            },
        )),
        Outlook::Damaged | Outlook::Newer => Err(TransferError::Failed(looked.text)),
    }
}

fn locked(disk: RealDisk, path: &Path) -> Result<(RealDisk, File), TransferError> {
    let lock = disk.lock().map_err(|error| match error {
        LockError::Busy => TransferError::Locked(path.display().to_string()),
        LockError::Io(error) => error.into(),
    })?;
    Ok((disk, lock))
}

impl Source for DirectorySource {
    fn shards(&self) -> u8 {
        u8::try_from(self.logs.len()).unwrap_or(SHARDS_MAX)
    }

    fn shard(&mut self, shard: ShardId) -> Result<Box<dyn Reading + '_>, TransferError> {
        let (disk, _) = &self.logs[usize::from(shard.0)];
        Ok(Box::new(DirectoryReading::open(disk)?))
    }

    /// Whoever wants to start there is kept out.
    fn check(&mut self) -> Result<(), TransferError> {
        Ok(())
    }
}

/// The log of one shard.
struct DirectoryReading<'a> {
    disk: &'a RealDisk,
    held: Holding,
}

impl<'a> DirectoryReading<'a> {
    fn open(disk: &'a RealDisk) -> Result<Self, TransferError> {
        Ok(Self { disk, held: holding(disk)? })
    }
}

impl Reading for DirectoryReading<'_> {
    fn snapshot(&mut self) -> Result<Option<Snapshot>, TransferError> {
        Ok(self.held.snapshot.clone())
    }

    fn each(&mut self, each: Each<'_>) -> Result<(), TransferError> {
        for &number in &self.held.segments {
            let end = run(self.disk, number)?.end;
            let whole = carry(self.disk, end, |carried| {
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
    /// Only one attempt at a time fills it.
    _lock: File,
}

impl DirectoryTarget {
    pub(super) fn begin(path: &Path, shards: u8) -> Result<Self, TransferError> {
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
        let (_, lock) = locked(RealDisk::create(&unfinished)?, &unfinished)?;
        let place = unfinished.display().to_string();
        let begun = u8::try_from(logs_in(&unfinished)?.len()).unwrap_or(SHARDS_MAX);
        check_begun(&place, begun, shards, format!("remove {place}, or name another directory"))?;
        Ok(Self { path, unfinished, _lock: lock })
    }
}

impl Target for DirectoryTarget {
    fn shard(&mut self, shard: ShardId) -> Result<Box<dyn Filling + '_>, TransferError> {
        let disk = RealDisk::create(shard_directory(&self.unfinished, shard))?;
        let there = holding(&disk)?.segments.into_iter().collect();
        Ok(Box::new(DirectoryFilling { disk, there, options: Options::default(), making: None }))
    }

    fn clear(&mut self) -> Result<(), TransferError> {
        Ok(fs::remove_dir_all(&self.unfinished)?)
    }

    fn finish(self: Box<Self>) -> Result<(), TransferError> {
        put_in_place(&self.unfinished, &self.path)
    }
}

/// The log of one shard.
struct DirectoryFilling {
    disk: RealDisk,
    /// Segments that an earlier attempt has finished.
    there: BTreeSet<u32>,
    options: Options,
    /// The segment that is being filled.
    making: Option<Making<RealDisk>>,
}

impl DirectoryFilling {
    fn end_segment(&mut self, is_last: bool) -> Result<(), TransferError> {
        match self.making.take() {
            Some(making) => Ok(making.finish(is_last, &self.options)?),
            None => Ok(()),
        }
    }
}

impl Filling for DirectoryFilling {
    fn has(&self, batch: &Batch<'_>) -> Option<bool> {
        Some(self.there.contains(&batch.frame.segment()))
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

    fn read_back(&mut self) -> Result<Box<dyn Reading + '_>, TransferError> {
        Ok(Box::new(DirectoryReading::open(&self.disk)?))
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
