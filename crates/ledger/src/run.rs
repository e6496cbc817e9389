//! One call that does it all: begin, run, finish, or replay.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::time::{Instant, sleep};

use crate::words::beginning;
use crate::{
    Begin, Decision, ERROR_BYTES_MAX, End, Ending, Identity, Lease, Ledger, LedgerError, Moment, OMITTED,
    Outcome, RequestHash, Response,
};

/// How often a lease is renewed within its time.
const RENEWALS_PER_LEASE: u32 = 3;
/// Between two tries to get an outcome written down.
const FINISH_PAUSE: Duration = Duration::from_millis(100);

/// What a failure means for the next caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It did not happen and may be tried again.
    Retryable,
    /// It did not happen and is not to be tried again.
    Final,
    /// It may have happened. Nothing is written down: when the lease lapses, its terms decide.
    Unclear,
}

/// An error that knows what it means for the next caller.
pub trait Failure: fmt::Display {
    /// What it means.
    fn class(&self) -> Class;

    /// What to answer, now and in replays.
    fn response(&self) -> Response {
        Response::default()
    }
}

/// A failure in words, for services that have no error type of their own.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Failed {
    /// What it means.
    pub class: Class,
    /// What went wrong.
    pub message: String,
    /// What to answer.
    pub response: Response,
}

impl Failed {
    /// It did not happen and may be tried again.
    pub fn retryable(message: impl Into<String>) -> Self {
        Self { class: Class::Retryable, message: message.into(), response: Response::default() }
    }

    /// It did not happen and is not to be tried again.
    pub fn last(message: impl Into<String>) -> Self {
        Self { class: Class::Final, message: message.into(), response: Response::default() }
    }

    /// It may have happened.
    pub fn unclear(message: impl Into<String>) -> Self {
        Self { class: Class::Unclear, message: message.into(), response: Response::default() }
    }

    /// With an answer to give.
    #[must_use]
    pub fn response(mut self, response: Response) -> Self {
        self.response = response;
        self
    }
}

impl Failure for Failed {
    fn class(&self) -> Class {
        self.class
    }

    fn response(&self) -> Response {
        self.response.clone()
    }
}

/// An effect that happened, now or before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Its result.
    pub response: Response,
    /// Whether it happened before and this is the stored answer.
    pub replayed: bool,
    /// In which attempt it happened.
    pub attempt: u32,
}

impl Ran {
    /// The payload, if it is JSON of this shape.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.response.payload)
    }
}

impl Response {
    /// A payload in JSON.
    pub fn json(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        let response = Self::new(serde_json::to_vec(value)?);
        Ok(response.header("content-type", "application/json"))
    }
}

impl From<()> for Response {
    fn from((): ()) -> Self {
        Self::default()
    }
}

impl From<Vec<u8>> for Response {
    fn from(payload: Vec<u8>) -> Self {
        Self::new(payload)
    }
}

impl From<String> for Response {
    fn from(payload: String) -> Self {
        Self::new(payload)
    }
}

impl From<&'static str> for Response {
    fn from(payload: &'static str) -> Self {
        Self::new(payload)
    }
}

