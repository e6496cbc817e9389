//! Reading, replaying and trimming.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::fault::Trouble;
use super::link::{Stored, Wanted};
use super::record::{Batch, Joiner, Mark, Part};
use super::stream::{clock, info};
use super::{Shared, fenced};
use crate::locks::lock;
use crate::log::extent::{assemble, body_at};
use crate::log::{
    Archive, Each, KeepError, Lsn, ReadError, Readable, Reading, ReplayError, SegmentInfo, Snapshot, Space,
};

/// A batch whose place in the stream is remembered for every so many bytes of a segment.
const INDEX_STEP_BYTES: u32 = 64 << 10;
/// Places that are remembered; the lowest are forgotten first, and found again by search.
const INDEX_MAX: usize = 1 << 16;
/// Messages that a read asks for at a time.
const READ_MESSAGES: u32 = 64;
/// How many bytes of a log on a disk are read and folded while this reads and folds one, and while it comes to the next
/// batch. From a disk a byte of small messages took 2.7 ns, from three servers on the same machine 4 more, and each batch
/// 16 µs.
const BYTE_COST: u64 = 3;
const BATCH_COST: u64 = 6 << 10;

/// Where in the stream some batches are.
#[derive(Default)]
pub(super) struct Index {
    places: Mutex<BTreeMap<Lsn, u64>>,
}

impl Index {
    pub(super) fn learn(&self, frame: Lsn, sequence: u64) {
        let mut places = lock(&self.places);
        let before = places.range(..=frame).next_back().map(|(at, _)| *at);
        let is_near = |before: Lsn| {
            before.segment() == frame.segment() && frame.offset() - before.offset() < INDEX_STEP_BYTES
        };
        if before.is_some_and(is_near) {
            return;
        }
        places.insert(frame, sequence);
        if places.len() > INDEX_MAX {
            places.pop_first();
        }
    }

    /// The nearest batch in the same segment that begins at or before this; `None` if it may be far.
    fn near(&self, at: Lsn) -> Option<u64> {
        let (&before, &sequence) = lock(&self.places).range(..=at).next_back()?;
        let distance = at.offset().checked_sub(before.offset())?;
        (before.segment() == at.segment() && distance <= 2 * INDEX_STEP_BYTES).then_some(sequence)
    }
}

/// What is in the log, for any thread.
#[derive(Clone)]
pub struct NatsArchive {
    pub(super) shared: Arc<Shared>,
}

/// Housekeeping that the servers did not let happen.
pub(super) fn kept(trouble: &Trouble) -> KeepError {
    KeepError::Failed(trouble.to_string())
}

impl Shared {
    fn fetch(&self, wanted: Wanted<'_>) -> Result<Vec<Stored>, Trouble> {
        self.link.patiently(|link| link.fetch(&self.names.log, wanted))
    }

    /// The first batch message of a segment from this sequence on, and where its batch ends.
    fn probe(&self, from: u64, subject: &str) -> Result<Option<(u64, Lsn)>, Trouble> {
        let found = self.fetch(Wanted::one(from, Some(subject)))?;
        let Some(message) = found.into_iter().next() else { return Ok(None) };
        let part = Part::decoded(&message.payload);
        let part =
            part.ok_or_else(|| Trouble::Refused("a batch does not match its checksum".into(), None))?;
        Ok(Some((message.sequence, part.head.ended)))
    }

    /// A sequence from which on the batch that has this position, or the next one, is found by reading on. Positions
    /// grow with sequences, but for what was left unfinished or came late, which only makes reading on a little longer.
    fn locate(&self, at: Lsn) -> Result<u64, Trouble> {
        if let Some(sequence) = self.index.near(at) {
            return Ok(sequence);
        }
        let segments = self.extent.segments();
        let Some(segment) =
            segments.iter().map(|segment| segment.number).find(|number| *number >= at.segment())
        else {
            return Ok(1);
        };
        let subject = self.names.segment(segment);
        let Some((mut low, _)) = self.probe(1, &subject)? else { return Ok(1) };
        if segment > at.segment() {
            return Ok(low);
        }
        // Every message below `low` ends at or before the position; the one at `high` does not, or there is none.
        let last = self.link.patiently(|link| link.last(&self.names.log, &subject))?;
        let mut high = last.map_or(low, |last| last.sequence + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.probe(middle, &subject)? {
                Some((sequence, ended)) if ended <= at => low = sequence + 1,
                _ => high = middle,
            }
        }
        self.index.learn(at, low);
        Ok(low)
    }

    /// What comes next in the stream; nothing at its end. A replica that has nothing more may only lag behind.
    fn page(&self, wanted: Wanted<'_>) -> Result<Vec<Stored>, Trouble> {
        self.link.patiently(|link| {
            let page = link.fetch(&self.names.log, wanted)?;
            if page.is_empty() && info(link, &self.names.log, None)?.state.last_seq >= wanted.from {
                return Err(Trouble::Unsure("a replica lags behind".into()));
            }
            Ok(page)
        })
    }

    /// Feeds whole batches, until `each` has enough or the stream ends.
    pub(super) fn each(
        &self,
        mut wanted: Wanted<'_>,
        each: &mut dyn FnMut(Batch) -> ControlFlow<()>,
    ) -> Result<Result<(), &'static str>, Trouble> {
        let mut joiner = Joiner::default();
        loop {
            let page = self.page(wanted)?;
            let Some(last) = page.last() else { return Ok(Ok(())) };
            wanted.from = last.sequence + 1;
            for message in page.iter().filter(|message| message.subject != self.names.marks()) {
                match joiner.take(message, &self.marks) {
                    Ok(None) => {}
                    Ok(Some(batch)) => {
                        if each(batch).is_break() {
                            return Ok(Ok(()));
                        }
                    }
                    Err(damage) => return Ok(Err(damage)),
                }
            }
        }
    }
}

