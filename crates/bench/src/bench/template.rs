//! Requests, rendered before the clock starts.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
};

use serde_json::{Value, json};

/// Width of a number in a request, so that writing another one moves nothing.
const NUMBER_DIGITS: usize = 16;
/// Stands where the number goes; occurs nowhere else in a request.
pub(super) const NUMBER_HOLE: &str = "@@@@@@@@@@@@@@@@";

/// Numbers are unique in this process, over all rounds and connections.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// The bytes of a request, perhaps with a place for a number that makes each one unique.
#[derive(Clone, Debug)]
pub(super) struct Template {
    bytes: Vec<u8>,
    hole: Option<usize>,
}

impl Template {
    /// A message without a key.
    pub(super) fn produce(address: SocketAddr, topic: &str, payload: usize) -> Self {
        Self::post(address, "/v1/produce", &produce_body(topic, &"x".repeat(payload), None))
    }

    /// A message with an idempotency key of its own.
    pub(super) fn produce_keyed(address: SocketAddr, topic: &str, payload: usize) -> Self {
        let envelope = json!({"idempotency_key": NUMBER_HOLE});
        Self::post(address, "/v1/produce", &produce_body(topic, &"x".repeat(payload), Some(envelope)))
    }

    pub(super) fn post(address: SocketAddr, path: &str, body: &str) -> Self {
        Self::request(address, "POST", path, "application/json", body)
    }

    /// Any request with a body.
    pub(super) fn request(
        address: SocketAddr,
        method: &str,
        path: &str,
        content_type: &str,
        body: &str,
    ) -> Self {
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n"
        );
        let text = head + body;
        let hole = text.find(NUMBER_HOLE);
        Self { bytes: text.into_bytes(), hole }
    }

    /// A request without a body.
    #[cfg(feature = "tls")]
    pub(super) fn bare_get(address: SocketAddr, path: &str) -> Self {
        let text = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n");
        Self { bytes: text.into_bytes(), hole: None }
    }

    /// The same request, with a key.
    pub(super) fn with_key(self, key: &str) -> Self {
        let text = String::from_utf8_lossy(&self.bytes);
        let text = text.replacen("\r\n", &format!("\r\nauthorization: Bearer {key}\r\n"), 1);
        Self { hole: text.find(NUMBER_HOLE), bytes: text.into_bytes() }
    }

    /// Appends one request to `out`, with a fresh number if it has a place for one.
    pub(super) fn render(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        if let Some(hole) = self.hole {
            let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
            let digits = format!("{number:0NUMBER_DIGITS$x}");
            out[start + hole..start + hole + NUMBER_DIGITS].copy_from_slice(digits.as_bytes());
        }
    }
}

/// The JSON of a produce.
pub(super) fn produce_body(topic: &str, value: &str, envelope: Option<Value>) -> String {
    let mut request = json!({"topic": topic, "value": value});
    if let Some(envelope) = envelope {
        request["envelope"] = envelope;
    }
    request.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> SocketAddr {
        ([127, 0, 0, 1], 1).into()
    }

    #[test]
    fn keyed_requests_differ_and_keep_their_length() {
        let template = Template::produce_keyed(address(), "bench", 10);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        template.render(&mut a);
        template.render(&mut b);
        assert_ne!(a, b);
        assert_eq!(a.len(), b.len());
        assert!(!String::from_utf8(a).unwrap().contains('@'));
    }

    #[test]
    fn the_length_is_the_body_s() {
        let mut out = Vec::new();
        Template::produce(address(), "bench", 100).render(&mut out);
        let text = String::from_utf8(out).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
    }
}
