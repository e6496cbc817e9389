//! Rows of the table, and what the rules need to know of them.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use driftq_rules::Standing;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use super::composite::Composite;
use super::joined::{Cells, Place, Row};
use crate::asker::Compared;
use crate::{
    End, Identity, Kept, Lease, LedgerError, Moment, OnLapse, Outcome, Proof, Record, Resolver, Response,
    Status, words,
};

/// A timestamp as PostgreSQL has it on the wire. `infinity` and what is beyond any calendar are no reason to panic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp(pub(super) Moment);

/// PostgreSQL counts from the year 2000.
const EPOCH_2000_US: i64 = 946_684_800_000_000;

impl<'a> FromSql<'a> for Stamp {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        Ok(Self(Moment::from_micros(micros.saturating_add(EPOCH_2000_US))))
    }

    accepts!(TIMESTAMPTZ);
}

impl ToSql for Stamp {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.put_i64(self.0.micros().saturating_sub(EPOCH_2000_US));
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

/// A row, understood.
pub(super) struct StoredRow {
    pub(super) identity: Identity,
    pub(super) record: i64,
    pub(super) status: Status,
    pub(super) epoch: u32,
    pub(super) attempts: u32,
    pub(super) attempts_max: Option<u32>,
    pub(super) on_lapse: OnLapse,
    pub(super) hash_version: u16,
    pub(super) request_hash: String,
    pub(super) lease_expires_at: Option<Moment>,
    pub(super) ttl: Duration,
    pub(super) owner: Option<String>,
    pub(super) call: Option<String>,
    pub(super) digest: Option<Vec<u8>>,
    pub(super) created_at: Moment,
    pub(super) updated_at: Moment,
    pub(super) expires_at: Moment,
    /// When the database was asked, by its own clock.
    pub(super) asked_at: Moment,
    response: Response,
    error: String,
    pub(super) resolved: Option<Resolver>,
}

/// What a list reads: everything but what may be large.
pub(super) const COLUMNS_SMALL: &str = "principal, grpc_method, idempotency_key, record, status, epoch, attempts, \
     attempts_max, on_lapse, hash_version, request_hash, lease_expires_at, ttl_us, owner, call, result_digest, \
     created_at, updated_at, expires_at, response_code, error, resolved_by, resolved_why, \
     {now} AS asked_at";

impl StoredRow {
    /// `None` if the row is empty: that is what a function answers that found nothing.
    pub(super) fn read(row: &Row) -> Result<Option<Self>, LedgerError> {
        let Some(principal) = get::<Option<&str>>(row, "principal")? else { return Ok(None) };
        let (method, key): (&str, &str) = (get(row, "grpc_method")?, get(row, "idempotency_key")?);
        let identity = identity_of(principal, method, key)?;
        let status = status_of(get(row, "status")?, &identity)?;
        let on_lapse = on_lapse_of(get(row, "on_lapse")?, &identity)?;
        let has_answer = row.has("response_payload");
        let headers = if has_answer { get::<Option<&str>>(row, "headers")? } else { None };
        let headers = headers_of(headers, &identity)?;
        let payload = if has_answer { get::<Option<&[u8]>>(row, "response_payload")? } else { None };
        let by = get::<Option<String>>(row, "resolved_by")?;
        let why = get::<Option<String>>(row, "resolved_why")?;
        Ok(Some(Self {
            record: get(row, "record")?,
            status,
            epoch: count(row, "epoch")?,
            attempts: count(row, "attempts")?,
            attempts_max: counted("attempts_max", get(row, "attempts_max")?)?,
            on_lapse,
            hash_version: u16::try_from(get::<i16>(row, "hash_version")?).unwrap_or(u16::MAX),
            request_hash: get(row, "request_hash")?,
            lease_expires_at: get::<Option<Stamp>>(row, "lease_expires_at")?.map(|stamp| stamp.0),
            ttl: ttl_of(get(row, "ttl_us")?),
            owner: get(row, "owner")?,
            call: get(row, "call")?,
            digest: get(row, "result_digest")?,
            created_at: get::<Stamp>(row, "created_at")?.0,
            updated_at: get::<Stamp>(row, "updated_at")?.0,
            expires_at: get::<Stamp>(row, "expires_at")?.0,
            asked_at: get::<Stamp>(row, "asked_at")?.0,
            response: Response {
                code: get(row, "response_code")?,
                headers,
                payload: Bytes::copy_from_slice(payload.unwrap_or_default()),
            },
            error: get::<Option<String>>(row, "error")?.unwrap_or_default(),
            resolved: by.map(|by| Resolver { by, why: why.unwrap_or_default() }),
            identity,
        }))
    }

