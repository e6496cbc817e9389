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
use crate::layers::{Meaning, REPLAYED, Taken, kept, restored};
use crate::seal::TRAILER;
use crate::{Class, End, KeptHeaders, OMITTED, OnLapse, Outcome};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const CONTENT_TYPE_GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// What a code means by itself. As in `http`: what is run again, if that may do harm, is only what no handler says.
pub(crate) const fn meaning(code: Code, on_lapse: OnLapse) -> Meaning {
    match code {
        Code::Ok => Meaning::Succeeded,
        Code::Unimplemented => Meaning::Failed(Class::Refused),
        Code::InvalidArgument
        | Code::OutOfRange
        | Code::NotFound
        | Code::PermissionDenied
        | Code::Unauthenticated => Meaning::of_refusal(on_lapse),
        Code::Unavailable
        | Code::ResourceExhausted
        | Code::Aborted
        | Code::DeadlineExceeded
        | Code::Cancelled
        | Code::Unknown
        | Code::Internal
        | Code::DataLoss => Meaning::of_trouble(on_lapse),
        Code::AlreadyExists | Code::FailedPrecondition => Meaning::Failed(Class::Final),
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

/// How a call ended, as far as its answer was read.
pub(crate) fn code_of(parts: &Parts, body: &Taken) -> Code {
    match (body.is_whole(), parts.status) {
        (true, _) => code(parts, body.trailers.as_ref()),
        // What is too large to keep is not read to its trailers. A handler that has a message to give has succeeded;
        // only one that gives several can still fail, and such are not for this layer.
        (false, StatusCode::OK) if !body.is_broken() => Code::Ok,
        (false, _) => Code::Unknown,
    }
}

/// What the ledger is told about an answer that means this.
pub(crate) fn report(
    parts: &Parts,
    body: &Taken,
    (code, meaning): (Code, Meaning),
    listed: &KeptHeaders,
) -> Report {
    meaning.report(|| response(parts, body, code, listed), || format!("the handler answered {code:?}"))
}

fn response(parts: &Parts, body: &Taken, code: Code, listed: &KeptHeaders) -> crate::Response {
    let framed = framed(&body.data);
    let is_kept = body.is_whole() && !matches!(&framed, Framed::One(message) if message.compressed);
    let mut response = crate::Response::default().code(code as i32);
    kept(&parts.headers, listed, "", &mut response.headers);
    if let Some(trailers) = &body.trailers {
        kept(trailers, listed, TRAILER, &mut response.headers);
    }
    match framed {
        Framed::One(message) if is_kept => response.payload = message.bytes,
        Framed::Nothing if is_kept => {}
        _ => response = response.header(OMITTED, body.bytes_at_least().to_string()),
    }
    response
}

/// A stored answer, once more.
pub(crate) fn replay(outcome: &Outcome) -> Response<Body> {
    let mut response = answer(outcome);
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

/// A stored answer, for the call whose handler has stored it.
pub(crate) fn answer(outcome: &Outcome) -> Response<Body> {
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
        use Class::{Final, Refused, Retryable, Unclear};
        let [happened, refused, last] =
            [[Meaning::Succeeded; 2], [Meaning::Failed(Refused); 2], [Meaning::Failed(Final); 2]];
        let (check, trouble) =
            ([Final, Refused].map(Meaning::Failed), [Unclear, Retryable].map(Meaning::Failed));
        let expected = [
            happened, // OK
            trouble,  // CANCELLED
            trouble,  // UNKNOWN
            check,    // INVALID_ARGUMENT
            trouble,  // DEADLINE_EXCEEDED
            check,    // NOT_FOUND
            last,     // ALREADY_EXISTS
            check,    // PERMISSION_DENIED
            trouble,  // RESOURCE_EXHAUSTED
            last,     // FAILED_PRECONDITION
            trouble,  // ABORTED
            check,    // OUT_OF_RANGE
            refused,  // UNIMPLEMENTED
            trouble,  // INTERNAL
            trouble,  // UNAVAILABLE
            trouble,  // DATA_LOSS
            check,    // UNAUTHENTICATED
            trouble,  // no such code
        ];
        for (number, [under_hold, under_retry]) in (0..).zip(expected) {
            let code = Code::from_i32(number);
            assert_eq!(meaning(code, OnLapse::Hold), under_hold, "{code:?}");
            assert_eq!(meaning(code, OnLapse::Retry), under_retry, "{code:?}");
        }
    }
}
