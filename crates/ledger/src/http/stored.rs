//! Answers as the ledger keeps them.

use ::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use ::http::response::Parts;
use ::http::{HeaderValue, Response, StatusCode};

use super::problem::Problem;
use crate::holder::Report;
use crate::layers::{Body, REPLAYED, ServerErrors, Taken, kept, restored};
use crate::{End, Ending, OMITTED, Outcome};

/// What an answer means; `None` if nothing is to be written down.
pub(crate) fn end(status: StatusCode, server_errors: ServerErrors) -> Option<End> {
    match status.as_u16() {
        ..400 => Some(End::Succeeded),
        408 | 425 | 429 | 503 => Some(End::FailedRetryable),
        400..500 => Some(End::FailedFinal),
        _ => match server_errors {
            ServerErrors::Replay => Some(End::FailedFinal),
            ServerErrors::Retry => Some(End::FailedRetryable),
            ServerErrors::Hold => None,
        },
    }
}

/// Whether a body is read before it is passed on. Events come as they happen, for as long as they happen; and what
/// follows a change of protocol is no body.
pub(crate) fn is_collected(parts: &Parts) -> bool {
    let content_type = parts.headers.get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    !essence.eq_ignore_ascii_case(b"text/event-stream") && !parts.status.is_informational()
}

/// What the ledger is told about an answer.
pub(crate) fn report(parts: &Parts, body: &Taken, server_errors: ServerErrors) -> Report {
    let Some(end) = end(parts.status, server_errors) else { return Report::Unclear };
    let mut response = crate::Response::default().code(i32::from(parts.status.as_u16()));
    kept(&parts.headers, "", &mut response.headers);
    if body.is_whole() && !parts.status.is_informational() {
        response.payload = body.data.clone();
    } else {
        response = response.header(OMITTED, body.bytes_at_least().to_string());
    }
    let error = match end {
        End::Succeeded => String::new(),
        End::FailedFinal | End::FailedRetryable => format!("the handler answered {}", parts.status),
    };
    Report::Ended(Ending { end, response, error })
}

/// A stored answer, once more.
pub(crate) fn replay(outcome: Outcome) -> Response<Body> {
    let stored = outcome.response;
    let status = stored.code.and_then(|code| u16::try_from(code).ok());
    let status = status.and_then(|code| StatusCode::from_u16(code).ok());
    if stored.omitted().is_some() {
        return Problem::answer_not_kept(status.map(|status| status.as_u16())).into_response();
    }
    let status = match (status.filter(|status| !status.is_informational()), outcome.end) {
        (Some(status), _) => status,
        // An operator who resolved it by hand need not know what the handler would have said.
        (None, End::Succeeded) => StatusCode::OK,
        (None, End::FailedFinal | End::FailedRetryable) => return Problem::failed().into_response(),
    };
    let mut headers = restored(&stored.headers, "");
    if !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(stored.payload.len()));
    }
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
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
        for code in 100..=999 {
            let status = StatusCode::from_u16(code).unwrap();
            let expected = match code {
                100..=399 => Some(End::Succeeded),
                408 | 425 | 429 | 503 => Some(End::FailedRetryable),
                400..=499 => Some(End::FailedFinal),
                _ => None,
            };
            assert_eq!(end(status, ServerErrors::Hold), expected, "{code}");
            assert_eq!(end(status, ServerErrors::Replay), expected.or(Some(End::FailedFinal)), "{code}");
            assert_eq!(end(status, ServerErrors::Retry), expected.or(Some(End::FailedRetryable)), "{code}");
        }
    }
}
