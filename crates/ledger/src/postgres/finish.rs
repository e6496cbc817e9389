//! An effect ends, goes on, or is resolved.

use std::time::Duration;

use driftq_rules::{self as rules, OnLapse, Released, Resolved, Standing, Status};
use tokio_postgres::types::Type;

use super::begin::{RETURNED, busy, integer};
use super::composite::Told;
use super::link::Link;
use super::row::{StoredRow, at, status_of};
use super::{PostgresStore, ROUNDS_MAX};
use crate::moment::micros;
use crate::{Ending, Finished, Lease, LedgerError, Lost, Moment, Proof, Resolve, words};

pub(super) const FINISH: &str = "SELECT {finish_4}($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";

/// Never to an earlier time. What was written off as unknown is in progress again: its holder is there.
const RENEW: &str = "UPDATE {table} SET status = 'IN_PROGRESS', \
     updated_at = moment, lease_expires_at = greatest(lease_expires_at, moment + $7 * interval '1 microsecond'), \
     expires_at = greatest(lease_expires_at, moment + $7 * interval '1 microsecond') \
         + ttl_us * interval '1 microsecond' \
     FROM {clock} \
     WHERE principal = $1 AND grpc_method = $2 AND idempotency_key = $3 \
     AND record = $4 AND epoch = $5 AND status || '' = $6";

pub(super) fn renew() -> String {
    format!("{RENEW} {RETURNED}")
}

pub(super) const RESOLVE: &str = "UPDATE {table} SET epoch = $8, status = $9, attempts_max = $10, \
     response_code = $11, response_headers = $12::text::jsonb, response_payload = $13, error = $14, result_digest = $15, \
     resolved_by = $16, resolved_why = $17, lease_expires_at = NULL, ttl_us = $18, \
     updated_at = moment, expires_at = moment + $18 * interval '1 microsecond' FROM {clock} \
     WHERE principal = $1 AND grpc_method = $2 AND idempotency_key = $3 \
     AND record = $4 AND epoch = $5 AND status || '' = $6 \
     AND (NOT $7 OR lease_expires_at IS NULL OR lease_expires_at <= moment) \
     RETURNING record, {durable}";

/// As if the newest lease had not been given, but under a new epoch. Every release understands that: a lease that is over
/// and may be taken over.
pub(super) const GIVE_BACK: &str = "UPDATE {table} SET epoch = $7, attempts = attempts - 1, status = 'IN_PROGRESS', \
     on_lapse = 'retry', lease_expires_at = moment, owner = NULL, call = NULL, updated_at = moment, \
     expires_at = moment + ttl_us * interval '1 microsecond' FROM {clock} \
     WHERE principal = $1 AND grpc_method = $2 AND idempotency_key = $3 \
     AND record = $4 AND epoch = $5 AND status || '' = $6 RETURNING record, {durable}";

/// What a finish found instead of the record it expected.
struct There {
    record: i64,
    epoch: u32,
    status: Status,
    /// Whether it holds the ending that was to be written.
    same: bool,
}

impl PostgresStore {
    pub(super) async fn finish_on(
        &self,
        link: &mut Link<'_>,
        lease: &Lease,
        ending: &Ending,
    ) -> Result<Finished, LedgerError> {
        let record = record_of(lease)?;
        let digest = ending.digest();
        // Nearly always the record is in progress under this lease. The write says if it is not.
        let mut expected = Status::InProgress;
        for _ in 0..ROUNDS_MAX {
            let Some(there) = self.write_ending(link, lease, (record, expected), ending, &digest).await?
            else {
                return Ok(Finished::Committed);
            };
            let there = there.filter(|there| there.record == record);
            let same = there.as_ref().is_some_and(|there| there.status == ending.end.into() && there.same);
            let standing = there.as_ref().map(|there| standing_of(there.status, there.epoch));
            match rules::finish(standing.as_ref(), lease.epoch, false, same) {
                rules::Finished::Already => return Ok(Finished::AlreadyCommitted),
                rules::Finished::Stale => return Err(stale(there.as_ref(), lease)),
                rules::Finished::Commit => expected = there.map_or(expected, |there| there.status),
            }
        }
        Err(busy())
    }

