//! What the broker can do right now, and why not more.

use std::path::PathBuf;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use driftq_core::ShardId;

use crate::locks::{read, write};

/// What the broker can do right now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Requests are served.
    pub ready: bool,
    /// New messages are taken.
    pub writable: bool,
    /// What is acknowledged survives the process.
    pub durable: bool,
    /// The run of the shard; zero before the first.
    pub epoch: u64,
    /// What was handed out can be settled: the log takes acks, even if it takes no new messages.
    pub settles: bool,
    /// Why it is not ready or not writable.
    pub why: Option<String>,
    /// The data directory, if the log is in one.
    pub data: Option<PathBuf>,
}

impl Status {
    /// What is left of it beside another shard that can do so much.
    pub(crate) fn with(self, shard: ShardId, other: Self) -> Self {
        let why = other.why.map(|why| format!("shard {}: {why}", shard.0));
        Self {
            ready: self.ready && other.ready,
            writable: self.writable && other.writable,
            settles: self.settles && other.settles,
            why: self.why.or(why),
            ..self
        }
    }
}

/// The live status: changed by the engine's threads, read from anywhere.
pub(crate) struct StatusBoard {
    status: RwLock<Status>,
    /// The disk was full when the keeper last asked it for space.
    pressed: AtomicBool,
    /// New messages are refused for want of space; outlives a rebuild of the shard.
    scarce: AtomicBool,
}

/// What is said while the disk has no room for new messages.
pub(crate) const DISK_FULL: &str = "the disk is full: new messages are refused until space returns";

impl StatusBoard {
    pub(crate) const fn new(data: Option<PathBuf>, is_durable: bool) -> Self {
        let status = Status {
            ready: false,
            writable: false,
            settles: false,
            durable: is_durable,
            epoch: 0,
            why: None,
            data,
        };
        Self { status: RwLock::new(status), pressed: AtomicBool::new(false), scarce: AtomicBool::new(false) }
    }

    pub(crate) fn read(&self) -> Status {
        read(&self.status).clone()
    }

    pub(crate) fn serving(&self, epoch: u64) {
        let mut status = write(&self.status);
        status.ready = true;
        status.settles = true;
        status.epoch = epoch;
        status.writable = !self.scarce.load(Ordering::Acquire);
        status.why = if status.writable { None } else { Some(DISK_FULL.into()) };
    }

    pub(crate) fn down(&self, why: &str) {
        let mut status = write(&self.status);
        status.ready = false;
        status.writable = false;
        status.settles = false;
        status.why = Some(why.into());
    }

    /// Nothing that waits for the disk is taken.
    pub(crate) fn stuck(&self, why: &str) {
        let mut status = write(&self.status);
        status.writable = false;
        status.settles = false;
        status.why = Some(why.into());
    }

    /// Remembers whether there is room; true if that is news.
    pub(crate) fn set_scarce(&self, scarce: bool) -> bool {
        if self.is_scarce() == scarce {
            return false;
        }
        let mut status = write(&self.status);
        let news = self.scarce.swap(scarce, Ordering::AcqRel) != scarce;
        if news && status.ready {
            status.writable = !scarce;
            status.why = if scarce { Some(DISK_FULL.into()) } else { None };
        }
        news
    }

    pub(crate) fn set_pressed(&self, pressed: bool) {
        self.pressed.store(pressed, Ordering::Release);
    }

    pub(crate) fn is_pressed(&self) -> bool {
        self.pressed.load(Ordering::Acquire)
    }

    pub(crate) fn is_scarce(&self) -> bool {
        self.scarce.load(Ordering::Acquire)
    }
}
