//! How many records there are, without going through all of them.

use driftq_rules::{OnLapse, Standing, Status};
use tokio_postgres::types::Type;

use super::PostgresStore;
use super::link::Link;
use super::row::get;
use crate::{LedgerError, Stats, words};

/// Records that were not looked over yet and are counted one by one.
const TAIL_MAX: i64 = 100_000;
/// Segments that are due and are counted one by one.
const DUE_MAX: i64 = 100;

/// What is not in a segment, or in one that is due, one by one; all other segments as they were counted when they were
/// looked over: what has ended for good stays what it is.
const COUNTS: &str = "WITH newest AS (SELECT coalesce((SELECT last FROM {segments} ORDER BY first DESC LIMIT 1), \
         {lowest}) AS last), \
     moment AS (SELECT {now} AS moment), \
     due AS (SELECT first, last FROM {segments} WHERE due_at <= {scan_now} ORDER BY due_at, first LIMIT $2), \
     settled AS (SELECT sum(succeeded)::bigint AS succeeded, sum(failed)::bigint AS failed FROM {segments} \
         WHERE first NOT IN (SELECT first FROM due)), \
     tail AS MATERIALIZED (SELECT status, on_lapse, lease_expires_at, attempts, attempts_max, expires_at FROM {table} \
         WHERE record > (SELECT last FROM newest) ORDER BY record LIMIT $1), \
     one_by_one AS ( \
         SELECT * FROM tail \
         UNION ALL \
         SELECT status, on_lapse, lease_expires_at, attempts, attempts_max, expires_at \
             FROM newest, (SELECT record AS number FROM {open}) AS listed, {listed} WHERE listed.number <= newest.last \
         UNION ALL \
         SELECT status, on_lapse, lease_expires_at, attempts, attempts_max, expires_at FROM due, \
             {due} \
             WHERE status IN ('SUCCEEDED', 'FAILED_FINAL') \
             AND NOT EXISTS (SELECT FROM {open} AS listed WHERE listed.record = there.record)) \
     SELECT status, on_lapse, coalesce(lease_expires_at > moment, false) AS live, \
         coalesce(attempts >= attempts_max, false) AS spent, expires_at <= moment AS expired, count(*) AS records \
         FROM one_by_one, moment GROUP BY 1, 2, 3, 4, 5 \
     UNION ALL SELECT 'SUCCEEDED', 'hold', false, false, false, succeeded FROM settled WHERE succeeded > 0 \
     UNION ALL SELECT 'FAILED_FINAL', 'hold', false, false, false, failed FROM settled WHERE failed > 0 \
     UNION ALL SELECT NULL, '', false, false, false, count(*) FROM tail";

impl PostgresStore {
    /// Costs as much as there is open, begun since the last sweep, or due, and a little for every thousand records.
    pub(super) async fn stats_on(&self, link: &mut Link<'_>) -> Result<Stats, LedgerError> {
        let statement = self.inner.names.fill(COUNTS);
        let mut stats = Stats { over: Some(0), ..Stats::default() };
        for status in Status::ALL {
            stats.by_status.insert(words::of_status(status), 0);
        }
        let rows =
            link.query(&statement, &[(&TAIL_MAX as _, Type::INT8), (&DUE_MAX as _, Type::INT8)]).await?;
        let (mut is_cut, mut counted) = (false, 0);
        for row in &rows {
            let records = u64::try_from(get::<i64>(row, "records")?).unwrap_or(0);
            let Some(word) = get::<Option<&str>>(row, "status")? else {
                is_cut = records >= TAIL_MAX as u64;
                continue;
            };
            counted += records;
            let Some(status) = words::status(word) else {
                tracing::warn!(records, status = word, "rows of the ledger have a status that is not known");
                stats.unreadable += records;
                continue;
            };
            let standing = Standing {
                status,
                epoch: 1,
                attempts: 1,
                attempts_max: get::<bool>(row, "spent")?.then_some(1),
                on_lapse: words::on_lapse(get(row, "on_lapse")?).unwrap_or(OnLapse::Hold),
                live: get(row, "live")?,
                expired: get(row, "expired")?,
                released: false,
            };
            add(&mut stats, &standing, records);
        }
        if is_cut {
            stats.uncounted = self.rows_about(link).await?.saturating_sub(counted).max(1);
        }
        Ok(stats)
    }

    /// About how many rows the table has, as the database last estimated it.
    async fn rows_about(&self, link: &mut Link<'_>) -> Result<u64, LedgerError> {
        let statement = format!(
            "SELECT greatest(reltuples, 0)::bigint AS records FROM pg_class WHERE oid = '{}'::regclass",
            self.inner.names.table
        );
        let row = link.query_opt(&statement, &[]).await?;
        let rows = row.as_ref().map_or(Ok(0), |row| get::<i64>(row, "records"))?;
        Ok(u64::try_from(rows).unwrap_or(0))
    }
}

/// Counts records that all stand in the same way.
fn add(stats: &mut Stats, standing: &Standing, records: u64) {
    if standing.is_over() {
        *stats.over.get_or_insert(0) += records;
        return;
    }
    let status = if standing.becomes_unknown() { Status::Unknown } else { standing.status };
    *stats.by_status.entry(words::of_status(status)).or_default() += records;
    if status == Status::InProgress && !standing.live {
        stats.lapsed += records;
    }
}
