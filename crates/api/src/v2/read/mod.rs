//! Reading requests: strict, bounded, and able to say which field was wrong.
//!
//! Bounds are checked while the JSON is read, by the functions of [`number`] and [`text`] that fields name in
//! `deserialize_with`. A body that is refused is read a second time by a slower reader that keeps track of where it
//! is, so that good requests pay nothing for good error texts.

pub(super) mod bytes;
pub(super) mod json;
pub(super) mod number;
pub(super) mod pairs;
pub(super) mod structure;
pub(super) mod text;

use std::borrow::Cow;

use serde::de::{Deserialize, DeserializeSeed};
use serde_json::error::Category;

use crate::catalogue::Code;
use crate::fault::Fault;
use crate::object::Object;

/// Longest text of a refusal, in bytes: field names and values in it are the client's, and may be huge.
const DETAIL_BYTES_MAX: usize = 1000;

/// Reads a whole body as one object.
pub(super) fn object<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Fault> {
    // The encoding is checked once, and not text by text.
    let Ok(text) = std::str::from_utf8(body) else { return Err(explain::<Object<T>>(body, None)) };
    match serde_json::from_str::<Object<T>>(text) {
        Ok(Object(value)) => Ok(value),
        Err(error) => Err(explain::<Object<T>>(body, Some(&error))),
    }
}

/// Whether a body is an object whose first field has this name.
pub(super) fn begins_with(body: &[u8], name: &str) -> bool {
    let Some(fields) = body.trim_ascii_start().strip_prefix(b"{") else { return false };
    let first = serde_json::Deserializer::from_slice(fields).into_iter::<Cow<'_, str>>().next();
    matches!(first, Some(Ok(first)) if first == name)
}

/// Says where in `body` the reading of a `T` fails, which it does; `first` is how it failed, unless it is not UTF-8.
#[cold]
fn explain<'a, T: Deserialize<'a>>(body: &'a [u8], first: Option<&serde_json::Error>) -> Fault {
    explain_seed(std::marker::PhantomData::<T>, body, first)
}

/// As [`explain`], for what is read with a seed.
#[cold]
pub(super) fn explain_seed<'a, S: DeserializeSeed<'a>>(
    seed: S,
    body: &'a [u8],
    first: Option<&serde_json::Error>,
) -> Fault {
    let mut track = serde_path_to_error::Track::new();
    let mut json = serde_json::Deserializer::from_slice(body);
    let result = seed.deserialize(serde_path_to_error::Deserializer::new(&mut json, &mut track));
    match result {
        Err(error) => fault(&track.path().to_string(), &error),
        // The value is good and something follows it.
        Ok(_) => match first {
            Some(first) => fault(".", first),
            None => Fault::new(Code::InvalidJson, "invalid JSON: it is not UTF-8"),
        },
    }
}

fn fault(path: &str, error: &serde_json::Error) -> Fault {
    let text = error.to_string();
    if error.classify() != Category::Data {
        return Fault::new(Code::InvalidJson, format!("invalid JSON: {text}"));
    }
    // The path says it better than the position in the text.
    let text = text.rsplit_once(" at line ").map_or(&*text, |(text, _)| text);
    let path = path.trim_end_matches(['.', '?']);
    // The path of an unknown field already ends with its name.
    let unknown = text.strip_prefix("unknown field `").and_then(|rest| rest.rsplit_once("`, expected "));
    let is_shape =
        unknown.is_some() || text.starts_with("invalid type") || text.starts_with("duplicate field");
    let text = match unknown {
        Some((name, _)) => {
            Cow::Owned(format!("unknown field, {}", &text["unknown field ``, ".len() + name.len()..]))
        }
        None => Cow::Borrowed(text),
    };
    let detail = if path.is_empty() { text.into_owned() } else { format!("{path}: {text}") };
    let code = if is_shape { Code::InvalidJson } else { Code::InvalidArgument };
    Fault::new(code, shortened(detail))
}

