//! Answers as the ledger keeps them.

use ::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use ::http::response::Parts;
use ::http::{HeaderValue, Response, StatusCode};

use super::problem::{Problem, Words};
use crate::holder::Report;
use crate::layers::{Body, Meaning, REPLAYED, Taken, kept, restored};
use crate::{Class, End, KeptHeaders, OMITTED, OnLapse, Outcome};

/// What a status means by itself. No layer can see whether a handler did something before it gave this answer. So what
/// is run again, if that may do harm, is only what speaks of the message and not of what it asks for.
pub(crate) const fn meaning(status: StatusCode, on_lapse: OnLapse) -> Meaning {
    match status.as_u16() {
        ..400 => Meaning::Succeeded,
        405 | 411 | 413 | 414 | 415 | 425 | 431 => Meaning::Failed(Class::Refused),
        400 | 401 | 403 | 404 | 406 | 422 => Meaning::of_refusal(on_lapse),
        408 | 429 | 500.. => Meaning::of_trouble(on_lapse),
        _ => Meaning::Failed(Class::Final),
    }
}

/// Whether a body is read before it is passed on. Events come as they happen, for as long as they happen; and what
/// follows a change of protocol is no body.
pub(crate) fn is_collected(parts: &Parts) -> bool {
    let content_type = parts.headers.get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    !essence.eq_ignore_ascii_case(b"text/event-stream") && !parts.status.is_informational()
}

/// What the ledger is told about an answer that means this.
pub(crate) fn report(parts: &Parts, body: &Taken, meaning: Meaning, listed: &KeptHeaders) -> Report {
    meaning.report(|| response(parts, body, listed), || format!("the handler answered {}", parts.status))
}

fn response(parts: &Parts, body: &Taken, listed: &KeptHeaders) -> crate::Response {
    let mut response = crate::Response::default().code(i32::from(parts.status.as_u16()));
    kept(&parts.headers, listed, "", &mut response.headers);
    if body.is_whole() && !parts.status.is_informational() {
        response.payload = body.data.clone();
        return response;
    }
    response.header(OMITTED, body.bytes_at_least().to_string())
}

/// A stored answer, once more.
pub(crate) fn replay(outcome: Outcome, words: &Words) -> Response<Body> {
    let mut response = answer(outcome, words);
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

/// A stored answer, for the request whose handler has stored it.
pub(crate) fn answer(outcome: Outcome, words: &Words) -> Response<Body> {
    let stored = outcome.response;
    let status = stored.code.and_then(|code| u16::try_from(code).ok());
    let status = status.and_then(|code| StatusCode::from_u16(code).ok());
    if stored.omitted().is_some() {
        return Problem::answer_not_kept(status.map(|status| status.as_u16())).into_response(words);
    }
    let status = match (status.filter(|status| !status.is_informational()), outcome.end) {
        (Some(status), _) => status,
        // An operator who resolved it by hand need not know what the handler would have said.
        (None, End::Succeeded) => StatusCode::OK,
        (None, End::FailedFinal | End::FailedRetryable) => return Problem::failed().into_response(words),
    };
    let mut headers = restored(&stored.headers, "");
    if !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(stored.payload.len()));
    }
    let mut response = Response::new(Body::whole(stored.payload, None));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_means_something() {
        use Class::{Final, Refused, Retryable, Unclear};
        for code in 100..=999 {
            let [under_hold, under_retry] = match code {
                100..=399 => [Meaning::Succeeded; 2],
                405 | 411 | 413 | 414 | 415 | 425 | 431 => [Meaning::Failed(Refused); 2],
                400 | 401 | 403 | 404 | 406 | 422 => [Final, Refused].map(Meaning::Failed),
                408 | 429 => [Unclear, Retryable].map(Meaning::Failed),
                402..=499 => [Meaning::Failed(Final); 2],
                _ => [Unclear, Retryable].map(Meaning::Failed),
            };
            let status = StatusCode::from_u16(code).unwrap();
            assert_eq!(meaning(status, OnLapse::Hold), under_hold, "{code}");
            assert_eq!(meaning(status, OnLapse::Retry), under_retry, "{code}");
        }
    }
}
