//! Who writes batches: the decide thread itself, or the log thread.

use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use driftq_core::Position;

use crate::config::WriteMode;
use crate::inbox::{Broken, LogEvent};
use crate::keeper::tell_room;
use crate::keeper_signal::{Attempt, KeeperSignal, RETRY_WAIT};
use crate::locks::lock;
use crate::log::{Append, AppendError, Archive, Log, Lsn, Space};
use crate::shared::Shared;

/// Batches that may wait for the log thread. The next one is only sealed when this one is done, so one is enough
/// and sending never blocks.
pub(crate) const BATCHES_UNDER_WAY_MAX: usize = 1;

/// A buffer larger than this that is mostly full goes to the payload cache as it is; a smaller one is copied there
/// and used again.
const BUFFER_COPIED_BYTES_MAX: usize = 256 << 10;
/// A buffer that one large message has made larger than this is not used again.
const BUFFER_BYTES_KEPT_MAX: usize = 4 << 20;

/// A sealed batch on its way to the log.
pub(crate) struct Batch {
    pub(crate) body: Body,
    /// An answer or a delivery waits for it to be synced.
    pub(crate) urgent: bool,
}

/// The bytes of a batch.
pub(crate) enum Body {
    /// A buffer that comes back for reuse.
    Lent(Vec<u8>),
    /// A buffer that the payload cache keeps.
    Kept(Bytes),
}

impl Body {
    /// The facts of a batch for the log, and for the payload cache.
    pub(crate) fn of(mut facts: Vec<u8>) -> (Self, Bytes) {
        if facts.len() > BUFFER_COPIED_BYTES_MAX && facts.len() > facts.capacity() / 2 {
            // The cache counts bytes, and not the room behind them.
            facts.shrink_to_fit();
            let bytes = Bytes::from(facts);
            (Self::Kept(bytes.clone()), bytes)
        } else {
            let copied = Bytes::copy_from_slice(&facts);
            (Self::Lent(facts), copied)
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Lent(buffer) => buffer,
            Self::Kept(bytes) => bytes,
        }
    }

    fn into_buffer(self) -> Option<Vec<u8>> {
        match self {
            Self::Lent(mut buffer) if buffer.capacity() <= BUFFER_BYTES_KEPT_MAX => {
                buffer.clear();
                Some(buffer)
            }
            Self::Lent(_) | Self::Kept(_) => None,
        }
    }
}

/// The writer of the log. Only one batch is under way at a time, so its lock is never waited for.
pub(crate) struct LogWriter<L: Log> {
    writer: Mutex<L::Writer>,
    archive: L::Archive,
    shared: Arc<Shared>,
}

impl<L: Log> LogWriter<L> {
    pub(crate) const fn new(writer: L::Writer, archive: L::Archive, shared: Arc<Shared>) -> Self {
        Self { writer: Mutex::new(writer), archive, shared }
    }

    /// Writes a batch, and syncs it if it is urgent.
    pub(crate) fn write(
        &self,
        batch: &Batch,
        signal: &KeeperSignal,
    ) -> Result<Option<Position>, AppendError> {
        let mut writer = lock(&self.writer);
        if writer.cursor().rolls() && self.is_early() {
            return Err(AppendError::NoSpace);
        }
        let bytes = batch.body.bytes();
        // Before it is there: the keeper must not fold a batch that was not counted.
        signal.note_batch();
        let end = writer.append(bytes)?;
        let (meters, config) = (&self.shared.meters, &self.shared.config);
        meters.batches.one();
        meters.written_bytes.add(bytes.len() as u64);
        self.shared.payload_store.written(Position(end.0));
        let synced = if batch.urgent { Some(self.sync_with(&mut writer)?) } else { None };
        let unfolded = distance(self.archive.snapshot_upto(), end, config.segment_bytes);
        meters.replay_bytes.set(unfolded);
        tell_room(&self.shared, &self.archive);
        let is_due = signal.is_snapshot_due(&self.archive, unfolded, config.snapshot_every_bytes);
        if !self.archive.is_stocked() || is_due {
            signal.ring();
        }
        Ok(synced)
    }

    /// The next segment is one of those kept for acks, and the keeper has not said yet that the disk is full: it is
    /// only behind, and producers must not use them up meanwhile.
    fn is_early(&self) -> bool {
        self.archive.next_is_for_acks() && !self.shared.status_board.is_pressed()
    }

    /// Syncs whatever was written without one.
    pub(crate) fn sync(&self) -> Result<Position, AppendError> {
        self.sync_with(&mut lock(&self.writer))
    }

