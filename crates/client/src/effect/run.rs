//! From the question to the outcome.

use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use driftq_api::Code;
use driftq_api::v2::{
    EffectDecision, EffectFinish, EffectFinished, EffectGet, EffectLease, EffectRelease, EffectReleased,
    EffectRenew, EffectRenewed, EffectResolve, EffectResult, EffectStatus, OnLapse, WAIT_MS_MAX,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};
use tracing::Instrument as _;

use super::endings::{WAITING_BYTES_MAX, owned};
use super::record::{kept, omitted, replay};
use super::{Effect, Found, RUNNING, failed};
use crate::client::{Patience, reckoned, whole_ms};
use crate::error::{EffectName, Error};
use crate::outcome::{Dead, Failure, Final, NotDone, NotSent, Retry, Snooze};
use crate::trace::effect_span;

/// How often an unknown outcome is reconciled before it is left to people.
const RECONCILE_ROUNDS_MAX: u32 = 3;
/// The least and the longest pause before the next question to a server that does not wait.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The outcome of a function that took longer is written down before the handler gets it: there it costs little.
const PROMPT: Duration = Duration::from_secs(1);
/// A server that does not hear by then that a lease is given up sees it lapse.
const TOLD_WITHIN: Duration = Duration::from_secs(5);
/// Renewals per lease: two may get lost.
const RENEWALS_PER_LEASE: u32 = 3;

pub(super) async fn run<T, F, Fut>(effect: &Effect, name: &EffectName, function: F) -> Result<T, Failure>
where
    T: Serialize + DeserializeOwned,
    F: FnOnce() -> Fut,
    Fut: Future<Output = Result<T, Failure>>,
{
    let mut rounds = 0;
    loop {
        let asked_at = Instant::now();
        match begin(effect, name).await? {
            EffectDecision::Execute { lease } => {
                let until = Mutex::new(asked_at + effect.terms.lease);
                let held = HeldEffect { effect, name, lease, begun: Instant::now(), until };
                let span = effect_span(&name.scope, held.lease.attempt);
                return held.execute(function).instrument(span).await;
            }
            EffectDecision::Replay { outcome } => return Ok(replay(&outcome, name)?),
            EffectDecision::InProgress { retry_after_ms, .. } => {
                let retry_after = Duration::from_millis(retry_after_ms);
                return Err(Error::EffectBusy { effect: name.clone(), retry_after }.into());
            }
            EffectDecision::Retryable { outcome, .. } => {
                let reason = outcome.error.into_owned();
                return Err(Error::EffectExhausted { effect: name.clone(), reason }.into());
            }
            EffectDecision::Unknown { epoch, attempt, .. } if rounds < RECONCILE_ROUNDS_MAX => {
                rounds += 1;
                reconcile(effect, name, epoch, attempt).await?;
            }
            EffectDecision::Unknown { .. } => {
                let why = format!("it was reconciled {RECONCILE_ROUNDS_MAX} times and is unknown again");
                return Err(Error::EffectUncertain { effect: name.clone(), why }.into());
            }
        }
    }
}

async fn begin(effect: &Effect, name: &EffectName) -> Result<EffectDecision<'static>, Error> {
    let client = &effect.home.client;
    let mut begin = effect.begin(name)?;
    let until = Instant::now() + reckoned(effect.terms.wait);
    let mut answer = client.begin_collected(&begin).await;
    while matches!(answer, Ok(EffectDecision::InProgress { .. })) {
        let (asked_at, left) = (Instant::now(), until.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            break;
        }
        begin.wait_ms = whole_ms(left).min(WAIT_MS_MAX);
        answer = match client.begin_effect(&begin).await {
            // Too many callers wait at the server already: go on as if it could not wait.
            Err(error) if error.code() == Some(Code::LimitReached) => answer,
            waited => waited,
        };
        // A server that does not wait is not asked again without a pause.
        if let Ok(EffectDecision::InProgress { retry_after_ms, .. }) = answer {
            let hint = Duration::from_millis(retry_after_ms).clamp(PAUSE_MIN, PAUSE_MAX);
            let pause = hint.mul_f64(client.jitter().between(0.5, 1.0));
            sleep(pause.saturating_sub(asked_at.elapsed()).min(left)).await;
        }
    }
    answer.map_err(|error| match error.code() {
        Some(Code::AttemptsExhausted) => {
            Error::EffectExhausted { effect: name.clone(), reason: error.to_string() }
        }
        _ => error.of_delivery(),
    })
}

