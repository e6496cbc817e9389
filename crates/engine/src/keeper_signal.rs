//! How the threads of one shard wake its keeper, and how the keeper wakes the log.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::locks::lock;
use crate::log::Archive;

/// How long to wait before a disk that was full or failed is asked again.
pub(crate) const RETRY_WAIT: Duration = Duration::from_secs(1);

/// What happened when the keeper last tried to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// There is a spare segment.
    Ready,
    /// There is none, and none can be made now.
    Failed,
}

/// Why the keeper woke up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// There may be something to do.
    Work,
    /// The shard ends.
    Stop,
}

#[derive(Default)]
pub(crate) struct KeeperSignal {
    state: Mutex<State>,
    keeper: Condvar,
    log: Condvar,
    /// How large the newest snapshot is; zero if that is not known.
    snapshot_bytes: AtomicU64,
    /// Batches behind the newest snapshot.
    batches: AtomicU64,
}

#[derive(Default)]
struct State {
    rung: bool,
    stop: bool,
    /// Counts the keeper's attempts to make room, so that a waiter never misses one.
    attempts: u64,
    last: Option<Attempt>,
    /// A window of copies is under way to the decide thread.
    copying: bool,
}

impl KeeperSignal {
    /// For a log that has so many batches behind its newest snapshot.
    pub(crate) fn new(batches: u64) -> Self {
        Self { batches: batches.into(), ..Self::default() }
    }

    /// Whether so much log is enough for a snapshot. One is wanted when a start would take as long as to read `every`
    /// bytes from a disk. To make one takes as long as the one before is large, whatever has happened since: the larger,
    /// the more log there must be.
    pub(crate) fn is_snapshot_due(&self, archive: &impl Archive, unfolded: u64, every: u64) -> bool {
        let batches = self.batches.load(Ordering::Relaxed);
        archive.replay_cost(unfolded, batches) >= every
            && unfolded >= self.snapshot_bytes.load(Ordering::Relaxed)
    }

    /// A batch was appended.
    pub(crate) fn note_batch(&self) {
        self.batches.fetch_add(1, Ordering::Relaxed);
    }

    /// A snapshot of so many bytes stands for so many more batches than the one before.
    pub(crate) fn note_snapshot(&self, bytes: usize, batches: u64) {
        self.snapshot_bytes.store(bytes as u64, Ordering::Relaxed);
        self.batches.fetch_sub(batches, Ordering::Relaxed);
    }

    /// Wakes the keeper: something may be due.
    pub(crate) fn ring(&self) {
        let mut state = lock(&self.state);
        if !state.rung {
            state.rung = true;
            self.keeper.notify_one();
        }
    }

    /// Ends the keeper, and the wait of a thread that waits for room.
    pub(crate) fn stop(&self) {
        lock(&self.state).stop = true;
        self.keeper.notify_all();
        self.log.notify_all();
    }

    pub(crate) fn stopped(&self) -> bool {
        lock(&self.state).stop
    }

    /// The keeper waits until it is rung, or until `timeout`.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Call {
        let idle = |state: &mut State| !state.rung && !state.stop;
        let state = lock(&self.state);
        let mut state = match timeout {
            None => self.keeper.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => {
                self.keeper.wait_timeout_while(state, timeout, idle).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.rung = false;
        if state.stop { Call::Stop } else { Call::Work }
    }

    /// The keeper tells how its attempt to make room ended.
    pub(crate) fn tried(&self, attempt: Attempt) {
        let mut state = lock(&self.state);
        state.attempts += 1;
        state.last = Some(attempt);
        drop(state);
        self.log.notify_all();
    }

    /// Asks the keeper for room and waits until it has tried; `None` if the shard ends.
    pub(crate) fn ask_for_room(&self) -> Option<Attempt> {
        let seen = lock(&self.state).attempts;
        self.ring();
        let state = lock(&self.state);
        let idle = |state: &mut State| state.attempts == seen && !state.stop;
        let state = self.log.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
        if state.stop { None } else { state.last }
    }

    /// Waits for the keeper's next attempt to make room, at most `timeout`; false if the shard ends.
    pub(crate) fn wait_for_room(&self, timeout: Duration) -> bool {
        let state = lock(&self.state);
        let seen = state.attempts;
        let idle = |state: &mut State| state.attempts == seen && !state.stop;
        let waited = self.log.wait_timeout_while(state, timeout, idle);
        !waited.unwrap_or_else(PoisonError::into_inner).0.stop
    }

    /// Waits until the shard ends, at most `timeout`; true if it does.
    pub(crate) fn wait_stop(&self, timeout: Duration) -> bool {
        let waited = self.log.wait_timeout_while(lock(&self.state), timeout, |state| !state.stop);
        waited.unwrap_or_else(PoisonError::into_inner).0.stop
    }

    /// The keeper sends a window of copies to the decide thread.
    pub(crate) fn begin_copies(&self) {
        lock(&self.state).copying = true;
    }

    /// The decide thread has handled them.
    pub(crate) fn end_copies(&self) {
        let mut state = lock(&self.state);
        state.copying = false;
        state.rung = true;
        self.keeper.notify_one();
    }

    pub(crate) fn copying(&self) -> bool {
        lock(&self.state).copying
    }
}

/// Stops the keeper when dropped, even if that happens because of a panic.
pub(crate) struct StopOnDrop<'a>(pub(crate) &'a KeeperSignal);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
