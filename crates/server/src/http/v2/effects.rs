//! The ledger of effects.

use std::borrow::Cow;

use driftq_api::Fault;
use driftq_api::v2::{
    CommitResult, Effect, EffectBegin, EffectBeginCall, EffectBegins, EffectBegun, EffectDecision,
    EffectFinish, EffectFinished, EffectGet, EffectLease, EffectOutcome, EffectReacquire, EffectRelease,
    EffectReleased, EffectRenew, EffectRenewed, EffectResolve, EffectResult, EffectState, EffectStatus,
    Effects, EffectsBegun, EffectsQuery, Headers, LastOutcome, MessagePlace, OnLapse, ReleaseResult,
    encode_place,
};
use driftq_engine::core::{About, EffectReceipt, EffectView, Ending, Time, Urge, ledger};
use driftq_engine::{Begun, EffectCall, EffectEnd, EffectEnded, EffectFilter, SeenEffect};
use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER};

use super::entities::taken_expected;
use super::traced::{cause, tell};
use super::words::moment;
use super::{Request, fault};
use crate::http::answer::{json, written};
use crate::http::audit::{about, noted, of_tenant};
use crate::http::v1::Handled;

pub(super) async fn begin(request: &Request<'_>) -> Handled {
    match EffectBeginCall::from_json(request.json()?)? {
        EffectBeginCall::One(asked) => {
            let urge = urge_of(&asked);
            decide(request, *asked, urge).await
        }
        EffectBeginCall::Many(asked) => Box::pin(begin_many(request, asked)).await,
    }
}

pub(super) async fn reacquire(request: &Request<'_>) -> Handled {
    let asked = EffectReacquire::from_json(request.json()?)?;
    decide(request, asked.into_begin(), Urge::Reacquire).await
}

const fn urge_of(asked: &EffectBegin<'_>) -> Urge {
    if asked.reacquire { Urge::BeginOrReacquire } else { Urge::Begin }
}

