//! Appending: one message at a time, each expected to be the next one of the stream.

use std::sync::Arc;

use bytes::Bytes;
use driftq_wal::FRAME_BODY_BYTES_MAX;
use driftq_wal::claim::{Behind, Head, Looked, Next, Sent, Stop};

use super::fault::Trouble;
use super::link::{Expect, Wanted};
use super::record::Part;
use super::{Shared, fenced};
use crate::locks::lock;
use crate::log::extent::Patience;
use crate::log::{Append, AppendError, Cursor, Lsn};

/// What to do when the stream no longer has what it had.
pub(super) const LOST: &str = "the NATS servers came back without what they had acknowledged: restored from an older \
    copy, or without `sync_interval: always`. Bring the newest copy back, or start again to serve what is left";

/// The end of the stream. Whoever has it may put one message behind it.
pub(super) struct Tail {
    sequence: u64,
    /// Why nothing more is put.
    ended: Option<AppendError>,
}

impl Tail {
    pub(super) const fn new(sequence: u64) -> Self {
        Self { sequence, ended: None }
    }

    /// The last message that is known to be there.
    pub(super) const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Puts one message. If its answer is lost, the stream is read before anything else is said: it is there, or it may
    /// be put again, or somebody else was quicker. A message that comes late comes second and is refused, because the
    /// stream no longer ends where it was expected to.
    pub(super) fn put(
        &mut self,
        shared: &Shared,
        subject: &str,
        payload: &Bytes,
    ) -> Result<u64, AppendError> {
        if let Some(ended) = &self.ended {
            return Err(ended.clone());
        }
        match self.try_put(shared, subject, payload) {
            Ok(()) => {
                self.sequence += 1;
                Ok(self.sequence)
            }
            Err(error) => {
                self.ended = Some(error.clone());
                Err(error)
            }
        }
    }

    fn try_put(&self, shared: &Shared, subject: &str, payload: &Bytes) -> Result<(), AppendError> {
        let mut patience = Patience::new();
        loop {
            let expect = Expect::Last(self.sequence);
            let published = shared.link.publish(&shared.names.log, subject, &expect, payload.clone());
            let sent = match &published {
                Ok(sequence) if *sequence == self.sequence + 1 => Sent::Taken,
                Ok(_) => Sent::Elsewhere,
                Err(trouble) if trouble.is_lost_race() => Sent::Refused,
                Err(trouble) if trouble.passes() => {
                    tracing::warn!(%trouble, "the log waits for NATS");
                    Sent::Unknown
                }
                Err(trouble) => return Err(AppendError::Failed(trouble.to_string())),
            };
            let next = match sent.next() {
                Next::Look => self.look(shared, subject, payload, &mut patience)?,
                next => next,
            };
            match next {
                Next::Tell => return Ok(()),
                Next::Send if patience.wait() => {}
                Next::Stop(Stop::Fenced) => return Err(AppendError::Fenced(fenced(shared.epoch))),
                Next::Send | Next::Look | Next::Stop(Stop::Failed) => {
                    let wanted = self.sequence + 1;
                    return Err(AppendError::Failed(match published {
                        Ok(sequence) => format!("NATS has put message {wanted} of the log at {sequence}"),
                        Err(trouble) => trouble.to_string(),
                    }));
                }
            }
        }
    }

    /// What follows from what is there instead of, or after, a message whose answer was lost or which was refused.
    fn look(
        &self,
        shared: &Shared,
        subject: &str,
        payload: &Bytes,
        patience: &mut Patience,
    ) -> Result<Next, AppendError> {
        loop {
            let wanted = Wanted::one(self.sequence + 1, None);
            let found =
                shared.link.fetch(&shared.names.log, wanted).and_then(|mut found| match found.pop() {
                    // Whoever lacks it may only lag behind: the leader knows.
                    None => super::stream::info(&shared.link, &shared.names.log, None)
                        .map(|info| Behind::Last(info.state.last_seq)),
                    Some(there) => {
                        let ours = there.subject == subject && there.payload == *payload;
                        Ok(Behind::Record { ours })
                    }
                });
            let looked = found.map(|behind| (behind, behind.looked(self.sequence)));
            let trouble = match looked {
                Ok((Behind::Last(last), Looked::Shorter)) => {
                    let had = self.sequence;
                    let why = format!("the stream had {had} messages and now has {last}; {LOST}");
                    return Err(AppendError::Failed(why));
                }
                Ok((_, Looked::Lags)) => Trouble::Unsure("a replica lags behind".into()),
                Ok((_, looked)) => return Ok(looked.next()),
                Err(trouble) => trouble,
            };
            // A stream whose leader was lost may seem not to be there.
            if !(trouble.passes() || trouble.is_absence()) || !patience.wait() {
                return Err(AppendError::Failed(trouble.to_string()));
            }
        }
    }
}

impl Shared {
    /// Puts a batch behind the one that ends at `previous`. One that takes several messages is there when its last one
    /// is.
    pub(super) fn put_batch(
        &self,
        (previous, frame, ended): (Lsn, Lsn, Lsn),
        body: &[u8],
    ) -> Result<(), AppendError> {
        if body.len() > FRAME_BODY_BYTES_MAX as usize {
            let bytes = body.len();
            return Err(AppendError::Failed(format!("a batch of {bytes} bytes is above the limit")));
        }
        let subject = self.names.segment(frame.segment());
        let mut tail = lock(&self.tail);
        let pieces = body.chunks(self.part_bytes).chain(body.is_empty().then_some(body));
        let parts = body.len().div_ceil(self.part_bytes).max(1) as u32;
        let mut first = None;
        for (part, piece) in (0..).zip(pieces) {
            let head = Head { epoch: self.epoch, frame, previous, ended, part, parts };
            let body = Bytes::copy_from_slice(piece);
            let sequence = tail.put(self, &subject, &Part { head, body }.encoded())?;
            first.get_or_insert(sequence);
        }
        drop(tail);
        self.index.learn(frame, first.unwrap_or_default());
        self.extent.set_durable(ended);
        Ok(())
    }
}

/// The only one that appends, as long as nobody else claims the log.
pub struct NatsWriter {
    shared: Arc<Shared>,
    cursor: Cursor,
}

impl NatsWriter {
    pub(super) const fn new(shared: Arc<Shared>, cursor: Cursor) -> Self {
        Self { shared, cursor }
    }
}

impl Append for NatsWriter {
    fn cursor(&self) -> Cursor {
        self.cursor.clone()
    }

    fn append(&mut self, body: &[u8]) -> Result<Lsn, AppendError> {
        let (mut next, previous) = (self.cursor.clone(), self.cursor.end());
        let frame = next.next_frame();
        let end = next.advance(body.len());
        self.shared.put_batch((previous, frame, end), body)?;
        self.cursor = next;
        Ok(end)
    }

    /// What was appended is durable already.
    fn sync(&mut self) -> Result<Lsn, AppendError> {
        match &lock(&self.shared.tail).ended {
            Some(ended) => Err(ended.clone()),
            None => Ok(self.cursor.end()),
        }
    }
}