    /// `None` if it is written. Otherwise what is there instead, which may be nothing.
    async fn write_ending(
        &self,
        link: &mut Link<'_>,
        lease: &Lease,
        (record, expected): (i64, Status),
        ending: &Ending,
        digest: &[u8; 16],
    ) -> Result<Option<Option<There>>, LedgerError> {
        let headers = headers_of(ending)?;
        let parameters = [
            (&lease.identity.principal() as _, Type::TEXT),
            (&lease.identity.method() as _, Type::TEXT),
            (&lease.identity.key() as _, Type::TEXT),
            (&record as _, Type::INT8),
            (&integer(lease.epoch) as _, Type::INT4),
            (&words::of_status(expected) as _, Type::TEXT),
            (&words::of_end(ending.end) as _, Type::TEXT),
            (&ending.response.code as _, Type::INT4),
            (&headers as _, Type::TEXT),
            (&payload_of(ending) as _, Type::BYTEA),
            (&error_of(ending) as _, Type::TEXT),
            (&&digest[..] as _, Type::BYTEA),
        ];
        let row = link.call(&self.inner.sql.finish, &parameters).await?;
        let row = row.ok_or_else(|| LedgerError::Corrupt("a finish without an answer".to_owned()))?;
        let row = match at::<Option<Told>>(&row, 0)? {
            None => return Ok(None),
            Some(Told::There(row)) => row,
            Some(Told::Nothing | Told::Made(..)) => return Ok(Some(None)),
        };
        Ok(Some(Some(There {
            record: row.get(0, &Type::INT8)?,
            epoch: u32::try_from(row.get::<i32>(1, &Type::INT4)?).unwrap_or(0),
            status: status_of(row.get(2, &Type::TEXT)?, &lease.identity)?,
            same: row.get::<Option<bool>>(3, &Type::BOOL)?.unwrap_or(false),
        })))
    }

    pub(super) async fn renew_on(
        &self,
        link: &mut Link<'_>,
        lease: &Lease,
        lasts: Duration,
    ) -> Result<Moment, LedgerError> {
        let record = record_of(lease)?;
        let mut expected = Status::InProgress;
        for _ in 0..ROUNDS_MAX {
            let parameters = [
                (&lease.identity.principal() as _, Type::TEXT),
                (&lease.identity.method() as _, Type::TEXT),
                (&lease.identity.key() as _, Type::TEXT),
                (&record as _, Type::INT8),
                (&integer(lease.epoch) as _, Type::INT4),
                (&words::of_status(expected) as _, Type::TEXT),
                (&micros(lasts) as _, Type::INT8),
            ];
            if let Some(row) = link.query_opt(&self.inner.sql.renew, &parameters).await? {
                let held = StoredRow::read(&row)?.ok_or(LedgerError::NotFound)?;
                return Ok(held.lease_end());
            }
            let held = self.read(link, &lease.identity).await?.filter(|held| held.record == record);
            let standing = held.as_ref().map(StoredRow::standing);
            if !rules::renew(standing.as_ref(), lease.epoch, false) {
                let there =
                    held.map(|held| There { record, epoch: held.epoch, status: held.status, same: false });
                return Err(stale(there.as_ref(), lease));
            }
            expected = held.map_or(expected, |held| held.status);
        }
        Err(busy())
    }

    pub(super) async fn give_back_on(&self, link: &mut Link<'_>, lost: &Lost) -> Result<bool, LedgerError> {
        for _ in 0..ROUNDS_MAX {
            let Some(held) = self.read(link, &lost.identity).await? else { return Ok(false) };
            if held.call.as_deref() != Some(&lost.call) || held.owner != lost.owner {
                return Ok(false);
            }
            let Released::Commit { epoch } = rules::release(Some(&held.standing()), held.epoch, false) else {
                return Ok(false);
            };
            let parameters = [
                (&held.identity.principal() as _, Type::TEXT),
                (&held.identity.method() as _, Type::TEXT),
                (&held.identity.key() as _, Type::TEXT),
                (&held.record as _, Type::INT8),
                (&integer(held.epoch) as _, Type::INT4),
                (&words::of_status(held.status) as _, Type::TEXT),
                (&integer(epoch) as _, Type::INT4),
            ];
            if link.query_opt(&self.inner.sql.give_back, &parameters).await?.is_some() {
                return Ok(true);
            }
        }
        Err(busy())
    }