async fn decide(request: &Request<'_>, asked: EffectBegin<'_>, urge: Urge) -> Handled {
    request.no_query()?;
    let mut call = taken_begin(request, asked, urge, request.key()?)?;
    let inherited = request.app.broker.inherit(std::slice::from_mut(&mut call)).await;
    inherited.map_err(|failure| fault(&failure))?;
    take_tenant(request, &mut call)?;
    let traced = cause(request, &call);
    let begun = request.app.broker.begin_effect(&call).await.map_err(|failure| fault(&failure));
    if let Some(traced) = traced {
        tell(traced, &call, begun.as_ref());
    }
    let begun = begun?;
    let decision = decision(request, &begun)?;
    let mut answer = json(StatusCode::OK, &decision);
    if let EffectDecision::InProgress { retry_after_ms, .. } = decision {
        let seconds = retry_after_ms.div_ceil(1000).max(1);
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    Ok(answer)
}

/// Begins several effects. What is wrong with one of them is its own result.
async fn begin_many(request: &Request<'_>, asked: EffectBegins<'_>) -> Handled {
    request.no_query()?;
    let header = request.key()?;
    let mut faults = Vec::with_capacity(asked.effects.len());
    let mut calls = Vec::with_capacity(asked.effects.len());
    for (place, effect) in asked.effects.into_iter().enumerate() {
        let (urge, name) = (urge_of(&effect), header.as_ref().map(|header| format!("{header}/{place}")));
        match taken_begin(request, effect, urge, name) {
            Ok(call) => {
                calls.push(call);
                faults.push(None);
            }
            Err(fault) => faults.push(Some(fault)),
        }
    }
    request.app.broker.inherit(&mut calls).await.map_err(|failure| fault(&failure))?;
    let mut open = faults.iter_mut().filter(|refused| refused.is_none());
    calls.retain_mut(|call| {
        let (refused, taken) = (open.next(), take_tenant(request, call));
        let is_taken = taken.is_ok();
        if let Some(refused) = refused {
            *refused = taken.err();
        }
        is_taken
    });
    let begun = begin_all(request, &calls).await?;
    let mut begun = begun.into_iter();
    let results: Vec<Result<Begun, Fault>> = faults
        .into_iter()
        .filter_map(|refused| match refused {
            Some(refused) => Some(Err(refused)),
            None => begun.next().map(|begun| begun.map_err(|failure| fault(&failure))),
        })
        .collect();
    let decided: Vec<Result<EffectDecision<'_>, Fault>> = results
        .iter()
        .map(|result| result.as_ref().map_err(Fault::clone).and_then(|begun| decision(request, begun)))
        .collect();
    let results = decided.iter().map(|decided| match decided {
        Ok(decision) => EffectBegun::Decided(decision.clone()),
        Err(fault) => EffectBegun::refused(fault),
    });
    let begun = EffectsBegun { results: results.collect() };
    Ok(written(StatusCode::OK, |out| begun.write(out)))
}

async fn begin_all(
    request: &Request<'_>,
    calls: &[EffectCall<'_>],
) -> Result<Vec<Result<Begun, driftq_engine::Failure>>, Fault> {
    if calls.is_empty() {
        return Ok(Vec::new());
    }
    let traced: Vec<_> = calls.iter().map(|call| cause(request, call)).collect();
    let begun = request.app.broker.begin_effects(calls).await.map_err(|failure| fault(&failure))?;
    for (traced, (call, begun)) in traced.into_iter().zip(calls.iter().zip(&begun)) {
        let Some(traced) = traced else { continue };
        match begun {
            Ok(begun) => tell(traced, call, Ok(begun)),
            Err(failure) => tell(traced, call, Err(&fault(failure))),
        }
    }
    Ok(begun)
}

/// As whom an effect is begun: the tenant that the call names or that the message has, which must be the caller's.
fn take_tenant(request: &Request<'_>, call: &mut EffectCall<'_>) -> Result<(), Fault> {
    call.about.tenant = request.tenant(std::mem::take(&mut call.about.tenant))?;
    Ok(())
}

/// A begin as the broker takes it. `name` is what names the call if the begin itself does not.
fn taken_begin<'a>(
    request: &Request<'_>,
    asked: EffectBegin<'a>,
    urge: Urge,
    name: Option<String>,
) -> Result<EffectCall<'a>, Fault> {
    let delivery = match &asked.lease_token {
        None => None,
        Some(token) => Some(request.app.broker.receipt(token).ok_or_else(unknown_lease)?),
    };
    Ok(EffectCall {
        about: About {
            tenant: asked.tenant_id,
            scope: asked.scope,
            key: asked.key,
            request: asked.request_hash.unwrap_or_default(),
            run: asked.run_id.unwrap_or_default(),
            step: asked.step_id.unwrap_or_default(),
        },
        lease_ms: asked.lease_ms,
        ttl_ms: asked.ttl_ms,
        on_lapse: match asked.on_lapse {
            OnLapse::Retry => ledger::OnLapse::Retry,
            OnLapse::Hold => ledger::OnLapse::Hold,
        },
        attempts_max: asked.max_attempts,
        urge,
        wait_ms: asked.wait_ms,
        request_id: asked.request_id.or_else(|| name.map(Cow::Owned)),
        owner: asked.owner,
        delivery,
        expect: asked.expect.into_iter().map(taken_expected).collect(),
    })
}

fn decision<'a>(request: &Request<'_>, begun: &'a Begun) -> Result<EffectDecision<'a>, Fault> {
    Ok(match begun {
        Begun::Execute(lease) => EffectDecision::Execute {
            lease: EffectLease {
                token: Cow::Owned(request.app.broker.effect_token(lease.receipt)),
                epoch: u64::from(lease.receipt.epoch),
                attempt: lease.attempt,
                expires_at: moment(lease.expires),
            },
        },
        Begun::Replay(seen) => EffectDecision::Replay { outcome: outcome(seen)?.ok_or_else(unreadable)? },
        Begun::Running { epoch, attempt, retry_after_ms } => EffectDecision::InProgress {
            retry_after_ms: *retry_after_ms,
            epoch: u64::from(*epoch),
            attempt: *attempt,
        },
        Begun::Retryable { seen, left } => EffectDecision::Retryable {
            outcome: outcome(seen)?.ok_or_else(unreadable)?,
            epoch: u64::from(seen.view.epoch),
            attempt: seen.view.attempts,
            attempts_left: *left,
        },
        Begun::Unknown(view) => EffectDecision::Unknown {
            epoch: u64::from(view.epoch),
            attempt: view.attempts,
            since: moment(view.ended.unwrap_or(view.until)),
        },
    })
}

