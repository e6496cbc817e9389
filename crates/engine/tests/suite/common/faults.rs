//! A real directory that fails on command.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use driftq_wal::{Disk, DiskFile, Entry, LockError, RealDisk};

/// The switches.
#[derive(Default)]
pub(crate) struct Faults {
    /// The next sync of a segment fails, once.
    pub(crate) fail_sync: AtomicBool,
    /// Listing the directory breaks an assertion.
    pub(crate) broken: AtomicBool,
    /// Bytes that all files together may take; zero means no limit.
    capacity: AtomicU64,
    /// Syncs of segments wait until this is false again.
    held: Mutex<bool>,
    released: Condvar,
    /// Syncs that have begun.
    pub(crate) syncs: AtomicU64,
}

impl Faults {
    pub(crate) fn hold_syncs(&self) {
        *self.held.lock().unwrap() = true;
    }

    pub(crate) fn release_syncs(&self) {
        *self.held.lock().unwrap() = false;
        self.released.notify_all();
    }

    fn pass_sync(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        let held = self.held.lock().unwrap();
        drop(self.released.wait_while(held, |held| *held).unwrap());
        if self.fail_sync.swap(false, Ordering::SeqCst) {
            return Err(io::Error::other("injected"));
        }
        Ok(())
    }
}

#[derive(Clone)]
pub(crate) struct FaultyDisk {
    real: RealDisk,
    pub(crate) faults: Arc<Faults>,
}

pub(crate) struct FaultyFile {
    real: File,
    is_segment: bool,
    /// Something else than zeros was written since the last sync: spares are filled in the background, and the
    /// faults are not meant for that.
    written: AtomicBool,
    disk: FaultyDisk,
}

impl FaultyDisk {
    pub(crate) fn new(dir: &Path) -> Self {
        Self { real: RealDisk::create(dir).unwrap(), faults: Arc::default() }
    }

    /// The disk is as full as can be: what is deleted can be used again.
    pub(crate) fn fill(&self) {
        self.faults.capacity.store(self.used().unwrap(), Ordering::SeqCst);
    }

    pub(crate) fn add_space(&self) {
        self.faults.capacity.store(0, Ordering::SeqCst);
    }

    fn used(&self) -> io::Result<u64> {
        Ok(self.real.list()?.iter().map(|entry| entry.bytes).sum())
    }

    fn grow(&self, by: u64) -> io::Result<()> {
        let capacity = self.faults.capacity.load(Ordering::SeqCst);
        if capacity > 0 && self.used()? + by > capacity {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn file(&self, name: &str, real: File) -> FaultyFile {
        // Spares become segments by being renamed while they are open.
        let is_segment = name.starts_with("seg-") || name.starts_with("spare-");
        FaultyFile { real, is_segment, written: AtomicBool::new(false), disk: self.clone() }
    }
}

impl Disk for FaultyDisk {
    type File = FaultyFile;
    type Lock = File;

    fn name(&self) -> String {
        self.real.name()
    }

    fn list(&self) -> io::Result<Vec<Entry>> {
        assert!(!self.faults.broken.load(Ordering::SeqCst), "injected");
        self.real.list()
    }

    fn open(&self, file: &str) -> io::Result<FaultyFile> {
        Ok(self.file(file, self.real.open(file)?))
    }

    fn create(&self, file: &str) -> io::Result<FaultyFile> {
        Ok(self.file(file, self.real.create(file)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.real.rename(from, to)
    }

    fn remove(&self, file: &str) -> io::Result<()> {
        self.real.remove(file)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.real.sync_dir()
    }

    fn free_bytes(&self) -> Option<u64> {
        match self.faults.capacity.load(Ordering::SeqCst) {
            0 => self.real.free_bytes(),
            capacity => self.used().ok().map(|used| capacity.saturating_sub(used)),
        }
    }

    fn lock(&self) -> Result<File, LockError> {
        self.real.lock()
    }
}

impl DiskFile for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        DiskFile::read_at(&self.real, buffer, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let (end, length) = (at + bytes.len() as u64, self.bytes()?);
        if end > length {
            self.disk.grow(end - length)?;
        }
        if bytes.iter().any(|byte| *byte != 0) {
            self.written.store(true, Ordering::SeqCst);
        }
        DiskFile::write_at(&self.real, bytes, at)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.is_segment && self.written.swap(false, Ordering::SeqCst) {
            self.disk.faults.pass_sync()?;
        }
        DiskFile::sync_data(&self.real)
    }

    fn bytes(&self) -> io::Result<u64> {
        DiskFile::bytes(&self.real)
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        self.real.set_bytes(bytes)
    }
}
