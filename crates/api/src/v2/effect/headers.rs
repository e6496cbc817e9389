//! Headers of an outcome: small facts beside the body.

use std::borrow::Cow;

#[cfg(feature = "openapi")]
use crate::ToSchema;
use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
#[cfg(feature = "openapi")]
use utoipa::PartialSchema;
#[cfg(feature = "openapi")]
use utoipa::openapi::RefOr;
#[cfg(feature = "openapi")]
use utoipa::openapi::schema::Schema;

use crate::v2::limits::{HEADER_NAME_BYTES_MAX, HEADER_VALUE_BYTES_MAX, HEADERS_MAX};
use crate::v2::read::pairs::{self, Bounds};

/// Names and values, sorted by name, each name once. Names are taken as they are, upper and lower case apart.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Headers<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

const BOUNDS: Bounds = Bounds {
    what: "header",
    pairs_max: HEADERS_MAX,
    name_bytes_max: HEADER_NAME_BYTES_MAX,
    value_bytes_max: HEADER_VALUE_BYTES_MAX,
};

impl<'a> Headers<'a> {
    /// From pairs in any order. Says what is wrong with them if there are too many, or one is too long or doubled.
    pub fn new(pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>) -> Result<Self, String> {
        BOUNDS.sorted(pairs).map(Self)
    }

    /// From pairs that were checked when they were stored.
    #[must_use]
    pub const fn stored(pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>) -> Self {
        Self(pairs)
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The pairs, sorted by name.
    #[must_use]
    pub fn pairs(&self) -> &[(Cow<'a, str>, Cow<'a, str>)] {
        &self.0
    }

    /// The pairs, sorted by name.
    #[must_use]
    pub fn into_pairs(self) -> Vec<(Cow<'a, str>, Cow<'a, str>)> {
        self.0
    }
}

impl Serialize for Headers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        pairs::write(&self.0, serializer)
    }
}

/// Headers of a request that is kept: checked, and owned by the reader.
pub(in crate::v2) fn owned<'de, D: Deserializer<'de>>(from: D) -> Result<Headers<'static>, D::Error> {
    let pairs = BOUNDS.read(from)?.into_iter();
    Ok(Headers(pairs.map(|(name, value)| (name.into_owned().into(), value.into_owned().into())).collect()))
}

/// Headers of an answer: taken as they are, since the server has checked them, and owned by the reader.
pub(super) fn stored<'de, D: Deserializer<'de>>(from: D) -> Result<Headers<'static>, D::Error> {
    pairs::stored(from).map(Headers)
}

impl<'de: 'a, 'a> Deserialize<'de> for Headers<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        BOUNDS.read(from).map(Self)
    }
}

#[cfg(feature = "openapi")]
impl PartialSchema for Headers<'_> {
    fn schema() -> RefOr<Schema> {
        BOUNDS.schema("Small facts beside the body: names and their values. Lengths count bytes.")
    }
}

#[cfg(feature = "openapi")]
impl ToSchema for Headers<'_> {
    fn name() -> Cow<'static, str> {
        "Headers".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Headers<'_>, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn sorted_bounded_and_borrowed() {
        let headers = read(r#"{"b":"2","a":""}"#).unwrap();
        assert!(matches!(headers.pairs(), [(Cow::Borrowed("a"), Cow::Borrowed("")), _]));
        assert_eq!(serde_json::to_string(&headers).unwrap(), r#"{"a":"","b":"2"}"#);
        assert!(read("null").unwrap().is_empty() && read("{}").unwrap().is_empty());
        let many = |count: usize| {
            let pairs: Vec<String> = (0..count).map(|number| format!(r#""{number}":"""#)).collect();
            format!("{{{}}}", pairs.join(","))
        };
        assert_eq!(read(&many(64)).unwrap().into_pairs().len(), 64);
        let (name, value) = ("n".repeat(255), "v".repeat(8192));
        assert!(read(&format!(r#"{{"{name}":"{value}"}}"#)).is_ok());
        for (text, refusal) in [
            (many(65), "must have at most 64 headers"),
            (r#"{"a":"1","\u0061":"2"}"#.to_owned(), "header \"a\" is given twice"),
            (format!(r#"{{"{name}n":""}}"#), "a header's name must have 1 to 255 bytes, has 256"),
            (r#"{"":"v"}"#.to_owned(), "a header's name must have 1 to 255 bytes, has 0"),
            (format!(r#"{{"a":"{value}v"}}"#), "header \"a\": must have at most 8192 bytes, has 8193"),
            (r#"{"a":1}"#.to_owned(), "invalid type: integer `1`, expected a text"),
            (r#"["a"]"#.to_owned(), "invalid type: sequence, expected an object of texts"),
        ] {
            let message = read(&text).unwrap_err();
            assert!(message.starts_with(refusal), "{message}");
        }
        assert!(Headers::new(vec![("".into(), "".into())]).is_err());
        let stored = Headers::stored(vec![("a".into(), "".into()), ("b".into(), "2".into())]);
        assert_eq!(stored, headers);
    }
}