pub(super) async fn finish(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let asked = EffectFinish::from_json(request.json()?)?;
    let receipt = receipt(request, &asked.token)?;
    let end = taken_result(asked.result);
    let ended = request.app.broker.finish_effect(receipt, &end).await.map_err(|failure| fault(&failure))?;
    if let Some(tracer) = &request.app.tracer {
        tracer.effect_ended(&receipt, status_name(end.status));
    }
    Ok(json(StatusCode::OK, &shown_end(ended)))
}

pub(super) async fn renew(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let asked = EffectRenew::from_json(request.json()?)?;
    let receipt = receipt(request, &asked.token)?;
    let renewed = request.app.broker.renew_effect(receipt, asked.lease_ms).await;
    let lease = renewed.map_err(|failure| fault(&failure))?;
    if let Some(tracer) = &request.app.tracer {
        tracer.effect_renewed(&lease.receipt, lease.expires);
    }
    let answer = EffectRenewed {
        expires_at: moment(lease.expires),
        epoch: u64::from(lease.receipt.epoch),
        attempt: lease.attempt,
    };
    Ok(json(StatusCode::OK, &answer))
}

pub(super) async fn release(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let asked = EffectRelease::from_json(request.json()?)?;
    let receipt = receipt(request, &asked.token)?;
    let released = request.app.broker.release_effect(receipt, asked.uncertain).await;
    let already = released.map_err(|failure| fault(&failure))?;
    if let Some(tracer) = &request.app.tracer {
        tracer.effect_ended(&receipt, "released");
    }
    let result = if already { ReleaseResult::AlreadyReleased } else { ReleaseResult::Released };
    Ok(json(StatusCode::OK, &EffectReleased { result }))
}

pub(super) async fn resolve(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let asked = EffectResolve::from_json(request.json()?)?;
    let mut end = taken_result(asked.result);
    end.ending.by = asked.by;
    end.ending.why = asked.why;
    // An epoch that no effect can have is not the newest one.
    let seen = asked.epoch.map(|epoch| u32::try_from(epoch).unwrap_or(0));
    let tenant = request.tenant(asked.tenant_id)?;
    let who = (&*tenant, &*asked.scope, &*asked.key);
    let ended = request.app.broker.resolve_effect(who, seen, &end).await;
    let answer = json(StatusCode::OK, &shown_end(ended.map_err(|failure| fault(&failure))?));
    let status = status_name(end.status);
    let detail = format!("{status}, by {:?}: {:?}", end.ending.by, end.ending.why);
    let answer = noted(answer, of_tenant(&tenant, &detail));
    Ok(about(answer, &["effects", &asked.scope, &asked.key]))
}

pub(super) async fn get(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let asked = EffectGet::from_json(request.json()?)?;
    let tenant = request.tenant(asked.tenant_id)?;
    let seen = request.app.broker.effect(&tenant, &asked.scope, &asked.key).await;
    let seen = seen.map_err(|failure| fault(&failure))?;
    let mut effect = shown(&seen)?;
    if !request.caller.sees_payloads() {
        effect = without_payload(effect, true);
    }
    Ok(json(StatusCode::OK, &effect))
}