impl Archive for NatsArchive {
    fn read_at(&self, at: Lsn, bytes: u32) -> Result<Vec<u8>, ReadError> {
        let shared = &self.shared;
        shared.extent.check_read(at, bytes)?;
        let failed = |trouble: Trouble| ReadError::Failed(trouble.to_string());
        let from = shared.locate(at).map_err(failed)?;
        let end = Lsn::new(at.segment(), at.offset() + bytes);
        let mut found = Vec::new();
        let wanted = Wanted { from, subject: None, count: READ_MESSAGES, bytes: bytes.max(INDEX_STEP_BYTES) };
        let read = shared.each(wanted, &mut |batch| {
            if batch.ended > at && batch.frame < end {
                let skipped = at.0.saturating_sub(body_at(batch.frame).0).min(batch.body.len() as u64);
                found.push((batch.frame, batch.ended, batch.body.slice(skipped as usize..)));
            }
            if batch.ended >= end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        read.map_err(failed)?.map_err(|damage| ReadError::Failed(damage.into()))?;
        assemble(at, bytes, found.iter().map(|(frame, ended, piece)| (*frame, *ended, &piece[..])))
    }

    fn replay(&self, from: Lsn, to: Lsn, each: Each<'_>) -> Result<(), ReplayError> {
        if from >= to {
            return Ok(());
        }
        let shared = &self.shared;
        let failed = |trouble: Trouble| ReplayError::Failed(trouble.to_string());
        let sequence = shared.locate(from).map_err(failed)?;
        let (mut at, mut is_over, mut fault) = (from, false, None);
        let read = shared.each(Wanted::many(sequence, None), &mut |batch| {
            let Batch { frame, previous, ended, body } = batch;
            if ended <= from {
                return ControlFlow::Continue(());
            }
            if previous != at || ended > to {
                fault = Some(damaged(at, "the batch that follows it does not join on"));
                return ControlFlow::Break(());
            }
            at = ended;
            is_over = each(body_at(frame), &body).is_break();
            if is_over || at >= to { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        read.map_err(failed)?.map_err(|damage| damaged(at, damage))?;
        match fault {
            Some(fault) => Err(fault),
            None if at < to && !is_over => Err(damaged(at, "the batch that begins here is missing")),
            None => Ok(()),
        }
    }

    fn segments(&self) -> Vec<SegmentInfo> {
        self.shared.extent.segments()
    }

    fn trim(&self, segments: &[u32]) -> Result<(), KeepError> {
        let shared = &self.shared;
        shared.extent.check_trim(segments)?;
        for &segment in segments {
            // A claim may come in between. What is trimmed then is below a snapshot that was named before it.
            self.check_claim()?;
            shared.extent.forget(segment);
            shared.purge(&shared.names.log, &json!({"filter": shared.names.segment(segment)}))?;
        }
        let Some(first) = self.segments().first().map(|segment| shared.names.segment(segment.number)) else {
            return Ok(());
        };
        let first = shared.probe(1, &first).map_err(|trouble| kept(&trouble))?;
        let needed = first.map_or(0, |(sequence, _)| shared.marks.rules.needed_from(sequence));
        if needed > 1 {
            shared.purge(&shared.names.log, &json!({"filter": shared.names.marks(), "seq": needed}))?;
        }
        Ok(())
    }

    fn durable(&self) -> Lsn {
        self.shared.extent.durable()
    }

    fn snapshot_upto(&self) -> Lsn {
        self.shared.extent.snapshot_upto()
    }

    fn snapshot(&self) -> Result<Option<Snapshot>, KeepError> {
        self.stored_snapshot()
    }

    fn put_snapshot(&self, upto: Lsn, bytes: &[u8], readable: Readable<'_>) -> Result<(), KeepError> {
        self.store_snapshot(upto, bytes, readable)
    }

    fn replay_cost(&self, bytes: u64, batches: u64) -> u64 {
        bytes.saturating_mul(BYTE_COST).saturating_add(batches.saturating_mul(BATCH_COST))
    }

    fn check_claim(&self) -> Result<(), KeepError> {
        let Shared { link, names, epoch, .. } = &*self.shared;
        let newest = link.patiently(|link| link.last(&names.log, &names.marks()));
        let newest = newest.map_err(|trouble| kept(&trouble))?;
        let newest = newest.and_then(|message| Mark::decoded(&message.payload)).map(|mark| mark.epoch);
        if newest == Some(*epoch) { Ok(()) } else { Err(KeepError::Fenced(fenced(*epoch))) }
    }

    fn clock(&self) -> Result<Option<Reading>, KeepError> {
        let Shared { link, names, .. } = &*self.shared;
        link.patiently(|link| clock(link, &names.log)).map(Some).map_err(|trouble| kept(&trouble))
    }
}

impl Shared {
    /// Removes messages. To do so twice is to do so once.
    pub(super) fn purge(&self, stream: &str, which: &Value) -> Result<(), KeepError> {
        let purged = self.link.patiently(|link| link.call::<Value>(&format!("STREAM.PURGE.{stream}"), which));
        purged.map(drop).map_err(|trouble| kept(&trouble))
    }
}

/// The servers have the space that they have.
impl Space for NatsArchive {}

fn damaged(at: Lsn, what: &str) -> ReplayError {
    ReplayError::Damaged(format!(
        "the log in NATS is damaged at {at}: {what}. Nothing was changed; restore the stream from a backup"
    ))
}
