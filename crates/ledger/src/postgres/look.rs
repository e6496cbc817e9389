//! Questions about records.

use driftq_rules::{OnLapse, Standing, Status};
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;

use super::PostgresStore;
use super::joined::Row;
use super::link::Link;
use super::row::{Batch, Last, Stamp, StoredRow, UNREADABLE_MAX, get};
use crate::{Filter, LedgerError, Moment, PAGE_MAX, Page, Record, Stats, words};

/// Where a list goes on.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Cursor {
    /// A list of one status: behind this time and record, in the order in which records end.
    Ending(i64, i64),
    /// A list of everything: behind this principal, method and key.
    Named(String, String, String),
}

impl Cursor {
    fn read(text: &str) -> Result<Self, LedgerError> {
        serde_json::from_str(text).map_err(|_| strange_cursor())
    }

    /// Behind the last row of a batch.
    fn behind(last: Last, by_ending: bool) -> Self {
        let Last { names: [principal, method, key], expires_at, record } = last;
        if by_ending {
            Self::Ending(expires_at.micros(), record)
        } else {
            Self::Named(principal, method, key)
        }
    }

    fn write(&self) -> Result<String, LedgerError> {
        serde_json::to_string(self).map_err(|error| LedgerError::Invalid(error.to_string()))
    }
}

fn strange_cursor() -> LedgerError {
    LedgerError::Invalid("this cursor was not given by this list".to_owned())
}

/// What a record of this status may be written as in its row: a lapse that no call has noticed is still in progress
/// there.
const fn written_as(status: Status) -> &'static [&'static str] {
    match status {
        Status::InProgress => &["IN_PROGRESS"],
        Status::Succeeded => &["SUCCEEDED"],
        Status::FailedFinal => &["FAILED_FINAL"],
        Status::FailedRetryable => &["FAILED_RETRYABLE"],
        Status::Unknown => &["UNKNOWN", "IN_PROGRESS"],
    }
}

impl PostgresStore {
    /// A page is filled although rows that cannot be read come first: they would fill the first page of every list.
    pub(super) async fn list_on(&self, link: &mut Link<'_>, filter: &Filter) -> Result<Page, LedgerError> {
        let mut cursor = filter.cursor.as_deref().map(Cursor::read).transpose()?;
        let (mut held, mut unreadable, mut at_once) = (Vec::new(), 0, filter.limit);
        let cursor = loop {
            let rows = match filter.status {
                Some(status) => self.rows_by_status(link, filter, status, cursor.as_ref(), at_once).await?,
                None => self.rows_by_name(link, filter, cursor.as_ref(), at_once).await?,
            };
            let batch = Batch::read(&rows, filter.limit as usize - held.len())?;
            let is_last = batch.rows == rows.len() && batch.rows < at_once as usize;
            unreadable += batch.unreadable.len();
            held.extend(batch.held);
            if is_last {
                break None;
            }
            cursor = batch.last.map(|last| Cursor::behind(last, filter.status.is_some()));
            if held.len() == filter.limit as usize || unreadable >= UNREADABLE_MAX {
                break cursor;
            }
            at_once = PAGE_MAX;
        };
        self.passed_over(unreadable);
        let wanted = |record: &Record| filter.status.is_none_or(|status| record.status == status);
        let records = held.into_iter().filter_map(StoredRow::view).filter(wanted).collect();
        Ok(Page { records, cursor: cursor.map(|cursor| cursor.write()).transpose()? })
    }

    async fn rows_by_status(
        &self,
        link: &mut Link<'_>,
        filter: &Filter,
        status: Status,
        cursor: Option<&Cursor>,
        limit: u32,
    ) -> Result<Vec<Row>, LedgerError> {
        let (after, record) = match cursor {
            Some(Cursor::Ending(after, record)) => (*after, *record),
            Some(Cursor::Named(..)) => return Err(strange_cursor()),
            None => (i64::MIN, i64::MIN),
        };
        let statement = self.inner.names.fill(
            "SELECT {columns} FROM {table} \
             WHERE status = ANY($1) AND ($2::text IS NULL OR principal = $2) AND ($3::text IS NULL OR grpc_method = $3) \
             AND (expires_at, record) > ($4, $5) \
             ORDER BY expires_at, record LIMIT $6",
        );
        let parameters = [
            (&written_as(status) as _, Type::TEXT_ARRAY),
            (&filter.principal as _, Type::TEXT),
            (&filter.method as _, Type::TEXT),
            (&Stamp(Moment::from_micros(after)) as _, Type::TIMESTAMPTZ),
            (&record as _, Type::INT8),
            (&i64::from(limit) as _, Type::INT8),
        ];
        link.query(&statement, &parameters).await
    }

    async fn rows_by_name(
        &self,
        link: &mut Link<'_>,
        filter: &Filter,
        cursor: Option<&Cursor>,
        limit: u32,
    ) -> Result<Vec<Row>, LedgerError> {
        let (principal, method, key) = match cursor {
            Some(Cursor::Named(principal, method, key)) => (&**principal, &**method, &**key),
            Some(Cursor::Ending(..)) => return Err(strange_cursor()),
            None => ("", "", ""),
        };
        let statement = self.inner.names.fill(
            "SELECT {columns} FROM {table} \
             WHERE (principal, grpc_method, idempotency_key) > ($1, $2, $3) \
             AND ($4::text IS NULL OR principal = $4) AND ($5::text IS NULL OR grpc_method = $5) \
             ORDER BY principal, grpc_method, idempotency_key LIMIT $6",
        );
        let parameters = [
            (&principal as _, Type::TEXT),
            (&method as _, Type::TEXT),
            (&key as _, Type::TEXT),
            (&filter.principal as _, Type::TEXT),
            (&filter.method as _, Type::TEXT),
            (&i64::from(limit) as _, Type::INT8),
        ];
        link.query(&statement, &parameters).await
    }

    /// Counts everything there is: one pass over the table.
    pub(super) async fn stats_on(&self, link: &mut Link<'_>) -> Result<Stats, LedgerError> {
        let statement = self.inner.names.fill(
            "SELECT status, on_lapse, coalesce(lease_expires_at > {scan_now}, false) AS live, \
             coalesce(attempts >= attempts_max, false) AS spent, expires_at <= {scan_now} AS expired, \
             count(*) AS records FROM {table} GROUP BY 1, 2, 3, 4, 5",
        );
        let mut stats = Stats::default();
        for status in Status::ALL {
            stats.by_status.insert(words::of_status(status), 0);
        }
        let mut over = 0;
        for row in link.query(&statement, &[]).await? {
            let records = u64::try_from(get::<i64>(&row, "records")?).unwrap_or(0);
            let word: &str = get(&row, "status")?;
            let status = words::status(word)
                .ok_or_else(|| LedgerError::Corrupt(format!("{records} rows have the status {word:?}")))?;
            let standing = Standing {
                status,
                epoch: 1,
                attempts: 1,
                attempts_max: get::<bool>(&row, "spent")?.then_some(1),
                on_lapse: words::on_lapse(get(&row, "on_lapse")?).unwrap_or(OnLapse::Hold),
                live: get(&row, "live")?,
                expired: get(&row, "expired")?,
                released: false,
            };
            if standing.is_over() {
                over += records;
                continue;
            }
            let status = if standing.becomes_unknown() { Status::Unknown } else { status };
            *stats.by_status.entry(words::of_status(status)).or_default() += records;
            if status == Status::InProgress && !standing.live {
                stats.lapsed += records;
            }
        }
        stats.over = Some(over);
        Ok(stats)
    }
}