    /// From what the function that begins has found; `None` if there is nothing.
    pub(super) fn read_begun(identity: &Identity, row: &Composite) -> Result<Option<Self>, LedgerError> {
        let Some(status) = row.get::<Option<&str>>(2, &Type::TEXT)? else { return Ok(None) };
        let integer = |at| row.get::<Option<i32>>(at, &Type::INT4);
        let moment = |at| {
            let stamp = row.get::<Option<Stamp>>(at, &Type::TIMESTAMPTZ);
            stamp.map(|stamp| stamp.map(|stamp| stamp.0))
        };
        let text = |at| row.get::<Option<String>>(at, &Type::TEXT);
        let asked_at = row.get::<Stamp>(0, &Type::TIMESTAMPTZ)?.0;
        let headers = row.get::<Option<&str>>(15, &Type::TEXT)?;
        Ok(Some(Self {
            record: row.get(1, &Type::INT8)?,
            status: status_of(status, identity)?,
            epoch: counted("epoch", integer(3)?)?.unwrap_or(0),
            attempts: counted("attempts", integer(4)?)?.unwrap_or(0),
            attempts_max: counted("attempts_max", integer(5)?)?,
            on_lapse: on_lapse_of(row.get(6, &Type::TEXT)?, identity)?,
            hash_version: u16::try_from(row.get::<i16>(7, &Type::INT2)?).unwrap_or(u16::MAX),
            request_hash: row.get(8, &Type::TEXT)?,
            lease_expires_at: moment(9)?,
            ttl: ttl_of(row.get(10, &Type::INT8)?),
            owner: text(20)?,
            call: text(11)?,
            digest: None,
            created_at: asked_at,
            updated_at: moment(12)?.unwrap_or(asked_at),
            expires_at: moment(13)?.unwrap_or(asked_at),
            asked_at,
            response: Response {
                code: integer(14)?,
                headers: headers_of(headers, identity)?,
                payload: row.bytes(16),
            },
            error: text(17)?.unwrap_or_default(),
            resolved: text(18)?.map(|by| Resolver { by, why: text(19).ok().flatten().unwrap_or_default() }),
            identity: identity.clone(),
        }))
    }

    /// How it stood when the database was asked.
    pub(super) fn standing(&self) -> Standing {
        Standing {
            status: self.status,
            epoch: self.epoch,
            attempts: self.attempts,
            attempts_max: self.attempts_max,
            on_lapse: self.on_lapse,
            live: self.lease_expires_at.is_some_and(|end| end > self.asked_at),
            expired: self.expires_at <= self.asked_at,
            released: false,
        }
    }

    pub(super) fn compared(&self) -> Compared<'_> {
        Compared {
            hash_version: self.hash_version,
            hash: &self.request_hash,
            call: self.call.as_deref(),
            owner: self.owner.as_deref(),
        }
    }

    /// When the newest lease lapses, or has lapsed.
    pub(super) fn lease_end(&self) -> Moment {
        self.lease_expires_at.unwrap_or(self.asked_at)
    }

    /// The newest lease, which was given for `lasts`.
    pub(super) fn lease(&self, lasts: Duration) -> Lease {
        Lease {
            identity: self.identity.clone(),
            epoch: self.epoch,
            attempt: self.attempts,
            expires_at: self.lease_end(),
            lasts,
            ttl: self.ttl,
            proof: Proof::Record(self.record),
        }
    }

    pub(super) fn outcome(&self) -> Result<Outcome, LedgerError> {
        let end = End::of(self.status)
            .ok_or_else(|| LedgerError::Corrupt(format!("{} has not ended", self.identity)))?;
        Ok(Outcome {
            end,
            response: self.response.clone(),
            error: self.error.clone(),
            finished_at: self.updated_at,
            epoch: self.epoch,
            attempt: self.attempts,
            resolved: self.resolved.clone(),
        })
    }

    /// What a cache has to know, of what has ended for good.
    pub(super) fn kept(&self) -> Option<Kept> {
        self.status.is_final().then(|| Kept {
            hash_version: self.hash_version,
            hash: self.request_hash.clone(),
            remains: self.expires_at.since(self.asked_at),
        })
    }

    /// As people see it; `None` if its time is over.
    pub(super) fn view(self) -> Option<Record> {
        let standing = self.standing();
        if standing.is_over() {
            return None;
        }
        let status = if standing.becomes_unknown() { Status::Unknown } else { self.status };
        let is_open = matches!(status, Status::InProgress | Status::Unknown);
        // What may be held for ever has no end; what may be taken over has one.
        let is_kept = status == Status::Unknown || standing.live && self.status == Status::InProgress;
        Some(Record {
            status,
            epoch: self.epoch,
            attempts: self.attempts,
            attempts_max: self.attempts_max,
            on_lapse: self.on_lapse,
            lease_expires_at: self.lease_expires_at.filter(|_| is_open),
            lease_live: self.status == Status::InProgress && standing.live,
            request_hash: format!("{}:{}", self.hash_version, self.request_hash),
            created_at: self.created_at,
            updated_at: self.updated_at,
            expires_at: Some(self.expires_at).filter(|_| !is_kept),
            outcome: self.outcome().ok(),
            owner: self.owner,
            identity: self.identity,
        })
    }
}

