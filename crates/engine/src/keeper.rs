//! Housekeeping beside the running shard: spare segments, snapshots, giving space back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use driftq_core::{Malformed, State};

use crate::inbox::Notice;
use crate::keeper_signal::{Attempt, Call, KeeperSignal, RETRY_WAIT};
use crate::log::{Archive, KeepError, Lsn, Room, Space};
use crate::log_writer::distance;
use crate::recover::{FoldError, fold};
use crate::relocate::{Kept, copy_window};
use crate::shared::Shared;

/// A snapshot that failed, or freed nothing on a full disk, is not repeated before [`RETRY_WAIT`]; the wait doubles
/// up to this.
const FOLD_WAIT_MAX: Duration = Duration::from_secs(60);
/// A segment that is filled to less than one part in this with payloads still needed is rewritten: it gives back
/// more than three times the space that its copies take.
const SPARSE_RATIO: u64 = 4;
/// The newest segments are never rewritten: most of what they hold is about to be acked anyway.
const NEWEST_SEGMENTS_SPARED: u32 = 2;
/// Segments rewritten after one snapshot. Finding what a segment holds walks every message once.
const SEGMENTS_REWRITTEN_MAX: usize = 16;
/// Messages copied after one snapshot; bounds the memory for their addresses.
const RELOCATIONS_MAX: usize = 1 << 16;
/// Rewriting may add at most one part in this to the bytes between two snapshots.
const RELOCATED_SHARE: u64 = 4;

/// Why a snapshot was not made.
#[derive(Debug, thiserror::Error)]
enum SnapshotError {
    #[error(transparent)]
    Fold(#[from] FoldError),
    #[error("the snapshot before it cannot be read: {0}")]
    Previous(KeepError),
    #[error("the snapshot before it cannot be understood: {0}")]
    Malformed(&'static str),
    #[error(transparent)]
    Keep(#[from] KeepError),
}

/// What the keeper's thread owns.
pub(crate) struct Housekeeper<'a, A: Archive> {
    pub(crate) archive: A,
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) signal: &'a KeeperSignal,
    /// Where a log without a snapshot begins.
    pub(crate) start: Lsn,
    /// The disk was full when it was last asked for space.
    pressed: bool,
    /// A full disk is not asked before this.
    ask_not_before: Instant,
    fold_not_before: Instant,
    fold_wait: Duration,
    /// No snapshot could be made at the last attempt.
    fold_failed: bool,
    /// Messages still to be copied out of sparse segments; at most [`RELOCATIONS_MAX`].
    pinned: VecDeque<Kept>,
}

impl<'a, A: Archive> Housekeeper<'a, A> {
    pub(crate) fn new(archive: A, shared: &'a Arc<Shared>, signal: &'a KeeperSignal, start: Lsn) -> Self {
        let now = Instant::now();
        Self {
            archive,
            shared,
            signal,
            start,
            pressed: false,
            ask_not_before: now,
            fold_not_before: now,
            fold_wait: RETRY_WAIT,
            fold_failed: false,
            pinned: VecDeque::new(),
        }
    }

    /// The keeper's thread: works whenever it is rung, and of its own accord only while the disk is full.
    pub(crate) fn run(mut self) {
        loop {
            self.make_room();
            if self.fold_is_due() {
                self.fold_and_trim();
                self.make_room();
            }
            if !self.archive.can_roll() {
                if self.fold_is_due() {
                    // A log that is out of room waits for the snapshot that may free a segment.
                    continue;
                }
                self.signal.tried(Attempt::Failed);
            }
            if !self.pinned.is_empty() && !self.signal.copying() {
                copy_window(self.shared, self.signal, &mut self.pinned);
                if self.pinned.is_empty() {
                    // What they were copied out of may be given back.
                    self.fold_wait = RETRY_WAIT;
                    self.fold_not_before = self.fold_not_before.min(Instant::now() + RETRY_WAIT);
                }
            }
            let unsettled = self.pressed || !self.archive.is_stocked();
            if self.signal.wait(unsettled.then_some(RETRY_WAIT)) == Call::Stop {
                return;
            }
        }
    }