pub(super) async fn list(request: &Request<'_>) -> Handled {
    let asked = EffectsQuery::from_query(request.query()?)?;
    let after = asked.section.after.as_deref().map_or(0, number_of);
    let filter = EffectFilter {
        after,
        limit: u32::try_from(asked.section.limit).unwrap_or(u32::MAX),
        status: asked.state.map(|state| match state {
            EffectState::InProgress => ledger::Status::InProgress,
            EffectState::Succeeded => ledger::Status::Succeeded,
            EffectState::FailedFinal => ledger::Status::FailedFinal,
            EffectState::FailedRetryable => ledger::Status::FailedRetryable,
            EffectState::Unknown => ledger::Status::Unknown,
        }),
        tenant: request.caller.tenant_or_all(asked.tenant_id)?,
        scope: asked.scope,
    };
    let sight = request.app.broker.effects(&filter).await.map_err(|failure| fault(&failure))?;
    let effects: Result<Vec<_>, Fault> = sight.seen.iter().map(brief).collect();
    let cursor = sight.next.map(|next| encode_place(&next.to_be_bytes()));
    let effects = effects?;
    // How many of others lie between them is not for one tenant to know.
    let is_whole = request.caller.tenants().is_none();
    let scanned = if is_whole { sight.scanned } else { effects.len() as u64 };
    Ok(json(StatusCode::OK, &Effects { effects, cursor, scanned }))
}

/// The number in a cursor. A cursor that the server never gave out still stands for some place.
pub(super) fn number_of(place: &[u8]) -> u64 {
    let mut number = [0; 8];
    for (byte, given) in number.iter_mut().zip(place) {
        *byte = *given;
    }
    u64::from_be_bytes(number)
}

/// The lease that a token names.
pub(super) fn receipt(request: &Request<'_>, token: &str) -> Result<EffectReceipt, Fault> {
    request.app.broker.effect_receipt(token).ok_or_else(unknown_lease)
}

pub(super) fn unknown_lease() -> Fault {
    Fault::new(driftq_api::Code::LeaseUnknown, "no lease has that token")
}

fn unreadable() -> Fault {
    tracing::error!("what the log keeps about an effect is not what was written");
    Fault::new(driftq_api::Code::Internal, "what is kept about the effect cannot be understood")
}

/// How an effect ended, in one word.
pub(super) const fn status_name(status: ledger::Status) -> &'static str {
    match status {
        ledger::Status::Succeeded => "succeeded",
        ledger::Status::FailedFinal => "failed_final",
        ledger::Status::FailedRetryable => "failed_retryable",
        ledger::Status::InProgress => "in_progress",
        ledger::Status::Unknown => "unknown",
    }
}

/// An ending as the broker takes it.
pub(super) fn taken_result(result: EffectResult<'_>) -> EffectEnd<'_> {
    EffectEnd {
        status: match result.status {
            EffectStatus::Succeeded => ledger::Status::Succeeded,
            EffectStatus::FailedFinal => ledger::Status::FailedFinal,
            EffectStatus::FailedRetryable => ledger::Status::FailedRetryable,
        },
        ending: Ending {
            code: result.code,
            headers: result.headers.into_pairs(),
            body: result.body,
            error: result.error,
            by: Cow::Borrowed(""),
            why: Cow::Borrowed(""),
        },
    }
}

fn shown_end(ended: EffectEnded) -> EffectFinished {
    EffectFinished {
        result: if ended.already { CommitResult::AlreadyCommitted } else { CommitResult::Committed },
        epoch: u64::from(ended.epoch),
        attempt: ended.attempt,
        expires_at: moment(ended.expires),
    }
}

/// One effect on the wire.
fn shown(seen: &SeenEffect) -> Result<Effect<'_>, Fault> {
    let about = About::decode(&seen.about).map_err(|_| unreadable())?;
    let view = &seen.view;
    let running = view.status == ledger::Status::InProgress;
    Ok(Effect {
        tenant_id: about.tenant,
        scope: about.scope,
        key: about.key,
        state: state(view.status),
        epoch: u64::from(view.epoch),
        attempt: view.attempts,
        max_attempts: view.attempts_max,
        on_lapse: match view.on_lapse {
            ledger::OnLapse::Retry => OnLapse::Retry,
            ledger::OnLapse::Hold => OnLapse::Hold,
        },
        request_hash: given(about.request),
        owner: Cow::Borrowed(&view.owner),
        run_id: given(about.run).or_else(|| view.run.as_deref().map(Cow::Borrowed)),
        step_id: given(about.step)
            .or_else(|| view.step.as_deref().filter(|step| !step.is_empty()).map(Cow::Borrowed)),
        created_at: moment(view.created),
        begun_at: moment(view.begun),
        lease_expires_at: running.then(|| moment(view.until)),
        lease_live: running.then_some(view.live),
        released: running && view.released,
        unknown_since: view.ended.filter(|_| view.status == ledger::Status::Unknown).map(moment),
        expires_at: expires(view).map(moment),
        message: view.message.as_ref().map(|(topic, partition, offset)| MessagePlace {
            topic: Cow::Borrowed(topic),
            partition: *partition,
            offset: *offset,
            attempt: Some(view.delivery).filter(|attempt| *attempt > 0),
        }),
        outcome: outcome(seen)?,
        last_outcome: last_outcome(seen)?,
    })
}