/// Asks the reconciler and writes down what it found. Afterwards the server is asked again.
async fn reconcile(effect: &Effect, name: &EffectName, epoch: u64, attempt: u32) -> Result<(), Failure> {
    let uncertain = |why: &str| Error::EffectUncertain { effect: name.clone(), why: why.to_owned() };
    let Some(reconciler) = &effect.reconciler else { return Err(uncertain("").into()) };
    let client = &effect.home.client;
    let tenant_id = &*effect.home.tenant_id;
    let get =
        EffectGet { tenant_id: tenant_id.into(), scope: (&*name.scope).into(), key: (&*name.key).into() };
    let record = client.effect_record(&get).await?;
    let found = reconciler(record).await?;
    let Some(result) = found.result() else { return Err(uncertain(found.why()).into()) };
    // That it did not happen leads to another attempt, but not to more than are allowed: then people decide.
    if found == Found::NotDone && effect.terms.max_attempts.is_some_and(|most| attempt >= most) {
        let reason = found.why().to_owned();
        return Err(Error::EffectExhausted { effect: name.clone(), reason }.into());
    }
    let resolve = EffectResolve {
        tenant_id: get.tenant_id,
        scope: get.scope,
        key: get.key,
        result,
        by: (&*effect.home.owner).into(),
        why: found.why().into(),
        epoch: Some(epoch),
    };
    // That another holder runs it now is an answer, and not to be waited for here.
    let patience = client.usual_patience().heeding(Code::EffectRunning);
    let answer =
        client.post_with::<EffectFinished>("/v2/effects/resolve", &resolve, Duration::ZERO, patience).await;
    match answer {
        Ok(_) => Ok(()),
        // Another caller was quicker: its word counts.
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

/// An effect that is ours to carry out.
struct HeldEffect<'a> {
    effect: &'a Effect,
    name: &'a EffectName,
    lease: EffectLease<'static>,
    begun: Instant,
    /// Until when the lease is sure to last, by this process's clock: it is counted from before the server was asked.
    until: Mutex<Instant>,
}

impl HeldEffect<'_> {
    async fn execute<T, F, Fut>(&self, function: F) -> Result<T, Failure>
    where
        T: Serialize,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, Failure>>,
    {
        let outcome = tokio::select! {
            biased;
            outcome = RUNNING.scope(self.name.clone(), async { function().await }) => outcome,
            never = self.renewals() => match never {},
        };
        match outcome {
            Ok(value) => {
                self.succeeded(&value).await?;
                Ok(value)
            }
            Err(failure) => Err(self.failed(failure).await),
        }
    }

    /// Renews until it is dropped.
    async fn renewals(&self) -> std::convert::Infallible {
        let lease = self.effect.terms.lease;
        let every = lease / RENEWALS_PER_LEASE;
        loop {
            sleep(every).await;
            let renew = EffectRenew { token: (&*self.lease.token).into(), lease_ms: Some(whole_ms(lease)) };
            let asked_at = Instant::now();
            let client = &self.effect.home.client;
            match client.post_once::<EffectRenewed>("/v2/effects/renew", &renew, every).await {
                Ok(_) => *self.until.lock().unwrap_or_else(PoisonError::into_inner) = asked_at + lease,
                Err(error) if error.is_transient() => {
                    tracing::debug!(effect = %self.name, %error, "not renewed; the next renewal is the repeat");
                }
                Err(error) => {
                    // The function that runs cannot be called back. Its finish will be refused likewise.
                    tracing::warn!(effect = %self.name, %error, "the effect is no longer this worker's");
                    std::future::pending::<()>().await;
                }
            }
        }
    }

    async fn succeeded<T: Serialize>(&self, value: &T) -> Result<(), Failure> {
        let result = match serde_json::to_vec(value) {
            Ok(body) if self.may_wait(&body) => return self.hand_over(&body),
            Ok(body) => match self.finish(kept(&body)).await {
                Err(error) if matches!(error.code(), Some(Code::ResultTooLarge | Code::BodyTooLarge)) => {
                    tracing::warn!(effect = %self.name, bytes = body.len(), "its result is too large to be kept");
                    self.finish(omitted()).await
                }
                other => other,
            },
            Err(error) => {
                // It happened all the same.
                tracing::warn!(effect = %self.name, %error, "its result has no JSON form and is not kept");
                self.finish(omitted()).await
            }
        };
        Ok(result.map(drop).map_err(|error| match error {
            // It is not known whether the server has heard of it.
            error if error.is_transient() => {
                Error::EffectUncertain { effect: self.name.clone(), why: error.to_string() }
            }
            error => self.overtaken(error),
        })?)
    }

    /// A finish that comes too late: the delivery is lost with it. Without a delivery, the outcome counts as unknown.
    fn overtaken(&self, error: Error) -> Error {
        match error.of_delivery() {
            Error::LeaseLost if self.effect.home.lease_token.is_none() => {
                let why = "another holder took it over before its outcome could be written down".to_owned();
                Error::EffectUncertain { effect: self.name.clone(), why }
            }
            error => error,
        }
    }

    /// Whether its outcome may go with the ack of its message.
    fn may_wait(&self, body: &[u8]) -> bool {
        let is_small = body.len() <= WAITING_BYTES_MAX && self.begun.elapsed() <= PROMPT;
        is_small && !self.effect.terms.is_durable && self.effect.home.context.is_some()
    }

    fn hand_over(&self, body: &[u8]) -> Result<(), Failure> {
        if let Some(context) = &self.effect.home.context {
            let finish = EffectFinish { token: (&*self.lease.token).into(), result: kept(body) };
            context.endings().add(owned(finish), context);
        }
        Ok(())
    }

    /// Records what the function's error says about the effect, and passes the error on.
    async fn failed(&self, failure: Failure) -> Failure {
        let (status, reason, passed_on) = if failure.find::<NotSent>().is_some() {
            // Nothing was sent: the next caller carries it out at once, and the attempt does not count.
            self.give_up(false).await;
            return failure;
        } else if let Some(last) = failure.find::<Final>() {
            let reason = last.reason.clone();
            let error = Error::EffectFailed { effect: self.name.clone(), reason: reason.clone() };
            (EffectStatus::FailedFinal, reason, Failure::from(error))
        } else if failure.find::<Dead>().is_some() {
            (EffectStatus::FailedFinal, failure.to_string(), failure)
        } else if failure.find::<Retry>().is_some()
            || failure.find::<Snooze>().is_some()
            || failure.find::<NotDone>().is_some()
            || self.effect.terms.on_lapse == OnLapse::Retry
        {
            (EffectStatus::FailedRetryable, failure.to_string(), failure)
        } else {
            // It may have happened: the next caller is told so at once, and not only when the lease has lapsed.
            self.give_up(true).await;
            return failure;
        };
        if let Err(error) = self.finish(failed(status, &reason)).await {
            tracing::warn!(effect = %self.name, %error, "how it failed could not be recorded");
        }
        passed_on
    }

    /// Gives the lease up, once: a server that does not hear of it sees it lapse.
    async fn give_up(&self, is_uncertain: bool) {
        let release = EffectRelease { token: (&*self.lease.token).into(), uncertain: is_uncertain };
        let client = &self.effect.home.client;
        let told = client.post_once::<EffectReleased>("/v2/effects/release", &release, TOLD_WITHIN).await;
        if let Err(error) = told {
            tracing::debug!(effect = %self.name, %error, "its lease was not given up and lapses");
        }
    }

    /// Repeated until it is heard or the lease is over.
    async fn finish(&self, result: EffectResult<'_>) -> Result<EffectFinished, Error> {
        let finish = EffectFinish { token: (&*self.lease.token).into(), result };
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let client = &self.effect.home.client;
        client.post_with("/v2/effects/finish", &finish, Duration::ZERO, Patience::until(until)).await
    }
}
