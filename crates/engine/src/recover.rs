//! From bytes on disk to a state: fold, nothing else.

use std::ops::ControlFlow;
use std::time::Instant;

use driftq_core::{Malformed, Position, State};
use driftq_wal::Truncated;

use crate::failure::StartError;
use crate::log::{Archive, Log, Lsn, Opened, ReplayError};
use crate::request::Recovery;

/// Why a log could not be folded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FoldError {
    /// The log cannot be read.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// What was read cannot be understood.
    #[error("the facts at {at} cannot be understood: {what}")]
    Malformed {
        /// Where.
        at: Lsn,
        /// Which part was being read.
        what: &'static str,
    },
    /// It was told to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Folds the batches in `[from, to)` into `state`; gives up when `go_on` says so. Returns their number.
pub(crate) fn fold(
    archive: &impl Archive,
    (from, to): (Lsn, Lsn),
    state: &mut State,
    mut go_on: impl FnMut() -> bool,
) -> Result<u64, FoldError> {
    let mut batches = 0;
    let mut fault = None;
    let mut each = |base: Lsn, body: &[u8]| {
        batches += 1;
        if !go_on() {
            fault = Some(FoldError::Interrupted);
        } else if let Err(Malformed(what)) = state.apply_batch(Position(base.0), body) {
            fault = Some(FoldError::Malformed { at: base, what });
        } else {
            return ControlFlow::Continue(());
        }
        ControlFlow::Break(())
    };
    archive.replay(from, to, &mut each)?;
    fault.map_or(Ok(batches), Err)
}

/// The state that a freshly opened log holds, and what there is to tell about it.
pub(crate) fn recover<L: Log>(
    opened: &mut Opened<L>,
    seed: u64,
    begun: Instant,
) -> Result<(State, Recovery), StartError> {
    // Taken, not borrowed: the bytes of a large snapshot are not needed once they are decoded.
    let snapshot = opened.snapshot.take();
    let snapshot_at = snapshot.as_ref().map(|snapshot| snapshot.upto.to_string());
    let mut state = match snapshot {
        None => State::new(seed),
        Some(snapshot) => State::decode(&snapshot.bytes, seed).map_err(|Malformed(what)| {
            StartError::Facts { position: format!("{} (snapshot)", snapshot.upto), what }
        })?,
    };
    let range = (opened.start, opened.end);
    let replayed_batches =
        fold(&opened.archive, range, &mut state, || true).map_err(|error| match error {
            FoldError::Malformed { at, what } => StartError::Facts { position: at.to_string(), what },
            FoldError::Replay(ReplayError::Damaged(damage)) => StartError::Damaged(damage),
            FoldError::Replay(_) | FoldError::Interrupted => StartError::Log(error.to_string()),
        })?;
    let (archive, named) = (&opened.archive, |number| opened.archive.segment_name(number));
    if let Some(lost) = LostPayloads::find(&state, |number| archive.segment_end(number), named) {
        return Err(StartError::Damaged(lost.to_string()));
    }
    let recovery = Recovery {
        messages: state.messages(),
        topics: state.topics().count() as u64,
        groups: state.groups() as u64,
        replayed_bytes: opened.replay_bytes,
        replayed_batches,
        duration: begun.elapsed(),
        truncated: opened.torn.clone(),
        epoch: state.epoch() + 1,
        snapshot_at,
    };
    Ok((state, recovery))
}

/// A file that holds less than the state needs of it. Only what lies behind the snapshot is read at a start; what lies
/// before it would be missed when a reader asks for it, long after.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{file} {how}, but messages or outcomes that were acknowledged lie in it up to byte {needed}. Put the file back from \
     a backup: nothing else has them"
)]
pub(crate) struct LostPayloads {
    file: String,
    how: String,
    needed: u32,
}

impl LostPayloads {
    /// The first such file; `segment_end` says how long each segment is, if it is there, and `named` what it is called.
    pub(crate) fn find(
        state: &State,
        segment_end: impl Fn(u32) -> Option<u64>,
        named: impl Fn(u32) -> String,
    ) -> Option<Self> {
        state.payload_ends().into_iter().find_map(|(number, needed)| {
            let how = match segment_end(number) {
                Some(end) if end >= u64::from(needed) => return None,
                Some(end) => format!("ends at byte {end}"),
                None => "is missing".to_owned(),
            };
            Some(Self { file: named(number), how, needed })
        })
    }
}

/// A torn tail, in words.
pub(crate) fn torn_tail(torn: &Truncated) -> String {
    let (file, byte, bytes) = (&torn.file, torn.at_byte, torn.bytes);
    format!("{file}: {bytes} bytes from byte {byte} on belong to a batch that never became durable")
}
