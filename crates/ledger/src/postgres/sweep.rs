//! Removing what is over, writing down what has become unknown, and keeping the books by which both are found.

use tokio_postgres::types::Type;

use super::PostgresStore;
use super::begin::integer;
use super::link::Link;
use super::row::{Batch, StoredRow, UNREADABLE_MAX, at};
use crate::moment::micros;
use crate::{LedgerError, PAGE_MAX, Sweep, Swept, words};

/// Segments that one round looks into: some thousand records.
const SEGMENTS_MAX: i32 = 4;
/// How often one round looks over a page of what was begun since the last one.
const WALKS_MAX: u32 = 10;
/// Notes of the audit that one round removes.
const NOTES_MAX: i64 = 1000;

/// What is worth a look, of three places: what is open and due, the segments that are due, and the first of what was not
/// looked over yet. `$2`: what cannot be read.
const CANDIDATES: &str = "WITH newest AS (SELECT coalesce((SELECT last FROM {segments} ORDER BY first DESC LIMIT 1), \
         {lowest}) AS last), \
     moment AS (SELECT {now} AS moment) \
     (SELECT {columns} FROM newest, moment, (SELECT record AS number, look_at FROM {open}) AS listed, {listed} \
      WHERE look_at <= moment AND listed.number <= newest.last AND listed.number <> ALL($2) ORDER BY look_at LIMIT $1) \
     UNION ALL \
     (SELECT {columns} FROM moment, \
          (SELECT first, last FROM {segments} WHERE due_at <= {scan_now} ORDER BY due_at, first LIMIT $4) AS due, \
          {due} \
      WHERE status IN ('SUCCEEDED', 'FAILED_FINAL') AND expires_at <= moment AND record <> ALL($2) LIMIT $1) \
     UNION ALL \
     (SELECT {columns} FROM moment, \
          (SELECT * FROM {table} WHERE record > (SELECT last FROM newest) ORDER BY record LIMIT $3) AS there \
      WHERE record <> ALL($2) AND (status = 'IN_PROGRESS' AND lease_expires_at <= moment \
              AND (on_lapse = 'hold' OR attempts >= attempts_max OR expires_at <= moment) \
          OR status IN ('SUCCEEDED', 'FAILED_FINAL', 'FAILED_RETRYABLE') AND expires_at <= moment) LIMIT $1) \
     LIMIT $1";

/// What is worth a look in one round.
struct Candidates {
    held: Vec<StoredRow>,
    /// Rows that cannot be read and were passed over.
    unreadable: u64,
    /// Whether there may be more.
    more: bool,
}

impl PostgresStore {
    pub(super) async fn sweep_on(&self, link: &mut Link<'_>, sweep: Sweep) -> Result<Swept, LedgerError> {
        let is_walked = sweep.dry_run || self.walk(link).await?;
        let Candidates { held, unreadable, more } = self.candidates(link, sweep.limit).await?;
        let looked_at: Vec<i64> = held.iter().map(|held| held.record).collect();
        let (over, rest): (Vec<StoredRow>, Vec<StoredRow>) =
            held.into_iter().partition(|held| held.standing().is_over());
        let (stranded, rest): (Vec<StoredRow>, Vec<StoredRow>) =
            rest.into_iter().partition(|held| held.standing().becomes_unknown());
        let mut swept = Swept { more, unreadable, ..Swept::default() };
        if sweep.dry_run {
            swept.more |= self.is_far_behind(link).await?;
            return Ok(Swept { removed: over.len() as u64, held: stranded.len() as u64, ..swept });
        }
        for held in &stranded {
            swept.held += u64::from(self.give_up(link, held).await?.is_some());
        }
        swept.removed = self.remove(link, &over).await?;
        self.looked(link, &looked_at).await?;
        let is_due = self.visited(link, !more).await?;
        self.forget_bodies(link).await?;
        self.shorten_audit(link).await?;
        // If another sweep took all of it at the same time, that sweep goes on, and there is nothing more to do here.
        let has_done_something = swept.removed + swept.held > 0 || !rest.is_empty();
        swept.more = !is_walked || is_due && !more || more && has_done_something;
        Ok(swept)
    }

