//! A disk in memory that forgets what was not synced, and fails on command.
//!
//! Reads see every write at once, as through a page cache. [`SimDisk::crash`] is a power cut: each
//! sector written since the last sync keeps its old contents or takes any of the newer ones, on its
//! own; each create, rename and remove since the last directory sync happened or did not. What is
//! kept is decided by the seed alone, so every run can be repeated.

mod faults;
mod file;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use driftq_wal::{Disk, DiskFile, Entry, LockError};

use crate::rng::Rng;
pub use faults::{Fault, Op};
use faults::{Faults, Outcome};
use file::Inode;

/// Smallest unit that reaches the disk whole or not at all.
pub const SECTOR_BYTES: usize = 512;

/// A simulated data directory. Clones are handles to the same one.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

/// An open file of a [`SimDisk`].
pub struct SimFile {
    disk: SimDisk,
    inode: u64,
    /// A handle does not outlive the process that opened it.
    life: u64,
}

/// Holds the directory's lock until dropped.
pub struct SimLock {
    disk: SimDisk,
    life: u64,
}

#[derive(Clone)]
struct State {
    rng: Rng,
    faults: Faults,
    inodes: BTreeMap<u64, Inode>,
    inode_next: u64,
    /// The directory as reads see it.
    names: BTreeMap<String, u64>,
    /// The directory as a power cut leaves it, before the changes below.
    names_durable: BTreeMap<String, u64>,
    changes: Vec<Change>,
    capacity: Option<u64>,
    /// Counts crashes.
    life: u64,
    locked: bool,
}

/// A change of the directory that is not durable yet.
#[derive(Clone)]
enum Change {
    Link { name: String, inode: u64 },
    Rename { from: String, to: String, inode: u64 },
    Unlink { name: String, inode: u64 },
}

impl SimDisk {
    /// An empty directory.
    pub fn new(seed: u64) -> Self {
        let state = State {
            rng: Rng::new(seed),
            faults: Faults::default(),
            inodes: BTreeMap::new(),
            inode_next: 1,
            names: BTreeMap::new(),
            names_durable: BTreeMap::new(),
            changes: Vec::new(),
            capacity: None,
            life: 1,
            locked: false,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// A copy that shares nothing and has no open handles, to try several futures from one past.
    pub fn fork(&self, seed: u64) -> Self {
        let mut state = self.state().clone();
        state.rng = Rng::new(seed);
        state.locked = false;
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts the power and puts it back: unsynced work is lost in part, old handles are dead, the
    /// lock is free, planned faults are forgotten.
    pub fn crash(&self) {
        self.state().crash();
    }

    /// Ends the process but not the machine: nothing is lost, old handles are dead, the lock is free.
    pub fn kill(&self) {
        let mut state = self.state();
        state.life += 1;
        state.locked = false;
        state.faults = Faults::default();
    }

    /// How many operations were asked for so far, counting every kind but reads.
    pub fn ops(&self) -> u64 {
        self.state().faults.ops()
    }

    /// How many operations of one kind were asked for so far.
    pub fn ops_of(&self, op: Op) -> u64 {
        self.state().faults.ops_of(op)
    }

    /// From the operation with this number on (see [`SimDisk::ops`]) nothing works until
    /// [`SimDisk::crash`]: the power is gone in the middle of it.
    pub fn power_off_at(&self, op: u64) {
        self.state().faults.power_off_at = Some(op);
    }

    /// Makes the `nth` operation of a kind, counted from now and from 0, go wrong.
    pub fn fail(&self, op: Op, nth: u64, fault: Fault) {
        self.state().faults.plan(op, nth, fault);
    }

    /// Whether every write from now on stops short at random.
    pub fn short_writes(&self, on: bool) {
        self.state().faults.short_writes = on;
    }

    /// Space for file contents, or no limit. Files that are there already stay.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// Bytes that the files in the directory take.
    pub fn used(&self) -> u64 {
        self.state().used()
    }

    /// Flips one bit, durably.
    ///
    /// # Panics
    /// When there is no such byte.
    pub fn flip(&self, name: &str, byte: usize, bit: u8) {
        let mut state = self.state();
        let inode = *state.names.get(name).expect("the test names a file that exists");
        state.inodes.get_mut(&inode).expect("a name leads to an inode").flip(byte, bit);
    }

    /// The contents of a file as reads see them.
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        let inode = state.names.get(name)?;
        Some(state.inodes.get(inode)?.contents().to_vec())
    }

    /// Puts a file there, durably.
    pub fn put(&self, name: &str, contents: &[u8]) {
        let mut state = self.state();
        let inode = state.add_inode(Inode::durable(contents));
        state.names.insert(name.to_owned(), inode);
        state.names_durable.insert(name.to_owned(), inode);
    }

    /// Every file name, sorted.
    pub fn names(&self) -> Vec<String> {
        self.state().names.keys().cloned().collect()
    }
}

impl State {
    fn add_inode(&mut self, inode: Inode) -> u64 {
        let number = self.inode_next;
        self.inode_next += 1;
        self.inodes.insert(number, inode);
        number
    }

    fn used(&self) -> u64 {
        self.names.values().filter_map(|inode| self.inodes.get(inode)).map(|file| file.len() as u64).sum()
    }

    fn find(&self, name: &str) -> io::Result<u64> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn crash(&mut self) {
        // Journals keep the order of changes, other systems promise nothing: try both.
        let ordered = self.rng.chance(1, 2);
        for change in std::mem::take(&mut self.changes) {
            if self.rng.chance(1, 2) {
                self.make_durable(change);
            } else if ordered {
                break;
            }
        }
        self.names = self.names_durable.clone();
        let linked: Vec<u64> = self.names.values().copied().collect();
        self.inodes.retain(|number, _| linked.contains(number));
        for inode in self.inodes.values_mut() {
            inode.crash(&mut self.rng);
        }
        self.life += 1;
        self.locked = false;
        self.faults = Faults::default();
    }

    fn make_durable(&mut self, change: Change) {
        let names = &mut self.names_durable;
        match change {
            Change::Link { name, inode } => {
                names.insert(name, inode);
            }
            Change::Rename { from, to, inode } => {
                if names.get(&from) == Some(&inode) {
                    names.remove(&from);
                }
                names.insert(to, inode);
            }
            Change::Unlink { name, inode } => {
                if names.get(&name) == Some(&inode) {
                    names.remove(&name);
                }
            }
        }
    }
}

impl Disk for SimDisk {
    type File = SimFile;
    type Lock = SimLock;

    fn name(&self) -> String {
        "sim".into()
    }

    fn list(&self) -> io::Result<Vec<Entry>> {
        let state = self.state();
        let entry = |(name, inode): (&String, &u64)| Entry {
            name: name.clone(),
            bytes: state.inodes.get(inode).map_or(0, |file| file.len() as u64),
        };
        Ok(state.names.iter().map(entry).collect())
    }

    fn open(&self, file: &str) -> io::Result<SimFile> {
        let state = self.state();
        let inode = state.find(file)?;
        Ok(SimFile { disk: self.clone(), inode, life: state.life })
    }

    fn create(&self, file: &str) -> io::Result<SimFile> {
        let mut state = self.state();
        state.faults.check(Op::Create)?;
        let inode = state.add_inode(Inode::default());
        state.names.insert(file.to_owned(), inode);
        state.changes.push(Change::Link { name: file.to_owned(), inode });
        Ok(SimFile { disk: self.clone(), inode, life: state.life })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.faults.check(Op::Rename)?;
        let inode = state.find(from)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), inode);
        state.changes.push(Change::Rename { from: from.to_owned(), to: to.to_owned(), inode });
        Ok(())
    }

