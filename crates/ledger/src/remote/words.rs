//! The ledger's types in the terms of the server's API, and back.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use driftq_api::v2::{
    self, CommitResult, Effect, EffectDecision, EffectOutcome, EffectResult, EffectState, EffectStatus,
    Headers,
};
use driftq_http::escape;
use driftq_rules::Standing;

use crate::{
    Decision, End, Ending, Filter, Finished, Identity, Lease, LedgerError, Moment, OnLapse, Outcome, Proof,
    Record, Resolver, Response, Status, Terms,
};

/// Whole milliseconds, so that nothing ends before what was asked for.
pub(super) fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

pub(super) fn moment(moment: driftq_api::Moment) -> Moment {
    let (seconds, nanos) = moment.parts();
    Moment::from_micros(seconds.saturating_mul(1_000_000).saturating_add(i64::from(nanos / 1000)))
}

pub(super) const fn on_lapse(on_lapse: OnLapse) -> v2::OnLapse {
    match on_lapse {
        OnLapse::Retry => v2::OnLapse::Retry,
        OnLapse::Hold => v2::OnLapse::Hold,
    }
}

const fn state(status: Status) -> EffectState {
    match status {
        Status::InProgress => EffectState::InProgress,
        Status::Succeeded => EffectState::Succeeded,
        Status::FailedFinal => EffectState::FailedFinal,
        Status::FailedRetryable => EffectState::FailedRetryable,
        Status::Unknown => EffectState::Unknown,
    }
}

const fn status(state: EffectState) -> Status {
    match state {
        EffectState::InProgress => Status::InProgress,
        EffectState::Succeeded => Status::Succeeded,
        EffectState::FailedFinal => Status::FailedFinal,
        EffectState::FailedRetryable => Status::FailedRetryable,
        EffectState::Unknown => Status::Unknown,
    }
}

pub(super) const fn finished(result: CommitResult) -> Finished {
    match result {
        CommitResult::Committed => Finished::Committed,
        CommitResult::AlreadyCommitted => Finished::AlreadyCommitted,
    }
}

/// An epoch, for which the wire leaves more room than any record needs.
fn epoch(epoch: u64) -> Result<u32, LedgerError> {
    u32::try_from(epoch).map_err(|_| LedgerError::Corrupt(format!("the server speaks of epoch {epoch}")))
}

/// How an effect ended, as the server takes it.
pub(super) fn result(ending: &Ending) -> Result<EffectResult<'_>, LedgerError> {
    let Response { code, headers, payload } = &ending.response;
    let pairs = headers.iter().map(|(name, value)| (Cow::Borrowed(&**name), Cow::Borrowed(&**value)));
    Ok(EffectResult {
        status: match ending.end {
            End::Succeeded => EffectStatus::Succeeded,
            End::FailedFinal => EffectStatus::FailedFinal,
            End::FailedRetryable => EffectStatus::FailedRetryable,
        },
        code: *code,
        headers: Headers::new(pairs.collect()).map_err(LedgerError::Invalid)?,
        // The ledger does not tell an empty payload from none.
        body: Some(Cow::Borrowed(&**payload)).filter(|payload| !payload.is_empty()),
        error: Cow::Borrowed(&ending.error),
    })
}

/// A decision for a caller that asked on these terms.
pub(super) fn decision(
    decision: EffectDecision<'static>,
    identity: &Identity,
    terms: &Terms,
) -> Result<Decision, LedgerError> {
    Ok(match decision {
        EffectDecision::Execute { lease } => Decision::Execute(Lease {
            identity: identity.clone(),
            epoch: epoch(lease.epoch)?,
            attempt: lease.attempt,
            expires_at: moment(lease.expires_at),
            lasts: terms.lease,
            ttl: terms.ttl,
            proof: Proof::Token(lease.token.into_owned()),
        }),
        EffectDecision::Replay { outcome: found } => Decision::Replay(outcome(&found)?),
        EffectDecision::InProgress { retry_after_ms, epoch: live, attempt } => Decision::InProgress {
            retry_after: Duration::from_millis(retry_after_ms),
            epoch: epoch(live)?,
            attempt,
        },
        EffectDecision::Retryable { outcome: found, attempts_left, .. } => {
            Decision::Retryable { outcome: outcome(&found)?, attempts_left }
        }
        EffectDecision::Unknown { epoch: lapsed, attempt, since } => {
            Decision::Unknown { epoch: epoch(lapsed)?, attempt, since: moment(since) }
        }
    })
}

fn outcome(found: &EffectOutcome<'_>) -> Result<Outcome, LedgerError> {
    let payload = match (&found.body, &found.body_b64) {
        (None, None) => Vec::new(),
        _ => {
            let broken = || LedgerError::Corrupt("the server sends a body that is no base64".to_owned());
            found.bytes().ok_or_else(broken)?.into_owned()
        }
    };
    let pairs = found.headers.pairs().iter();
    Ok(Outcome {
        end: match found.status {
            EffectStatus::Succeeded => End::Succeeded,
            EffectStatus::FailedFinal => End::FailedFinal,
            EffectStatus::FailedRetryable => End::FailedRetryable,
        },
        response: Response {
            code: found.code,
            headers: pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            payload: payload.into(),
        },
        error: found.error.to_string(),
        finished_at: moment(found.finished_at),
        epoch: epoch(found.epoch)?,
        attempt: found.attempt,
        resolved: found.resolved_by.as_deref().map(|by| Resolver {
            by: by.to_owned(),
            why: found.resolved_why.as_deref().unwrap_or_default().to_owned(),
        }),
    })
}

