//! Answers as the ledger keeps them: the message as payload, the code as code, metadata as headers, and trailers as
//! headers under a prefix that no name of a header can have.

use ::http::header::CONTENT_TYPE;
use ::http::response::Parts;
use ::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use tonic::Code;
use tonic::body::Body;

use super::frame::{Framed, frame, framed};
use super::refusal::Refusal;
use crate::holder::Report;
use crate::layers::{REPLAYED, ServerErrors, Taken, kept, restored};
use crate::{End, Ending, OMITTED, Outcome};

const TRAILER: &str = "trailer:";
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const CONTENT_TYPE_GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// What a code means; `None` if nothing is to be written down.
pub(crate) const fn end(code: Code, server_errors: ServerErrors) -> Option<End> {
    match code {
        Code::Ok => Some(End::Succeeded),
        Code::Unavailable | Code::ResourceExhausted | Code::Aborted => Some(End::FailedRetryable),
        Code::DeadlineExceeded | Code::Cancelled | Code::Unknown | Code::Internal | Code::DataLoss => {
            match server_errors {
                ServerErrors::Replay => Some(End::FailedFinal),
                ServerErrors::Retry => Some(End::FailedRetryable),
                ServerErrors::Hold => None,
            }
        }
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Unauthenticated => Some(End::FailedFinal),
    }
}

/// How a call ended: the status is in the trailers, or among the headers if there is nothing but a status.
fn code(parts: &Parts, trailers: Option<&HeaderMap>) -> Code {
    let status = trailers.and_then(|trailers| trailers.get(GRPC_STATUS));
    let status = status.or_else(|| parts.headers.get(GRPC_STATUS));
    match status {
        Some(status) if parts.status == StatusCode::OK => Code::from_bytes(status.as_bytes()),
        // Not an answer that gRPC has: the outcome is unknown.
        _ => Code::Unknown,
    }
}

/// What the ledger is told about an answer.
pub(crate) fn report(parts: &Parts, body: &Taken, server_errors: ServerErrors) -> Report {
    let framed = framed(&body.data);
    let is_kept = body.is_whole() && !matches!(&framed, Framed::One(message) if message.compressed);
    let code = match (body.is_whole(), parts.status) {
        (true, _) => code(parts, body.trailers.as_ref()),
        // What is too large to keep is not read to its trailers. A handler that has a message to give has succeeded;
        // only one that gives several can still fail, and such are not for this layer.
        (false, StatusCode::OK) if !body.is_broken() => Code::Ok,
        (false, _) => Code::Unknown,
    };
    let Some(end) = end(code, server_errors) else { return Report::Unclear };
    let mut response = crate::Response::default().code(code as i32);
    kept(&parts.headers, "", &mut response.headers);
    if let Some(trailers) = &body.trailers {
        kept(trailers, TRAILER, &mut response.headers);
    }
    match framed {
        Framed::One(message) if is_kept => response.payload = message.bytes,
        Framed::Nothing if is_kept => {}
        _ => response = response.header(OMITTED, body.bytes_at_least().to_string()),
    }
    let error = match end {
        End::Succeeded => String::new(),
        End::FailedFinal | End::FailedRetryable => format!("the handler answered {code:?}"),
    };
    Report::Ended(Ending { end, response, error })
}

/// A stored answer, once more.
pub(crate) fn replay(outcome: &Outcome) -> Response<Body> {
    let stored = &outcome.response;
    // An operator who resolved it by hand need not know what the handler would have said.
    let code = match (stored.code, outcome.end) {
        (Some(code), _) => code,
        (None, End::Succeeded) => Code::Ok as i32,
        (None, End::FailedFinal | End::FailedRetryable) => return Refusal::failed().into_response(),
    };
    if stored.omitted().is_some() {
        return Refusal::answer_not_kept(code).into_response();
    }
    let mut headers = restored(&stored.headers, "");
    headers.insert(CONTENT_TYPE, CONTENT_TYPE_GRPC);
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    let status = HeaderValue::from(code);
    let mut trailers = restored(&stored.headers, TRAILER);
    let body = match frame(&stored.payload) {
        Some(body) if code == Code::Ok as i32 => {
            headers.remove(GRPC_STATUS);
            trailers.insert(GRPC_STATUS, status);
            Body::new(crate::layers::Body::whole(body, Some(trailers)))
        }
        _ => {
            // Nothing but a status: the trailers are the headers.
            headers.extend(trailers);
            headers.insert(GRPC_STATUS, status);
            Body::empty()
        }
    };
    let mut response = Response::new(body);
    *response.headers_mut() = headers;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_means_something() {
        use End::{FailedFinal, FailedRetryable, Succeeded};
        let expected = [
            Some(Succeeded),       // OK
            None,                  // CANCELLED
            None,                  // UNKNOWN
            Some(FailedFinal),     // INVALID_ARGUMENT
            None,                  // DEADLINE_EXCEEDED
            Some(FailedFinal),     // NOT_FOUND
            Some(FailedFinal),     // ALREADY_EXISTS
            Some(FailedFinal),     // PERMISSION_DENIED
            Some(FailedRetryable), // RESOURCE_EXHAUSTED
            Some(FailedFinal),     // FAILED_PRECONDITION
            Some(FailedRetryable), // ABORTED
            Some(FailedFinal),     // OUT_OF_RANGE
            Some(FailedFinal),     // UNIMPLEMENTED
            None,                  // INTERNAL
            Some(FailedRetryable), // UNAVAILABLE
            None,                  // DATA_LOSS
            Some(FailedFinal),     // UNAUTHENTICATED
            None,                  // no such code
        ];
        for (number, expected) in (0..).zip(expected) {
            let code = Code::from_i32(number);
            assert_eq!(end(code, ServerErrors::Hold), expected, "{code:?}");
            assert_eq!(end(code, ServerErrors::Replay), expected.or(Some(FailedFinal)), "{code:?}");
            assert_eq!(end(code, ServerErrors::Retry), expected.or(Some(FailedRetryable)), "{code:?}");
        }
    }
}
