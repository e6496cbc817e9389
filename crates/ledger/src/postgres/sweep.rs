//! Removing what is over, and writing down what has become unknown.

use tokio_postgres::types::Type;

use super::PostgresStore;
use super::begin::integer;
use super::link::Link;
use super::row::{Batch, StoredRow, UNREADABLE_MAX};
use crate::{LedgerError, PAGE_MAX, Sweep, Swept, words};

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
        let Candidates { held, unreadable, more } = self.candidates(link, sweep.limit).await?;
        let (over, rest): (Vec<StoredRow>, Vec<StoredRow>) =
            held.into_iter().partition(|held| held.standing().is_over());
        let stranded = rest.into_iter().filter(|held| held.standing().becomes_unknown());
        let mut swept = Swept { more, unreadable, ..Swept::default() };
        if sweep.dry_run {
            return Ok(Swept { removed: over.len() as u64, held: stranded.count() as u64, ..swept });
        }
        for held in stranded {
            swept.held += u64::from(self.give_up(link, &held).await?.is_some());
        }
        swept.removed = self.remove(link, &over).await?;
        // If another sweep took all of it at the same time, that sweep goes on, and there is nothing more to do here.
        swept.more = more && swept.removed + swept.held > 0;
        Ok(swept)
    }

    /// Up to `limit` records that are worth a look; the rules decide about each. Rows that cannot be read are left out
    /// of the count: they stay where they are, and the next sweep would find nothing else.
    async fn candidates(&self, link: &mut Link<'_>, limit: u32) -> Result<Candidates, LedgerError> {
        let statement = self.inner.names.fill(
            "(SELECT {columns} FROM {table} \
              WHERE status = 'IN_PROGRESS' AND lease_expires_at <= {scan_now} \
              AND (on_lapse = 'hold' OR attempts >= attempts_max OR expires_at <= {scan_now}) \
              AND record <> ALL($2) LIMIT $1) \
             UNION ALL \
             (SELECT {columns} FROM {table} \
              WHERE status IN ('SUCCEEDED', 'FAILED_FINAL', 'FAILED_RETRYABLE') \
              AND expires_at <= {scan_now} AND record <> ALL($2) LIMIT $1) \
             LIMIT $1",
        );
        let mut unreadable: Vec<i64> = Vec::new();
        let mut at_once = limit;
        let (held, more) = loop {
            let parameters = [(&i64::from(at_once) as _, Type::INT8), (&unreadable as _, Type::INT8_ARRAY)];
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
}