    /// Has the log's space ready and tells the log and the decide thread if they are.
    pub(crate) fn make_room(&mut self) {
        // Asking a full disk means writing until it refuses: not for every ring.
        if !self.pressed || self.archive.is_provided() || Instant::now() >= self.ask_not_before {
            self.pressed = !self.archive.provide();
            self.shared.status_board.set_pressed(self.pressed);
            self.ask_not_before = Instant::now() + RETRY_WAIT;
        }
        if self.archive.can_roll() {
            self.signal.tried(Attempt::Ready);
        }
        tell_room(self.shared, &self.archive);
        self.shared.meters.segments.set(self.archive.segments().len() as u64);
    }

    fn fold_is_due(&self) -> bool {
        let config = &self.shared.config;
        let (upto, durable) = (self.archive.snapshot_upto(), self.archive.durable());
        // Acks on a full disk have filled a segment: it holds nothing else, and is the next but one that they need.
        let rolled = durable.segment() > upto.segment();
        let acks_need_it = self.pressed && !self.fold_failed && (rolled || !self.archive.can_roll());
        if Instant::now() < self.fold_not_before && !acks_need_it {
            return false;
        }
        let unfolded = distance(upto, durable, config.segment_bytes);
        self.signal.is_snapshot_due(&self.archive, unfolded, config.snapshot_every_bytes)
            // Before the disk is full, so that no producer is refused while it is made.
            || (unfolded >= u64::from(config.segment_bytes) && self.archive.is_tight())
            // On a full disk any segment that can be found empty helps.
            || (self.pressed && unfolded > 0)
    }

    fn fold_and_trim(&mut self) {
        let begun = Instant::now();
        let folded = self.fold_once();
        self.fold_failed = folded.is_err();
        // It may have used the reserve up, and have given space back for a new one.
        self.ask_not_before = begun;
        match folded {
            Ok(dropped) => {
                self.shared.meters.snapshots.one();
                self.shared.meters.segments_dropped.add(dropped as u64);
                let duration = begun.elapsed();
                tracing::info!(?duration, dropped, upto = %self.archive.snapshot_upto(), "a snapshot was made");
                self.pace(dropped > 0 || !self.pressed);
            }
            Err(SnapshotError::Fold(FoldError::Interrupted)) => {}
            Err(error) => {
                self.shared.meters.snapshots_failed.one();
                tracing::error!(%error, "no snapshot could be made; the log grows until one can");
                self.pace(false);
            }
        }
    }

    /// Keeps what fails, or gains nothing, from being done over and over.
    fn pace(&mut self, worth_it: bool) {
        if worth_it {
            self.fold_wait = RETRY_WAIT;
        } else {
            self.fold_not_before = Instant::now() + self.fold_wait;
            self.fold_wait = (self.fold_wait * 2).min(FOLD_WAIT_MAX);
        }
    }

    /// Folds what is durable into a new snapshot, drops the segments that it makes superfluous, and notes those that
    /// nearly are. Returns how many segments went.
    fn fold_once(&mut self) -> Result<usize, SnapshotError> {
        let upto = self.archive.durable();
        let mut state = self.previous()?;
        let range = (self.archive.snapshot_upto().max(self.start), upto);
        let archive = self.archive.clone();
        let batches = fold(&archive, range, &mut state, || {
            // The log goes on meanwhile and may need a segment.
            if !self.archive.is_stocked() {
                self.make_room();
            }
            !self.signal.stopped()
        })?;
        let bytes = state.encode();
        // Given back first: two states and a snapshot are enough memory.
        drop(state);
        let (seed, mut read_back) = (self.shared.config.settings.seed, None);
        self.archive.put_snapshot(upto, &bytes, &mut |bytes| {
            read_back = State::decode(bytes, seed).ok();
            read_back.is_some()
        })?;
        self.signal.note_snapshot(bytes.len(), batches);
        let Some(state) = read_back else { return Ok(0) };
        let dropped = drop_empty(&self.archive, &state)?;
        self.pinned = self.pinned(&state, upto);
        Ok(dropped)
    }

