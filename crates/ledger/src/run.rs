//! One call that does it all: begin, run, finish, or replay.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::holder::{Report, Told, detached};
use crate::words::beginning;
use crate::{
    Begin, Decision, ERROR_BYTES_MAX, End, Ending, Identity, Lease, Ledger, LedgerError, Moment, Outcome,
    RequestHash, Response,
};

/// What a failure means for the next caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It did not happen and may be tried again.
    Retryable,
    /// It did not happen and is not to be tried again.
    Final,
    /// It was refused before anything was done: by a check of the request, mostly. Nothing is written down, and the key
    /// is as it was before, free for a request that was put right.
    Refused,
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

    /// It was refused before anything was done.
    pub fn refused(message: impl Into<String>) -> Self {
        Self { class: Class::Refused, message: message.into(), response: Response::default() }
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
        /// Whether the ledger knows of it: it is written down, or the lease is given up. If it does not, the lease
        /// lapses and its terms decide.
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
    /// The runtime went down while it ran. How far it came is not known.
    #[error("the runtime went down while it ran; it may have happened")]
    Abandoned,
    /// The ledger could not be asked. It was not run.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl Ledger {
    /// Runs `effect` once for this identity, on the usual terms, and replays its result from then on. A failure
    /// that may be tried again is tried again by the next caller.
    ///
    /// From the first poll on, everything runs in a task of its own: if the returned future is dropped, because a
    /// client hung up or a time-out is over, the effect runs to its end all the same, its outcome is written down, and
    /// the next caller gets it. So there may be more effects at work than callers; limit them inside of `effect`.
    ///
    /// If `effect` panics, so does this, and nothing is written down: whether the effect happened is not known, the
    /// lease lapses, and its terms say whether it may be repeated or an operator has to find out.
    pub async fn run<F, Fut, R, E>(
        &self,
        identity: Identity,
        hash: RequestHash,
        effect: F,
    ) -> Result<Ran, RunError<E>>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
        R: Into<Response> + 'static,
        E: Failure + Send + 'static,
    {
        self.run_with(Begin::new(identity, hash).reacquire(), |_| effect()).await
    }

    /// As [`run`](Self::run), on terms of the caller's own; `effect` is told its lease. The lease is renewed while it
    /// runs, on the same task: an effect that blocks its thread keeps its own renewal from happening.
    ///
    /// An effect may end itself with that lease, in a transaction of its own (`finish_tx`): what that transaction has
    /// committed is the outcome, and the result, whatever the effect returns. If it was rolled back, the effect returns
    /// an error.
    pub async fn run_with<F, Fut, R, E>(&self, asked: Begin, effect: F) -> Result<Ran, RunError<E>>
    where
        F: FnOnce(Lease) -> Fut + Send + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
        R: Into<Response> + 'static,
        E: Failure + Send + 'static,
    {
        let ledger = self.clone();
        let ran = detached(async move { ledger.run_attached(asked, effect).await }).await;
        ran.unwrap_or(Err(RunError::Abandoned))
    }

    /// As [`run_with`](Self::run_with), on the caller's own task, for an effect that borrows from its caller or cannot
    /// be sent to another thread.
    ///
    /// What that costs: an effect whose future is dropped is stopped where it stands, and nothing is written down. In a
    /// handler of a web server every client that hangs up does so. Whether the effect happened is then not known, the
    /// lease lapses, and its terms decide: under `OnLapse::Hold` an operator has to find out.
    pub async fn run_attached<F, Fut, R, E>(&self, asked: Begin, effect: F) -> Result<Ran, RunError<E>>
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
        let held = lease.clone();
        let work = async move { effect(held).await.map(Into::into) };
        let Some(result) = self.under(&lease, work).await else { return Err(RunError::Overtaken) };
        self.settled(&lease, result).await
    }

    /// Tells the ledger what an effect came to, and the caller what became of that.
    async fn settled<E: Failure>(
        &self,
        lease: &Lease,
        result: Result<Response, E>,
    ) -> Result<Ran, RunError<E>> {
        let (report, error) = match result {
            Ok(response) => (Report::Ended(Ending::succeeded(response)), None),
            Err(error) => (report_of(&error), Some(error)),
        };
        let told = self.report(lease, &report).await;
        match (told, error, report) {
            (Told::Before(outcome), ..) => {
                already(Decision::Replay(outcome)).map(|ran| Ran { replayed: false, ..ran })
            }
            (told, Some(error), _) => {
                Err(RunError::Failed { error, recorded: matches!(told, Told::Written) })
            }
            (Told::Written, None, Report::Ended(Ending { response, .. })) => {
                Ok(Ran { response, replayed: false, attempt: lease.attempt })
            }
            (Told::Unwritten(error), None, Report::Ended(Ending { response, .. })) => {
                Err(RunError::Unrecorded { response: Box::new(response), error })
            }
            (_, None, _) => Err(RunError::Overtaken),
        }
    }
}

/// What the ledger is told about a failure.
fn report_of(error: &impl Failure) -> Report {
    let end = match error.class() {
        Class::Retryable => End::FailedRetryable,
        Class::Final => End::FailedFinal,
        Class::Refused => return Report::Refused,
        Class::Unclear => return Report::Unclear,
    };
    Report::Ended(Ending { end, response: error.response(), error: shortened(&error.to_string()) })
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
