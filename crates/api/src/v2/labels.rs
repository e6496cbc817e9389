//! Labels: free tags of a message.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, Object, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

use super::limits::{LABEL_NAME_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX};

/// Names and values, sorted by name, each name once.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Labels<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Labels<'a> {
    /// From pairs in any order. Says what is wrong with them if there are too many, or one is too long or doubled.
    pub fn new(mut pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>) -> Result<Self, String> {
        if pairs.len() > LABELS_MAX {
            return Err(format!("must have at most {LABELS_MAX} labels"));
        }
        for (name, value) in &pairs {
            if !(1..=LABEL_NAME_BYTES_MAX).contains(&name.len()) {
                return Err(format!(
                    "a label's name must have 1 to {LABEL_NAME_BYTES_MAX} bytes, has {}",
                    name.len()
                ));
            }
            if value.len() > LABEL_VALUE_BYTES_MAX {
                let has = value.len();
                return Err(format!(
                    "label {name:?}: must have at most {LABEL_VALUE_BYTES_MAX} bytes, has {has}"
                ));
            }
        }
        pairs.sort_unstable();
        match pairs.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(format!("label {:?} is given twice", pair[0].0)),
            None => Ok(Self(pairs)),
        }
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
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// Labels of an answer: taken as they are, since the server has checked them, and owned by the reader.
pub(super) fn stored<'de, D: Deserializer<'de>>(from: D) -> Result<Labels<'static>, D::Error> {
    let pairs = BTreeMap::<String, String>::deserialize(from)?;
    Ok(Labels(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect()))
}

/// A text that is borrowed where it can be.
struct Piece<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Piece<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        super::read::text::required::<D, 0, { usize::MAX }>(from).map(Self)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Labels<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_option(LabelsVisitor)
    }
}

struct LabelsVisitor;

impl<'de> Visitor<'de> for LabelsVisitor {
    type Value = Labels<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of texts")
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Labels::default())
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Labels::default())
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some((Piece(name), Piece(value))) = map.next_entry()? {
            if pairs.len() == LABELS_MAX {
                return Err(Error::custom(format_args!("must have at most {LABELS_MAX} labels")));
            }
            pairs.push((name, value));
        }
        Labels::new(pairs).map_err(Error::custom)
    }
}

impl PartialSchema for Labels<'_> {
    fn schema() -> RefOr<Schema> {
        let text =
            |min, max| ObjectBuilder::new().schema_type(Type::String).min_length(min).max_length(Some(max));
        let value: Object = text(None, LABEL_VALUE_BYTES_MAX).build();
        ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::Object, Type::Null]))
            .description(Some("Free tags: names and their values. Lengths count bytes."))
            .max_properties(Some(LABELS_MAX))
            .property_names(Some(Schema::Object(text(Some(1), LABEL_NAME_BYTES_MAX).build())))
            .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(Schema::Object(value)))))
            .into()
    }
}

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
