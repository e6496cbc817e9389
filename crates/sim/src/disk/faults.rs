//! What goes wrong, and when.

use std::collections::BTreeMap;
use std::io;

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// Reading from a file.
    Read,
    /// Writing to a file.
    Write,
    /// Syncing a file.
    Sync,
    /// Changing a file's length.
    SetBytes,
    /// Creating a file.
    Create,
    /// Renaming a file.
    Rename,
    /// Removing a file.
    Remove,
    /// Syncing the directory.
    SyncDir,
}

/// How an operation goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The device reports an error and the operation does nothing; a failed sync also forgets what
    /// it should have saved.
    Eio,
    /// The disk is full.
    Full,
    /// A write stops short, without an error. Other operations are not affected.
    Short,
    /// A write stores something else, without an error. Other operations are not affected.
    Garbled,
}

/// How a write turns out.
pub(super) enum Outcome {
    Whole,
    Short,
    Garbled,
    /// It reaches the cache, perhaps the disk, but the caller does not hear of it.
    PowerOff,
}

#[derive(Clone, Default)]
pub(super) struct Faults {
    counts: BTreeMap<Op, u64>,
    plans: BTreeMap<(Op, u64), Fault>,
    pub(super) power_off_at: Option<u64>,
    pub(super) short_writes: bool,
    off: bool,
}

impl Faults {
    pub(super) fn ops(&self) -> u64 {
        self.counts.iter().filter(|(op, _)| **op != Op::Read).map(|(_, count)| count).sum()
    }

    pub(super) fn ops_of(&self, op: Op) -> u64 {
        self.counts.get(&op).copied().unwrap_or(0)
    }

    pub(super) fn plan(&mut self, op: Op, nth: u64, fault: Fault) {
        self.plans.insert((op, self.ops_of(op) + nth), fault);
    }

    pub(super) fn is_off(&self) -> bool {
        self.off
    }

    /// Counts an operation and says how it ends.
    pub(super) fn check(&mut self, op: Op) -> io::Result<()> {
        let (total, nth) = (self.ops(), self.ops_of(op));
        self.counts.insert(op, nth + 1);
        if self.off || (op != Op::Read && self.power_off_at == Some(total)) {
            self.off = true;
            return Err(power_is_off());
        }
        match self.plans.get(&(op, nth)) {
            Some(Fault::Eio) => Err(io::Error::other("simulated device error")),
            Some(Fault::Full) => Err(io::ErrorKind::StorageFull.into()),
            Some(Fault::Short | Fault::Garbled) | None => Ok(()),
        }
    }

    pub(super) fn check_write(&mut self) -> io::Result<Outcome> {
        let nth = self.ops_of(Op::Write);
        let was_off = self.off;
        match self.check(Op::Write) {
            Ok(()) if self.short_writes || self.plans.get(&(Op::Write, nth)) == Some(&Fault::Short) => {
                Ok(Outcome::Short)
            }
            Ok(()) if self.plans.get(&(Op::Write, nth)) == Some(&Fault::Garbled) => Ok(Outcome::Garbled),
            Ok(()) => Ok(Outcome::Whole),
            // The write that was under way when the power went may have reached the disk in part.
            Err(_) if self.off && !was_off => Ok(Outcome::PowerOff),
            Err(error) => Err(error),
        }
    }
}

pub(super) fn power_is_off() -> io::Error {
    io::Error::other("the simulated power is off")
}