    fn sync_with(&self, writer: &mut L::Writer) -> Result<Position, AppendError> {
        let end = writer.sync()?;
        self.shared.meters.syncs.one();
        Ok(Position(end.0))
    }
}

/// About how many bytes of log lie between two positions.
pub(crate) fn distance(from: Lsn, to: Lsn, segment_bytes: u32) -> u64 {
    let at = |lsn: Lsn| u64::from(lsn.segment()) * u64::from(segment_bytes) + u64::from(lsn.offset());
    // Without a snapshot the log begins with its first segment.
    at(to).saturating_sub(at(from.max(Lsn::new(1, 0))))
}

/// The decide thread's side: hands batches out and knows whether one is under way.
pub(crate) struct WriteQueue<'a, L: Log> {
    pub(crate) log_writer: &'a LogWriter<L>,
    pub(crate) signal: &'a KeeperSignal,
    pub(crate) jobs: SyncSender<Batch>,
    pub(crate) mode: WriteMode,
    pub(crate) under_way: bool,
}

impl<L: Log> WriteQueue<'_, L> {
    /// Starts a batch. If it is done on the spot, what became of it comes back at once.
    pub(crate) fn start(&mut self, batch: Batch, shared: &Shared) -> Option<LogEvent> {
        let inline = match self.mode {
            WriteMode::Inline => true,
            WriteMode::Thread => false,
            WriteMode::Adaptive => shared.inbox.is_quiet(),
        };
        if inline {
            match self.log_writer.write(&batch, self.signal) {
                // Waiting for room is the log thread's business.
                Err(AppendError::NoSpace) => {}
                done => return Some(event(done, batch)),
            }
        }
        self.under_way = true;
        match self.jobs.try_send(batch) {
            Ok(()) => None,
            Err(_) => Some(LogEvent::Broken(Broken::Failed("the log thread is gone".into()))),
        }
    }
}

/// The log thread: writes what it is given until the decide thread is gone.
pub(crate) fn write_batches<L: Log>(
    log_writer: &LogWriter<L>,
    signal: &KeeperSignal,
    shared: &Shared,
    jobs: &Receiver<Batch>,
) {
    while let Ok(batch) = jobs.recv() {
        let done = match log_writer.write(&batch, signal) {
            Err(AppendError::NoSpace) => write_when_there_is_room(log_writer, signal, shared, &batch),
            done => done,
        };
        shared.inbox.report(event(done, batch));
    }
}

/// Keeps a batch that found no room until it can be written.
fn write_when_there_is_room<L: Log>(
    log_writer: &LogWriter<L>,
    signal: &KeeperSignal,
    shared: &Shared,
    batch: &Batch,
) -> Result<Option<Position>, AppendError> {
    // Usually the keeper is only a moment behind; only its failure means that the disk is full.
    while signal.ask_for_room() == Some(Attempt::Ready) {
        match log_writer.write(batch, signal) {
            Err(AppendError::NoSpace) if log_writer.is_early() => {}
            Err(AppendError::NoSpace) => break,
            done => return done,
        }
    }
    let why = "the disk is full: nothing can be written until space returns".into();
    shared.inbox.report(LogEvent::Stuck { why });
    while signal.wait_for_room(RETRY_WAIT) {
        match log_writer.write(batch, signal) {
            Err(AppendError::NoSpace) => {}
            done => {
                shared.inbox.report(LogEvent::Unstuck);
                return done;
            }
        }
    }
    Err(AppendError::NoSpace)
}

fn event(done: Result<Option<Position>, AppendError>, batch: Batch) -> LogEvent {
    match done {
        Ok(upto) => LogEvent::Written { upto, buffer: batch.body.into_buffer() },
        Err(error) => LogEvent::Broken(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;

    #[test]
    fn what_the_payload_cache_keeps_has_no_more_room_than_bytes() {
        for length in [10, BUFFER_COPIED_BYTES_MAX, BUFFER_COPIED_BYTES_MAX + 1, 1 << 20] {
            let mut facts = Vec::with_capacity(length * 2 - 1);
            facts.resize(length, 7);
            let (body, cached) = Body::of(facts);
            assert_eq!(body.bytes(), &cached);
            let is_kept = matches!(body, Body::Kept(_));
            assert_eq!(is_kept, length > BUFFER_COPIED_BYTES_MAX);
            drop(body);
            assert_eq!(BytesMut::from(cached).capacity(), length);
        }
    }
}