/// A record as the server shows it.
pub(super) fn record(effect: &Effect<'_>, identity: Identity) -> Result<Record, LedgerError> {
    let on_lapse = match effect.on_lapse {
        v2::OnLapse::Retry => OnLapse::Retry,
        v2::OnLapse::Hold => OnLapse::Hold,
    };
    let standing = Standing {
        status: status(effect.state),
        epoch: epoch(effect.epoch)?,
        attempts: effect.attempt,
        attempts_max: effect.max_attempts,
        on_lapse,
        live: effect.lease_live.unwrap_or(false),
        expired: false,
        released: effect.released,
    };
    let outcome = effect.outcome.as_ref().map(outcome).transpose()?;
    let changes = [Some(effect.begun_at), effect.unknown_since].into_iter().flatten().map(moment);
    let updated_at = changes.chain(outcome.as_ref().map(|outcome| outcome.finished_at)).max();
    Ok(Record {
        identity,
        // The server writes down a little after the lapse what no caller may repeat.
        status: if standing.becomes_unknown() { Status::Unknown } else { standing.status },
        epoch: standing.epoch,
        attempts: standing.attempts,
        attempts_max: standing.attempts_max,
        on_lapse,
        // Of what is unknown the server says since when, which is when the lease ended or a little after.
        lease_expires_at: effect.lease_expires_at.or(effect.unknown_since).map(moment),
        lease_live: standing.live,
        request_hash: effect.request_hash.as_deref().unwrap_or_default().to_owned(),
        owner: Some(effect.owner.to_string()).filter(|owner| !owner.is_empty()),
        created_at: moment(effect.created_at),
        updated_at: updated_at.unwrap_or_else(|| moment(effect.begun_at)),
        expires_at: effect.expires_at.map(moment),
        outcome,
    })
}

/// The path that lists what a filter wants.
pub(super) fn listing(filter: &Filter) -> String {
    let mut path = format!("/v2/effects?limit={}", filter.limit);
    let mut with = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            // Writing into a string cannot fail.
            let _ = write!(path, "&{name}={}", escape(value));
        }
    };
    with("state", filter.status.map(|status| state(status).name()));
    with("tenant_id", filter.principal.as_deref());
    with("scope", filter.method.as_deref());
    with("cursor", filter.cursor.as_deref());
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_never_get_shorter() {
        for (nanos, millis) in [(0, 0), (1, 1), (1_000_000, 1), (1_000_001, 2), (1_999_999, 2)] {
            assert_eq!(whole_ms(Duration::from_nanos(nanos)), millis, "{nanos} ns");
        }
        assert_eq!(
            whole_ms(crate::LEASE_MAX),
            v2::LEASE_MS_MAX,
            "the longest lease is one that the server gives"
        );
        assert_eq!(whole_ms(crate::TTL_MAX), v2::DURATION_MS_MAX);
        assert_eq!(whole_ms(Duration::MAX), u64::MAX);
    }

    #[test]
    fn filters_stay_in_their_places() {
        let filter = Filter {
            status: Some(Status::FailedRetryable),
            principal: Some("a&b=c".to_owned()),
            method: Some("POST /päy".to_owned()),
            cursor: Some("00ff".to_owned()),
            limit: 7,
        };
        let expected = "/v2/effects?limit=7&state=failed_retryable&tenant_id=a%26b%3Dc&scope=POST%20%2Fp%C3%A4y&cursor=00ff";
        assert_eq!(listing(&filter), expected);
    }

    fn effect(text: &str) -> Effect<'static> {
        let whole = format!(
            r#"{{"tenant_id":"p","scope":"m","key":"k","epoch":1,"attempt":1,"created_at":"2025-12-21T12:00:00Z",
                "begun_at":"2025-12-21T12:00:01.0000019Z",{text}}}"#
        );
        serde_json::from_str(&whole).unwrap()
    }

    fn read(text: &str) -> Result<Record, LedgerError> {
        record(&effect(text), Identity::new("p", "m", "k").unwrap())
    }

    #[test]
    fn a_lapsed_lease_is_unknown_or_not_by_the_rules() {
        let lapsed = |more: &str| {
            let text = format!(
                r#""state":"in_progress","lease_expires_at":"2025-12-21T12:00:02Z","lease_live":false,{more}"#
            );
            read(&text).unwrap()
        };
        assert_eq!(lapsed(r#""on_lapse":"hold""#).status, Status::Unknown);
        assert_eq!(lapsed(r#""on_lapse":"retry","max_attempts":1"#).status, Status::Unknown);
        let open = lapsed(r#""on_lapse":"retry","max_attempts":2"#);
        assert_eq!((open.status, open.lease_live, open.owner), (Status::InProgress, false, None));
        assert_eq!(open.updated_at.micros() % 1_000_000, 1, "cut off, not rounded");
    }

    #[test]
    fn what_makes_no_sense_is_corrupt() {
        let ended = |more: &str| {
            let text = format!(
                r#""state":"succeeded","on_lapse":"hold","outcome":{{"status":"succeeded","attempt":1,
                    "finished_at":"2025-12-21T12:00:05Z",{more}}}"#
            );
            read(&text)
        };
        let whole = ended(r#""epoch":1,"body_b64":"/wA=""#).unwrap();
        assert_eq!(&*whole.outcome.unwrap().response.payload, [0xff, 0]);
        assert_eq!(ended(r#""epoch":1,"body_b64":"*""#).unwrap_err().word(), "corrupt");
        assert_eq!(ended(r#""epoch":4294967296"#).unwrap_err().word(), "corrupt");
    }
}
