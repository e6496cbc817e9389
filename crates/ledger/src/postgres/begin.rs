//! A caller wants to run an effect.

use driftq_rules::{self as rules, Begun, Status};
use tokio_postgres::types::Type;

use super::composite::Told;
use super::link::Link;
use super::row::{StoredRow, at};
use super::{PostgresStore, ROUNDS_MAX};
use crate::asker::Asker;
use crate::moment::micros;
use crate::{
    Begin, Decision, Identity, Kept, Lease, LedgerError, Moment, Proof, Reacquire, RequestHash, words,
};

/// Whatever is there, and if nothing is, a new record.
pub(super) const BEGIN: &str = "SELECT {begin_3}($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";

/// The same, where the steps since the fourth were not taken.
pub(super) const BEGIN_BEFORE: &str = "SELECT {begin}($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";

/// Whatever is there.
pub(super) const READ: &str = "SELECT {columns}, response_headers::text AS headers, response_payload FROM {table} WHERE principal = $1 AND grpc_method = $2 AND idempotency_key = $3";

/// The record is still the one that was read. `$7`: it was read as in progress with a lease that is over, which its
/// holder may have renewed since. The status is compared so that no index fits: by the names it is one row, by the status
/// it may be any number.
const UNCHANGED: &str = "FROM {clock} WHERE principal = $1 AND grpc_method = $2 AND idempotency_key = $3 \
     AND record = $4 AND epoch = $5 AND status || '' = $6 \
     AND (NOT $7 OR lease_expires_at IS NULL OR lease_expires_at <= moment)";

/// The record as it is now. By their names: a newer release may have added columns.
pub(super) const RETURNED: &str =
    "RETURNING {columns}, response_headers::text AS headers, response_payload, {durable}";

/// What every new lease writes.
const LENT: &str = "status = 'IN_PROGRESS', \
     request_hash = $8, hash_version = $9, \
     ttl_us = $11, on_lapse = $12, attempts_max = $13, owner = $14, call = $15, \
     updated_at = moment, lease_expires_at = moment + $10 * interval '1 microsecond', \
     expires_at = moment + ($10 + $11) * interval '1 microsecond', \
     response_code = NULL, response_headers = NULL, response_payload = NULL, error = NULL, result_digest = NULL, \
     resolved_by = NULL, resolved_why = NULL";

/// A newer lease of the same record.
pub(super) fn take_over() -> String {
    format!("UPDATE {{table}} SET epoch = $16, attempts = $17, {LENT} {UNCHANGED} {RETURNED}")
}

/// The time of the record is over: another one takes its place, with a number of its own, so that no lease of the old
/// one fits.
pub(super) fn begin_anew() -> String {
    format!(
        "UPDATE {{table}} SET record = DEFAULT, epoch = $16, attempts = $17, created_at = moment, \
         {LENT} {UNCHANGED} AND expires_at <= moment {RETURNED}"
    )
}

/// A lease lapsed, and it is unknown whether the effect happened.
pub(super) fn give_up() -> String {
    format!("UPDATE {{table}} SET status = 'UNKNOWN', updated_at = moment {UNCHANGED} {RETURNED}")
}

/// What the function that begins has told.
enum Opened {
    /// There was none, and a record was made.
    Made(Lease),
    /// One is there.
    There(Box<StoredRow>),
}

/// What a record that was read comes to.
enum Turn {
    Told(Decision),
    /// It changed meanwhile: read it again.
    Again,
}

impl PostgresStore {
    pub(super) async fn begin_on(
        &self,
        link: &mut Link<'_>,
        asked: &Begin,
    ) -> Result<(Decision, Option<Kept>), LedgerError> {
        // Only a record of the original form has no call that made it.
        let made_up = asked.call.is_none().then(crate::ledger::new_call);
        let call = asked.call.as_deref().or(made_up.as_deref());
        let asker = Asker { call, ..Asker::from(asked) };
        for _ in 0..ROUNDS_MAX {
            // Nothing: another caller's record was there and is gone. It cannot be told from one that was never there.
            let held = match self.open(link, &asked.hash, &asker).await? {
                Some(Opened::Made(lease)) => return Ok((Decision::Execute(lease), None)),
                Some(Opened::There(held)) => held,
                None => continue,
            };
            let kept = held.kept();
            if let Turn::Told(decision) = self.answer(link, *held, &asker).await? {
                let kept = kept.filter(|_| matches!(decision, Decision::Replay(_)));
                return Ok((decision, kept));
            }
        }
        Err(busy())
    }

