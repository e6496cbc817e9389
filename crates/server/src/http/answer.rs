//! Answers, put together.

use std::borrow::Cow;

use bytes::Bytes;
use driftq_api::v1::CODE_HEADER;
use driftq_api::v2::Problem;
use driftq_api::{Fault, JSON, NDJSON, PROBLEM};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use serde::Serialize;

use super::body::AnswerBody;
use super::endpoint::{Allowed, Dialect};
use super::events::Events;
use super::lines::Lines;

/// A whole answer.
pub(crate) type Answer = Response<AnswerBody>;

/// Room for the smallest answers, so that most need no second allocation.
const BODY_BYTES: usize = 128;

/// An answer that says something.
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Answer {
    whole(status, JSON, to_bytes(body))
}

/// The same for what writes itself.
pub(crate) fn written(status: StatusCode, write: impl FnOnce(&mut Vec<u8>)) -> Answer {
    whole(status, JSON, ended(write))
}

/// An answer that says nothing.
pub(crate) fn no_content() -> Answer {
    let mut answer = Response::new(AnswerBody::Whole(Bytes::new()));
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer
}

/// An answer that goes on.
pub(crate) fn stream(lines: Lines) -> Answer {
    with_type(StatusCode::OK, NDJSON, AnswerBody::Stream(Box::new(lines)))
}

/// An answer that tells of changes.
pub(crate) fn events(events: Events) -> Answer {
    let mut answer = with_type(StatusCode::OK, "text/event-stream", AnswerBody::Events(Box::new(events)));
    put(&mut answer, CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// Any answer in one piece.
pub(crate) fn whole(status: StatusCode, content_type: &'static str, body: Bytes) -> Answer {
    with_type(status, content_type, AnswerBody::Whole(body))
}

/// A refusal, in the words of the API that was called.
pub(crate) fn refusal(fault: &Fault, dialect: Dialect, id: &HeaderValue) -> Answer {
    let entry = fault.entry();
    let mut answer = match dialect {
        Dialect::V1 => {
            let mut answer = json(status(entry.v1_status), &fault.v1());
            put(&mut answer, HeaderName::from_static(CODE_HEADER), HeaderValue::from_static(entry.code));
            answer
        }
        Dialect::V2 => {
            let instance = id.to_str().ok().map(Cow::Borrowed);
            whole(status(entry.status), PROBLEM, to_bytes(&Problem { instance, ..fault.v2() }))
        }
    };
    if let Some(millis) = fault.retry_after_ms {
        put(&mut answer, RETRY_AFTER, HeaderValue::from(millis.div_ceil(1000)));
    }
    answer
}

/// A refusal of a method, with the methods that would be taken.
pub(crate) fn method_refusal(fault: &Fault, dialect: Dialect, allow: Allowed, id: &HeaderValue) -> Answer {
    let mut answer = refusal(fault, dialect, id);
    if let Ok(allow) = HeaderValue::from_str(&allow.to_string()) {
        put(&mut answer, ALLOW, allow);
    }
    answer
}

/// Sets a header of an answer.
pub(crate) fn put(answer: &mut Answer, name: HeaderName, value: HeaderValue) {
    answer.headers_mut().insert(name, value);
}

fn with_type(status: StatusCode, content_type: &'static str, body: AnswerBody) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    put(&mut answer, CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

/// A status of the catalogue.
pub(super) fn status(number: u16) -> StatusCode {
    StatusCode::from_u16(number).expect("the catalogue holds statuses between 400 and 599")
}

fn to_bytes(body: &impl Serialize) -> Bytes {
    ended(|out| serde_json::to_writer(out, body).expect("texts and numbers always have a JSON form"))
}

/// What is written, with a newline behind it.
fn ended(write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut out = Vec::with_capacity(BODY_BYTES);
    write(&mut out);
    out.push(b'\n');
    Bytes::from(out)
}
