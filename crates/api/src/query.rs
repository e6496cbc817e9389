//! The query part of a URL.

use std::borrow::Cow;

use crate::fault::Fault;
use crate::text::trim;

/// More parameters than any call has, and few enough that looking them up stays cheap.
pub const PAIRS_MAX: usize = 256;

/// Decoded parameters in the order in which they came.
#[derive(Clone, Debug, Default)]
pub struct Query<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Query<'a> {
    /// Decodes `raw`, the part of the URL after `?`.
    ///
    /// A broken escape is refused. The first broker dropped the parameter in silence, and a dropped idempotency
    /// key is a duplicate message.
    pub fn parse(raw: &'a str) -> Result<Self, Fault> {
        Self::decoded(raw, text)
    }

    /// As [`Query::parse`], with what the first broker did to texts: white space around them goes, and bytes that
    /// are no UTF-8 are U+FFFD.
    pub fn parse_v1(raw: &'a str) -> Result<Self, Fault> {
        let mut query = Self::decoded(raw, |bytes| Some(String::from_utf8_lossy(&bytes).into_owned()))?;
        for (_, value) in &mut query.pairs {
            *value = trim(std::mem::take(value));
        }
        Ok(query)
    }

    fn decoded(raw: &'a str, read: impl Fn(Vec<u8>) -> Option<String>) -> Result<Self, Fault> {
        let mut pairs = Vec::new();
        for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
            if pairs.len() == PAIRS_MAX {
                return Err(Fault::invalid(format!("invalid query: more than {PAIRS_MAX} parameters")));
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(name, true, &read)
                .ok_or_else(|| Fault::invalid("invalid query: bad percent-encoding in a parameter name"))?;
            let value = decode(value, true, &read)
                .ok_or_else(|| Fault::invalid(format!("invalid query: bad percent-encoding in {name}")))?;
            pairs.push((name, value));
        }
        Ok(Self { pairs })
    }

    /// The first parameter of that name, if it is there and not empty.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.pairs.iter().find(|(candidate, _)| candidate == name)?;
        (!value.is_empty()).then_some(value)
    }

    /// Takes the first parameter of that name out; empty if it is not there.
    pub(crate) fn take(&mut self, name: &str) -> Cow<'a, str> {
        let pair = self.pairs.iter_mut().find(|(candidate, _)| candidate == name);
        pair.map(|(_, value)| std::mem::take(value)).unwrap_or_default()
    }

    /// All of them, in the order in which they came.
    pub(crate) fn into_pairs(self) -> Vec<(Cow<'a, str>, Cow<'a, str>)> {
        self.pairs
    }

    /// Takes the first of several names that is given.
    pub(crate) fn take_any(&mut self, names: &[&str]) -> Cow<'a, str> {
        names.iter().map(|name| self.take(name)).find(|value| !value.is_empty()).unwrap_or_default()
    }

    /// A whole number, if it is given.
    pub fn integer(&self, name: &str) -> Result<Option<i64>, Fault> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match text.trim().parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(Fault::invalid(format!("invalid {name}: expected a whole number"))),
        }
    }
}

/// Decodes one segment of a path: `+` stays what it is. `None` if an escape is broken or the result is not UTF-8.
#[must_use]
pub fn decode_segment(segment: &str) -> Option<Cow<'_, str>> {
    decode(segment, false, text)
}

fn text(bytes: Vec<u8>) -> Option<String> {
    String::from_utf8(bytes).ok()
}

fn decode(text: &str, plus_is_space: bool, read: impl Fn(Vec<u8>) -> Option<String>) -> Option<Cow<'_, str>> {
    let special = |byte: &u8| *byte == b'%' || (plus_is_space && *byte == b'+');
    if !text.as_bytes().iter().any(special) {
        return Some(Cow::Borrowed(text));
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        match byte {
            b'%' => {
                let (escape, tail) = rest.split_at_checked(2)?;
                out.push(hex(escape[0])? << 4 | hex(escape[1])?);
                rest = tail;
            }
            b'+' if plus_is_space => out.push(b' '),
            other => out.push(other),
        }
    }
    read(out).map(Cow::Owned)
}

const fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding() {
        for (raw, name, value) in [
            ("a=1&a=2", "a", Some("1")),
            ("a=&a=2", "a", None),
            ("a=x+y", "a", Some("x y")),
            ("a=x%2By%20z", "a", Some("x+y z")),
            ("a=%C3%A9", "a", Some("é")),
            ("a=%c3%a9", "a", Some("é")),
            ("%61=1", "a", Some("1")),
            ("a=b=c", "a", Some("b=c")),
            ("a", "a", None),
            ("&&b=1&", "b", Some("1")),
            ("a=x;b=y", "a", Some("x;b=y")),
            ("", "a", None),
        ] {
            assert_eq!(Query::parse(raw).unwrap().get(name), value, "{raw}");
        }
    }

    #[test]
    fn broken_escapes_are_refused_and_named() {
        for raw in ["topic=%", "topic=%2", "topic=%zz", "topic=%+1", "topic=%ff", "topic=%C3"] {
            let fault = Query::parse(raw).unwrap_err();
            assert_eq!(fault.message, "invalid query: bad percent-encoding in topic", "{raw}");
        }
        assert!(Query::parse("%=1").is_err());
    }

    #[test]
    fn texts_are_taken_as_the_first_broker_took_them() {
        for (raw, value) in [
            ("a=+x+y%09", Some("x y")),
            ("a=%20%0a", None),
            ("a=x%ffy", Some("x\u{fffd}y")),
            ("a=%C2%A0x", Some("x")),
            ("a=x", Some("x")),
        ] {
            assert_eq!(Query::parse_v1(raw).unwrap().get("a"), value, "{raw}");
        }
        assert!(Query::parse_v1("a=%zz").is_err(), "a parameter is never dropped in silence");
    }

    #[test]
    fn the_number_of_parameters_is_bounded() {
        assert!(Query::parse(&"a=1&".repeat(PAIRS_MAX)).is_ok());
        assert!(Query::parse(&"a=1&".repeat(PAIRS_MAX + 1)).unwrap_err().message.contains("256"));
    }

    #[test]
    fn numbers_and_aliases() {
        let mut query = Query::parse("n=7&m=x&o=+8+&tenant=acme&tenant_id=").unwrap();
        assert_eq!(query.integer("n"), Ok(Some(7)));
        assert_eq!(query.integer("o"), Ok(Some(8)));
        assert_eq!(query.integer("none"), Ok(None));
        assert_eq!(query.integer("m").unwrap_err().message, "invalid m: expected a whole number");
        assert_eq!(query.take_any(&["tenant_id", "tenant"]), "acme");
    }

    #[test]
    fn a_plus_in_a_path_is_a_plus() {
        assert_eq!(decode_segment("a+b%2Fc").as_deref(), Some("a+b/c"));
        assert_eq!(decode_segment("%ff"), None);
    }
}
