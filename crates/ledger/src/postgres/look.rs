//! Questions about records.

use driftq_rules::Status;
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;

use super::PostgresStore;
use super::link::Link;
use super::row::{Batch, Last, StoredRow, UNREADABLE_MAX, get};
use crate::{Filter, LedgerError, PAGE_MAX, Page, Record};

/// Records that a list of one status looks at for one page. A page may be short, and still not the last.
const SCAN_MAX: i64 = 5_000;

/// Where a list goes on.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Cursor {
    /// A list of one status: behind this record, in the order in which they were begun.
    Begun(i64),
    /// A list of everything: behind this principal, method and key.
    Named(String, String, String),
}

impl Cursor {
    fn read(text: &str) -> Result<Self, LedgerError> {
        serde_json::from_str(text).map_err(|_| strange_cursor())
    }

    /// Behind the last row of a batch.
    fn behind(last: Last) -> Self {
        let [principal, method, key] = last.names;
        Self::Named(principal, method, key)
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

/// Whether a record of this status has ended for good, so that it is not listed as open.
const fn is_listed_as_open(status: Status) -> bool {
    !status.is_final()
}

/// What of all records is looked at for a page of those that have ended for good: whatever comes next.
const SEEN_OF_ALL: &str = "SELECT {columns} FROM {table} WHERE record > $4 ORDER BY record LIMIT $5";

/// What is looked at for a page of the others: what is listed as open, and what was not looked over yet.
const SEEN_OPEN: &str = "(SELECT {columns} FROM newest, \
         (SELECT record AS number FROM {open} WHERE record > $4 ORDER BY record LIMIT $5) AS listed, {listed} \
         WHERE listed.number <= newest.last) \
     UNION ALL \
     (SELECT {columns} FROM {table} WHERE record > greatest($4, (SELECT last FROM newest)) ORDER BY record LIMIT $5) \
     ORDER BY record LIMIT $5";

/// The first row says how far was looked, also if there is nothing.
fn page_of(seen: &str) -> String {
    format!(
        "WITH newest AS (SELECT coalesce((SELECT last FROM {{segments}} ORDER BY first DESC LIMIT 1), {{lowest}}) AS last), \
         seen AS MATERIALIZED ({seen}) \
         SELECT looked_to, looked_at, found.* FROM \
             (SELECT coalesce(max(record), $4) AS looked_to, count(*) AS looked_at FROM seen) AS looked \
         LEFT JOIN LATERAL (SELECT * FROM seen WHERE status = ANY($1) \
             AND ($2::text IS NULL OR principal = $2) AND ($3::text IS NULL OR grpc_method = $3) \
             ORDER BY record LIMIT $6) AS found ON true"
    )
}

/// A part of a list.
struct Part {
    batch: Batch,
    /// Where the list goes on, if it does.
    cursor: Option<Cursor>,
}

impl PostgresStore {
    /// A page is filled although rows that cannot be read come first: they would fill the first page of every list.
    pub(super) async fn list_on(&self, link: &mut Link<'_>, filter: &Filter) -> Result<Page, LedgerError> {
        let mut cursor = filter.cursor.as_deref().map(Cursor::read).transpose()?;
        let (mut held, mut unreadable, mut at_once) = (Vec::new(), 0, filter.limit);
        let cursor = loop {
            let held_max = filter.limit as usize - held.len();
            let part = match filter.status {
                Some(status) => {
                    self.part_by_status(link, (filter, status), cursor.as_ref(), at_once, held_max).await?
                }
                None => self.part_by_name(link, filter, cursor.as_ref(), at_once, held_max).await?,
            };
            let is_strange = !part.batch.unreadable.is_empty();
            unreadable += part.batch.unreadable.len();
            held.extend(part.batch.held);
            if part.cursor.is_none() {
                break None;
            }
            cursor = part.cursor;
            let is_enough = held.len() == filter.limit as usize || unreadable >= UNREADABLE_MAX;
            // A look that went through as much as it may and found little ends the page.
            if is_enough || filter.status.is_some() && !is_strange {
                break cursor;
            }
            at_once = PAGE_MAX;
        };
        let unreadable = self.passed_over(unreadable);
        let wanted = |record: &Record| filter.status.is_none_or(|status| record.status == status);
        let records = held.into_iter().filter_map(StoredRow::view).filter(wanted).collect();
        Ok(Page { records, cursor: cursor.map(|cursor| cursor.write()).transpose()?, unreadable })
    }

    async fn part_by_status(
        &self,
        link: &mut Link<'_>,
        (filter, status): (&Filter, Status),
        cursor: Option<&Cursor>,
        limit: u32,
        held_max: usize,
    ) -> Result<Part, LedgerError> {
        let after = match cursor {
            Some(Cursor::Begun(after)) => *after,
            Some(Cursor::Named(..)) => return Err(strange_cursor()),
            None => i64::MIN,
        };
        let seen = if is_listed_as_open(status) { SEEN_OPEN } else { SEEN_OF_ALL };
        let statement = self.inner.names.fill(&page_of(seen));
        let parameters = [
            (&written_as(status) as _, Type::TEXT_ARRAY),
            (&filter.principal as _, Type::TEXT),
            (&filter.method as _, Type::TEXT),
            (&after as _, Type::INT8),
            (&SCAN_MAX as _, Type::INT8),
            (&i64::from(limit) as _, Type::INT8),
        ];
        let rows = link.query(&statement, &parameters).await?;
        let Some(first) = rows.first() else {
            return Err(LedgerError::Corrupt("a list without an answer".to_owned()));
        };
        let (looked_to, looked_at): (i64, i64) = (get(first, "looked_to")?, get(first, "looked_at")?);
        let found = if get::<Option<i64>>(first, "record")?.is_some() { &rows[..] } else { &[] };
        let mut batch = Batch::read(found, held_max)?;
        // Either not all that was found is in the batch, or all that was looked at is done.
        let cursor = match batch.last.take() {
            Some(last) if batch.rows < found.len() || found.len() == limit as usize => {
                Some(Cursor::Begun(last.record))
            }
            _ => (looked_at == SCAN_MAX).then_some(Cursor::Begun(looked_to)),
        };
        Ok(Part { batch, cursor })
    }

    async fn part_by_name(
        &self,
        link: &mut Link<'_>,
        filter: &Filter,
        cursor: Option<&Cursor>,
        limit: u32,
        held_max: usize,
    ) -> Result<Part, LedgerError> {
        let (principal, method, key) = match cursor {
            Some(Cursor::Named(principal, method, key)) => (&**principal, &**method, &**key),
            Some(Cursor::Begun(_)) => return Err(strange_cursor()),
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
        let rows = link.query(&statement, &parameters).await?;
        let mut batch = Batch::read(&rows, held_max)?;
        let is_last = batch.rows == rows.len() && batch.rows < limit as usize;
        let cursor = batch.last.take().filter(|_| !is_last).map(Cursor::behind);
        Ok(Part { batch, cursor })
    }
}
