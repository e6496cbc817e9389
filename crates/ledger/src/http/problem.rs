//! The layer's own answers, as RFC 9457 has them.

use std::fmt;
use std::time::Duration;

use ::http::header::{CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use ::http::{HeaderValue, Response, StatusCode};
use bytes::Bytes;
use serde::Serialize;

use crate::layers::{Body, whole_seconds};

/// When it is worth asking again if the ledger does not say.
const RETRY_SOON: Duration = Duration::from_secs(1);

/// How the draft calls the header; a service may call it otherwise.
pub(crate) const KEY_HEADER_AS_WRITTEN: &str = "Idempotency-Key";

/// What a service says of its own in the layer's answers.
#[derive(Clone)]
pub(crate) struct Words {
    /// The header of the key, as people write it.
    pub(crate) key_header: String,
    /// Where a problem is explained, in front of the word for it.
    pub(crate) kind: String,
}

impl Default for Words {
    fn default() -> Self {
        let kind = "urn:driftq:idempotency:".to_owned();
        Self { key_header: KEY_HEADER_AS_WRITTEN.to_owned(), kind }
    }
}

/// Why the handler's answer is not given.
pub(crate) struct Problem {
    word: &'static str,
    status: StatusCode,
    title: &'static str,
    detail: String,
    retry_after: Option<Duration>,
    /// The status of the stored answer, if there is one.
    answer_status: Option<u16>,
}

#[derive(Serialize)]
struct Text {
    #[serde(rename = "type")]
    kind: String,
    title: String,
    status: u16,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer_status: Option<u16>,
}

impl Problem {
    fn new(word: &'static str, status: StatusCode, title: &'static str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { word, status, title, detail, retry_after: None, answer_status: None }
    }

    /// In the words of the draft, as are the other two that it has.
    pub(crate) fn key_missing() -> Self {
        let detail = "This operation is idempotent and it requires correct usage of Idempotency Key.";
        Self::new("key-missing", StatusCode::BAD_REQUEST, "Idempotency-Key is missing", detail)
    }

    pub(crate) fn key_invalid(why: impl fmt::Display) -> Self {
        let detail = format!(
            "This operation is idempotent and it requires correct usage of Idempotency Key. This one cannot be read: \
             {why}."
        );
        Self::new("key-invalid", StatusCode::BAD_REQUEST, "Idempotency-Key is malformed", detail)
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
        let detail = "A request with the same Idempotency-Key for the same operation is being processed or is \
                      outstanding.";
        let title = "A request is outstanding for this Idempotency-Key";
        Self::new("in-progress", StatusCode::CONFLICT, title, detail).retry_after(retry_after)
    }

    pub(crate) fn key_reused() -> Self {
        let detail = "This operation is idempotent and it requires correct usage of Idempotency Key. Idempotency Key \
                      MUST not be reused across different payloads of this operation.";
        Self::new("key-reused", StatusCode::UNPROCESSABLE_ENTITY, "Idempotency-Key is already used", detail)
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
        Self { answer_status, ..problem }
    }

    /// An operator who resolved a record said that it failed, and not what to answer.
    pub(crate) fn failed() -> Self {
        let detail = "This request failed before and is not handled again; a new attempt needs a new key.";
        Self::new("failed", StatusCode::CONFLICT, "It failed before", detail)
    }

    pub(crate) fn misconfigured() -> Self {
        let detail = "The service is not set up as it must be. This request was not handled.";
        Self::new("misconfigured", StatusCode::INTERNAL_SERVER_ERROR, "The service is misconfigured", detail)
    }

    const fn retry_after(mut self, retry_after: Duration) -> Self {
        self.retry_after = Some(retry_after);
        self
    }

    pub(crate) fn into_response(self, words: &Words) -> Response<Body> {
        let named = |text: &str| text.replace(KEY_HEADER_AS_WRITTEN, &words.key_header);
        let text = Text {
            kind: format!("{}{}", words.kind, self.word),
            title: named(self.title),
            status: self.status.as_u16(),
            detail: named(&self.detail),
            answer_status: self.answer_status,
        };
        // Texts and numbers always have a JSON form; if they had not, the status alone would say enough.
        let body = serde_json::to_vec(&text).unwrap_or_default();
        let length = HeaderValue::from(body.len());
        let mut response = Response::new(Body::whole(Bytes::from(body), None));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CONTENT_LANGUAGE, HeaderValue::from_static("en"));
        headers.insert(CONTENT_LENGTH, length);
        if let Some(retry_after) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(retry_after)));
        }
        response
    }
}
