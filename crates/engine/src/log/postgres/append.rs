//! Appending: one statement, one row, one round trip, one at a time.

use std::sync::Arc;

use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::fault::Trouble;
use super::link::Link;
use super::{Shared, fenced, lsn, number};
use crate::log::extent::{Patience, START};
use crate::log::{Append, AppendError, Cursor, Lsn};
use crate::payload_store::check_of;
use driftq_wal::FRAME_BODY_BYTES_MAX;
use driftq_wal::claim::{self, Next, Sent};

/// The row of the shard is locked before the batch is
/// written: a claim waits for it, and what waits for a claim looks again and finds another epoch. The batch before
/// this one must be where it was: a database that came back without it must not get a log with a hole.
const APPEND: &str = "WITH {level}, \
    held AS MATERIALIZED (SELECT epoch FROM {schema}.shard WHERE shard = $1 AND epoch = $2 FOR SHARE) \
    INSERT INTO {schema}.batch (shard, position, previous, ended, epoch, crc, body) \
    SELECT $1, $3, $4, $5, held.epoch, $6, $7 FROM held, level WHERE level.set IS NOT NULL \
        AND coalesce((SELECT ended FROM {schema}.batch WHERE shard = $1 AND position < $3 \
            ORDER BY position DESC LIMIT 1), $8) = $4 \
    RETURNING position";

/// What became of an append whose answer was lost, or why it did nothing.
/// Locking the row is a write, which is answered only when a synchronous standby has it and all that came before it.
const ASK: &str = "WITH {level} SELECT shard.epoch, \
        (SELECT epoch FROM {schema}.batch WHERE shard = $1 AND position = $2), \
        (SELECT ended FROM {schema}.batch WHERE shard = $1 AND position < $2 ORDER BY position DESC LIMIT 1) \
    FROM {schema}.shard, level WHERE shard.shard = $1 AND level.set IS NOT NULL FOR SHARE OF shard";

/// The only one that appends, as long as nobody else claims the log.
pub struct PostgresWriter {
    link: Link,
    shared: Arc<Shared>,
    cursor: Cursor,
    append: String,
    ask: String,
    /// Why nothing more is appended.
    ended: Option<AppendError>,
}

/// One batch on its way.
struct Row<'a> {
    position: i64,
    previous: i64,
    ended: i64,
    crc: i64,
    body: &'a [u8],
}

impl PostgresWriter {
    pub(super) fn new(link: Link, shared: Arc<Shared>, cursor: Cursor) -> Self {
        let (append, ask) = (shared.statements.text(APPEND), shared.statements.text(ASK));
        Self { link, shared, cursor, append, ask, ended: None }
    }

    /// Appends a row. If the answer is lost, the database is asked whether the row is there before anything else is
    /// sent; the next batch comes only after that is known.
    fn put(&mut self, row: &Row<'_>) -> Result<(), AppendError> {
        let mut patience = Patience::new();
        let mut next = Next::Send;
        loop {
            let done = if next == Next::Look { self.ask(row) } else { self.send(row) };
            let trouble = match done {
                Ok(Next::Tell) => return Ok(()),
                Ok(then) => {
                    next = then;
                    continue;
                }
                Err(Stop::For(error)) => return Err(error),
                Err(Stop::Trouble(trouble)) => trouble,
            };
            next = Sent::Unknown.next();
            tracing::warn!(%trouble, "the log waits for the database");
            if !trouble.passes() || !patience.wait() {
                return Err(AppendError::Failed(trouble.to_string()));
            }
        }
    }

    fn send(&mut self, row: &Row<'_>) -> Result<Next, Stop> {
        let start = number(START);
        let values = [
            (&self.shared.statements.shard as _, Type::INT4),
            (&self.shared.epoch as _, Type::INT8),
            (&row.position as _, Type::INT8),
            (&row.previous as _, Type::INT8),
            (&row.ended as _, Type::INT8),
            (&row.crc as _, Type::INT8),
            (&row.body as _, Type::BYTEA),
            (&start as _, Type::INT8),
        ];
        match self.link.query(&self.append, &values) {
            Ok(rows) if rows.len() == 1 => Ok(Sent::Taken.next()),
            // Nothing was written, and now it is asked why.
            Ok(_) => match self.ask(row)? {
                Next::Tell => Ok(Next::Tell),
                Next::Send | Next::Look | Next::Stop(_) => {
                    let why = "the database takes no batch here and does not say why".to_owned();
                    Err(Stop::For(AppendError::Failed(why)))
                }
            },
            Err(trouble) if trouble.code() == Some(&SqlState::UNIQUE_VIOLATION) => Ok(Sent::Refused.next()),
            Err(trouble) => Err(Stop::Trouble(trouble)),
        }
    }

    /// Asks whether the row is there, and whether it may be.
    fn ask(&mut self, row: &Row<'_>) -> Result<Next, Stop> {
        let values = [(&self.shared.statements.shard as _, Type::INT4), (&row.position as _, Type::INT8)];
        let answer = self.link.query_one(&self.ask, &values).map_err(Stop::Trouble)?;
        let (newest, there, before): (i64, Option<i64>, Option<i64>) =
            (answer.get(0), answer.get(1), answer.get(2));
        let found = claim::Row {
            claim: newest.cast_unsigned(),
            there: there.map(i64::cast_unsigned),
            before: before.map_or(START, lsn),
        };
        let (epoch, had) = (self.shared.epoch, lsn(row.previous));
        match found.looked(epoch.cast_unsigned(), had).next() {
            Next::Stop(claim::Stop::Fenced) => Err(Stop::For(AppendError::Fenced(fenced(epoch)))),
            Next::Stop(claim::Stop::Failed) => {
                let has = found.before;
                let why = format!(
                    "the database had the log up to {had} and now has it up to {has}; {}",
                    super::schema::LOST
                );
                Err(Stop::For(AppendError::Failed(why)))
            }
            next => Ok(next),
        }
    }
}

/// Why a step of an append did not come to an end.
enum Stop {
    /// For good.
    For(AppendError),
    /// Perhaps only for now.
    Trouble(Trouble),
}

impl Append for PostgresWriter {
    fn cursor(&self) -> Cursor {
        self.cursor.clone()
    }

    fn append(&mut self, body: &[u8]) -> Result<Lsn, AppendError> {
        if let Some(ended) = &self.ended {
            return Err(ended.clone());
        }
        if body.len() > FRAME_BODY_BYTES_MAX as usize {
            let bytes = body.len();
            return Err(AppendError::Failed(format!("a batch of {bytes} bytes is above the limit")));
        }
        let mut next = self.cursor.clone();
        let frame = next.next_frame();
        let end = next.advance(body.len());
        let row = Row {
            position: number(frame),
            previous: number(self.cursor.end()),
            ended: number(end),
            crc: check_of(body).into(),
            body,
        };
        if let Err(error) = self.put(&row) {
            self.ended = Some(error.clone());
            return Err(error);
        }
        self.cursor = next;
        self.shared.extent.set_durable(end);
        Ok(end)
    }

    /// What was appended is durable already.
    fn sync(&mut self) -> Result<Lsn, AppendError> {
        match &self.ended {
            Some(ended) => Err(ended.clone()),
            None => Ok(self.cursor.end()),
        }
    }
}