    pub(super) async fn resolve_on(
        &self,
        link: &mut Link<'_>,
        found: &Resolve,
    ) -> Result<Finished, LedgerError> {
        let digest = found.ending.digest();
        for _ in 0..ROUNDS_MAX {
            let held = self.read(link, &found.identity).await?;
            // What a worker said in the same words is not what an operator has found out.
            let same = held.as_ref().is_some_and(|held| {
                held.status == found.ending.end.into()
                    && held.digest.as_deref() == Some(&digest[..])
                    && held.resolved.as_ref() == Some(&found.resolver)
            });
            let standing = held.as_ref().map(StoredRow::standing);
            let epoch = match rules::resolve(standing.as_ref(), found.epoch, same) {
                Resolved::Commit { epoch } => epoch,
                Resolved::Already => return Ok(Finished::AlreadyCommitted),
                Resolved::Nothing => return Err(LedgerError::NotFound),
                Resolved::Running => return Err(LedgerError::Running),
                Resolved::Final => return Err(LedgerError::Final),
                Resolved::Stale => {
                    let epoch = standing.map_or(0, |standing| standing.epoch);
                    return Err(LedgerError::Stale(format!("the newest epoch is {epoch}; look again")));
                }
            };
            let Some(held) = held else { return Err(LedgerError::NotFound) };
            if self.write_resolution(link, &held, found, epoch, &digest).await? {
                return Ok(Finished::Committed);
            }
        }
        Err(busy())
    }

    /// Whether it is written: not if the record has changed since it was read.
    async fn write_resolution(
        &self,
        link: &mut Link<'_>,
        held: &StoredRow,
        found: &Resolve,
        epoch: u32,
        digest: &[u8; 16],
    ) -> Result<bool, LedgerError> {
        let ending = &found.ending;
        let headers = headers_of(ending)?;
        // An operator has decided that it may run once more.
        let most = held.attempts_max.map(|most| match Status::from(ending.end) {
            Status::FailedRetryable => most.max(held.attempts.saturating_add(1)),
            _ => most,
        });
        let parameters = [
            (&held.identity.principal() as _, Type::TEXT),
            (&held.identity.method() as _, Type::TEXT),
            (&held.identity.key() as _, Type::TEXT),
            (&held.record as _, Type::INT8),
            (&integer(held.epoch) as _, Type::INT4),
            (&words::of_status(held.status) as _, Type::TEXT),
            (&(held.status == Status::InProgress) as _, Type::BOOL),
            (&integer(epoch) as _, Type::INT4),
            (&words::of_end(ending.end) as _, Type::TEXT),
            (&most.map(integer) as _, Type::INT4),
            (&ending.response.code as _, Type::INT4),
            (&headers as _, Type::TEXT),
            (&payload_of(ending) as _, Type::BYTEA),
            (&error_of(ending) as _, Type::TEXT),
            (&&digest[..] as _, Type::BYTEA),
            (&found.resolver.by as _, Type::TEXT),
            (&found.resolver.why as _, Type::TEXT),
            (&micros(found.ttl) as _, Type::INT8),
        ];
        Ok(link.query_opt(&self.inner.sql.resolve, &parameters).await?.is_some())
    }
}

/// The number that a lease of this store carries.
pub(super) fn record_of(lease: &Lease) -> Result<i64, LedgerError> {
    match lease.proof {
        Proof::Record(record) => Ok(record),
        Proof::Token(_) => Err(LedgerError::Invalid("this lease was given by another store".to_owned())),
    }
}

fn headers_of(ending: &Ending) -> Result<Option<String>, LedgerError> {
    let headers = &ending.response.headers;
    if headers.is_empty() {
        return Ok(None);
    }
    serde_json::to_string(headers).map(Some).map_err(|error| LedgerError::Invalid(error.to_string()))
}

fn payload_of(ending: &Ending) -> Option<&[u8]> {
    Some(&ending.response.payload[..]).filter(|payload| !payload.is_empty())
}

fn error_of(ending: &Ending) -> Option<&str> {
    Some(ending.error.as_str()).filter(|error| !error.is_empty())
}

/// As far as `finish` asks: status and epoch.
fn standing_of(status: Status, epoch: u32) -> Standing {
    Standing {
        status,
        epoch,
        attempts: 1,
        attempts_max: None,
        on_lapse: OnLapse::Hold,
        live: false,
        expired: false,
        released: false,
    }
}

fn stale(there: Option<&There>, lease: &Lease) -> LedgerError {
    LedgerError::Stale(match there {
        None => "its record is gone, or was begun anew".to_owned(),
        Some(there) if there.epoch == lease.epoch => {
            "it ended the effect before with another outcome; the first one stays".to_owned()
        }
        Some(there) => {
            format!("its epoch is {}, the newest is {}", lease.epoch, there.epoch)
        }
    })
}
