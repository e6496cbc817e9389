//! Names with values: objects whose fields are free texts, with bounds on all of it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
#[cfg(feature = "openapi")]
use utoipa::openapi::RefOr;
#[cfg(feature = "openapi")]
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, Schema, SchemaType, Type};

use super::text;

/// Names and values, sorted by name, each name once.
pub(in crate::v2) type Pairs<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// What such an object may hold.
pub(in crate::v2) struct Bounds {
    /// What one pair is called in refusals.
    pub(in crate::v2) what: &'static str,
    pub(in crate::v2) pairs_max: usize,
    pub(in crate::v2) name_bytes_max: usize,
    pub(in crate::v2) value_bytes_max: usize,
}

impl Bounds {
    /// Sorts pairs that came in any order. Says what is wrong if there are too many, or one is too long or doubled.
    pub(in crate::v2) fn sorted<'a>(&self, mut pairs: Pairs<'a>) -> Result<Pairs<'a>, String> {
        let Self { what, pairs_max, name_bytes_max, value_bytes_max } = self;
        if pairs.len() > *pairs_max {
            return Err(self.too_many());
        }
        for (name, value) in &pairs {
            if !(1..=*name_bytes_max).contains(&name.len()) {
                let has = name.len();
                return Err(format!("a {what}'s name must have 1 to {name_bytes_max} bytes, has {has}"));
            }
            if value.len() > *value_bytes_max {
                let has = value.len();
                return Err(format!("{what} {name:?}: must have at most {value_bytes_max} bytes, has {has}"));
            }
        }
        pairs.sort_unstable();
        match pairs.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(format!("{what} {:?} is given twice", pair[0].0)),
            None => Ok(pairs),
        }
    }

    fn too_many(&self) -> String {
        format!("must have at most {} {}s", self.pairs_max, self.what)
    }

    /// Reads an object of texts; none of them if it is `null`.
    pub(in crate::v2) fn read<'de, D: Deserializer<'de>>(&self, from: D) -> Result<Pairs<'de>, D::Error> {
        from.deserialize_option(PairsVisitor(self))
    }

    /// The schema that says the same.
    #[cfg(feature = "openapi")]
    pub(in crate::v2) fn schema(&self, description: &str) -> RefOr<Schema> {
        let text =
            |min, max| ObjectBuilder::new().schema_type(Type::String).min_length(min).max_length(Some(max));
        let value = Schema::Object(text(None, self.value_bytes_max).build());
        ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::Object, Type::Null]))
            .description(Some(description))
            .max_properties(Some(self.pairs_max))
            .property_names(Some(Schema::Object(text(Some(1), self.name_bytes_max).build())))
            .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(value))))
            .into()
    }
}

/// Pairs of an answer: taken as they are, since the server has checked them, and owned by the reader.
pub(in crate::v2) fn stored<'de, D: Deserializer<'de>>(from: D) -> Result<Pairs<'static>, D::Error> {
    let pairs = BTreeMap::<String, String>::deserialize(from)?;
    Ok(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
}

/// Writes pairs as an object, in their order.
pub(in crate::v2) fn write<S: Serializer>(
    pairs: &[(Cow<'_, str>, Cow<'_, str>)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(pairs.len()))?;
    for (name, value) in pairs {
        map.serialize_entry(name, value)?;
    }
    map.end()
}

/// A text that is borrowed where it can be.
struct Piece<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Piece<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text::required::<D, 0, { usize::MAX }>(from).map(Self)
    }
}

struct PairsVisitor<'b>(&'b Bounds);

impl<'de> Visitor<'de> for PairsVisitor<'_> {
    type Value = Pairs<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of texts")
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Pairs::new())
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Pairs::new())
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Pairs::new();
        while let Some((Piece(name), Piece(value))) = map.next_entry()? {
            // Before it is kept: a body may hold very many.
            if pairs.len() == self.0.pairs_max {
                return Err(Error::custom(self.0.too_many()));
            }
            pairs.push((name, value));
        }
        self.0.sorted(pairs).map_err(Error::custom)
    }
}
