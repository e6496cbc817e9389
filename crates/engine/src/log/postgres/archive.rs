//! Reading, replaying and trimming.

use std::ops::ControlFlow;
use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::fault::Trouble;
use super::schema::clock;
use super::{Shared, lsn, number};
use crate::log::extent::{assemble, body_at};
use crate::log::{
    Archive, Each, KeepError, Lsn, ReadError, Readable, Reading, ReplayError, SegmentInfo, Snapshot, Space,
};
use crate::payload_store::check_of;

/// Rows that one statement of a replay reads; they are taken one by one.
const REPLAYED_ROWS_MAX: i64 = 1_024;
/// Rows that one transaction deletes: appends never wait for more than that.
const TRIMMED_ROWS_MAX: i64 = 256;
/// How many bytes of a log on a disk are read and folded while this reads and folds one, and while it comes to the next
/// batch. From a disk a byte of small messages took 2.7 ns, from a server on the same machine 2 or 3 more, and each batch
/// 5 µs.
const BYTE_COST: u64 = 2;
const BATCH_COST: u64 = 2 << 10;

/// The batch in which `$2` lies, if there is one, and those that begin in the `$3` bytes from there on. Of each only
/// what is asked for.
const READ: &str = "SELECT position, ended, \
        substring(body FROM (greatest($2 - position - $4, 0) + 1)::int FOR $3::int) \
    FROM {schema}.batch WHERE shard = $1 AND position < $2 + $3 AND position >= coalesce( \
        (SELECT max(position) FROM {schema}.batch WHERE shard = $1 AND position <= $2), $2) \
    ORDER BY position";

const REPLAY: &str = "SELECT position, previous, ended, crc, body FROM {schema}.batch \
    WHERE shard = $1 AND position >= $2 AND position < $3 ORDER BY position LIMIT $4";

/// Nothing is deleted by a server that was deposed: the first column says whether it still has its claim.
const TRIM: &str = "WITH held AS MATERIALIZED \
        (SELECT epoch FROM {schema}.shard WHERE shard = $1 AND epoch = $2 FOR SHARE), \
    gone AS (DELETE FROM {schema}.batch WHERE shard = $1 AND EXISTS (SELECT FROM held) AND position = ANY(ARRAY( \
        SELECT position FROM {schema}.batch WHERE shard = $1 AND position >= $3 AND position < $4 \
        ORDER BY position LIMIT $5)) RETURNING 1) \
    SELECT (SELECT count(*) FROM held), (SELECT count(*) FROM gone)";

const HOLDS: &str = "SELECT epoch FROM {schema}.shard WHERE shard = $1";

/// What is in the log, for any thread.
#[derive(Clone)]
pub struct PostgresArchive {
    pub(super) shared: Arc<Shared>,
}

impl PostgresArchive {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    fn trim_one(&self, segment: u32) -> Result<(), KeepError> {
        let text = self.shared.statements.text(TRIM);
        let (from, to) = (number(Lsn::new(segment, 0)), number(Lsn::new(segment + 1, 0)));
        let values = [
            (&self.shared.statements.shard as _, Type::INT4),
            (&self.shared.epoch as _, Type::INT8),
            (&from as _, Type::INT8),
            (&to as _, Type::INT8),
            (&TRIMMED_ROWS_MAX as _, Type::INT8),
        ];
        loop {
            let row = self
                .shared
                .links
                .with(|link| link.query_one(&text, &values))
                .map_err(|trouble| kept(&trouble))?;
            let (held, gone): (i64, i64) = (row.get(0), row.get(1));
            if held == 0 {
                return Err(KeepError::Fenced(self.shared.fenced()));
            }
            if gone < TRIMMED_ROWS_MAX {
                return Ok(());
            }
        }
    }
}

/// Housekeeping that the database did not let happen.
pub(super) fn kept(trouble: &Trouble) -> KeepError {
    KeepError::Failed(trouble.to_string())
}

