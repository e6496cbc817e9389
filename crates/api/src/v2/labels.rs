//! Labels: free tags of a message.

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

use super::limits::{LABEL_NAME_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX};
use super::read::pairs::{self, Bounds};

/// Names and values, sorted by name, each name once.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Labels<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

const BOUNDS: Bounds = Bounds {
    what: "label",
    pairs_max: LABELS_MAX,
    name_bytes_max: LABEL_NAME_BYTES_MAX,
    value_bytes_max: LABEL_VALUE_BYTES_MAX,
};

impl<'a> Labels<'a> {
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

impl Serialize for Labels<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        pairs::write(&self.0, serializer)
    }
}

/// Labels of an answer: taken as they are, since the server has checked them, and owned by the reader.
pub(super) fn stored<'de, D: Deserializer<'de>>(from: D) -> Result<Labels<'static>, D::Error> {
    pairs::stored(from).map(Labels)
}

impl<'de: 'a, 'a> Deserialize<'de> for Labels<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        BOUNDS.read(from).map(Self)
    }
}

#[cfg(feature = "openapi")]
impl PartialSchema for Labels<'_> {
    fn schema() -> RefOr<Schema> {
        BOUNDS.schema("Free tags: names and their values. Lengths count bytes.")
    }
}

#[cfg(feature = "openapi")]
impl ToSchema for Labels<'_> {
    fn name() -> Cow<'static, str> {
        "Labels".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Labels<'_>, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    fn many(count: usize) -> String {
        let pairs: Vec<String> = (0..count).map(|number| format!(r#""{number}":"""#)).collect();
        format!("{{{}}}", pairs.join(","))
    }

    #[test]
    fn sorted_unique_and_borrowed() {
        let labels = read(r#"{"b":"2","a":"1"}"#).unwrap();
        assert!(matches!(labels.pairs(), [(Cow::Borrowed("a"), Cow::Borrowed("1")), _]));
        assert_eq!(serde_json::to_string(&labels).unwrap(), r#"{"a":"1","b":"2"}"#);
        assert_eq!(read("null").unwrap(), Labels::default());
        assert!(read(r#"{"a":"1","\u0061":"2"}"#).unwrap_err().starts_with("label \"a\" is given twice"));
    }

    #[test]
    fn bounds() {
        assert!(read(&many(LABELS_MAX)).is_ok());
        assert!(read(&many(LABELS_MAX + 1)).unwrap_err().starts_with("must have at most 64 labels"));
        let (name, value) = ("n".repeat(128), "v".repeat(1024));
        assert!(read(&format!(r#"{{"{name}":"{value}"}}"#)).is_ok());
        for (text, refusal) in [
            (format!(r#"{{"{name}n":""}}"#), "a label's name must have 1 to 128 bytes, has 129"),
            (r#"{"":"v"}"#.to_owned(), "a label's name must have 1 to 128 bytes, has 0"),
            (format!(r#"{{"a":"{value}v"}}"#), "label \"a\": must have at most 1024 bytes, has 1025"),
            (r#"{"a":1}"#.to_owned(), "invalid type: integer `1`, expected a text"),
            (r#"["a"]"#.to_owned(), "invalid type: sequence, expected an object of texts"),
        ] {
            let message = read(&text).unwrap_err();
            assert!(message.starts_with(refusal), "{message}");
        }
    }
}