/// Why there is no answer from an effect.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError<E> {
    /// It was run just now, and failed.
    #[error("{error}")]
    Failed {
        /// How.
        error: E,
        /// Whether that is written down. If it is not, the lease lapses and its terms decide.
        recorded: bool,
    },
    /// It failed before, and is not to be tried again.
    #[error("it failed before, for good: {}", .0.error)]
    FailedBefore(Box<Outcome>),
    /// It failed before, and may be tried again by a caller that reacquires it, which this call did not ask for.
    #[error("it failed before, and may be tried again: {}", .0.error)]
    Retryable(Box<Outcome>),
    /// It failed before, and no attempt is left.
    #[error("it failed before, and no attempt is left: {}", .0.error)]
    Exhausted(Box<Outcome>),
    /// Another holder runs it.
    #[error("another holder runs it; ask again in {retry_after:?}")]
    InProgress {
        /// When it is worth asking again.
        retry_after: Duration,
    },
    /// It may have happened; its outcome is unknown.
    #[error("it may have happened; its outcome is unknown since {since} and waits to be resolved")]
    Unknown {
        /// The lease under which it may have happened.
        epoch: u32,
        /// Since when the outcome is unknown.
        since: Moment,
    },
    /// Another caller took over while it ran. It was stopped where it stood, and no longer counts.
    #[error("another caller took over while it ran")]
    Overtaken,
    /// It happened, and that could not be written down: here is its result. The lease lapses, and its terms
    /// decide.
    #[error("it happened, but that is not written down: {error}")]
    Unrecorded {
        /// Its result.
        response: Box<Response>,
        /// Why it is not written down.
        error: LedgerError,
    },
    /// The ledger could not be asked. It was not run.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl Ledger {
    /// Runs `effect` once for this identity, on the usual terms, and replays its result from then on. A failure
    /// that may be tried again is tried again by the next caller.
    ///
    /// If `effect` panics, or the returned future is dropped, nothing is written down: whether the effect happened is
    /// not known, the lease lapses, and its terms say whether it may be repeated or an operator has to find out.
    pub async fn run<F, Fut, R, E>(
        &self,
        identity: Identity,
        hash: RequestHash,
        effect: F,
    ) -> Result<Ran, RunError<E>>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<R, E>>,
        R: Into<Response>,
        E: Failure,
    {
        self.run_with(Begin::new(identity, hash).reacquire(), |_| effect()).await
    }

    /// As [`run`](Self::run), on terms of the caller's own; `effect` is told its lease. The lease is renewed while it
    /// runs, on the same task: an effect that blocks its thread keeps its own renewal from happening.
    pub async fn run_with<F, Fut, R, E>(&self, asked: Begin, effect: F) -> Result<Ran, RunError<E>>
    where
        F: FnOnce(Lease) -> Fut,
        Fut: Future<Output = Result<R, E>>,
        R: Into<Response>,
        E: Failure,
    {
        let lease = match self.begin(asked).await? {
            Decision::Execute(lease) => lease,
            decision => return already(decision),
        };
        let result = tokio::select! {
            result = effect(lease.clone()) => result,
            () = self.keep(&lease) => return Err(RunError::Overtaken),
        };
        let ended = async {
            match result {
                Ok(response) => self.write_down(&lease, response.into()).await,
                Err(error) => {
                    let recorded = self.write_failure_down(&lease, &error).await;
                    Err(RunError::Failed { error, recorded })
                }
            }
        };
        self.keeping(&lease, ended).await
    }

    /// Renews a lease while the outcome is written down: that may take a while, too, and a lease that lapses
    /// meanwhile could be taken over. A renewal that comes too late says nothing; the ending itself says what became
    /// of it.
    pub(crate) async fn keeping<T>(&self, lease: &Lease, ended: impl Future<Output = T>) -> T {
        let kept = async {
            self.keep(lease).await;
            std::future::pending().await
        };
        tokio::select! {
            done = ended => done,
            never = kept => never,
        }
    }

    /// Renews a lease for as long as it is the newest one; returns when it is not.
    pub async fn keep(&self, lease: &Lease) {
        loop {
            sleep(lease.lasts / RENEWALS_PER_LEASE).await;
            match self.renew(lease, lease.lasts).await {
                Ok(_) => {}
                Err(LedgerError::Stale(_) | LedgerError::NotFound) => return,
                // A lease that lapsed is still the newest until another caller takes over, so it is worth going on.
                Err(error) => {
                    tracing::warn!(%error, identity = %lease.identity, "a lease could not be renewed")
                }
            }
        }
    }

    async fn write_down<E>(&self, lease: &Lease, response: Response) -> Result<Ran, RunError<E>> {
        let attempt = lease.attempt;
        let ending = Ending::succeeded(response);
        match self.finish_in_any_case(lease, &ending).await {
            Ok(()) => Ok(Ran { response: ending.response, replayed: false, attempt }),
            Err(LedgerError::Stale(_)) => Err(RunError::Overtaken),
            Err(error) => Err(RunError::Unrecorded { response: Box::new(ending.response), error }),
        }
    }

    async fn write_failure_down<E: Failure>(&self, lease: &Lease, error: &E) -> bool {
        let end = match error.class() {
            Class::Retryable => End::FailedRetryable,
            Class::Final => End::FailedFinal,
            Class::Unclear => return false,
        };
        let ending = Ending { end, response: error.response(), error: shortened(&error.to_string()) };
        match self.finish_in_any_case(lease, &ending).await {
            Ok(()) => true,
            Err(unwritten) => {
                tracing::warn!(error = %unwritten, identity = %lease.identity, "a failure could not be written down");
                false
            }
        }
    }

    /// How it ended matters more than what it said: that is written down also if the answer cannot be kept, first
    /// without its payload, then without its headers.
    pub(crate) async fn finish_in_any_case(&self, lease: &Lease, ending: &Ending) -> Result<(), LedgerError> {
        let cannot_be_kept = |result: &Result<(), LedgerError>| {
            matches!(result, Err(LedgerError::TooLarge { .. } | LedgerError::Invalid(_)))
        };
        let whole = self.finish_patiently(lease, ending).await;
        if !cannot_be_kept(&whole) {
            return whole;
        }
        let mut less = ending.clone();
        less.response = less.response.omit_payload();
        let without_payload = self.finish_patiently(lease, &less).await;
        if !cannot_be_kept(&without_payload) {
            return without_payload;
        }
        less.response.headers.retain(|name, _| name == OMITTED);
        self.finish_patiently(lease, &less).await
    }

    /// Tries for longer than a single call would: the outcome of an effect is worth the wait.
    async fn finish_patiently(&self, lease: &Lease, ending: &Ending) -> Result<(), LedgerError> {
        let until = Instant::now() + self.settings().finish_patience;
        loop {
            match self.finish(lease, ending).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_transient() && Instant::now() < until => sleep(FINISH_PAUSE).await,
                Err(error) => return Err(error),
            }
        }
    }
}

/// What a decision other than to run it means for the caller that wanted an answer.
fn already<E>(decision: Decision) -> Result<Ran, RunError<E>> {
    match decision {
        Decision::Replay(outcome) if outcome.end == End::Succeeded => {
            Ok(Ran { response: outcome.response, replayed: true, attempt: outcome.attempt })
        }
        Decision::Replay(outcome) => Err(RunError::FailedBefore(Box::new(outcome))),
        Decision::Retryable { outcome, attempts_left: Some(0) } => {
            Err(RunError::Exhausted(Box::new(outcome)))
        }
        Decision::Retryable { outcome, .. } => Err(RunError::Retryable(Box::new(outcome))),
        Decision::InProgress { retry_after, .. } => Err(RunError::InProgress { retry_after }),
        Decision::Unknown { epoch, since, .. } => Err(RunError::Unknown { epoch, since }),
        Decision::Execute(lease) => Err(RunError::Ledger(LedgerError::Corrupt(format!(
            "a lease of {} that was asked for twice",
            lease.identity
        )))),
    }
}

/// The text of an error as far as it is kept.
fn shortened(text: &str) -> String {
    let text = text.replace('\0', "");
    beginning(&text, ERROR_BYTES_MAX).to_owned()
}
