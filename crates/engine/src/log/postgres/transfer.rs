//! A log in a database, read and written as a whole; see [`crate::transfer`].

use std::sync::Arc;

use tokio_postgres::types::Type;

use super::link::{Link, Route};
use super::schema::{self, Purpose};
use super::{PostgresLog, Statements, lsn, number, snapshot};
use crate::house::HOME;
use crate::log::extent::Stored;
use crate::log::{Lsn, PostgresPlace, Snapshot};
use crate::payload_store::check_of;
use crate::transfer::{Batch, Each, Source, Target, TransferError};

/// Rows that one statement reads; they are taken one by one.
const READ_ROWS_MAX: i64 = 1_024;
/// Rows and bytes that one statement writes.
const PUT_ROWS_MAX: usize = 1_024;
const PUT_BYTES_MAX: usize = 4 << 20;
/// For the names of segments, which a database does not keep.
const SEGMENT_BYTES: u32 = 32 << 20;

const EACH: &str = "SELECT position, ended, crc, body FROM {schema}.batch \
    WHERE shard = $1 AND position >= $2 ORDER BY position LIMIT $3";

const PUT: &str = "WITH {level}, held AS MATERIALIZED \
        (SELECT epoch FROM {schema}.shard WHERE shard = $1 AND epoch = $2 FOR SHARE) \
    INSERT INTO {schema}.batch (shard, position, previous, ended, epoch, crc, body) \
    SELECT $1, put.position, put.previous, put.ended, held.epoch, put.crc, put.body FROM held, level, \
        unnest($3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::bytea[]) \
            AS put (position, previous, ended, crc, body) \
    WHERE level.set IS NOT NULL RETURNING position";

const REACHED: &str = "SELECT max(ended) FROM {schema}.batch WHERE shard = $1";
const CLEAR: &str = "DELETE FROM {schema}.batch WHERE shard = $1 AND position = ANY(ARRAY( \
    SELECT position FROM {schema}.batch WHERE shard = $1 ORDER BY position LIMIT $2)) RETURNING position";

/// The rows of a claimed log.
struct Rows {
    link: Link,
    statements: Arc<Statements>,
    stored: Option<Stored>,
}

fn troubled(place: &PostgresPlace, trouble: &super::Trouble) -> TransferError {
    TransferError::refused(trouble.to_string(), trouble.help(&place.schema))
}

/// A log in a database that is taken elsewhere. Whoever was at work on it can append nothing more.
pub(crate) struct PostgresSource {
    place: PostgresPlace,
    rows: Rows,
}

impl PostgresSource {
    /// Claims the log.
    pub(crate) fn claim(place: PostgresPlace) -> Result<Self, TransferError> {
        let log = PostgresLog::new(place.clone(), HOME, SEGMENT_BYTES)?;
        let mut link = Link::new(Arc::clone(&log.route)).map_err(|trouble| troubled(&place, &trouble))?;
        schema::make_sure(&mut link, &log.statements, &place, Purpose::Read)?;
        if schema::shards(&mut link, &log.statements, &place)? > 1 {
            let what = format!("the schema {} has several shards", place.schema);
            return Err(TransferError::refused(what, "only a log of one shard is taken elsewhere"));
        }
        let claim = log.claim(&mut link)?;
        let rows = Rows { link, statements: log.statements, stored: claim.snapshot };
        Ok(Self { place, rows })
    }
}

impl Source for PostgresSource {
    fn snapshot(&mut self) -> Result<Option<Snapshot>, TransferError> {
        let Some(stored) = self.rows.stored else { return Ok(None) };
        let read = snapshot::read(&mut self.rows.link, &self.rows.statements, stored);
        let read = read.map_err(|trouble| troubled(&self.place, &trouble))?;
        let bytes = read.ok_or_else(|| TransferError::Failed(snapshot::DAMAGED.into()))?;
        Ok(Some(Snapshot { upto: stored.upto, bytes }))
    }

    fn each(&mut self, each: Each<'_>) -> Result<(), TransferError> {
        let text = self.rows.statements.text(EACH);
        let (mut from, mut fault) = (Lsn::ZERO, None);
        loop {
            let at = number(from);
            let mut rows = 0;
            let shard = self.rows.statements.shard;
            let values =
                [(&shard as _, Type::INT4), (&at as _, Type::INT8), (&READ_ROWS_MAX as _, Type::INT8)];
            let read = self.rows.link.each_row(&text, &values, &mut |row| {
                let (frame, end) = (lsn(row.get(0)), lsn(row.get(1)));
                let body: &[u8] = row.get(3);
                let fed = match row.get::<_, i64>(2) == i64::from(check_of(body)) {
                    true => each(Batch { frame, end, body }),
                    false => Err(TransferError::Failed(format!("the batch at {frame} is damaged"))),
                };
                (rows, from) = (rows + 1, end);
                fault = fed.err();
                fault.is_none()
            });
            read.map_err(|trouble| troubled(&self.place, &trouble))?;
            if let Some(fault) = fault {
                return Err(fault);
            }
            if rows < READ_ROWS_MAX {
                return Ok(());
            }
        }
    }
}

