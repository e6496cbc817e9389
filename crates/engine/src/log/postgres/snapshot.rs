//! Snapshots: parts of a bounded size, which count all at once when the row of the shard names them.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::archive::{PostgresArchive, kept};
use super::fault::Trouble;
use super::link::Link;
use super::{Statements, lsn, number};
use crate::locks::lock;
use crate::log::extent::Stored;
use crate::log::{KeepError, Lsn, Readable, Snapshot};

/// Bytes of one part.
const PART_BYTES: usize = 1 << 20;

const HELD: &str = "WITH held AS MATERIALIZED \
    (SELECT epoch FROM {schema}.shard WHERE shard = $1 AND epoch = $2 FOR SHARE)";
const PUT_PART: &str = "INSERT INTO {schema}.snapshot_part (shard, snapshot, part, body) \
    SELECT $1, $3, $4, $5 FROM held \
    ON CONFLICT (shard, snapshot, part) DO UPDATE SET body = excluded.body RETURNING part";
const CLEAR: &str = "DELETE FROM {schema}.snapshot_part WHERE shard = $1 AND EXISTS (SELECT FROM held) \
    AND snapshot IS DISTINCT FROM $3";
const NAME: &str = "UPDATE {schema}.shard SET snapshot = $3, snapshot_upto = $4, snapshot_bytes = $5, \
    snapshot_crc = $6 WHERE shard = $1 AND epoch = $2 RETURNING epoch";
const FORGET: &str = "UPDATE {schema}.shard SET snapshot = NULL, snapshot_upto = NULL, snapshot_bytes = NULL, \
    snapshot_crc = NULL WHERE shard = $1 AND epoch = $2 RETURNING epoch";
const STANDING: &str = "SELECT epoch, snapshot, snapshot_upto, snapshot_bytes, snapshot_crc FROM {schema}.shard \
    WHERE shard = $1";
const PARTS: &str =
    "SELECT body FROM {schema}.snapshot_part WHERE shard = $1 AND snapshot = $2 ORDER BY part";

/// The snapshot that the row of the shard names: what the columns behind the first say.
pub(super) fn of(row: &Row) -> Option<Stored> {
    let number: Option<i64> = row.get(1);
    Some(Stored { number: number?, upto: lsn(row.get(2)), bytes: row.get(3), crc: row.get(4) })
}

/// The newest claim, and the snapshot that counts.
pub(super) fn standing(link: &mut Link, statements: &Statements) -> Result<(i64, Option<Stored>), Trouble> {
    let row = link.query_one(&statements.text(STANDING), &[(&statements.shard as _, Type::INT4)])?;
    Ok((row.get(0), of(&row)))
}

/// No snapshot counts from now on, unless the log is somebody else's by now. Its parts go with the next one.
pub(super) fn forget(link: &mut Link, statements: &Statements, epoch: i64) -> Result<(), Trouble> {
    let values = [(&statements.shard as _, Type::INT4), (&epoch as _, Type::INT8)];
    link.query(&statements.text(FORGET), &values).map(drop)
}

/// What is said of a snapshot that is not what it was.
pub(super) const DAMAGED: &str =
    "the snapshot in the database is not what was put; restore the schema from a backup";

/// The bytes of a snapshot; `None` if they are not what was put.
pub(super) fn read(
    link: &mut Link,
    statements: &Statements,
    stored: Stored,
) -> Result<Option<Vec<u8>>, Trouble> {
    let values = [(&statements.shard as _, Type::INT4), (&stored.number as _, Type::INT8)];
    let mut bytes = Vec::new();
    link.each_row(&statements.text(PARTS), &values, &mut |row| {
        bytes.extend_from_slice(row.get::<_, &[u8]>(0));
        bytes.len() <= stored.length()
    })?;
    Ok(stored.is(&bytes).then_some(bytes))
}

