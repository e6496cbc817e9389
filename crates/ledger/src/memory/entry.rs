//! One record in memory.

use std::time::Duration;

use driftq_rules::Standing;
use tokio::sync::watch;

use crate::asker::{Asker, Compared};
use crate::audit::Trace;
use crate::{
    Ending, Identity, Kept, Lease, Moment, OnLapse, Outcome, Proof, Record, RequestHash, Resolver, Status,
    Terms,
};

/// What is kept of an effect.
pub(super) struct Entry {
    /// Tells it apart from an earlier record of the same effect.
    pub(super) number: i64,
    pub(super) identity: Identity,
    pub(super) hash_version: u16,
    pub(super) hash_digest: String,
    pub(super) status: Status,
    pub(super) epoch: u32,
    pub(super) attempts: u32,
    pub(super) attempts_max: Option<u32>,
    pub(super) on_lapse: OnLapse,
    /// The call that got the newest lease.
    pub(super) call: Option<String>,
    pub(super) owner: Option<String>,
    pub(super) created_at: Moment,
    pub(super) updated_at: Moment,
    pub(super) lease_expires_at: Moment,
    /// How long the newest lease lasted when it was given.
    pub(super) lasts: Duration,
    pub(super) ttl: Duration,
    /// Since when the outcome is unknown, if that is written down.
    pub(super) unknown_since: Option<Moment>,
    pub(super) outcome: Option<Outcome>,
    /// Of the ending, to recognise it.
    pub(super) digest: Option<[u8; 16]>,
    /// Waiters for a change listen to this; dropping it wakes them.
    pub(super) changed: Option<watch::Sender<()>>,
}

/// The lease that an asker gets.
pub(super) struct Lent<'a> {
    pub(super) epoch: u32,
    pub(super) attempt: u32,
    pub(super) terms: &'a Terms,
    pub(super) call: Option<&'a str>,
    pub(super) owner: Option<&'a str>,
}

impl<'a> Lent<'a> {
    pub(super) const fn of(asker: &Asker<'a>, epoch: u32, attempt: u32) -> Self {
        Self { epoch, attempt, terms: asker.terms, call: asker.call, owner: asker.owner }
    }
}

