//! Snapshots: parts in a stream of their own, which count all at once when a mark in the log names them.

use serde_json::json;

use super::archive::{NatsArchive, kept};
use super::fault::Trouble;
use super::link::{Expect, Wanted};
use super::record::Mark;
use super::stream::info;
use super::{Shared, fenced};
use crate::locks::lock;
use crate::log::extent::Stored;
use crate::log::{AppendError, Archive as _, KeepError, Lsn, Readable, Snapshot};

/// Bytes of one part.
const PART_BYTES: usize = 512 << 10;
/// Its number, in front of them: a part whose answer was lost may be there twice.
const NUMBER_BYTES: usize = 4;

impl NatsArchive {
    /// Reads the snapshot that counts.
    pub(super) fn stored_snapshot(&self) -> Result<Option<Snapshot>, KeepError> {
        let current = lock(&self.shared.snapshot);
        let Some(stored) = current.stored else { return Ok(None) };
        Ok(Some(Snapshot { upto: stored.upto, bytes: self.parts(stored)? }))
    }

    /// The bytes of a snapshot, checked.
    fn parts(&self, stored: Stored) -> Result<Vec<u8>, KeepError> {
        let names = &self.shared.names;
        let subject = names.snapshot(stored.number);
        let (mut bytes, mut next, mut from) = (Vec::new(), 0_u32, 1);
        while bytes.len() < stored.length() {
            let wanted = Wanted::many(from, Some(&subject));
            // A replica that has nothing yet lags behind.
            let page = self.shared.link.patiently(|link| match link.fetch(&names.snapshots, wanted)? {
                page if page.is_empty() => Err(Trouble::Unsure("the snapshot is not there".into())),
                page => Ok(page),
            });
            let page = page.map_err(|trouble| kept(&trouble))?;
            from = page.last().map_or(from, |last| last.sequence + 1);
            for message in page {
                let (number, part) = message.payload.split_at(NUMBER_BYTES.min(message.payload.len()));
                if number == next.to_le_bytes() && bytes.len() < stored.length() {
                    bytes.extend_from_slice(part);
                    next += 1;
                }
            }
        }
        let damaged = "the snapshot in NATS is not what was put; restore the streams from a backup";
        if stored.is(&bytes) { Ok(bytes) } else { Err(KeepError::Failed(damaged.into())) }
    }

    pub(super) fn store_snapshot(
        &self,
        upto: Lsn,
        bytes: &[u8],
        readable: Readable<'_>,
    ) -> Result<(), KeepError> {
        let shared = &self.shared;
        // Not for safety, which is the mark's: a deposed server need not fill the other's disk.
        self.check_claim()?;
        let mut current = lock(&shared.snapshot);
        let stored = current.next(shared.epoch.cast_signed(), shared.extent.durable(), upto, bytes)?;
        self.put_parts(stored.number, bytes)?;
        // Read back, and from the servers: what counts is what a later start will find.
        if !readable(&self.parts(stored)?) {
            return Err(KeepError::Failed("the snapshot would not be understood".into()));
        }
        self.name(stored)?;
        current.stored = Some(stored);
        shared.extent.set_snapshot_upto(upto);
        self.clear(Some(stored));
        Ok(())
    }

    /// Removes the parts of every other snapshot. Best effort: what stays is removed by the next one, or the next start.
    pub(super) fn clear(&self, current: Option<Stored>) {
        let Shared { link, names, .. } = &*self.shared;
        let current = current.map(|stored| names.snapshot(stored.number));
        let cleared = info(link, &names.snapshots, Some(&names.snapshot_subjects())).map(|info| {
            let mut others =
                info.state.subjects.into_keys().filter(|subject| Some(subject) != current.as_ref());
            others.try_for_each(|subject| self.shared.purge(&names.snapshots, &json!({"filter": subject})))
        });
        let cleared = cleared.map_err(|trouble| kept(&trouble)).flatten();
        if let Err(error) = cleared {
            tracing::warn!(%error, "parts of an older snapshot stay in NATS until the next one");
        }
    }

    fn put_parts(&self, number: i64, bytes: &[u8]) -> Result<(), KeepError> {
        let names = &self.shared.names;
        let subject = names.snapshot(number);
        for (part, piece) in (0_u32..).zip(bytes.chunks(PART_BYTES.min(self.shared.part_bytes))) {
            let payload = bytes::Bytes::from([&part.to_le_bytes()[..], piece].concat());
            let put = self.shared.link.patiently(|link| {
                link.publish(&names.snapshots, &subject, &Expect::Nothing, payload.clone())
            });
            put.map_err(|trouble| kept(&trouble))?;
        }
        Ok(())
    }

    /// Makes a snapshot the one that counts, under the same rule as a batch: nobody else may have claimed the log.
    fn name(&self, stored: Stored) -> Result<(), KeepError> {
        let shared = &self.shared;
        let mark = Mark { epoch: shared.epoch, holder: shared.holder.clone(), snapshot: Some(stored.into()) };
        let put = lock(&shared.tail).put(shared, &shared.names.marks(), &mark.encoded());
        put.map(drop).map_err(|error| match error {
            AppendError::Fenced(_) => KeepError::Fenced(fenced(shared.epoch)),
            error => KeepError::Failed(error.to_string()),
        })
    }
}
