//! Names for requests, so that an answer and a log line find each other.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

/// The header that carries the name, both ways.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest name that is echoed; what is longer is cut.
const BYTES_MAX: usize = 128;

/// Makes fresh names: a base drawn at random at the start, and a counter.
#[derive(Debug)]
pub(crate) struct RequestIds {
    base: u64,
    next: AtomicU64,
}

impl RequestIds {
    pub(crate) fn new() -> Self {
        // The standard library's hasher is seeded by the system; no other source of randomness is needed.
        Self { base: RandomState::new().hash_one(std::process::id()), next: AtomicU64::new(1) }
    }

    /// The name that the client gave, tidied up, or a fresh one.
    pub(crate) fn of(&self, headers: &HeaderMap) -> HeaderValue {
        headers.get(X_REQUEST_ID).and_then(tidy).unwrap_or_else(|| self.fresh())
    }

    fn fresh(&self) -> HeaderValue {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut text = [0; 32];
        put_hex(&mut text[..16], self.base);
        put_hex(&mut text[16..], number);
        HeaderValue::from_maybe_shared(Bytes::copy_from_slice(&text))
            .expect("hexadecimal digits are fit for a header")
    }
}

fn put_hex(text: &mut [u8], mut number: u64) {
    for digit in text.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
    }
}

/// Keeps what is safe in a header and in a log line; `None` if nothing is left.
fn tidy(value: &HeaderValue) -> Option<HeaderValue> {
    let bytes = value.as_bytes();
    if bytes.is_empty() {
        return None;
    }
    if bytes.len() <= BYTES_MAX && bytes.iter().all(u8::is_ascii_graphic) {
        return Some(value.clone());
    }
    let kept: Vec<u8> = bytes.iter().copied().filter(u8::is_ascii_graphic).take(BYTES_MAX).collect();
    if kept.is_empty() { None } else { HeaderValue::from_bytes(&kept).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &[u8]) -> HeaderValue {
        let mut headers = HeaderMap::new();
        headers.insert(X_REQUEST_ID, HeaderValue::from_bytes(value).unwrap());
        RequestIds::new().of(&headers)
    }

    #[test]
    fn a_given_name_is_echoed_and_tidied() {
        assert_eq!(of(b"run-7/step:3"), "run-7/step:3");
        assert_eq!(of(b"a b\tc\xff"), "abc");
        assert_eq!(of(&[b'a'; 500]).len(), BYTES_MAX);
    }

    #[test]
    fn fresh_names_differ() {
        let ids = RequestIds::new();
        let (first, second) = (ids.of(&HeaderMap::new()), ids.of(&HeaderMap::new()));
        assert_ne!(first, second);
        assert_eq!(first.len(), 32);
        assert_eq!(of(b"  ").len(), 32, "nothing usable is as good as nothing");
        assert_ne!(RequestIds::new().fresh(), first, "two servers do not share names");
    }
}
