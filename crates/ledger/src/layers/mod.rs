//! What the layers for HTTP and for gRPC have in common: a call of an inner service that the ledger guards.
//!
//! The layers know their protocol: where the key is, what an answer means, how to say no. Everything between is here.

mod attempt;
mod body;
mod headers;
mod key;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ::http::Request;
use ::http::request::Parts;

pub(crate) use attempt::Classify;
pub use attempt::{Attempt, Meaning};
#[cfg_attr(not(feature = "http"), allow(unreachable_pub, reason = "public by way of `http`"))]
pub use body::Body;
pub(crate) use body::{BoxError, Taken, take};
pub(crate) use headers::{REPLAYED, kept, restored};
#[cfg(feature = "grpc")]
pub(crate) use key::any_text;
#[cfg(feature = "http")]
pub(crate) use key::quoted_string;
pub(crate) use key::{header_name, only};

use crate::holder::{Report, Told, detached};
use crate::words::beginning;
use crate::{
    Begin, Decision, IDENTITY_BYTES_MAX, Identity, IdentityError, Ledger, LedgerError, Moment, Outcome, Part,
    RequestHash, Terms,
};

/// Most bytes of a request, unless a layer is told otherwise.
pub(crate) const REQUEST_BYTES_MAX: usize = 1 << 20;
/// Most bytes of an answer that is kept, unless a layer is told otherwise.
pub(crate) const RESPONSE_BYTES_MAX: usize = 1 << 20;

/// A client is never told to come back later than this. The end of the lease, which the ledger knows, is the latest moment
/// at which it is worth asking again: a handler mostly answers long before, and a client that waited for that moment
/// would wait for nothing.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(5);

/// Tells on whose behalf a request comes.
pub(crate) type Principal = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

/// What both layers are told by the service that sets them up.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) ledger: Ledger,
    pub(crate) principal: Principal,
    pub(crate) required: bool,
    pub(crate) terms: Terms,
    pub(crate) wait: Duration,
    pub(crate) request_bytes_max: usize,
    pub(crate) response_bytes_max: usize,
}

/// How a layer treats a request; `R` is how the protocol says no.
pub(crate) enum Looked<B, R> {
    /// A request that the layer leaves alone.
    Through(Box<Request<B>>),
    /// Not one that can be handled.
    Refused(R),
    /// One with a key.
    Guarded(Box<Guarded<B>>),
}

impl<B, R> Looked<B, R> {
    #[cfg(feature = "http")]
    pub(crate) fn through(parts: Parts, body: B) -> Self {
        Self::Through(Box::new(Request::from_parts(parts, body)))
    }

    pub(crate) fn guarded(identity: Identity, hash: RequestHash, parts: Parts, body: B) -> Self {
        Self::Guarded(Box::new(Guarded { identity, hash, request: Request::from_parts(parts, body) }))
    }
}

/// A request with a key, whose body was read.
pub(crate) struct Guarded<B> {
    pub(crate) identity: Identity,
    pub(crate) hash: RequestHash,
    pub(crate) request: Request<B>,
}

/// Why a request has no identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nameless {
    /// The caller has no principal, or one that cannot be told from others.
    NoPrincipal,
    /// The key is not valid.
    Key(IdentityError),
    /// The scope is not valid, which is not the caller's fault.
    Scope(IdentityError),
}

/// What an inner service said, and what that means.
pub(crate) struct Answered<A> {
    /// For the caller.
    pub(crate) answer: A,
    /// For the ledger.
    pub(crate) report: Report,
}

/// What became of a guarded call.
pub(crate) enum Passed<A, E> {
    /// The inner service has run, and what it said is written down (or is meant not to be).
    Answer(A),
    /// The inner service has run, and has ended the effect itself in this way.
    Ended(Outcome),
    /// The inner service has failed without an answer. Nothing is written down.
    Broke(E),
    /// It ran before, and this is its outcome.
    Replay(Outcome),
    /// Another holder runs it.
    InProgress {
        /// When it is worth asking again.
        retry_after: Duration,
    },
    /// It may have happened; its outcome is unknown.
    Unknown {
        /// Since when the outcome is unknown.
        since: Moment,
    },
    /// The key was used for another request.
    Conflict,
    /// The inner service has run, but another caller took over meanwhile, and what it said does not count.
    Overtaken,
    /// The inner service has run, and its outcome could not be written down.
    Unrecorded,
    /// It ran before, and its stored answer cannot be opened.
    Sealed,
    /// The ledger could not be asked. The inner service has not run.
    Unavailable,
    /// The layer is set up with terms that no ledger takes. The inner service has not run.
    Misconfigured,
}

impl Guard {
    pub(crate) fn new(ledger: Ledger, principal: Principal) -> Self {
        Self {
            ledger,
            principal,
            required: false,
            terms: Terms::default(),
            wait: Duration::ZERO,
            request_bytes_max: REQUEST_BYTES_MAX,
            response_bytes_max: RESPONSE_BYTES_MAX,
        }
    }

    /// The identity of the effect of a request.
    pub(crate) fn identity(&self, parts: &Parts, scope: &str, key: &str) -> Result<Identity, Nameless> {
        let principal = (self.principal)(parts).ok_or(Nameless::NoPrincipal)?;
        Identity::new(&principal, scope, key).map_err(|error| match error {
            IdentityError::Nobody => Nameless::NoPrincipal,
            IdentityError::Empty(part)
            | IdentityError::Control(part)
            | IdentityError::TooLong { part, .. } => match part {
                Part::Principal => Nameless::NoPrincipal,
                Part::Method => Nameless::Scope(error),
                Part::Key => Nameless::Key(error),
            },
        })
    }

