//! A log in a database, read and written as a whole; see [`crate::transfer`].

use std::sync::Arc;

use driftq_core::{SHARDS_MAX, ShardId};
use tokio_postgres::types::Type;

use super::link::Link;
use super::schema::{self, Purpose};
use super::{PostgresLog, Statements, lsn, number, snapshot};
use crate::house::HOME;
use crate::log::extent::Stored;
use crate::log::{Lsn, PostgresPlace, Snapshot};
use crate::payload_store::check_of;
use crate::transfer::{Batch, Each, Filling, Reading, Source, Target, TransferError, check_begun};

/// Rows that one statement reads, and bytes after which its answer ends, but not before the first row.
const READ_ROWS_MAX: i64 = 1_024;
const READ_BYTES_MAX: i64 = 4 << 20;
/// Rows and bytes that one statement writes.
const PUT_ROWS_MAX: usize = 1_024;
const PUT_BYTES_MAX: usize = 4 << 20;
/// For the names of segments, which a database does not keep.
const SEGMENT_BYTES: u32 = 32 << 20;

/// The length of a body is known without reading it.
const EACH: &str = "SELECT position, ended, crc, body FROM \
    (SELECT *, sum(octet_length(body)) OVER (ORDER BY position) - octet_length(body) AS before FROM \
        (SELECT position, ended, crc, body FROM {schema}.batch WHERE shard = $1 AND position >= $2 \
            ORDER BY position LIMIT $3) AS page) AS sized \
    WHERE before < $4 ORDER BY position";

const PUT: &str = "WITH {level}, held AS MATERIALIZED \
        (SELECT epoch FROM {schema}.shard WHERE shard = $1 AND epoch = $2 FOR SHARE) \
    INSERT INTO {schema}.batch (shard, position, previous, ended, epoch, crc, body) \
    SELECT $1, put.position, put.previous, put.ended, held.epoch, put.crc, put.body FROM held, level, \
        unnest($3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::bytea[]) \
            AS put (position, previous, ended, crc, body) \
    WHERE level.set IS NOT NULL RETURNING position";

const REACHED: &str = "SELECT max(ended) FROM {schema}.batch WHERE shard = $1";
/// Nothing if another attempt has begun since: what is there by then is not ours to delete.
const CLEAR: &str = "WITH held AS MATERIALIZED \
        (SELECT epoch FROM {schema}.shard WHERE shard = $1 AND epoch = $2 FOR SHARE) \
    DELETE FROM {schema}.batch WHERE shard = $1 AND EXISTS (SELECT FROM held) AND position = ANY(ARRAY( \
        SELECT position FROM {schema}.batch WHERE shard = $1 ORDER BY position LIMIT $3)) RETURNING position";

/// One connection for all shards, which are claimed.
struct Claimed {
    place: PostgresPlace,
    purpose: Purpose,
    link: Link,
    shards: Vec<Held>,
}

/// A shard, and the claim on it.
struct Held {
    statements: Arc<Statements>,
    epoch: i64,
}

fn troubled(place: &PostgresPlace, trouble: &super::Trouble) -> TransferError {
    TransferError::refused(trouble.to_string(), trouble.help(&place.schema))
}

impl Claimed {
    /// Claims as many shards as `count` says, the first one first: of two at once, the one that is later there is later
    /// everywhere.
    fn new(
        place: PostgresPlace,
        purpose: Purpose,
        count: impl FnOnce(&mut Link, &Statements) -> Result<u8, TransferError>,
    ) -> Result<Self, TransferError> {
        let log = |shard| PostgresLog::new(place.clone(), shard, SEGMENT_BYTES);
        let home = log(HOME)?;
        let mut link = Link::new(Arc::clone(&home.route)).map_err(|trouble| troubled(&place, &trouble))?;
        let server = schema::make_sure(&mut link, &home.statements, &place, purpose)?;
        if purpose == Purpose::Receive {
            server.tell();
        }
        let mut shards = Vec::new();
        for shard in (0..count(&mut link, &home.statements)?).map(ShardId) {
            let log = log(shard)?;
            if purpose == Purpose::Receive {
                let housed = schema::house(&mut link, &log.statements);
                housed.map_err(|trouble| troubled(&place, &trouble))?;
            }
            let epoch = log.claim(&mut link)?.epoch;
            shards.push(Held { statements: log.statements, epoch });
        }
        // What was being taken here may have become a log before the claim.
        schema::make_sure(&mut link, &home.statements, &place, purpose)?;
        Ok(Self { place, purpose, link, shards })
    }

    fn rows(&mut self, shard: ShardId) -> Rows<'_> {
        let Self { place, purpose, link, shards } = self;
        Rows { place, purpose: *purpose, link, held: &shards[usize::from(shard.0)] }
    }
}