/// Puts one part; `false` if the log is somebody else's by now.
fn put_part(
    link: &mut Link,
    statements: &Statements,
    (epoch, number): (i64, i64),
    (part, body): (i32, &[u8]),
) -> Result<bool, Trouble> {
    let text = format!("{} {}", statements.text(HELD), statements.text(PUT_PART));
    let values = [
        (&statements.shard as _, Type::INT4),
        (&epoch as _, Type::INT8),
        (&number as _, Type::INT8),
        (&part as _, Type::INT4),
        (&body as _, Type::BYTEA),
    ];
    Ok(!link.query(&text, &values)?.is_empty())
}

/// Makes a snapshot the one that counts. To do so twice is to do so once. `false` if the log is somebody else's by now.
fn name(link: &mut Link, statements: &Statements, epoch: i64, stored: Stored) -> Result<bool, Trouble> {
    let upto = number(stored.upto);
    let values = [
        (&statements.shard as _, Type::INT4),
        (&epoch as _, Type::INT8),
        (&stored.number as _, Type::INT8),
        (&upto as _, Type::INT8),
        (&stored.bytes as _, Type::INT8),
        (&stored.crc as _, Type::INT8),
    ];
    Ok(!link.query(&statements.text(NAME), &values)?.is_empty())
}

/// Puts a whole snapshot, which counts from now on; `false` if the log is somebody else's by now.
pub(super) fn put(
    link: &mut Link,
    statements: &Statements,
    (epoch, stored): (i64, Stored),
    bytes: &[u8],
) -> Result<bool, Trouble> {
    for part in (0_i32..).zip(bytes.chunks(PART_BYTES)) {
        if !put_part(link, statements, (epoch, stored.number), part)? {
            return Ok(false);
        }
    }
    name(link, statements, epoch, stored)
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
        let read = self.shared.links.with(|link| read(link, &self.shared.statements, stored));
        read.map_err(|trouble| kept(&trouble))?.ok_or_else(|| KeepError::Failed(DAMAGED.into()))
    }

    pub(super) fn store_snapshot(
        &self,
        upto: Lsn,
        bytes: &[u8],
        readable: Readable<'_>,
    ) -> Result<(), KeepError> {
        let mut current = lock(&self.shared.snapshot);
        let stored = current.next(self.shared.epoch, self.shared.extent.durable(), upto, bytes)?;
        self.put_parts(stored.number, bytes)?;
        // Read back, and from the database: what counts is what a later start will find.
        if !readable(&self.parts(stored)?) {
            return Err(KeepError::Failed("the snapshot would not be understood".into()));
        }
        self.name(stored)?;
        current.stored = Some(stored);
        self.shared.extent.set_snapshot_upto(upto);
        // Best effort: the new one counts, and the next one clears again.
        if let Err(error) = self.clear(stored.number) {
            tracing::warn!(%error, "parts of an older snapshot stay in the database until the next one");
        }
        Ok(())
    }

    fn put_parts(&self, number: i64, bytes: &[u8]) -> Result<(), KeepError> {
        let named = (self.shared.epoch, number);
        for part in (0_i32..).zip(bytes.chunks(PART_BYTES)) {
            let put = |link: &mut Link| put_part(link, &self.shared.statements, named, part);
            if !self.shared.links.with(put).map_err(|trouble| kept(&trouble))? {
                return Err(KeepError::Fenced(self.shared.fenced()));
            }
        }
        Ok(())
    }

    fn name(&self, stored: Stored) -> Result<(), KeepError> {
        let (epoch, statements) = (self.shared.epoch, &self.shared.statements);
        let named = self.shared.links.with(|link| name(link, statements, epoch, stored));
        match named.map_err(|trouble| kept(&trouble))? {
            true => Ok(()),
            false => Err(KeepError::Fenced(self.shared.fenced())),
        }
    }

    /// Deletes the parts of every other snapshot.
    fn clear(&self, number: i64) -> Result<(), KeepError> {
        let statements = &self.shared.statements;
        let text = format!("{} {}", statements.text(HELD), statements.text(CLEAR));
        let values = [
            (&statements.shard as _, Type::INT4),
            (&self.shared.epoch as _, Type::INT8),
            (&number as _, Type::INT8),
        ];
        self.shared.links.with(|link| link.query(&text, &values)).map(drop).map_err(|trouble| kept(&trouble))
    }
}