impl Entry {
    pub(super) fn compared(&self) -> Compared<'_> {
        Compared {
            hash_version: self.hash_version,
            hash: &self.hash_digest,
            call: self.call.as_deref(),
            owner: self.owner.as_deref(),
        }
    }

    pub(super) fn new(
        number: i64,
        identity: Identity,
        hash: &RequestHash,
        lent: &Lent<'_>,
        now: Moment,
    ) -> Self {
        let mut entry = Self {
            number,
            identity,
            hash_version: hash.version(),
            hash_digest: hash.digest().to_owned(),
            status: Status::InProgress,
            epoch: 0,
            attempts: 0,
            attempts_max: None,
            on_lapse: lent.terms.on_lapse,
            call: None,
            owner: None,
            created_at: now,
            updated_at: now,
            lease_expires_at: now,
            lasts: Duration::ZERO,
            ttl: lent.terms.ttl,
            unknown_since: None,
            outcome: None,
            digest: None,
            changed: None,
        };
        entry.lend(lent, now);
        entry
    }

    pub(super) const fn trace(&self) -> Trace {
        Trace { status: self.status, epoch: self.epoch, attempts: self.attempts }
    }

    /// A lease begins.
    pub(super) fn lend(&mut self, lent: &Lent<'_>, now: Moment) {
        self.status = Status::InProgress;
        self.epoch = lent.epoch;
        self.attempts = lent.attempt;
        // An operator may have allowed more than the asker knows of.
        self.attempts_max = self.attempts_max.max(lent.terms.attempts_max);
        self.on_lapse = lent.terms.on_lapse;
        self.call = lent.call.map(str::to_owned);
        self.owner = lent.owner.map(str::to_owned);
        self.updated_at = now;
        self.lease_expires_at = now.after(lent.terms.lease);
        self.lasts = lent.terms.lease;
        self.ttl = lent.terms.ttl;
        self.outcome = None;
        self.digest = None;
    }

    /// It is to last for `lasts` from now, and at least for as long as it would have.
    pub(super) fn renew(&mut self, lasts: Duration, now: Moment) {
        self.status = Status::InProgress;
        self.unknown_since = None;
        self.lease_expires_at = self.lease_expires_at.max(now.after(lasts));
        self.updated_at = now;
    }

    /// Its holder never got to know of its lease: it may be run as if that had not been given.
    pub(super) fn release(&mut self, epoch: u32, now: Moment) {
        self.status = Status::InProgress;
        self.unknown_since = None;
        self.epoch = epoch;
        self.attempts = self.attempts.saturating_sub(1);
        self.on_lapse = OnLapse::Retry;
        self.lease_expires_at = now;
        self.updated_at = now;
        (self.call, self.owner) = (None, None);
    }

    pub(super) fn end(&mut self, ending: &Ending, resolved: Option<Resolver>, now: Moment) {
        self.status = ending.end.into();
        self.unknown_since = None;
        self.updated_at = now;
        self.digest = Some(ending.digest());
        self.outcome = Some(Outcome {
            end: ending.end,
            response: ending.response.clone(),
            error: ending.error.clone(),
            finished_at: now,
            epoch: self.epoch,
            attempt: self.attempts,
            resolved,
        });
    }

    /// Its lease lapsed, and no caller may repeat it.
    pub(super) fn hold(&mut self, now: Moment) {
        self.status = Status::Unknown;
        self.unknown_since = Some(now);
        self.updated_at = now;
    }

    /// Whether the record holds exactly this ending, said by a worker or by this resolver. Who says it belongs to it:
    /// if an operator repeats what a worker said, that is news, and may grant an attempt.
    pub(super) fn holds(&self, ending: &Ending, resolver: Option<&Resolver>) -> bool {
        let said_by = self.outcome.as_ref().map(|outcome| outcome.resolved.as_ref());
        self.digest == Some(ending.digest()) && said_by == Some(resolver)
    }

    pub(super) fn standing(&self, now: Moment) -> Standing {
        Standing {
            status: self.status,
            epoch: self.epoch,
            attempts: self.attempts,
            attempts_max: self.attempts_max,
            on_lapse: self.on_lapse,
            live: self.status == Status::InProgress && self.lease_expires_at > now,
            expired: self.expires_at().is_some_and(|at| at <= now),
            released: false,
        }
    }

    /// When the time of the record is over, if it has not changed by then.
    fn expires_at(&self) -> Option<Moment> {
        match self.status {
            Status::Unknown => None,
            Status::InProgress => Some(self.lease_expires_at.after(self.ttl)),
            Status::Succeeded | Status::FailedFinal | Status::FailedRetryable => {
                self.outcome.as_ref().map(|outcome| outcome.finished_at.after(self.ttl))
            }
        }
    }

    /// What a cache has to know about it.
    pub(super) fn kept(&self, now: Moment) -> Option<Kept> {
        Some(Kept {
            hash_version: self.hash_version,
            hash: self.hash_digest.clone(),
            remains: self.expires_at()?.since(now),
        })
    }

    /// When a sweep finds something to do about it, if it has not changed by then.
    pub(super) fn due_at(&self) -> Option<Moment> {
        let lapsed = self.standing(Moment::from_micros(i64::MAX));
        match lapsed.becomes_unknown() {
            true => Some(self.lease_expires_at),
            false => self.expires_at(),
        }
    }

    /// Since when it is unknown whether it happened.
    pub(super) fn unknown_since(&self) -> Moment {
        self.unknown_since.unwrap_or(self.lease_expires_at)
    }

    pub(super) fn lease(&self) -> Lease {
        Lease {
            identity: self.identity.clone(),
            epoch: self.epoch,
            attempt: self.attempts,
            expires_at: self.lease_expires_at,
            lasts: self.lasts,
            ttl: self.ttl,
            proof: Proof::Record(self.number),
        }
    }

    /// What people see of it.
    pub(super) fn view(&self, now: Moment) -> Record {
        let standing = self.standing(now);
        let status = if standing.becomes_unknown() { Status::Unknown } else { self.status };
        let is_open = matches!(status, Status::InProgress | Status::Unknown);
        let may_have_happened = standing.live || status == Status::Unknown;
        Record {
            identity: self.identity.clone(),
            status,
            epoch: self.epoch,
            attempts: self.attempts,
            attempts_max: self.attempts_max,
            on_lapse: self.on_lapse,
            lease_expires_at: is_open.then_some(self.lease_expires_at),
            lease_live: standing.live,
            request_hash: format!("{}:{}", self.hash_version, self.hash_digest),
            owner: self.owner.clone(),
            created_at: self.created_at,
            updated_at: self.updated_at,
            expires_at: self.expires_at().filter(|_| !may_have_happened),
            outcome: self.outcome.clone(),
        }
    }
}