/// A schema that a log is taken to. Until that is done, its version says that it is no log yet.
pub(crate) struct PostgresTarget {
    place: PostgresPlace,
    route: Arc<Route>,
    statements: Arc<Statements>,
    link: Link,
    epoch: i64,
    /// An earlier attempt has come this far.
    reached: Lsn,
    pending: Pending,
    stored: Option<Stored>,
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

impl PostgresTarget {
    /// Makes the tables, or goes on with those of an attempt that broke off.
    pub(crate) fn begin(place: PostgresPlace) -> Result<Self, TransferError> {
        let log = PostgresLog::new(place.clone(), HOME, SEGMENT_BYTES)?;
        let trouble = |trouble: super::Trouble| troubled(&place, &trouble);
        let mut link = Link::new(Arc::clone(&log.route)).map_err(trouble)?;
        schema::make_sure(&mut link, &log.statements, &place, Purpose::Receive)?.tell();
        // Of two attempts at once only the later one goes on.
        let epoch = log.claim(&mut link)?.epoch;
        let row = link.query_one(&log.statements.text(REACHED), &[(&log.statements.shard as _, Type::INT4)]);
        let reached: Option<i64> = row.map_err(trouble)?.get(0);
        let (route, statements) = (log.route, log.statements);
        let reached = reached.map_or(Lsn::ZERO, lsn);
        Ok(Self { place, route, statements, link, epoch, reached, pending: Pending::default(), stored: None })
    }

    fn flush(&mut self) -> Result<(), TransferError> {
        let Pending { positions, previous, ends, crcs, bodies, .. } = std::mem::take(&mut self.pending);
        if positions.is_empty() {
            return Ok(());
        }
        let values = [
            (&self.statements.shard as _, Type::INT4),
            (&self.epoch as _, Type::INT8),
            (&positions as _, Type::INT8_ARRAY),
            (&previous as _, Type::INT8_ARRAY),
            (&ends as _, Type::INT8_ARRAY),
            (&crcs as _, Type::INT8_ARRAY),
            (&bodies as _, Type::BYTEA_ARRAY),
        ];
        let put = self.link.query(&self.statements.text(PUT), &values);
        let put = put.map_err(|trouble| troubled(&self.place, &trouble))?;
        if put.len() == positions.len() { Ok(()) } else { Err(overtaken()) }
    }
}

fn overtaken() -> TransferError {
    TransferError::refused("another `driftq migrate` into this schema has begun since", "let that one end")
}

impl Target for PostgresTarget {
    fn has(&self, batch: &Batch<'_>) -> bool {
        batch.end <= self.reached
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
        let stored = Stored::new(self.epoch, 1, snapshot.upto, &snapshot.bytes);
        let put = snapshot::put(&mut self.link, &self.statements, (self.epoch, stored), &snapshot.bytes);
        match put.map_err(|trouble| troubled(&self.place, &trouble))? {
            true => self.stored = Some(stored),
            false => return Err(overtaken()),
        }
        Ok(())
    }

    fn read_back(&self) -> Result<Box<dyn Source + '_>, TransferError> {
        let link = Link::new(Arc::clone(&self.route)).map_err(|trouble| troubled(&self.place, &trouble))?;
        let rows = Rows { link, statements: Arc::clone(&self.statements), stored: self.stored };
        Ok(Box::new(PostgresSource { place: self.place.clone(), rows }))
    }

    fn clear(&mut self) -> Result<(), TransferError> {
        let text = self.statements.text(CLEAR);
        let values = [(&self.statements.shard as _, Type::INT4), (&READ_ROWS_MAX as _, Type::INT8)];
        loop {
            let gone = self.link.query(&text, &values).map_err(|trouble| troubled(&self.place, &trouble))?;
            if gone.is_empty() {
                return Ok(());
            }
        }
    }

    fn finish(mut self: Box<Self>) -> Result<(), TransferError> {
        let finished = schema::finish(&mut self.link, &self.statements, self.epoch);
        match finished.map_err(|trouble| troubled(&self.place, &trouble))? {
            true => Ok(()),
            false => Err(overtaken()),
        }
    }
}
