//! One delivery, as one effect: asked for, sent, written down.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use driftq_client::wire::{
    EffectBegin, EffectDecision, EffectFinish, EffectGet, EffectLease, EffectRelease, EffectResolve,
    EffectResult, EffectStatus, OnLapse,
};
use driftq_client::{Code, Context, Dead, EffectName, Error, Failure, Moment, Retry, Snooze};
use serde::Deserialize;

use super::attempt::{Attempt, Attempts, Ending};
use super::endpoint::OnUnknown;
use super::event::{self, EventKind};
use super::lane::{Lane, Turn, Unsendable};
use super::request::Parcel;
use super::schedule::{self, Next};
use super::send::Sent;
use super::signature::short_hash;

/// How long the outcome of a delivery is remembered.
const REMEMBERED_MS: u64 = 7 * 24 * 60 * 60 * 1000;
/// How much longer than a send the lease of its effect lasts.
const LEASE_MARGIN: Duration = Duration::from_secs(60);
/// How often an effect is asked for in one delivery: every answer but the last leads on to the next.
const ROUNDS_MAX: u32 = 5;
/// Until a delivery of an endpoint that was just disabled comes again.
const DISABLED_WAIT: Duration = Duration::from_secs(60);
/// The shortest wait for a breaker.
const BREAKER_WAIT_MIN: Duration = Duration::from_secs(1);
/// The status of a receiver that wants no more deliveries.
const GONE: u16 = 410;

/// What the effect says about the delivery.
enum Begun {
    /// It is ours to send.
    Send { lease: EffectLease<'static>, attempts: Attempts },
    /// It has arrived.
    Arrived,
}

/// The parts of an effect's record that tell of earlier attempts.
#[derive(Deserialize)]
struct Record {
    begun_at: Moment,
    #[serde(default)]
    owner: String,
    #[serde(default)]
    last_outcome: Option<LastOutcome>,
}

/// How the attempt before ended.
#[derive(Deserialize)]
struct LastOutcome {
    #[serde(default)]
    body: Option<String>,
}

/// The delivery that a message stands for.
fn parcel(context: &Context) -> Parcel {
    let origin = context.origin();
    let place = || format!("{}/{}/{}/{}", origin.topic, origin.incarnation, origin.partition, origin.offset);
    Parcel {
        tenant_id: context.tenant_id().unwrap_or_default().to_owned(),
        delivery_id: context.idempotency_key().map_or_else(place, str::to_owned),
        body: context.payload().clone(),
        labels: context.labels().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
    }
}

/// Delivers one message.
pub(super) async fn deliver(lane: &Lane, context: &Context) -> Result<(), Failure> {
    if lane.is_disabled() {
        return Err(Snooze::lasting(DISABLED_WAIT).into());
    }
    let parcel = parcel(context);
    if !lane.may_send(parcel.endpoint_version()).await {
        return Err(Snooze::lasting(Duration::ZERO).into());
    }
    let turn = match lane.turn() {
        Ok(turn) => turn,
        Err(wait) => return Err(Snooze::lasting(wait.max(BREAKER_WAIT_MIN)).into()),
    };
    let delivery = Delivery { lane, context, parcel };
    let outcome = delivery.run(turn).await;
    if let Err(failure) = &outcome
        && is_dead(failure)
    {
        let reason = failure.to_string();
        lane.tell(EventKind::DeliveryFailed, Some(&delivery.parcel.delivery_id), &reason).await;
    }
    outcome
}

/// Whether the message becomes a dead letter.
fn is_dead(failure: &Failure) -> bool {
    let code = failure.error().and_then(Error::code);
    failure.find::<Dead>().is_some() || code == Some(Code::KeyReused)
}

struct Delivery<'a> {
    lane: &'a Lane,
    context: &'a Context,
    parcel: Parcel,
}