/// The rows of one shard.
struct Rows<'a> {
    place: &'a PostgresPlace,
    purpose: Purpose,
    link: &'a mut Link,
    held: &'a Held,
}

impl Rows<'_> {
    fn trouble(&self, trouble: &super::Trouble) -> TransferError {
        troubled(self.place, trouble)
    }

    /// The snapshot that counts, if the claim is still the newest.
    fn standing(&mut self) -> Result<Option<Stored>, TransferError> {
        let standing = snapshot::standing(self.link, &self.held.statements);
        match standing.map_err(|trouble| self.trouble(&trouble))? {
            (newest, stored) if newest == self.held.epoch => Ok(stored),
            _ if self.purpose == Purpose::Receive => Err(overtaken()),
            _ => Err(TransferError::deposed()),
        }
    }
}

impl Reading for Rows<'_> {
    fn snapshot(&mut self) -> Result<Option<Snapshot>, TransferError> {
        let Some(stored) = self.standing()? else { return Ok(None) };
        let read = snapshot::read(self.link, &self.held.statements, stored);
        let read = read.map_err(|trouble| self.trouble(&trouble))?;
        let bytes = read.ok_or_else(|| TransferError::Failed(snapshot::DAMAGED.into()))?;
        Ok(Some(Snapshot { upto: stored.upto, bytes }))
    }

    /// A page is read before it is fed: whoever takes it may wait for a database, too, and not while this one is waited
    /// for.
    fn each(&mut self, each: Each<'_>) -> Result<(), TransferError> {
        let text = self.held.statements.text(EACH);
        let mut from = Lsn::ZERO;
        loop {
            let at = number(from);
            let values = [
                (&self.held.statements.shard as _, Type::INT4),
                (&at as _, Type::INT8),
                (&READ_ROWS_MAX as _, Type::INT8),
                (&READ_BYTES_MAX as _, Type::INT8),
            ];
            let page = self.link.query(&text, &values).map_err(|trouble| self.trouble(&trouble))?;
            if page.is_empty() {
                return Ok(());
            }
            for row in page {
                let (frame, end) = (lsn(row.get(0)), lsn(row.get(1)));
                let body: &[u8] = row.get(3);
                if row.get::<_, i64>(2) != i64::from(check_of(body)) {
                    return Err(TransferError::Failed(format!("the batch at {frame} is damaged")));
                }
                each(Batch { frame, end, body })?;
                from = end;
            }
        }
    }
}

/// A log in a database that is taken elsewhere. Whoever was at work on it can append nothing more.
pub(crate) struct PostgresSource(Claimed);

impl PostgresSource {
    /// Claims the log of every shard.
    pub(crate) fn claim(place: &PostgresPlace) -> Result<Self, TransferError> {
        let shards = |link: &mut Link, statements: &Statements| {
            let shards = schema::shards(link, statements, place)?;
            u8::try_from(shards).ok().filter(|shards| *shards <= SHARDS_MAX).ok_or_else(|| {
                TransferError::Failed(format!("the schema {} has {shards} shards", place.schema))
            })
        };
        Ok(Self(Claimed::new(place.clone(), Purpose::Read, shards)?))
    }
}

impl Source for PostgresSource {
    fn shards(&self) -> u8 {
        u8::try_from(self.0.shards.len()).unwrap_or(SHARDS_MAX)
    }

    fn shard(&mut self, shard: ShardId) -> Result<Box<dyn Reading + '_>, TransferError> {
        Ok(Box::new(self.0.rows(shard)))
    }

    fn check(&mut self) -> Result<(), TransferError> {
        (0..self.shards()).map(ShardId).try_for_each(|shard| self.0.rows(shard).standing().map(drop))
    }
}

/// A schema that a log is taken to. Until that is done, its version says that it is no log yet.
pub(crate) struct PostgresTarget(Claimed);

impl PostgresTarget {
    /// Makes the tables, or goes on with those of an attempt that broke off.
    pub(crate) fn begin(place: &PostgresPlace, shards: u8) -> Result<Self, TransferError> {
        let count = |link: &mut Link, statements: &Statements| {
            let begun = schema::shards(link, statements, place)?;
            let schema = format!("the schema {}", place.schema);
            let remove = "drop the schema, or name another one with --log-schema";
            check_begun(&schema, u8::try_from(begun).unwrap_or(u8::MAX), shards, remove)?;
            Ok(shards)
        };
        Ok(Self(Claimed::new(place.clone(), Purpose::Receive, count)?))
    }
}

fn overtaken() -> TransferError {
    TransferError::refused("another `driftq migrate` into this schema has begun since", "let that one end")
}

