//! What a handler and its layer tell each other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ::http::Extensions;

use crate::holder::Report;
use crate::{Class, End, Ending, Identity, Lease, OnLapse, Response};

/// What an answer means for the next request with the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// It happened. The answer is kept and replayed.
    Succeeded,
    /// It failed.
    Failed(Class),
}

/// An attempt at a request with a key, for its handler: the layer puts it into the request's extensions.
///
/// A handler that knows nothing of it is guarded all the same. One whose effect is a write in the database of the ledger
/// takes the lease and ends the effect itself, in the transaction of that write. Then the effect and its outcome are
/// there together or not at all.
#[derive(Clone, Debug)]
pub struct Attempt {
    lease: Lease,
    said: Arc<Said>,
}

/// What a handler has said to its layer.
#[derive(Debug, Default)]
struct Said {
    is_lease_taken: AtomicBool,
    meaning: Mutex<Option<Meaning>>,
}

impl Attempt {
    pub(crate) fn new(lease: Lease) -> Self {
        Self { lease, said: Arc::default() }
    }

    /// Which effect: on whose behalf, of which scope, under which key.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.lease.identity
    }

    /// Which attempt it is, from 1.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.lease.attempt
    }

    /// The lease, for a handler that ends the effect itself (`PostgresStore::finish_tx`).
    ///
    /// From here on the layer writes no success down: what the handler has committed is the outcome, and the client is
    /// given what is stored, whatever the handler answers. If it has committed nothing, an answer that means success is
    /// not given to the client, and any other means what it means by itself.
    #[must_use = "a handler that takes the lease ends the effect itself"]
    pub fn take_lease(&self) -> &Lease {
        self.said.is_lease_taken.store(true, Ordering::SeqCst);
        &self.lease
    }

    /// Says what the answer to come means, where the answer itself has no extensions to say so, such as a
    /// `tonic::Status`. What the extensions of the answer say counts first.
    pub fn means(&self, meaning: Meaning) {
        *self.said.meaning.lock().unwrap_or_else(PoisonError::into_inner) = Some(meaning);
    }

    /// What the handler has said of its answer, in the answer's extensions or here.
    pub(crate) fn said(&self, answer: &Extensions) -> Option<Meaning> {
        let here = || *self.said.meaning.lock().unwrap_or_else(PoisonError::into_inner);
        answer.get::<Meaning>().copied().or_else(here)
    }

    pub(crate) fn is_lease_taken(&self) -> bool {
        self.said.is_lease_taken.load(Ordering::SeqCst)
    }
}

/// Tells what an answer means, from the answer and from what it would mean by itself.
pub(crate) type Classify<A> = Arc<dyn Fn(&A, Meaning) -> Meaning + Send + Sync>;

impl Meaning {
    /// Of an answer that says "not now" or "something went wrong", and not whether anything was done before it was
    /// given. It is run again only if the service has said that a repetition does no harm.
    pub(crate) const fn of_trouble(on_lapse: OnLapse) -> Self {
        match on_lapse {
            OnLapse::Retry => Self::Failed(Class::Retryable),
            OnLapse::Hold => Self::Failed(Class::Unclear),
        }
    }

    /// Of an answer that a check in front of the business mostly gives, and that the business itself may give as well.
    pub(crate) const fn of_refusal(on_lapse: OnLapse) -> Self {
        match on_lapse {
            OnLapse::Retry => Self::Failed(Class::Refused),
            OnLapse::Hold => Self::Failed(Class::Final),
        }
    }

    /// What the ledger is told about an answer that means this.
    pub(crate) fn report(
        self,
        response: impl FnOnce() -> Response,
        failure: impl FnOnce() -> String,
    ) -> Report {
        let (end, error) = match self {
            Self::Succeeded => (End::Succeeded, String::new()),
            Self::Failed(Class::Retryable) => (End::FailedRetryable, failure()),
            Self::Failed(Class::Final) => (End::FailedFinal, failure()),
            Self::Failed(Class::Refused) => return Report::Refused,
            Self::Failed(Class::Unclear) => return Report::Unclear,
        };
        Report::Ended(Ending { end, response: response(), error })
    }
}