/// Cuts what echoes too much of a request.
fn shortened(mut detail: String) -> String {
    if detail.len() > DETAIL_BYTES_MAX {
        detail.truncate(detail.floor_char_boundary(DETAIL_BYTES_MAX));
        detail.push('…');
    }
    detail
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer<'a> {
        #[serde(borrow, deserialize_with = "text::required::<_, 1, 3>")]
        name: Cow<'a, str>,
        #[serde(default, deserialize_with = "number::optional::<_, _, 1, 10>")]
        count: Option<u32>,
        #[serde(default, deserialize_with = "structure::optional")]
        inner: Option<Inner>,
        #[serde(default, deserialize_with = "number::patched::<_, _, 0, 5>")]
        patch: Option<Option<u8>>,
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[serde(deserialize_with = "number::required::<_, _, 0, 9>")]
        level: u8,
    }

    fn read(body: &str) -> Result<Outer<'_>, (Code, String)> {
        object(body.as_bytes()).map_err(|fault| (fault.code, fault.message.into_owned()))
    }

    #[test]
    fn refusals_name_the_path_and_what_is_allowed() {
        let (shape, value) = (Code::InvalidJson, Code::InvalidArgument);
        for (body, code, message) in [
            (r#"{"name":""}"#, value, "name: must have 1 to 3 bytes, has 0"),
            (r#"{"name":"éé"}"#, value, "name: must have 1 to 3 bytes, has 4"),
            (r#"{"name":7}"#, shape, "name: invalid type: integer `7`, expected a text of 1 to 3 bytes"),
            (r#"{"name":null}"#, shape, "name: invalid type: null, expected a text of 1 to 3 bytes"),
            ("{}", value, "missing field `name`"),
            (r#"{"name":"a","name":"b"}"#, shape, "duplicate field `name`"),
            (r#"{"name":"a","count":0}"#, value, "count: must be between 1 and 10"),
            (r#"{"name":"a","count":11}"#, value, "count: must be between 1 and 10"),
            (r#"{"name":"a","count":-1}"#, value, "count: must be between 1 and 10"),
            (r#"{"name":"a","count":1e30}"#, value, "count: must be between 1 and 10"),
            (
                r#"{"name":"a","count":1.5}"#,
                shape,
                "count: invalid type: floating point `1.5`, expected a whole number between 1 and 10",
            ),
            (r#"{"name":"a","patch":6}"#, value, "patch: must be between 0 and 5"),
            (r#"{"name":"a","inner":{"level":10}}"#, value, "inner.level: must be between 0 and 9"),
            (r#"{"name":"a","inner":{"levle":1}}"#, shape, "inner.levle: unknown field, expected `level`"),
            (r#"{"name":"a","inner":[1]}"#, shape, "inner: invalid type: sequence, expected an object"),
            (r#"["a"]"#, shape, "invalid type: sequence, expected an object"),
            (r#"{"name":"a"} x"#, shape, "invalid JSON: trailing characters at line 1 column 14"),
            (r#"{"name":"#, shape, "invalid JSON: EOF while parsing a value at line 1 column 8"),
        ] {
            assert_eq!(read(body).unwrap_err(), (code, message.to_owned()), "{body}");
        }
        let (_, message) = read(r#"{"name":"a","extra":1}"#).unwrap_err();
        assert!(message.starts_with("extra: unknown field, expected one of `name`, `count`"), "{message}");
        let (_, message) = read(r#"{"a`, expected b":1}"#).unwrap_err();
        assert!(message.starts_with("a`, expected b: unknown field, expected one of `name`"), "{message}");
        let (_, message) = read(&format!(r#"{{"{}":1}}"#, "é".repeat(5000))).unwrap_err();
        assert!(message.len() < 1010 && message.ends_with('…'), "{message}");
    }

    #[test]
    fn what_is_not_utf_8_is_refused_wherever_it_stands() {
        for (body, message) in [
            (&b"{\"name\":\"\xff\"}"[..], "invalid JSON: invalid unicode code point at line 1 column 10"),
            (b"{\"name\":\"a\"}\xff", "invalid JSON: it is not UTF-8"),
            (b"\xff", "invalid JSON: expected value at line 1 column 1"),
        ] {
            let fault = object::<Outer<'_>>(body).unwrap_err();
            assert_eq!((fault.code, &*fault.message), (Code::InvalidJson, message));
        }
    }

    #[test]
    fn null_is_not_given_and_a_patch_can_tell() {
        let outer = read(r#"{"name":"a","count":null,"inner":null,"patch":null}"#).unwrap();
        assert_eq!((outer.count, outer.patch), (None, Some(None)));
        assert!(outer.inner.is_none() && matches!(outer.name, Cow::Borrowed("a")));
        assert_eq!(read(r#"{"name":"a"}"#).unwrap().patch, None);
        let outer = read(r#"{"name":"\u0061","count":10,"inner":{"level":9},"patch":5}"#).unwrap();
        assert_eq!((&*outer.name, outer.count, outer.patch), ("a", Some(10), Some(Some(5))));
        assert_eq!(outer.inner.unwrap().level, 9);
        // A whole number may be written with a fraction of zero: it is the same JSON number.
        assert_eq!(read(r#"{"name":"a","count":3.0}"#).unwrap().count, Some(3));
    }
}