/// One effect in a list: how it ended, but not with what.
pub(super) fn brief(seen: &SeenEffect) -> Result<Effect<'_>, Fault> {
    Ok(without_payload(shown(seen)?, false))
}

/// An effect without what came of it; `is_hidden` says that there may be something to see for others.
fn without_payload(mut effect: Effect<'_>, is_hidden: bool) -> Effect<'_> {
    if let Some(outcome) = &mut effect.outcome {
        outcome.headers = Headers::default();
        (outcome.body, outcome.body_b64) = (None, None);
        outcome.payload_hidden = is_hidden;
    }
    effect.last_outcome = None;
    effect
}

/// When a record that is over is forgotten.
fn expires(view: &EffectView) -> Option<Time> {
    view.expires.filter(|_| view.ending.is_some() && view.status != ledger::Status::InProgress)
}

const fn state(status: ledger::Status) -> EffectState {
    match status {
        ledger::Status::InProgress => EffectState::InProgress,
        ledger::Status::Succeeded => EffectState::Succeeded,
        ledger::Status::FailedFinal => EffectState::FailedFinal,
        ledger::Status::FailedRetryable => EffectState::FailedRetryable,
        ledger::Status::Unknown => EffectState::Unknown,
    }
}

/// How an effect ended, if it did. One that is being tried again has not, however it ended before.
fn outcome(seen: &SeenEffect) -> Result<Option<EffectOutcome<'_>>, Fault> {
    let view = &seen.view;
    let status = match view.status {
        ledger::Status::Succeeded => EffectStatus::Succeeded,
        ledger::Status::FailedFinal => EffectStatus::FailedFinal,
        ledger::Status::FailedRetryable => EffectStatus::FailedRetryable,
        ledger::Status::InProgress | ledger::Status::Unknown => return Ok(None),
    };
    let Some(bytes) = &seen.ending else { return Ok(None) };
    let Ending { code, headers, body, error, by, why } = Ending::decode(bytes).map_err(|_| unreadable())?;
    let outcome = EffectOutcome {
        status,
        code,
        headers: Headers::stored(headers),
        body: None,
        body_b64: None,
        payload_hidden: false,
        error,
        finished_at: moment(view.ended.unwrap_or_default()),
        epoch: u64::from(view.epoch),
        attempt: view.attempts,
        resolved_by: given(by),
        resolved_why: given(why),
    };
    Ok(Some(match body {
        Some(Cow::Borrowed(body)) => outcome.with_bytes(body),
        // Read from bytes at hand, it is borrowed from them.
        Some(Cow::Owned(_)) | None => outcome,
    }))
}

/// How the attempt before ended, of an effect that is under way or unknown.
fn last_outcome(seen: &SeenEffect) -> Result<Option<LastOutcome<'_>>, Fault> {
    if !matches!(seen.view.status, ledger::Status::InProgress | ledger::Status::Unknown) {
        return Ok(None);
    }
    let Some(bytes) = &seen.ending else { return Ok(None) };
    let Ending { code, headers, body, error, by, why } = Ending::decode(bytes).map_err(|_| unreadable())?;
    let body = match body {
        Some(Cow::Borrowed(body)) => std::str::from_utf8(body).ok().map(Cow::Borrowed),
        Some(Cow::Owned(_)) | None => None,
    };
    Ok(Some(LastOutcome {
        code,
        headers: Headers::stored(headers),
        body,
        error,
        resolved_by: given(by),
        resolved_why: given(why),
    }))
}

fn given(text: Cow<'_, str>) -> Option<Cow<'_, str>> {
    Some(text).filter(|text| !text.is_empty())
}
