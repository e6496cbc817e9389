//! The layer's own answers, as RFC 9457 has them.

use std::time::Duration;

use ::http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use ::http::{HeaderValue, Response, StatusCode};
use bytes::Bytes;
use serde::Serialize;

use crate::layers::{Body, REPLAYED, whole_seconds};

/// When it is worth asking again if the ledger does not say.
const RETRY_SOON: Duration = Duration::from_secs(1);

/// Why the handler's answer is not given.
pub(crate) struct Problem {
    word: &'static str,
    status: StatusCode,
    title: &'static str,
    detail: String,
    retry_after: Option<Duration>,
    /// The status of the stored answer, if there is one.
    answer_status: Option<u16>,
    replayed: bool,
}

#[derive(Serialize)]
struct Text<'a> {
    #[serde(rename = "type")]
    kind: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer_status: Option<u16>,
}

impl Problem {
    fn new(word: &'static str, status: StatusCode, title: &'static str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { word, status, title, detail, retry_after: None, answer_status: None, replayed: false }
    }

    pub(crate) fn key_missing() -> Self {
        let detail = "This request needs an Idempotency-Key header: a string in double quotes, new for every new \
                      request and the same for every repetition.";
        Self::new("key-missing", StatusCode::BAD_REQUEST, "Idempotency-Key is missing", detail)
    }

    pub(crate) fn key_invalid(why: impl Into<String>) -> Self {
        Self::new("key-invalid", StatusCode::BAD_REQUEST, "Idempotency-Key cannot be read", why)
    }

    pub(crate) fn no_principal() -> Self {
        let detail = "A key belongs to a principal, and this request has none.";
        Self::new("no-principal", StatusCode::UNAUTHORIZED, "No principal", detail)
    }

    pub(crate) fn body_too_large(limit: usize) -> Self {
        let detail = format!("The body of a request with a key may have {limit} bytes.");
        Self::new("body-too-large", StatusCode::PAYLOAD_TOO_LARGE, "The body is too large", detail)
    }

    pub(crate) fn body_unreadable() -> Self {
        let detail = "The body broke off before its end.";
        Self::new("body-unreadable", StatusCode::BAD_REQUEST, "The body cannot be read", detail)
    }

    pub(crate) fn in_progress(retry_after: Duration) -> Self {
        let detail = "The same request is being handled; ask again for its answer.";
        let problem = Self::new("in-progress", StatusCode::CONFLICT, "It is being handled", detail);
        problem.retry_after(retry_after)
    }

    pub(crate) fn key_reused() -> Self {
        let detail = "This key was used before for another request; a new request needs a new key.";
        Self::new("key-reused", StatusCode::UNPROCESSABLE_ENTITY, "The key was used before", detail)
    }

    pub(crate) fn unknown(since: &str) -> Self {
        let detail = format!(
            "This request was handled before and not heard of again since {since}. It may have happened, so it is \
             not repeated until an operator or a reconciler has resolved it. Asking again does not help until then."
        );
        Self::new("unknown", StatusCode::CONFLICT, "It is unknown whether it happened", detail)
    }

    pub(crate) fn unavailable() -> Self {
        let detail =
            "It cannot be found out whether this request was handled before, so it was not handled now.";
        let problem =
            Self::new("unavailable", StatusCode::SERVICE_UNAVAILABLE, "The ledger cannot be asked", detail);
        problem.retry_after(RETRY_SOON)
    }

    pub(crate) fn sealed() -> Self {
        let detail = "This request was handled before. Its stored answer cannot be opened now; it is not handled again.";
        let problem =
            Self::new("sealed", StatusCode::SERVICE_UNAVAILABLE, "The answer cannot be opened", detail);
        problem.retry_after(RETRY_SOON)
    }

    pub(crate) fn unrecorded() -> Self {
        let detail = "This request was handled, and its outcome could not be written down. It may have happened; \
                      with the same key it is safe to ask again, and with a new key it is not.";
        Self::new("unrecorded", StatusCode::SERVICE_UNAVAILABLE, "It is not written down", detail)
    }

    pub(crate) fn overtaken() -> Self {
        let detail = "A newer attempt at this request took over while this one was handled; ask again for its \
                      answer.";
        let problem = Self::new("overtaken", StatusCode::CONFLICT, "A newer attempt took over", detail);
        problem.retry_after(RETRY_SOON)
    }

    pub(crate) fn answer_not_kept(answer_status: Option<u16>) -> Self {
        let detail =
            "This request was handled before. Its answer was too large to keep; how it ended is known.";
        let problem = Self::new("answer-not-kept", StatusCode::CONFLICT, "The answer was not kept", detail);
        Self { answer_status, replayed: true, ..problem }
    }

    /// An operator who resolved a record said that it failed, and not what to answer.
    pub(crate) fn failed() -> Self {
        let detail = "This request failed before and is not handled again; a new attempt needs a new key.";
        let problem = Self::new("failed", StatusCode::CONFLICT, "It failed before", detail);
        Self { replayed: true, ..problem }
    }

    pub(crate) fn misconfigured() -> Self {
        let detail = "The service is not set up as it must be. This request was not handled.";
        Self::new("misconfigured", StatusCode::INTERNAL_SERVER_ERROR, "The service is misconfigured", detail)
    }

    const fn retry_after(mut self, retry_after: Duration) -> Self {
        self.retry_after = Some(retry_after);
        self
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let text = Text {
            kind: format!("urn:driftq:idempotency:{}", self.word),
            title: self.title,
            status: self.status.as_u16(),
            detail: &self.detail,
            answer_status: self.answer_status,
        };
        // Texts and numbers always have a JSON form; if they had not, the status alone would say enough.
        let body = serde_json::to_vec(&text).unwrap_or_default();
        let length = HeaderValue::from(body.len());
        let mut response = Response::new(Body::whole(Bytes::from(body), None));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CONTENT_LENGTH, length);
        if let Some(retry_after) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(retry_after)));
        }
        if self.replayed {
            headers.insert(REPLAYED, HeaderValue::from_static("true"));
        }
        response
    }
}
