//! What a handler and its layer tell each other.

use std::sync::Arc;

use crate::holder::Report;
use crate::{Class, End, Ending, OnLapse, Response};

/// What an answer means for the next request with the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// It happened. The answer is kept and replayed.
    Succeeded,
    /// It failed.
    Failed(Class),
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