    pub(super) async fn reacquire_on(
        &self,
        link: &mut Link<'_>,
        asked: &Reacquire,
    ) -> Result<Decision, LedgerError> {
        let asker = Asker::from(asked);
        for _ in 0..ROUNDS_MAX {
            let held = self.read(link, &asked.identity).await?;
            let held = held.filter(|held| !held.standing().is_over()).ok_or(LedgerError::NotFound)?;
            let attempts = held.attempts;
            match self.answer(link, held, &asker).await? {
                Turn::Told(Decision::Retryable { attempts_left: Some(0), .. }) => {
                    return Err(LedgerError::Exhausted { attempts });
                }
                Turn::Told(decision) => return Ok(decision),
                Turn::Again => {}
            }
        }
        Err(busy())
    }

    /// One record, whether it counts or not.
    pub(super) async fn read(
        &self,
        link: &mut Link<'_>,
        identity: &Identity,
    ) -> Result<Option<StoredRow>, LedgerError> {
        let (principal, method, key) = (identity.principal(), identity.method(), identity.key());
        let named = [(&principal as _, Type::TEXT), (&method as _, Type::TEXT), (&key as _, Type::TEXT)];
        let row = link.query_opt(&self.inner.sql.read, &named).await?;
        row.as_ref().map_or(Ok(None), StoredRow::read)
    }

    async fn open(
        &self,
        link: &mut Link<'_>,
        hash: &RequestHash,
        asker: &Asker<'_>,
    ) -> Result<Option<Opened>, LedgerError> {
        let Asker { identity, terms, call, owner, .. } = asker;
        let parameters = [
            (&identity.principal() as _, Type::TEXT),
            (&identity.method() as _, Type::TEXT),
            (&identity.key() as _, Type::TEXT),
            (&hash.digest() as _, Type::TEXT),
            (&version(hash) as _, Type::INT2),
            (&micros(terms.lease) as _, Type::INT8),
            (&micros(terms.ttl) as _, Type::INT8),
            (&words::of_on_lapse(terms.on_lapse) as _, Type::TEXT),
            (&cap(terms.attempts_max) as _, Type::INT4),
            (owner as _, Type::TEXT),
            (call as _, Type::TEXT),
        ];
        let answer = link.call(&self.inner.sql.begin, &parameters).await?;
        let told = answer.as_ref().map_or(Ok(None), |row| at::<Option<Told>>(row, 0))?;
        match told {
            None | Some(Told::Nothing) => Ok(None),
            Some(Told::Made(record, asked_at)) => {
                Ok(Some(Opened::Made(first_lease(asker, record, asked_at))))
            }
            Some(Told::There(row)) => {
                Ok(StoredRow::read_begun(identity, &row)?.map(|held| Opened::There(Box::new(held))))
            }
        }
    }

    /// Asks the rules about a record that was read, and does what they say.
    async fn answer(
        &self,
        link: &mut Link<'_>,
        held: StoredRow,
        asker: &Asker<'_>,
    ) -> Result<Turn, LedgerError> {
        let asked = asker.asked(Some(&held.compared()));
        let decision = match rules::begin(Some(&held.standing()), asked) {
            Begun::Conflict => return Err(LedgerError::Conflict(asker.other_recipe(&held.compared()))),
            Begun::Exhausted => return Err(LedgerError::Exhausted { attempts: held.attempts }),
            Begun::First => {
                let taken = self.lend(link, &held, asker, None).await?;
                return Ok(taken.map_or(Turn::Again, |held| {
                    Turn::Told(Decision::Execute(held.lease(asker.terms.lease)))
                }));
            }
            Begun::TakeOver { epoch, attempt } => {
                let taken = self.lend(link, &held, asker, Some((epoch, attempt))).await?;
                return Ok(taken.map_or(Turn::Again, |held| {
                    Turn::Told(Decision::Execute(held.lease(asker.terms.lease)))
                }));
            }
            Begun::Again => Decision::Execute(held.lease(asker.terms.lease)),
            Begun::Replay => Decision::Replay(held.outcome()?),
            Begun::Running => Decision::InProgress {
                retry_after: held.lease_end().since(held.asked_at),
                epoch: held.epoch,
                attempt: held.attempts,
            },
            Begun::Retryable { left } => {
                Decision::Retryable { outcome: held.outcome()?, attempts_left: left }
            }
            Begun::Unknown if held.status == Status::InProgress => {
                let Some(held) = self.give_up(link, &held).await? else { return Ok(Turn::Again) };
                unknown(&held)
            }
            Begun::Unknown => unknown(&held),
        };
        Ok(Turn::Told(decision))
    }

