//! JSON objects, and nothing that merely looks like one.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use crate::fault::Fault;

/// A struct that must be written as an object. By itself serde also takes an array of the fields in order, which
/// no contract of ours mentions.
#[derive(Clone, Debug)]
pub(crate) struct Object<T>(pub(crate) T);

/// Reads a whole body as one object.
pub(crate) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Fault> {
    match serde_json::from_slice(body) {
        Ok(Object(value)) => Ok(value),
        Err(error) => Err(Fault::json(&error)),
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_not_objects() {
        #[derive(serde::Deserialize, Debug)]
        struct Pair<'a> {
            #[serde(borrow)]
            name: &'a str,
        }
        assert_eq!(parse::<Pair<'_>>(br#"{"name":"a"}"#).unwrap().name, "a");
        let message = parse::<Pair<'_>>(br#"["a"]"#).unwrap_err().message;
        assert!(message.contains("invalid type: sequence, expected an object"), "{message}");
    }
}