/// Most rows that one call passes over because they cannot be read.
pub(super) const UNREADABLE_MAX: usize = 10_000;

/// Rows, of which some may be such as no call of this release can have written.
pub(super) struct Batch {
    pub(super) held: Vec<StoredRow>,
    /// The numbers of the records that could not be read.
    pub(super) unreadable: Vec<i64>,
    /// Where it ends, readable or not.
    pub(super) last: Option<Last>,
    /// Rows that were looked at.
    pub(super) rows: usize,
}

/// Where a row stands, by its names and in the order in which records were begun.
pub(super) struct Last {
    pub(super) names: [String; 3],
    pub(super) record: i64,
}

impl Batch {
    /// Reads what can be read, up to `held_max` records. Only a table that is not the ledger's is an error: one row
    /// must not keep all others from being swept or listed.
    pub(super) fn read(rows: &[Row], held_max: usize) -> Result<Self, LedgerError> {
        let mut batch = Self { held: Vec::new(), unreadable: Vec::new(), last: None, rows: 0 };
        for row in rows {
            if batch.held.len() == held_max {
                break;
            }
            batch.rows += 1;
            match StoredRow::read(row) {
                Ok(held) => batch.held.extend(held),
                Err(LedgerError::Corrupt(why)) => {
                    let record: i64 = get(row, "record")?;
                    // One is enough to start from; there may be thousands of the same kind.
                    if batch.unreadable.is_empty() {
                        tracing::warn!(record, why, "a row of the ledger cannot be read and is passed over");
                    }
                    batch.unreadable.push(record);
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(row) = rows[..batch.rows].last() {
            batch.last = Some(Last {
                names: [get(row, "principal")?, get(row, "grpc_method")?, get(row, "idempotency_key")?],
                record: get(row, "record")?,
            });
        }
        Ok(batch)
    }
}

/// The identity that a row is about. One whose names are not what the identity makes of them is found by no caller.
fn identity_of(principal: &str, method: &str, key: &str) -> Result<Identity, LedgerError> {
    let identity = Identity::new(principal, method, key)
        .map_err(|error| LedgerError::Corrupt(format!("a row whose identity is none: {error}")))?;
    if (identity.principal(), identity.method(), identity.key()) == (principal, method, key) {
        return Ok(identity);
    }
    Err(LedgerError::Corrupt(format!("a row with blanks around a part of its identity: {identity}")))
}

/// A column's value; the table is not the ledger's if there is none of that name and type.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a impl Cells, column: &str) -> Result<T, LedgerError> {
    row.cell(Place::Named(column)).map_err(|misfit| LedgerError::NotMigrated(misfit.to_string()))
}

/// As [`get`], by its place.
pub(super) fn at<'a, T: FromSql<'a>>(row: &'a Row, place: usize) -> Result<T, LedgerError> {
    row.cell(Place::At(place)).map_err(|misfit| LedgerError::NotMigrated(misfit.to_string()))
}

fn count(row: &Row, column: &str) -> Result<u32, LedgerError> {
    Ok(counted(column, Some(get(row, column)?))?.unwrap_or(0))
}

fn counted(column: &str, number: Option<i32>) -> Result<Option<u32>, LedgerError> {
    let Some(number) = number else { return Ok(None) };
    u32::try_from(number).map(Some).map_err(|_| LedgerError::Corrupt(format!("{column} is {number}")))
}

fn ttl_of(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

pub(super) fn status_of(word: &str, identity: &Identity) -> Result<Status, LedgerError> {
    words::status(word).ok_or_else(|| LedgerError::Corrupt(format!("the status {word:?} of {identity}")))
}

fn on_lapse_of(word: &str, identity: &Identity) -> Result<OnLapse, LedgerError> {
    let strange = || LedgerError::Corrupt(format!("the lapse policy {word:?} of {identity}"));
    words::on_lapse(word).ok_or_else(strange)
}

fn headers_of(json: Option<&str>, identity: &Identity) -> Result<BTreeMap<String, String>, LedgerError> {
    let headers = json.map(serde_json::from_str).transpose();
    let strange = |error| LedgerError::Corrupt(format!("the response headers of {identity}: {error}"));
    headers.map(Option::unwrap_or_default).map_err(strange)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_timestamp_is_too_far_away() {
        for (micros, expected) in [
            (0, EPOCH_2000_US),
            (i64::MAX, i64::MAX),
            (i64::MIN, i64::MIN + EPOCH_2000_US),
            (-EPOCH_2000_US, 0),
        ] {
            let stamp = Stamp::from_sql(&Type::TIMESTAMPTZ, &micros.to_be_bytes()).unwrap();
            assert_eq!(stamp.0.micros(), expected);
        }
        assert!(Stamp::from_sql(&Type::TIMESTAMPTZ, &[1, 2, 3]).is_err());
    }
}