    /// Gives a lease of a record that is still what was read. `newer`: epoch and attempt of a newer lease of the same
    /// record; without it, a new record takes its place.
    async fn lend(
        &self,
        link: &mut Link<'_>,
        held: &StoredRow,
        asker: &Asker<'_>,
        newer: Option<(u32, u32)>,
    ) -> Result<Option<StoredRow>, LedgerError> {
        let Asker { terms, call, owner, .. } = asker;
        // The record stays by the recipe that wrote it: a release that knows no other must recognise its own request.
        let hash = asker.hash.filter(|_| newer.is_none());
        let digest = hash.map_or(held.request_hash.as_str(), RequestHash::digest);
        let hash_version = hash.map_or_else(|| i16::try_from(held.hash_version).unwrap_or(0), version);
        let most = match newer {
            Some(_) => terms.attempts_max.max(held.attempts_max),
            None => terms.attempts_max,
        };
        let (epoch, attempt) = newer.unwrap_or((1, 1));
        let parameters = [
            (&held.identity.principal() as _, Type::TEXT),
            (&held.identity.method() as _, Type::TEXT),
            (&held.identity.key() as _, Type::TEXT),
            (&held.record as _, Type::INT8),
            (&integer(held.epoch) as _, Type::INT4),
            (&words::of_status(held.status) as _, Type::TEXT),
            (&(held.status == Status::InProgress) as _, Type::BOOL),
            (&digest as _, Type::TEXT),
            (&hash_version as _, Type::INT2),
            (&micros(terms.lease) as _, Type::INT8),
            (&micros(terms.ttl) as _, Type::INT8),
            (&words::of_on_lapse(terms.on_lapse) as _, Type::TEXT),
            (&cap(most) as _, Type::INT4),
            (owner as _, Type::TEXT),
            (call as _, Type::TEXT),
            (&integer(epoch) as _, Type::INT4),
            (&integer(attempt) as _, Type::INT4),
        ];
        let sql = &self.inner.sql;
        let statement = if newer.is_some() { &sql.take_over } else { &sql.begin_anew };
        let row = link.query_opt(statement, &parameters).await?;
        row.as_ref().map_or(Ok(None), StoredRow::read)
    }

    /// Writes down that it is unknown whether it happened.
    pub(super) async fn give_up(
        &self,
        link: &mut Link<'_>,
        held: &StoredRow,
    ) -> Result<Option<StoredRow>, LedgerError> {
        let parameters = [
            (&held.identity.principal() as _, Type::TEXT),
            (&held.identity.method() as _, Type::TEXT),
            (&held.identity.key() as _, Type::TEXT),
            (&held.record as _, Type::INT8),
            (&integer(held.epoch) as _, Type::INT4),
            (&words::of_status(held.status) as _, Type::TEXT),
            (&true as _, Type::BOOL),
        ];
        let row = link.query_opt(&self.inner.sql.give_up, &parameters).await?;
        row.as_ref().map_or(Ok(None), StoredRow::read)
    }
}

fn unknown(held: &StoredRow) -> Decision {
    Decision::Unknown { epoch: held.epoch, attempt: held.attempts, since: held.updated_at }
}

/// The lease of a record that was made just now.
fn first_lease(asker: &Asker<'_>, record: i64, asked_at: Moment) -> Lease {
    Lease {
        identity: asker.identity.clone(),
        epoch: 1,
        attempt: 1,
        expires_at: asked_at.after(asker.terms.lease),
        lasts: asker.terms.lease,
        ttl: asker.terms.ttl,
        proof: Proof::Record(record),
    }
}

fn version(hash: &RequestHash) -> i16 {
    i16::try_from(hash.version()).unwrap_or(i16::MAX)
}

fn cap(attempts_max: Option<u32>) -> Option<i32> {
    attempts_max.map(integer)
}

/// As the table has it. More than it can hold is never reached: each one is a lease.
pub(super) fn integer(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// The record changed while the call was at work, again and again.
pub(super) fn busy() -> LedgerError {
    LedgerError::Busy(format!("the record changed {ROUNDS_MAX} times under this call"))
}
