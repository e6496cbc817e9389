//! Snapshots: parts of a bounded size, which count all at once when the row of the shard names them.

use std::sync::atomic::Ordering;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::archive::{PostgresArchive, kept};
use super::link::Link;
use super::{SHARD, lsn, number};
use crate::locks::lock;
use crate::log::{KeepError, Lsn, Readable, Snapshot};
use crate::payload_store::check_of;

/// Bytes of one part.
const PART_BYTES: usize = 1 << 20;
/// Snapshots that one epoch may put: what is above that would take the number of the next epoch's first.
const PUT_MAX: i64 = 1 << 20;

const HELD: &str = "WITH held AS MATERIALIZED \
    (SELECT epoch FROM {schema}.shard WHERE shard = $1 AND epoch = $2 FOR SHARE)";
const PUT_PART: &str = "INSERT INTO {schema}.snapshot_part (shard, snapshot, part, body) \
    SELECT $1, $3, $4, $5 FROM held \
    ON CONFLICT (shard, snapshot, part) DO UPDATE SET body = excluded.body RETURNING part";
const CLEAR: &str = "DELETE FROM {schema}.snapshot_part WHERE shard = $1 AND EXISTS (SELECT FROM held) \
    AND snapshot IS DISTINCT FROM $3";
const NAME: &str = "UPDATE {schema}.shard SET snapshot = $3, snapshot_upto = $4, snapshot_bytes = $5, \
    snapshot_crc = $6 WHERE shard = $1 AND epoch = $2 RETURNING epoch";
const PARTS: &str =
    "SELECT body FROM {schema}.snapshot_part WHERE shard = $1 AND snapshot = $2 ORDER BY part";

/// The snapshot that counts, as the row of the shard names it.
#[derive(Clone, Copy)]
pub(super) struct Stored {
    number: i64,
    pub(super) upto: Lsn,
    bytes: i64,
    crc: i64,
}

impl Stored {
    /// What the columns behind the first say.
    pub(super) fn of(row: &Row) -> Option<Self> {
        let number: Option<i64> = row.get(1);
        Some(Self { number: number?, upto: lsn(row.get(2)), bytes: row.get(3), crc: row.get(4) })
    }
}

/// The snapshot that counts, and how many were put in this epoch.
pub(super) struct Current {
    pub(super) stored: Option<Stored>,
    pub(super) put: i64,
}

impl PostgresArchive {
    /// Reads the snapshot that counts.
    pub(super) fn stored_snapshot(&self) -> Result<Option<Snapshot>, KeepError> {
        let current = lock(&self.shared.snapshot);
        let Some(stored) = current.stored else { return Ok(None) };
        let bytes = self.parts(stored)?;
        Ok(Some(Snapshot { upto: stored.upto, bytes }))
    }

    /// The bytes of a snapshot, checked.
    fn parts(&self, stored: Stored) -> Result<Vec<u8>, KeepError> {
        let text = self.shared.statements.text(PARTS);
        let values = [(&SHARD as _, Type::INT4), (&stored.number as _, Type::INT8)];
        let wanted = usize::try_from(stored.bytes).unwrap_or(0);
        let mut bytes = Vec::new();
        let read = self.shared.links.with(|link| {
            bytes.clear();
            link.each_row(&text, &values, &mut |row| {
                bytes.extend_from_slice(row.get::<_, &[u8]>(0));
                bytes.len() <= wanted
            })
        });
        read.map_err(|trouble| kept(&trouble))?;
        if bytes.len() != wanted || i64::from(check_of(&bytes)) != stored.crc {
            let what = "the snapshot in the database is not what was put; restore the schema from a backup";
            return Err(KeepError::Failed(what.into()));
        }
        Ok(bytes)
    }

    pub(super) fn store_snapshot(
        &self,
        upto: Lsn,
        bytes: &[u8],
        readable: Readable<'_>,
    ) -> Result<(), KeepError> {
        let mut current = lock(&self.shared.snapshot);
        let durable = self.shared.durable();
        let latest = current.stored.map_or(Lsn::ZERO, |stored| stored.upto);
        if upto > durable || upto < latest {
            let what = format!("a snapshot up to {upto} does not lie between {latest} and {durable}");
            return Err(KeepError::Refused(what));
        }
        if current.put >= PUT_MAX {
            return Err(KeepError::Failed("this claim has put all the snapshots that it may".into()));
        }
        current.put += 1;
        let stored = Stored {
            number: self.shared.epoch * PUT_MAX + current.put,
            upto,
            bytes: i64::try_from(bytes.len()).unwrap_or(i64::MAX),
            crc: check_of(bytes).into(),
        };
        self.put_parts(stored.number, bytes)?;
        // Read back, and from the database: what counts is what a later start will find.
        if !readable(&self.parts(stored)?) {
            return Err(KeepError::Failed("the snapshot would not be understood".into()));
        }
        self.name(stored)?;
        current.stored = Some(stored);
        self.shared.snapshot_upto.store(upto.0, Ordering::Release);
        // Best effort: the new one counts, and the next one clears again.
        if let Err(error) = self.clear(stored.number) {
            tracing::warn!(%error, "parts of an older snapshot stay in the database until the next one");
        }
        Ok(())
    }

    fn put_parts(&self, number: i64, bytes: &[u8]) -> Result<(), KeepError> {
        let statements = &self.shared.statements;
        let text = format!("{} {}", statements.text(HELD), statements.text(PUT_PART));
        for (part, body) in (0_i32..).zip(bytes.chunks(PART_BYTES)) {
            let put = |link: &mut Link| {
                let values = [
                    (&SHARD as _, Type::INT4),
                    (&self.shared.epoch as _, Type::INT8),
                    (&number as _, Type::INT8),
                    (&part as _, Type::INT4),
                    (&body as _, Type::BYTEA),
                ];
                link.query(&text, &values)
            };
            if self.shared.links.with(put).map_err(|trouble| kept(&trouble))?.is_empty() {
                return Err(KeepError::Fenced(self.shared.fenced()));
            }
        }
        Ok(())
    }

    /// Makes a snapshot the one that counts. To do so twice is to do so once.
    fn name(&self, stored: Stored) -> Result<(), KeepError> {
        let text = self.shared.statements.text(NAME);
        let upto = number(stored.upto);
        let values = [
            (&SHARD as _, Type::INT4),
            (&self.shared.epoch as _, Type::INT8),
            (&stored.number as _, Type::INT8),
            (&upto as _, Type::INT8),
            (&stored.bytes as _, Type::INT8),
            (&stored.crc as _, Type::INT8),
        ];
        let named =
            self.shared.links.with(|link| link.query(&text, &values)).map_err(|trouble| kept(&trouble))?;
        if named.is_empty() { Err(KeepError::Fenced(self.shared.fenced())) } else { Ok(()) }
    }

    /// Deletes the parts of every other snapshot.
    fn clear(&self, number: i64) -> Result<(), KeepError> {
        let statements = &self.shared.statements;
        let text = format!("{} {}", statements.text(HELD), statements.text(CLEAR));
        let values =
            [(&SHARD as _, Type::INT4), (&self.shared.epoch as _, Type::INT8), (&number as _, Type::INT8)];
        self.shared.links.with(|link| link.query(&text, &values)).map(drop).map_err(|trouble| kept(&trouble))
    }
}
