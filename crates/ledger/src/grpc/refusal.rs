//! The layer's own answers.

use std::time::Duration;

use ::http::Response;
use tonic::body::Body;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use super::{ANSWER_CODE_METADATA, PROBLEM_METADATA, REPLAYED_METADATA, RETRY_AFTER_METADATA};

/// When it is worth asking again if the ledger does not say.
const RETRY_SOON: Duration = Duration::from_secs(1);

/// Why the handler's answer is not given.
pub(crate) struct Refusal(Box<Status>);

impl Refusal {
    fn new(word: &'static str, code: Code, text: impl Into<String>) -> Self {
        let mut status = Status::new(code, text);
        status.metadata_mut().insert(PROBLEM_METADATA, MetadataValue::from_static(word));
        Self(Box::new(status))
    }

    pub(crate) fn key_missing(name: &str) -> Self {
        let text = format!(
            "this call needs the metadata {name}: new for every new call, the same for every repetition"
        );
        Self::new("key-missing", Code::InvalidArgument, text)
    }

    pub(crate) fn key_invalid(why: impl Into<String>) -> Self {
        Self::new("key-invalid", Code::InvalidArgument, why)
    }

    pub(crate) fn not_unary(limit: usize) -> Self {
        let text = format!("a call with a key has one message of at most {limit} bytes");
        Self::new("not-unary", Code::InvalidArgument, text)
    }

    pub(crate) fn no_principal() -> Self {
        let text = "a key belongs to a principal, and this call has none";
        Self::new("no-principal", Code::Unauthenticated, text)
    }

    pub(crate) fn in_progress(retry_after: Duration) -> Self {
        let text = "the same call is being handled; ask again for its answer";
        Self::new("in-progress", Code::Aborted, text).retry_after(retry_after)
    }

    pub(crate) fn key_reused() -> Self {
        let text = "this key was used before for another message; a new call needs a new key";
        Self::new("key-reused", Code::InvalidArgument, text)
    }

    pub(crate) fn unknown(since: &str) -> Self {
        let text = format!(
            "this call was handled before and not heard of again since {since}; it may have happened, so it is not \
             repeated until an operator or a reconciler has resolved it"
        );
        Self::new("unknown", Code::FailedPrecondition, text)
    }

    pub(crate) fn overtaken() -> Self {
        let text =
            "a newer attempt at this call took over while this one was handled; ask again for its answer";
        Self::new("overtaken", Code::Aborted, text).retry_after(RETRY_SOON)
    }

    pub(crate) fn unavailable() -> Self {
        let text = "it cannot be found out whether this call was handled before, so it was not handled now";
        Self::new("unavailable", Code::Unavailable, text).retry_after(RETRY_SOON)
    }

    pub(crate) fn sealed() -> Self {
        let text = "this call was handled before; its stored answer cannot be opened now, and it is not handled again";
        Self::new("sealed", Code::Unavailable, text).retry_after(RETRY_SOON)
    }

    pub(crate) fn unrecorded() -> Self {
        let text = "this call was handled, and its outcome could not be written down; it may have happened, so it is \
                    safe to ask again with the same key and not with a new one";
        Self::new("unrecorded", Code::Internal, text)
    }

    pub(crate) fn misconfigured() -> Self {
        let text = "the service is not set up as it must be; this call was not handled";
        Self::new("misconfigured", Code::Internal, text)
    }

    pub(crate) fn answer_not_kept(code: i32) -> Self {
        let text =
            "this call was handled before; its answer was too large to keep, and how it ended is known";
        let mut refusal = Self::new("answer-not-kept", Code::FailedPrecondition, text).replayed();
        refusal.0.metadata_mut().insert(ANSWER_CODE_METADATA, MetadataValue::from(code));
        refusal
    }

    pub(crate) fn failed() -> Self {
        let text = "this call failed before and is not handled again; a new attempt needs a new key";
        Self::new("failed", Code::FailedPrecondition, text).replayed()
    }

    fn replayed(mut self) -> Self {
        self.0.metadata_mut().insert(REPLAYED_METADATA, MetadataValue::from_static("true"));
        self
    }

    fn retry_after(mut self, retry_after: Duration) -> Self {
        let millis = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX).max(1);
        self.0.metadata_mut().insert(RETRY_AFTER_METADATA, MetadataValue::from(millis));
        self
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        self.0.into_http()
    }
}
