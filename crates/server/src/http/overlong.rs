//! The answer to a URL that is longer than the HTTP library reads.
//!
//! Below its limits the edge refuses a URL in the words of the API that was called. Above them the library refuses it
//! by itself, with a bare status line, and with one of two statuses. The wire puts the words of the edge in its place,
//! so that clients meet one kind of answer.

use std::fmt::Write as _;

use driftq_api::{Code, Fault};
use hyper::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderValue};

use super::answer::{put, refusal};
use super::body::AnswerBody;
use super::endpoint::Dialect;
use super::request_id::{RequestIds, X_REQUEST_ID};

/// What is kept of a request line: a method and the first part of a path.
const BEGINNING_BYTES: usize = 16;

/// How a request begins, as far as it was read.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    beginning: Vec<u8>,
    /// The request line has ended: what is too long comes after it.
    has_ended: bool,
}

impl Opening {
    /// More of the request came.
    pub(crate) fn see(&mut self, bytes: &[u8]) {
        let room = BEGINNING_BYTES - self.beginning.len();
        self.beginning.extend_from_slice(&bytes[..room.min(bytes.len())]);
        self.has_ended = self.has_ended || bytes.contains(&b'\n');
    }

    /// Another request begins.
    pub(crate) fn forget(&mut self) {
        self.beginning.clear();
        self.has_ended = false;
    }

    fn dialect(&self) -> Dialect {
        let path = self.beginning.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        if path.starts_with(b"/v2/") { Dialect::V2 } else { Dialect::V1 }
    }
}

/// What is to be written instead of `bytes`, if they are the library's bare refusal of a URL.
pub(crate) fn instead(bytes: &[u8], opening: &Opening, ids: &RequestIds) -> Option<Vec<u8>> {
    let is_bare = || bytes.windows(CONTENT_LENGTH_ZERO.len()).any(|window| window == CONTENT_LENGTH_ZERO);
    let is_url = bytes.starts_with(b"HTTP/1.1 414 ")
        || (bytes.starts_with(b"HTTP/1.1 431 ") && !opening.has_ended && !opening.beginning.is_empty());
    (is_url && is_bare()).then(|| written(opening.dialect(), ids))
}

const CONTENT_LENGTH_ZERO: &[u8] = b"content-length: 0\r\n";

fn written(dialect: Dialect, ids: &RequestIds) -> Vec<u8> {
    let id = ids.of(&HeaderMap::new());
    let fault = Fault::new(Code::UrlTooLong, "the URL is too long; send a JSON body instead");
    let mut answer = refusal(&fault, dialect, &id);
    put(&mut answer, X_REQUEST_ID, id);
    put(&mut answer, CONNECTION, HeaderValue::from_static("close"));
    let (head, body) = answer.into_parts();
    let AnswerBody::Whole(body) = body else { return Vec::new() };
    let mut text = format!("HTTP/1.1 {}\r\n", head.status);
    for (name, value) in &head.headers {
        let _ = write!(text, "{name}: {}\r\n", value.to_str().unwrap_or_default());
    }
    let _ = write!(text, "{CONTENT_LENGTH}: {}\r\n\r\n", body.len());
    let mut out = text.into_bytes();
    out.extend_from_slice(&body);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const BARE: &str = "HTTP/1.1 414 URI Too Long\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    const HEAD: &str =
        "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

    fn answer(request: &str, bytes: &str) -> Option<String> {
        let mut opening = Opening::default();
        request.as_bytes().chunks(5).for_each(|chunk| opening.see(chunk));
        instead(bytes.as_bytes(), &opening, &RequestIds::new()).map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn a_bare_refusal_of_a_url_gets_the_words_of_the_edge() {
        for bare in [BARE, HEAD] {
            let text = answer("POST /v1/produce?topic=t&value=xxx", bare).unwrap();
            assert!(text.starts_with("HTTP/1.1 414 URI Too Long\r\n"), "{text}");
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("content-length: {}", body.len())), "{text}");
            assert!(head.contains("x-request-id: ") && head.contains("connection: close"), "{text}");
            assert!(body.starts_with("{\"error\":\"URI_TOO_LONG\",\"message\":"), "{text}");
        }
        let text = answer("GET /v2/topics/xxx", BARE).unwrap();
        assert!(text.contains("application/problem+json") && text.contains("\"status\":414"), "{text}");
    }

    #[test]
    fn everything_else_is_written_as_it_is() {
        assert_eq!(answer("GET /v1/healthz HTTP/1.1\r\nx-long: xxx", HEAD), None, "it is a header");
        assert_eq!(answer("", HEAD), None);
        let own = "HTTP/1.1 414 URI Too Long\r\ncontent-length: 80\r\n\r\n{}";
        assert_eq!(answer("GET /v1/", own), None);
        assert_eq!(answer("GET /v1/", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"), None);
    }
}
