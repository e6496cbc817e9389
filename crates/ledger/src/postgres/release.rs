//! A holder gives its lease up.

use driftq_rules::{self as rules, Released};
use tokio_postgres::types::Type;

use super::begin::{busy, integer};
use super::finish::record_of;
use super::link::Link;
use super::{PostgresStore, ROUNDS_MAX};
use crate::lease::EPOCH_FIRST;
use crate::{Ending, Finished, Lease, LedgerError};

/// The record of a first lease goes, unless it has ended or has a newer one.
const RELEASE: &str = "DELETE FROM {table} WHERE principal = $1 AND grpc_method = $2 AND idempotency_key = $3 \
     AND record = $4 AND epoch = $5 AND status || '' IN ('IN_PROGRESS', 'UNKNOWN') RETURNING record, {durable}";

impl PostgresStore {
    pub(super) async fn release_on(
        &self,
        link: &mut Link<'_>,
        lease: &Lease,
    ) -> Result<Finished, LedgerError> {
        if lease.epoch != EPOCH_FIRST {
            return self.finish_on(link, lease, &Ending::given_up()).await;
        }
        let record = record_of(lease)?;
        let statement = self.inner.names.fill(RELEASE);
        for _ in 0..ROUNDS_MAX {
            let parameters = [
                (&lease.identity.principal() as _, Type::TEXT),
                (&lease.identity.method() as _, Type::TEXT),
                (&lease.identity.key() as _, Type::TEXT),
                (&record as _, Type::INT8),
                (&integer(lease.epoch) as _, Type::INT4),
            ];
            if link.query_opt(&statement, &parameters).await?.is_some() {
                return Ok(Finished::Committed);
            }
            let held = self.read(link, &lease.identity).await?.filter(|held| held.record == record);
            let Some(held) = held else { return Ok(Finished::AlreadyCommitted) };
            if !matches!(rules::release(Some(&held.standing()), lease.epoch, false), Released::Commit { .. })
            {
                let why = "the effect has ended, or another caller took over";
                return Err(LedgerError::Stale(why.to_owned()));
            }
        }
        Err(busy())
    }
}
