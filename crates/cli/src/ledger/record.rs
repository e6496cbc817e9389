//! A record of the ledger, for people and for programs.

use std::borrow::Cow;

use driftq_api::Moment;
use driftq_api::v2::{EffectOutcome, EffectState, EffectStatus, Headers};
use driftq_ledger::{End, OnLapse, Outcome, Record, Status};
use serde::Serialize;

use crate::{
    Columns, Facts, Now, cut, effect::describe::outcome as outcome_facts, or_dash, output::facts as facts_of,
    printable,
};

/// The word for it, the same as a server's.
pub(super) const fn status(status: Status) -> &'static str {
    match status {
        Status::InProgress => EffectState::InProgress.name(),
        Status::Succeeded => EffectState::Succeeded.name(),
        Status::FailedFinal => EffectState::FailedFinal.name(),
        Status::FailedRetryable => EffectState::FailedRetryable.name(),
        Status::Unknown => EffectState::Unknown.name(),
    }
}

/// A record as JSON has it. What the server's effects have, too, is named as there.
#[derive(Serialize)]
pub(super) struct Shown<'a> {
    principal: &'a str,
    method: &'a str,
    key: &'a str,
    status: &'static str,
    epoch: u32,
    attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts_max: Option<u32>,
    on_lapse: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_expires_at: Option<Moment>,
    lease_live: bool,
    request_hash: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a str>,
    created_at: Moment,
    updated_at: Moment,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<EffectOutcome<'a>>,
}

impl<'a> Shown<'a> {
    pub(super) fn new(record: &'a Record) -> Self {
        Self {
            principal: record.identity.principal(),
            method: record.identity.method(),
            key: record.identity.key(),
            status: status(record.status),
            epoch: record.epoch,
            attempts: record.attempts,
            attempts_max: record.attempts_max,
            on_lapse: driftq_ledger::words::of_on_lapse(record.on_lapse),
            lease_expires_at: record.lease_expires_at.map(moment),
            lease_live: record.lease_live,
            request_hash: &record.request_hash,
            owner: record.owner.as_deref(),
            created_at: moment(record.created_at),
            updated_at: moment(record.updated_at),
            expires_at: record.expires_at.map(moment),
            outcome: record.outcome.as_ref().map(outcome),
        }
    }
}

/// The same point in time as the wire writes it.
pub(super) fn moment(moment: driftq_ledger::Moment) -> Moment {
    let micros = moment.micros();
    let nanos = u32::try_from(micros.rem_euclid(1_000_000) * 1000).unwrap_or(0);
    Moment::saturating_from_parts(micros.div_euclid(1_000_000), nanos)
}

/// What came of it, as the server would show it.
fn outcome(outcome: &Outcome) -> EffectOutcome<'_> {
    let pairs = outcome.response.headers.iter();
    let shown = EffectOutcome {
        payload_hidden: false,
        status: match outcome.end {
            End::Succeeded => EffectStatus::Succeeded,
            End::FailedFinal => EffectStatus::FailedFinal,
            End::FailedRetryable => EffectStatus::FailedRetryable,
        },
        code: outcome.response.code,
        headers: Headers::stored(
            pairs.map(|(name, value)| (Cow::Borrowed(&**name), Cow::Borrowed(&**value))).collect(),
        ),
        body: None,
        body_b64: None,
        error: Cow::Borrowed(&outcome.error),
        finished_at: moment(outcome.finished_at),
        epoch: u64::from(outcome.epoch),
        attempt: outcome.attempt,
        resolved_by: outcome.resolved.as_ref().map(|resolver| Cow::Borrowed(&*resolver.by)),
        resolved_why: outcome.resolved.as_ref().map(|resolver| Cow::Borrowed(&*resolver.why)),
    };
    if outcome.response.payload.is_empty() { shown } else { shown.with_bytes(&outcome.response.payload) }
}

/// What a list shows.
pub(super) const RECORDS: Columns<Record> = &[
    ("PRINCIPAL", |record, _| printable(record.identity.principal())),
    ("METHOD", |record, _| printable(record.identity.method())),
    ("KEY", |record, _| printable(record.identity.key())),
    ("STATUS", |record, _| status(record.status).to_owned()),
    ("ATTEMPTS", |record, _| record.attempts.to_string()),
    ("OWNER", |record, _| or_dash(record.owner.as_deref().map(printable))),
    ("CHANGED", |record, now| now.tell(moment(record.updated_at))),
    ("NOTE", note),
];

const FACTS: Columns<Record> = &[
    ("principal", |record, _| printable(record.identity.principal())),
    ("method", |record, _| printable(record.identity.method())),
    ("key", |record, _| printable(record.identity.key())),
    ("status", |record, _| format!("{}: {}", status(record.status), meaning(record))),
    ("attempts", |record, _| match record.attempts_max {
        Some(most) => format!("{} of {most}", record.attempts),
        None => record.attempts.to_string(),
    }),
    ("epoch", |record, _| record.epoch.to_string()),
    ("on lapse", |record, _| match record.on_lapse {
        OnLapse::Hold => "hold: it becomes unknown".to_owned(),
        OnLapse::Retry => "retry: the next begin runs it again".to_owned(),
    }),
    ("owner", |record, _| record.owner.as_deref().map(printable).unwrap_or_default()),
    ("request hash", |record, _| printable(&record.request_hash)),
    ("first begun", |record, now| now.show(moment(record.created_at))),
    ("last change", |record, now| now.show(moment(record.updated_at))),
];

/// Everything about it, one fact per line.
pub(super) fn facts(record: &Record, now: Now) -> Facts {
    let mut facts = facts_of(FACTS, record, now);
    let lease = if record.lease_live { "lease ends" } else { "lease ended" };
    facts.extend(record.lease_expires_at.map(|at| (lease, now.show(moment(at)))));
    facts.extend(record.expires_at.map(|at| ("forgotten", now.show(moment(at)))));
    facts.extend(record.outcome.iter().flat_map(|ended| outcome_facts(&outcome(ended), now)));
    facts
}

/// What its status means for the next caller.
const fn meaning(record: &Record) -> &'static str {
    match record.status {
        Status::InProgress if record.lease_live => "a caller runs it",
        Status::InProgress => "its lease has lapsed, and the next begin takes over",
        Status::Succeeded => "it happened, and is replayed to every later begin",
        Status::FailedFinal => "it did not happen and never will",
        Status::FailedRetryable => "it did not happen, and may be tried again",
        Status::Unknown => "it may have happened; find out, then `driftq ledger resolve`",
    }
}

/// What is worth knowing about it in a list.
fn note(record: &Record, now: Now) -> String {
    let lease = |words: &str| {
        record.lease_expires_at.map_or_else(String::new, |at| format!("{words} {}", now.tell(moment(at))))
    };
    match (record.status, &record.outcome) {
        (Status::InProgress, _) if record.lease_live => lease("lease ends"),
        (Status::InProgress, _) => lease("lease ended"),
        (Status::Unknown, _) => "it may have happened: resolve it".to_owned(),
        (_, Some(outcome)) if !outcome.error.is_empty() => cut(&printable(&outcome.error)),
        (_, Some(outcome)) => outcome
            .resolved
            .as_ref()
            .map_or_else(String::new, |resolver| format!("resolved by {}", printable(&resolver.by))),
        (_, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_the_same_on_both_sides_of_1970() {
        for (micros, text) in [
            (1_766_318_400_000_001, "2025-12-21T12:00:00.000001Z"),
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
        ] {
            assert_eq!(moment(driftq_ledger::Moment::from_micros(micros)).to_string(), text);
        }
    }
}