    fn remove(&self, file: &str) -> io::Result<()> {
        let mut state = self.state();
        state.faults.check(Op::Remove)?;
        let inode = state.find(file)?;
        state.names.remove(file);
        state.changes.push(Change::Unlink { name: file.to_owned(), inode });
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.state();
        state.faults.check(Op::SyncDir)?;
        for change in std::mem::take(&mut state.changes) {
            state.make_durable(change);
        }
        Ok(())
    }

    fn free_bytes(&self) -> Option<u64> {
        let state = self.state();
        state.capacity.map(|capacity| capacity.saturating_sub(state.used()))
    }

    fn lock(&self) -> Result<SimLock, LockError> {
        let mut state = self.state();
        if state.locked {
            return Err(LockError::Busy);
        }
        state.locked = true;
        Ok(SimLock { disk: self.clone(), life: state.life })
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.life == self.life {
            state.locked = false;
        }
    }
}

impl SimFile {
    /// Runs `work` on the inode, unless this handle's process is gone.
    fn with<R>(&self, work: impl FnOnce(&mut State, u64) -> io::Result<R>) -> io::Result<R> {
        let mut state = self.disk.state();
        if state.life != self.life {
            return Err(io::Error::other("the handle is from before a crash"));
        }
        work(&mut state, self.inode)
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.with(|state, inode| {
            state.faults.check(Op::Read)?;
            Ok(state.inodes.get(&inode).map_or(0, |file| file.read(buffer, at as usize)))
        })
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        self.with(|state, inode| {
            let outcome = state.faults.check_write()?;
            let mut take = bytes.len();
            if let Outcome::Short = outcome {
                take = 1 + state.rng.below(take.max(1) as u64) as usize;
            }
            let len = state.inodes.get(&inode).map_or(0, Inode::len);
            if let Some(capacity) = state.capacity {
                let room = len as u64 + capacity.saturating_sub(state.used());
                take = take.min(room.saturating_sub(at) as usize);
                if take == 0 && !bytes.is_empty() {
                    return Err(io::ErrorKind::StorageFull.into());
                }
            }
            let take = take.min(bytes.len());
            if let Some(file) = state.inodes.get_mut(&inode) {
                file.write(&bytes[..take], at as usize);
                if let (Outcome::Garbled, true) = (&outcome, take > 0) {
                    file.flip(at as usize + take / 2, 3);
                }
            }
            if let Outcome::PowerOff = outcome {
                return Err(faults::power_is_off());
            }
            Ok(take)
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(|state, inode| {
            let checked = state.faults.check(Op::Sync);
            let Some(file) = state.inodes.get_mut(&inode) else { return checked };
            match checked {
                Ok(()) => file.sync(),
                // What did not get through is forgotten, not kept for the next sync.
                Err(_) if !state.faults.is_off() => file.fail_sync(&mut state.rng),
                Err(_) => {}
            }
            checked
        })
    }

    fn bytes(&self) -> io::Result<u64> {
        self.with(|state, inode| Ok(state.inodes.get(&inode).map_or(0, |file| file.len() as u64)))
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        self.with(|state, inode| {
            state.faults.check(Op::SetBytes)?;
            if let Some(file) = state.inodes.get_mut(&inode) {
                file.set_len(bytes as usize);
            }
            Ok(())
        })
    }
}