    /// How much may be copied out of sparse segments before the next snapshot.
    fn relocated_bytes_max(&self) -> u64 {
        let config = &self.shared.config;
        match (self.pressed, self.archive.acks_provided()) {
            (false, _) => config.snapshot_every_bytes / RELOCATED_SHARE,
            // On a full disk a copy takes room that is kept for acks. It may have what it will give back several times
            // over, as long as none of that is in use.
            (true, true) => u64::from(config.segment_bytes) / SPARSE_RATIO,
            (true, false) => 0,
        }
    }

    fn previous(&self) -> Result<State, SnapshotError> {
        let seed = self.shared.config.settings.seed;
        match self.archive.snapshot().map_err(SnapshotError::Previous)? {
            None => Ok(State::new(seed)),
            Some(snapshot) => {
                State::decode(&snapshot.bytes, seed).map_err(|Malformed(what)| SnapshotError::Malformed(what))
            }
        }
    }

    /// Messages and effects to be copied out of sparse segments, the emptiest segment first.
    fn pinned(&self, state: &State, upto: Lsn) -> VecDeque<Kept> {
        let newest = upto.segment().saturating_sub(NEWEST_SEGMENTS_SPARED);
        let live = state.live_bytes();
        let mut sparse: Vec<(u64, u32)> = segments_below(&self.archive, upto)
            .filter(|(number, _)| *number < newest)
            .filter_map(|(number, bytes)| live.get(&number).map(|live| (*live, number, bytes)))
            .filter(|(live, _, bytes)| live * SPARSE_RATIO < *bytes)
            .map(|(live, number, _)| (live, number))
            .collect();
        sparse.sort_unstable();
        let mut budget = self.relocated_bytes_max();
        let mut pinned = VecDeque::new();
        for (live, number) in sparse.into_iter().take(SEGMENTS_REWRITTEN_MAX) {
            if live > budget || pinned.len() >= RELOCATIONS_MAX {
                break;
            }
            budget -= live;
            let messages = state.pinned_in(number, RELOCATIONS_MAX - pinned.len());
            pinned.extend(messages.into_iter().map(Kept::Message));
            let effects = state.effects_pinned_in(number, RELOCATIONS_MAX - pinned.len());
            pinned.extend(effects.into_iter().map(Kept::Effect));
        }
        pinned
    }
}

/// Drops the segments below the newest snapshot that hold nothing of `state`, which must be what that snapshot says
/// or newer. Returns how many.
pub(crate) fn drop_empty<A: Archive>(archive: &A, state: &State) -> Result<usize, KeepError> {
    let empty = segments_below(archive, archive.snapshot_upto()).map(|(number, _)| number);
    let empty: Vec<u32> = empty.filter(|number| !state.live_bytes().contains_key(number)).collect();
    if !empty.is_empty() {
        archive.trim(&empty)?;
    }
    Ok(empty.len())
}

/// Segments that end below `upto`, with the bytes in use in each.
fn segments_below<A: Archive>(archive: &A, upto: Lsn) -> impl Iterator<Item = (u32, u64)> + use<A> {
    let segments = archive.segments().into_iter().filter(move |segment| segment.number < upto.segment());
    segments.map(|segment| (segment.number, u64::from(segment.bytes)))
}

/// New messages are refused while the disk is full and only what is kept for acks is left. A spare that is only late
/// does not count: it will be there in a moment. Cheap enough for every batch, and called for every batch, because the
/// keeper may be busy when that point is reached.
pub(crate) fn tell_room(shared: &Shared, space: &impl Space) {
    let scarce = shared.status_board.is_pressed() && space.room() != Room::Plenty;
    if !shared.status_board.set_scarce(scarce) {
        return;
    }
    if scarce {
        tracing::error!("the disk is full: new messages are refused; reads and acks go on");
    } else {
        tracing::info!("the disk has space again: new messages are taken");
    }
    shared.inbox.notify(Notice::RoomChanged);
}