impl Archive for PostgresArchive {
    fn read_at(&self, at: Lsn, bytes: u32) -> Result<Vec<u8>, ReadError> {
        self.shared.extent.check_read(at, bytes)?;
        let (from, length) = (number(at), i64::from(bytes));
        let head = i64::from(driftq_wal::FRAME_HEADER_BYTES);
        let values = [
            (&self.shared.statements.shard as _, Type::INT4),
            (&from as _, Type::INT8),
            (&length as _, Type::INT8),
            (&head as _, Type::INT8),
        ];
        let text = self.shared.statements.text(READ);
        let rows = self.shared.links.with(|link| link.query(&text, &values));
        let rows = rows.map_err(|trouble| ReadError::Failed(trouble.to_string()))?;
        assemble(at, bytes, rows.iter().map(|row| (lsn(row.get(0)), lsn(row.get(1)), row.get(2))))
    }

    fn replay(&self, from: Lsn, to: Lsn, each: Each<'_>) -> Result<(), ReplayError> {
        let mut replay = Replay { at: from, to, ended: false, fault: None };
        let text = self.shared.statements.text(REPLAY);
        while replay.at < to && !replay.ended {
            let (begun, mut rows) = (replay.at, 0);
            self.shared
                .links
                .with(|link| {
                    let (at, upto) = (number(replay.at), number(to));
                    let values = [
                        (&self.shared.statements.shard as _, Type::INT4),
                        (&at as _, Type::INT8),
                        (&upto as _, Type::INT8),
                        (&REPLAYED_ROWS_MAX as _, Type::INT8),
                    ];
                    link.each_row(&text, &values, &mut |row| {
                        rows += 1;
                        replay.feed(row, each)
                    })
                })
                .map_err(|trouble| ReplayError::Failed(trouble.to_string()))?;
            if let Some(fault) = replay.fault.take() {
                return Err(fault);
            }
            if rows == 0 || (replay.at == begun && !replay.ended) {
                return Err(damaged(replay.at, "the batch that begins here is missing"));
            }
        }
        Ok(())
    }

    fn segments(&self) -> Vec<SegmentInfo> {
        self.shared.extent.segments()
    }

    fn trim(&self, segments: &[u32]) -> Result<(), KeepError> {
        self.shared.extent.check_trim(segments)?;
        for &segment in segments {
            self.shared.extent.forget(segment);
            self.trim_one(segment)?;
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
        let (text, values) =
            (self.shared.statements.text(HOLDS), [(&self.shared.statements.shard as _, Type::INT4)]);
        let row = self.shared.links.with(|link| link.query_one(&text, &values));
        let newest: i64 = row.map_err(|trouble| kept(&trouble))?.get(0);
        if newest == self.shared.epoch { Ok(()) } else { Err(KeepError::Fenced(self.shared.fenced())) }
    }

    fn clock(&self) -> Result<Option<Reading>, KeepError> {
        self.shared.links.with(clock).map(Some).map_err(|trouble| kept(&trouble))
    }
}

/// A database has the space that it has.
impl Space for PostgresArchive {}

/// How far a replay has come.
struct Replay {
    at: Lsn,
    to: Lsn,
    ended: bool,
    fault: Option<ReplayError>,
}

impl Replay {
    /// Feeds one row; false if there is enough.
    fn feed(&mut self, row: &Row, each: Each<'_>) -> bool {
        let (position, previous, ended, crc) =
            (lsn(row.get(0)), lsn(row.get(1)), lsn(row.get(2)), row.get::<_, i64>(3));
        let body: &[u8] = row.get(4);
        if previous != self.at || ended > self.to {
            self.fault = Some(damaged(self.at, "the batch that follows it does not join on"));
            return false;
        }
        if crc != i64::from(check_of(body)) {
            self.fault = Some(damaged(position, "a batch does not match its checksum"));
            return false;
        }
        self.at = ended;
        self.ended = each(body_at(position), body) == ControlFlow::Break(());
        !self.ended
    }
}

fn damaged(at: Lsn, what: &str) -> ReplayError {
    ReplayError::Damaged(format!(
        "the log in the database is damaged at {at}: {what}. Nothing was changed; restore the schema from a backup"
    ))
}