    /// Looks over what was begun since the last time. Whether that was all.
    async fn walk(&self, link: &mut Link<'_>) -> Result<bool, LedgerError> {
        let statement = self.inner.names.fill("SELECT {walk}($1)");
        let most = integer(PAGE_MAX);
        for _ in 0..WALKS_MAX {
            let row = link.query_opt(&statement, &[(&most as _, Type::INT4)]).await?;
            let walked = row.as_ref().map(|row| at::<Option<i32>>(row, 0)).transpose()?.flatten();
            // Nothing: another sweep does it, or a transaction is in the way, and the next round tries again.
            if walked.is_none_or(|walked| walked < most) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether more was begun since the last walk than one look goes through.
    async fn is_far_behind(&self, link: &mut Link<'_>) -> Result<bool, LedgerError> {
        let statement = self.inner.names.fill(
            "SELECT EXISTS (SELECT FROM {table} WHERE record > coalesce((SELECT last FROM {segments} \
             ORDER BY first DESC LIMIT 1), {lowest}) ORDER BY record OFFSET $1)",
        );
        let row = link.query_opt(&statement, &[(&i64::from(PAGE_MAX) as _, Type::INT8)]).await?;
        row.as_ref().map_or(Ok(false), |row| at(row, 0))
    }

    /// Up to `limit` records that are worth a look; the rules decide about each. Rows that cannot be read are left out
    /// of the count: they stay where they are, and the next sweep would find nothing else.
    async fn candidates(&self, link: &mut Link<'_>, limit: u32) -> Result<Candidates, LedgerError> {
        let statement = self.inner.names.fill(CANDIDATES);
        let mut unreadable: Vec<i64> = Vec::new();
        let mut at_once = limit;
        let (held, more) = loop {
            let parameters = [
                (&i64::from(at_once) as _, Type::INT8),
                (&unreadable as _, Type::INT8_ARRAY),
                (&i64::from(PAGE_MAX) as _, Type::INT8),
                (&i64::from(SEGMENTS_MAX) as _, Type::INT8),
            ];
            let rows = link.query(&statement, &parameters).await?;
            let batch = Batch::read(&rows, limit as usize)?;
            let is_clean = batch.unreadable.is_empty();
            unreadable.extend(batch.unreadable);
            let is_last = batch.rows < at_once as usize && batch.rows == rows.len();
            let is_full = batch.held.len() == limit as usize;
            if is_last || is_clean || is_full || unreadable.len() >= UNREADABLE_MAX {
                break (batch.held, !is_last);
            }
            // What was readable is found again, beside what comes after it.
            at_once = PAGE_MAX;
        };
        Ok(Candidates { held, unreadable: self.passed_over(unreadable.len()), more })
    }

    /// Removes records that are still what was read. Two sweeps at the same time do not wait for each other.
    async fn remove(&self, link: &mut Link<'_>, over: &[StoredRow]) -> Result<u64, LedgerError> {
        if over.is_empty() {
            return Ok(0);
        }
        let statement = self.inner.names.fill(
            "DELETE FROM {table} WHERE ctid = ANY(ARRAY( \
                 SELECT there.ctid FROM {table} AS there \
                 JOIN unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::integer[], $6::text[]) \
                     AS seen (principal, grpc_method, idempotency_key, record, epoch, status) \
                 USING (principal, grpc_method, idempotency_key) \
                 WHERE there.record = seen.record AND there.epoch = seen.epoch AND there.status = seen.status \
                 AND there.expires_at <= {now} \
                 FOR UPDATE OF there SKIP LOCKED)) \
             RETURNING record",
        );
        let texts = |part: fn(&StoredRow) -> &str| over.iter().map(part).collect::<Vec<&str>>();
        let records: Vec<i64> = over.iter().map(|held| held.record).collect();
        let epochs: Vec<i32> = over.iter().map(|held| integer(held.epoch)).collect();
        let parameters = [
            (&texts(|held| held.identity.principal()) as _, Type::TEXT_ARRAY),
            (&texts(|held| held.identity.method()) as _, Type::TEXT_ARRAY),
            (&texts(|held| held.identity.key()) as _, Type::TEXT_ARRAY),
            (&records as _, Type::INT8_ARRAY),
            (&epochs as _, Type::INT4_ARRAY),
            (&texts(|held| words::of_status(held.status)) as _, Type::TEXT_ARRAY),
        ];
        Ok(link.query(&statement, &parameters).await?.len() as u64)
    }

    /// Notes down that these were looked at.
    async fn looked(&self, link: &mut Link<'_>, records: &[i64]) -> Result<(), LedgerError> {
        if records.is_empty() {
            return Ok(());
        }
        let statement = self.inner.names.fill("SELECT {looked}($1)");
        link.query(&statement, &[(&records as _, Type::INT8_ARRAY)]).await.map(drop)
    }

    /// Counts the segments anew that were looked into; whether any is still due.
    async fn visited(&self, link: &mut Link<'_>, done: bool) -> Result<bool, LedgerError> {
        let statement = self.inner.names.fill("SELECT {visited}($1, $2)");
        let parameters = [(&SEGMENTS_MAX as _, Type::INT4), (&done as _, Type::BOOL)];
        let row = link.query_opt(&statement, &parameters).await?;
        row.as_ref().map_or(Ok(false), |row| at(row, 0))
    }

    /// Forgets the bodies that were kept for long enough, if they have a time of their own.
    async fn forget_bodies(&self, link: &mut Link<'_>) -> Result<(), LedgerError> {
        let Some(kept) = self.bodies_kept else { return Ok(()) };
        let statement = self.inner.names.fill("SELECT {forget_bodies}($1, $2)");
        let parameters = [(&micros(kept) as _, Type::INT8), (&SEGMENTS_MAX as _, Type::INT4)];
        link.query(&statement, &parameters).await.map(drop)
    }

    /// Removes the oldest notes of the audit, if their time is over.
    async fn shorten_audit(&self, link: &mut Link<'_>) -> Result<(), LedgerError> {
        let statement = self.inner.names.fill(
            "DELETE FROM {audit} WHERE number = ANY(ARRAY( \
                 SELECT number FROM (SELECT number, at FROM {audit} ORDER BY number LIMIT $1) AS oldest \
                 WHERE at <= {scan_now} - $2 * interval '1 microsecond'))",
        );
        let parameters = [(&NOTES_MAX as _, Type::INT8), (&micros(self.audit_kept) as _, Type::INT8)];
        link.query(&statement, &parameters).await.map(drop)
    }
}