    /// Most bytes of an answer that is kept: the ledger's own bound counts, too.
    pub(crate) fn kept_bytes_max(&self) -> usize {
        self.response_bytes_max.min(self.ledger.settings().payload_bytes_max)
    }

    /// Asks the ledger, runs `work` if it says so, with an attempt for the handler, and writes down the outcome, all in a task of its own: a caller
    /// that goes away and drops the returned future leaves nothing half done. If `work` panics, so does this.
    pub(crate) async fn pass<A, E, F, W>(
        &self,
        identity: Identity,
        hash: RequestHash,
        work: W,
    ) -> Passed<A, E>
    where
        A: Send + 'static,
        E: Send + 'static,
        F: Future<Output = Result<Answered<A>, E>> + Send + 'static,
        W: FnOnce(Attempt) -> F + Send + 'static,
    {
        let asked = Begin::new(identity, hash).terms(self.terms.clone()).wait(self.wait).reacquire();
        let ledger = self.ledger.clone();
        detached(guarded(ledger, asked, work)).await.unwrap_or(Passed::Unrecorded)
    }
}

async fn guarded<A, E, F, W>(ledger: Ledger, asked: Begin, work: W) -> Passed<A, E>
where
    F: Future<Output = Result<Answered<A>, E>>,
    W: FnOnce(Attempt) -> F,
{
    let identity = asked.identity.clone();
    let lease = match ledger.begin(asked).await {
        Ok(Decision::Execute(lease)) => lease,
        Ok(Decision::Replay(outcome)) => return Passed::Replay(outcome),
        // It was asked for with `reacquire`, so this means that no attempt is left.
        Ok(Decision::Retryable { outcome, .. }) => return Passed::Replay(outcome),
        Ok(Decision::InProgress { retry_after, .. }) => {
            return Passed::InProgress { retry_after: retry_after.min(RETRY_AFTER_MAX) };
        }
        Ok(Decision::Unknown { since, .. }) => return Passed::Unknown { since },
        Err(LedgerError::Conflict(_)) => return Passed::Conflict,
        Err(error @ LedgerError::Sealed(_)) => {
            tracing::error!(%error, %identity, "a stored answer cannot be opened");
            return Passed::Sealed;
        }
        Err(error @ (LedgerError::Invalid(_) | LedgerError::Identity(_))) => {
            tracing::error!(%error, %identity, "the idempotency layer is set up with terms that no ledger takes");
            return Passed::Misconfigured;
        }
        Err(error) => {
            tracing::warn!(%error, %identity, "the ledger could not be asked; the request was not handled");
            return Passed::Unavailable;
        }
    };
    let attempt = Attempt::new(lease.clone());
    let answered = match ledger.under(&lease, work(attempt.clone())).await {
        Some(Ok(answered)) => answered,
        Some(Err(error)) => return Passed::Broke(error),
        None => return Passed::Overtaken,
    };
    let Answered { answer, report } = answered;
    let told = match attempt.is_lease_taken() {
        true => ledger.report_of_joined(&lease, &report).await,
        false => ledger.report(&lease, &report).await,
    };
    match told {
        // An answer that was not kept with its outcome is still the handler's to give.
        Told::Before(outcome) if !has_answer(&outcome) => Passed::Answer(answer),
        Told::Before(outcome) => Passed::Ended(outcome),
        Told::Written | Told::Nothing => Passed::Answer(answer),
        Told::Overtaken => Passed::Overtaken,
        // Nothing was done, so that nothing is lost with it.
        Told::Unwritten(_) if matches!(report, Report::Refused) => Passed::Answer(answer),
        Told::Unwritten(_) => Passed::Unrecorded,
    }
}

/// Whether an outcome says what to answer.
fn has_answer(outcome: &Outcome) -> bool {
    outcome.response.code.is_some() && outcome.response.omitted().is_none()
}

/// A scope as it is, or, if it is longer than a ledger takes, its beginning and a hash of all of it.
pub(crate) fn scope(text: String) -> String {
    if text.len() <= IDENTITY_BYTES_MAX {
        return text;
    }
    let hash = blake3::hash(text.as_bytes()).to_hex();
    format!("{}#{hash}", beginning(&text, IDENTITY_BYTES_MAX - hash.len() - 1))
}

/// Whole seconds, rounded up, one at least.
#[cfg(feature = "http")]
pub(crate) fn whole_seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_up() {
        for (millis, seconds) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (29_960, 30)] {
            assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds);
        }
        assert_eq!(whole_seconds(Duration::MAX), u64::MAX);
    }

    #[test]
    fn long_scopes_fit_and_stay_apart() {
        let [one, other] = ["a", "b"].map(|end| scope(format!("POST /{}{end}", "ä".repeat(300))));
        assert!(one.len() <= IDENTITY_BYTES_MAX && one.starts_with("POST /ää"), "{one}");
        assert_ne!(one, other);
        assert_eq!(scope("x".repeat(255)), "x".repeat(255));
        assert_eq!(scope("x".repeat(256)).len(), 255);
    }
}
