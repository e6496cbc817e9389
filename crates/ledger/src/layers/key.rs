//! The key as callers write it.

use ::http::{HeaderMap, HeaderName, HeaderValue};

use crate::LedgerError;

/// A name that a service gives to the header of its keys.
pub(crate) fn header_name(name: &str) -> Result<HeaderName, LedgerError> {
    let parsed = HeaderName::from_bytes(name.as_bytes());
    parsed.map_err(|_| LedgerError::Invalid(format!("{name:?} is no name of a header")))
}

/// The only value of a header, if there is one.
pub(crate) fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a HeaderValue>, &'static str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err("there is more than one key; a request has one"),
    }
}

/// Reads the value of the `Idempotency-Key` header: a string in quotes as structured fields have it (RFC 9651), in
/// which `\"` and `\\` are the only escapes. Without quotes, a token is taken as it is unless `strict`: most clients
/// send a bare UUID.
///
/// The draft has no list of keys and no parameters behind the key, so whatever follows it is refused: two clients that
/// mean different keys must not come to the same one.
#[cfg(feature = "http")]
pub(crate) fn quoted_string(value: &[u8], strict: bool) -> Result<String, &'static str> {
    match value.trim_ascii() {
        [b'"', quoted @ ..] => unquoted(quoted),
        [] => Err("the key is empty"),
        _ if strict => Err("the key must be a string in double quotes"),
        token if token.iter().copied().all(is_token) => Ok(token.iter().copied().map(char::from).collect()),
        _ => {
            Err("a key without quotes is made of ASCII letters, digits and !#$%&'*+-.^_`|~:/ only; quote it")
        }
    }
}

/// Reads the value of the `idempotency-key` metadata: any visible text, or the same in quotes, as a gateway that
/// copies the header sends it.
#[cfg(feature = "grpc")]
pub(crate) fn any_text(value: &[u8]) -> Result<String, &'static str> {
    match value.trim_ascii() {
        [b'"', quoted @ ..] => unquoted(quoted),
        [] => Err("the key is empty"),
        text if text.iter().copied().all(is_visible) => Ok(text.iter().copied().map(char::from).collect()),
        _ => Err("the key is made of visible ASCII characters"),
    }
}

/// What follows the opening quote.
fn unquoted(quoted: &[u8]) -> Result<String, &'static str> {
    let mut key = String::with_capacity(quoted.len());
    let mut bytes = quoted.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' if bytes.len() == 0 => return Ok(key),
            b'"' => {
                return Err(
                    "there is something behind the key; one key, without parameters, is all there may be",
                );
            }
            b'\\' => match bytes.next() {
                Some(escaped @ (b'"' | b'\\')) => key.push(char::from(escaped)),
                _ => return Err("in a quoted key, a backslash stands before a quote or a backslash only"),
            },
            byte if is_visible(byte) => key.push(char::from(byte)),
            _ => return Err("a quoted key is made of visible ASCII characters"),
        }
    }
    Err("the key has an opening quote and no closing one")
}

const fn is_visible(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

/// What a token of structured fields is made of.
#[cfg(feature = "http")]
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~' | b':' | b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "8e03978e-40d5-43dd-bc93-6894a57f9324";

    #[test]
    fn a_quoted_key_is_read_as_structured_fields_have_it() {
        for (value, key) in [
            (format!("\"{UUID}\""), UUID),
            (format!("  \"{UUID}\"\t"), UUID),
            (r#""a \"b\" \\c""#.to_owned(), r#"a "b" \c"#),
            (r#""""#.to_owned(), ""),
            (r#""a,b;c=1""#.to_owned(), "a,b;c=1"),
        ] {
            for strict in [true, false] {
                assert_eq!(quoted_string(value.as_bytes(), strict).as_deref(), Ok(key), "{value}");
            }
            assert_eq!(any_text(value.as_bytes()).as_deref(), Ok(key), "{value}");
        }
    }

    #[test]
    fn a_bare_token_is_taken_unless_strict() {
        for token in [UUID, "order:42/7", "a.b_c~d!#$%&'*+^`|", "17"] {
            assert_eq!(quoted_string(token.as_bytes(), false).as_deref(), Ok(token));
            assert!(quoted_string(token.as_bytes(), true).is_err(), "{token}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for value in [
            "",
            " ",
            "\"",
            "\"a",
            "\"a\\\"",
            r#""a\b""#,
            r#""a" b"#,
            r#""a";v=1"#,
            r#""a", "b""#,
            "\"ä\"",
            "\"a\tb\"",
            "a b",
            "a,b",
            "a;b",
            "a\"b",
            "(a)",
            "ä",
            "a=b",
            "?1 ",
            "'a'@",
            "a\\b",
        ] {
            assert!(quoted_string(value.as_bytes(), false).is_err(), "{value}");
        }
        assert!(quoted_string(b"\xff", false).is_err());
        for value in ["", " ", "\"a", "ä", "a\tb"] {
            assert!(any_text(value.as_bytes()).is_err(), "{value}");
        }
        assert_eq!(any_text(b"order 42, part 7").as_deref(), Ok("order 42, part 7"));
    }
}