impl Delivery<'_> {
    async fn run(&self, turn: Turn<'_>) -> Result<(), Failure> {
        let Begun::Send { lease, mut attempts } = self.begin().await? else { return Ok(()) };
        let (at, begun) = (event::now(), Instant::now());
        let (sent, is_final) = match self.lane.send(&self.parcel).await {
            Ok(sent) => (sent, false),
            Err(Unsendable(reason)) => (Sent::failed(reason), true),
        };
        attempts.push(Attempt {
            // Attempts whose outcome was lost count, too.
            attempt: attempts.next().max(lease.attempt),
            at,
            took_ms: Some(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)),
            outcome: sent.ending,
            status: sent.status,
            headers: sent.headers.clone(),
            body: sent.body.clone(),
            error: sent.error.clone(),
            by: self.lane.common.owner.clone(),
        });
        self.lane.common.counts.sent(&self.lane.endpoint.name, sent.ending);
        // Before anything else is told: a connector that dies from here on has written it down.
        let status = match sent.ending {
            Ending::Delivered => Some(EffectStatus::Succeeded),
            Ending::Failed if is_final => Some(EffectStatus::FailedFinal),
            Ending::Unknown if self.lane.endpoint.on_unknown() == OnUnknown::Hold => None,
            Ending::Failed | Ending::Unknown => Some(EffectStatus::FailedRetryable),
        };
        match status {
            Some(status) => self.finish(&lease, status, sent.status, &attempts),
            None => self.give_up(&lease).await,
        }
        turn.used(sent.ending != Ending::Delivered, &sent.error).await;
        match status {
            Some(EffectStatus::Succeeded) => Ok(()),
            Some(EffectStatus::FailedFinal) => Err(Dead::new(sent.error).into()),
            Some(EffectStatus::FailedRetryable) => Err(self.failed(&sent).await),
            None => Err(self.uncertain(&sent.error).into()),
        }
    }

    /// When it is tried again, if it is.
    async fn failed(&self, sent: &Sent) -> Failure {
        if sent.status == Some(GONE) {
            self.lane.disable(&sent.error).await;
        }
        if self.lane.is_disabled() {
            return Snooze::lasting(DISABLED_WAIT).into();
        }
        let asked = sent.headers.get("retry-after");
        let asked = asked.and_then(|value| schedule::retry_after(value, event::since_epoch()));
        match schedule::after(self.lane.endpoint.schedule(), self.context.attempt(), asked) {
            Next::Again(wait) => Retry::after(wait, &sent.error).into(),
            Next::Over => Dead::new(format!("no attempt is left; the last: {}", sent.error)).into(),
        }
    }

    /// It may have arrived: it is unknown from now on, and not only when the lease has lapsed.
    async fn give_up(&self, lease: &EffectLease<'_>) {
        let release = EffectRelease { token: Cow::Borrowed(&lease.token), uncertain: true };
        if let Err(error) = self.lane.common.client.release_effect(&release).await {
            tracing::warn!(endpoint = self.lane.endpoint.name, %error, "a delivery lapses later than it could");
        }
    }

    fn uncertain(&self, why: &str) -> Error {
        Error::EffectUncertain { effect: self.name(), why: why.to_owned() }
    }

    fn name(&self) -> EffectName {
        EffectName {
            tenant_id: self.parcel.tenant_id.clone(),
            scope: self.lane.endpoint.scope(),
            key: self.parcel.delivery_id.clone(),
        }
    }

    /// Written down with the ack, or before the message can come again.
    fn finish(&self, lease: &EffectLease<'_>, status: EffectStatus, code: Option<u16>, attempts: &Attempts) {
        let (token, result) = (Cow::Owned(lease.token.to_string()), result(status, code, attempts));
        self.context.finish_effect(EffectFinish { token, result });
    }

    /// Asks for the effect until there is an answer to act on.
    async fn begin(&self) -> Result<Begun, Failure> {
        let (mut attempts, mut reacquire) = (Attempts::default(), false);
        for _ in 0..ROUNDS_MAX {
            match self.ask(reacquire).await? {
                EffectDecision::Execute { lease } => return Ok(Begun::Send { lease, attempts }),
                EffectDecision::Retryable { outcome, .. } => {
                    attempts = Attempts::of(&outcome);
                    reacquire = true;
                }
                EffectDecision::Unknown { epoch, attempt, .. } => match self.lane.endpoint.on_unknown() {
                    OnUnknown::Resend => self.resolve(epoch, attempt).await?,
                    OnUnknown::Hold => return Err(self.uncertain("it may have arrived").into()),
                },
                EffectDecision::InProgress { retry_after_ms, .. } => {
                    let retry_after = Duration::from_millis(retry_after_ms);
                    return Err(Error::EffectBusy { effect: self.name(), retry_after }.into());
                }
                EffectDecision::Replay { outcome } if outcome.status == EffectStatus::Succeeded => {
                    return Ok(Begun::Arrived);
                }
                EffectDecision::Replay { outcome } => return Err(Dead::new(outcome.error).into()),
            }
        }
        let retry_after = Duration::ZERO;
        Err(Error::EffectBusy { effect: self.name(), retry_after }.into())
    }

    async fn ask(&self, reacquire: bool) -> Result<EffectDecision<'static>, Failure> {
        let lease = self.lane.endpoint.timeout() + LEASE_MARGIN;
        let EffectName { tenant_id, scope, key } = self.name();
        let begin = EffectBegin {
            tenant_id: tenant_id.into(),
            scope: scope.into(),
            key: key.into(),
            request_hash: Some(self.hash().into()),
            lease_ms: Some(u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)),
            ttl_ms: Some(REMEMBERED_MS),
            on_lapse: OnLapse::Hold,
            reacquire,
            lease_token: Some(self.context.token().into()),
            request_id: Some(random_name()?.into()),
            owner: Cow::Borrowed(&self.lane.common.owner),
            ..EffectBegin::default()
        };
        Ok(self.lane.common.client.begin_effect(&begin).await?)
    }

    /// What is delivered: the same id with another body, or from another topic, is another delivery, which must not pass
    /// for one that has arrived.
    fn hash(&self) -> String {
        let origin = self.context.origin();
        format!("sha256:{}", short_hash(&[origin.topic.as_bytes(), &self.parcel.body]))
    }

    /// An attempt whose sender died may have arrived. Its receiver knows it by its id, so it is sent again; that it may
    /// have arrived is written down.
    async fn resolve(&self, epoch: u64, attempt: u32) -> Result<(), Failure> {
        let (client, EffectName { tenant_id, scope, key }) = (&self.lane.common.client, self.name());
        let get = EffectGet { tenant_id: tenant_id.into(), scope: scope.into(), key: key.into() };
        let record: Record = client.post("/v2/effects/get", &get).await?;
        let attempts = record.last_outcome.and_then(|last| last.body);
        let mut attempts = attempts.map(|body| Attempts::read(body.as_bytes())).unwrap_or_default();
        attempts.push(Attempt {
            attempt: attempts.next().max(attempt),
            at: record.begun_at,
            took_ms: None,
            outcome: Ending::Unknown,
            status: None,
            headers: std::collections::BTreeMap::new(),
            body: String::new(),
            error: "its sender ended before the outcome was known".to_owned(),
            by: record.owner,
        });
        let resolve = EffectResolve {
            tenant_id: get.tenant_id,
            scope: get.scope,
            key: get.key,
            result: result(EffectStatus::FailedRetryable, None, &attempts),
            by: Cow::Borrowed(&self.lane.common.owner),
            why: Cow::Borrowed(
                "the endpoint's on_unknown is resend: its receiver knows a delivery by its id",
            ),
            epoch: Some(epoch),
        };
        match client.resolve_effect(&resolve).await {
            Ok(_) => {
                self.lane.common.counts.sent(&self.lane.endpoint.name, Ending::Unknown);
                Ok(())
            }
            // Another worker or a person was quicker: that counts, and is asked for next.
            Err(error)
                if matches!(
                    error.code(),
                    Some(Code::StaleLease | Code::EffectRunning | Code::EffectFinished | Code::EffectUnknown)
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn result(status: EffectStatus, code: Option<u16>, attempts: &Attempts) -> EffectResult<'static> {
    let error = attempts.attempts.last().map(|last| last.error.clone()).unwrap_or_default();
    EffectResult {
        code: code.map(i32::from),
        body: Some(Cow::Owned(attempts.body())),
        error: Cow::Owned(error),
        ..EffectResult::new(status)
    }
}

/// Names a call, so that a lost answer loses nothing.
fn random_name() -> Result<String, Failure> {
    let number = getrandom::u64().map_err(|error| Failure::new(error.to_string()))?;
    Ok(format!("{number:016x}"))
}
