//! The `Idempotency-Key` header: sending the same call again is safe.

use driftq_api::Fault;
use driftq_api::v2::IDEMPOTENCY_HEADER_BYTES_MAX;
use hyper::HeaderMap;

const NAME: &str = "idempotency-key";

/// The key of a request, if it has one: a quoted string as the draft of the standard has it, or the bare text that
/// many clients send.
pub(super) fn of(headers: &HeaderMap) -> Result<Option<String>, Fault> {
    let mut values = headers.get_all(NAME).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let invalid = || {
        Fault::invalid(format!(
            "Idempotency-Key: must be one text of 1 to {IDEMPOTENCY_HEADER_BYTES_MAX} printable ASCII characters"
        ))
    };
    if values.next().is_some() {
        return Err(invalid());
    }
    let text = value.to_str().map_err(|_| invalid())?.trim();
    let key = match text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(quoted) => unescaped(quoted).ok_or_else(invalid)?,
        None if text.contains('"') => return Err(invalid()),
        None => text.to_owned(),
    };
    if key.is_empty() || key.len() > IDEMPOTENCY_HEADER_BYTES_MAX {
        return Err(invalid());
    }
    Ok(Some(key))
}

/// A quoted string without its escapes; only quotes and backslashes have one.
fn unescaped(quoted: &str) -> Option<String> {
    let mut key = String::with_capacity(quoted.len());
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => key.push(characters.next().filter(|escaped| matches!(escaped, '"' | '\\'))?),
            '"' => return None,
            other => key.push(other),
        }
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn key(value: &[u8]) -> Result<Option<String>, Fault> {
        let mut headers = HeaderMap::new();
        headers.insert(NAME, HeaderValue::from_bytes(value).unwrap());
        of(&headers)
    }

    #[test]
    fn quoted_or_bare() {
        for (value, expected) in
            [(&b"\"abc\""[..], "abc"), (b"abc", "abc"), (b"\"a \\\" b\"", "a \" b"), (b" x ", "x")]
        {
            assert_eq!(key(value).unwrap().unwrap(), expected);
        }
        assert_eq!(of(&HeaderMap::new()), Ok(None));
    }

    #[test]
    fn what_is_refused() {
        for value in [&b"\"\""[..], b"\"abc", b"a\"b", b"\"a\\n\"", b"\xff", &[b'x'; 256], b" "] {
            assert!(key(value).is_err(), "{value:?}");
        }
        let mut headers = HeaderMap::new();
        headers.append(NAME, HeaderValue::from_static("a"));
        headers.append(NAME, HeaderValue::from_static("b"));
        assert!(of(&headers).is_err());
    }
}