impl Target for PostgresTarget {
    fn shard(&mut self, shard: ShardId) -> Result<Box<dyn Filling + '_>, TransferError> {
        let rows = self.0.rows(shard);
        let statements = &rows.held.statements;
        let row = rows.link.query_one(&statements.text(REACHED), &[(&statements.shard as _, Type::INT4)]);
        let reached: Option<i64> = row.map_err(|trouble| rows.trouble(&trouble))?.get(0);
        Ok(Box::new(RowsFilling {
            rows,
            reached: reached.map_or(Lsn::ZERO, lsn),
            pending: Pending::default(),
        }))
    }

    fn clear(&mut self) -> Result<(), TransferError> {
        for shard in (0..self.0.shards.len()).rev() {
            let Claimed { place, link, shards, .. } = &mut self.0;
            let Held { statements, epoch } = &shards[shard];
            let trouble = |trouble: super::Trouble| troubled(place, &trouble);
            let values = [
                (&statements.shard as _, Type::INT4),
                (epoch as _, Type::INT8),
                (&READ_ROWS_MAX as _, Type::INT8),
            ];
            while !link.query(&statements.text(CLEAR), &values).map_err(trouble)?.is_empty() {}
            snapshot::forget(link, statements, *epoch).map_err(trouble)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), TransferError> {
        let Claimed { place, link, shards, .. } = &mut self.0;
        let claims: Vec<i64> = shards.iter().map(|held| held.epoch).collect();
        let finished = schema::finish(link, &shards[0].statements, &claims);
        match finished.map_err(|trouble| troubled(place, &trouble))? {
            true => Ok(()),
            false => Err(overtaken()),
        }
    }
}

/// The rows of one shard, as they are put.
struct RowsFilling<'a> {
    rows: Rows<'a>,
    /// An earlier attempt has come this far.
    reached: Lsn,
    pending: Pending,
}

/// Rows for the next statement.
#[derive(Default)]
struct Pending {
    positions: Vec<i64>,
    previous: Vec<i64>,
    ends: Vec<i64>,
    crcs: Vec<i64>,
    bodies: Vec<Vec<u8>>,
    bytes: usize,
}

impl RowsFilling<'_> {
    fn flush(&mut self) -> Result<(), TransferError> {
        let Pending { positions, previous, ends, crcs, bodies, .. } = std::mem::take(&mut self.pending);
        if positions.is_empty() {
            return Ok(());
        }
        let Held { statements, epoch } = self.rows.held;
        let values = [
            (&statements.shard as _, Type::INT4),
            (epoch as _, Type::INT8),
            (&positions as _, Type::INT8_ARRAY),
            (&previous as _, Type::INT8_ARRAY),
            (&ends as _, Type::INT8_ARRAY),
            (&crcs as _, Type::INT8_ARRAY),
            (&bodies as _, Type::BYTEA_ARRAY),
        ];
        let put = self.rows.link.query(&statements.text(PUT), &values);
        let put = put.map_err(|trouble| self.rows.trouble(&trouble))?;
        if put.len() == positions.len() { Ok(()) } else { Err(overtaken()) }
    }
}

impl Filling for RowsFilling<'_> {
    fn has(&self, batch: &Batch<'_>) -> Option<bool> {
        batch.is_below(self.reached)
    }

    fn put(&mut self, batch: Batch<'_>, previous: Lsn) -> Result<(), TransferError> {
        let pending = &mut self.pending;
        pending.positions.push(number(batch.frame));
        pending.previous.push(number(previous));
        pending.ends.push(number(batch.end));
        pending.crcs.push(check_of(batch.body).into());
        pending.bodies.push(batch.body.to_vec());
        pending.bytes += batch.body.len();
        if pending.positions.len() >= PUT_ROWS_MAX || pending.bytes >= PUT_BYTES_MAX {
            return self.flush();
        }
        Ok(())
    }

    fn put_snapshot(&mut self, snapshot: Option<&Snapshot>) -> Result<(), TransferError> {
        self.flush()?;
        let Some(snapshot) = snapshot else { return Ok(()) };
        let Held { statements, epoch } = self.rows.held;
        let stored = Stored::new(*epoch, 1, snapshot.upto, &snapshot.bytes);
        let put = snapshot::put(self.rows.link, statements, (*epoch, stored), &snapshot.bytes);
        match put.map_err(|trouble| self.rows.trouble(&trouble))? {
            true => Ok(()),
            false => Err(overtaken()),
        }
    }

    fn read_back(&mut self) -> Result<Box<dyn Reading + '_>, TransferError> {
        let Rows { place, purpose, link, held } = &mut self.rows;
        Ok(Box::new(Rows { place, purpose: *purpose, link, held }))
    }
}
