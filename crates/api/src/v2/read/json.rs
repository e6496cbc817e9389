//! Payloads in requests: a text is itself, and any other JSON value is its own JSON text.

use std::borrow::Cow;

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

/// A payload as a field of JSON gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::v2) struct Payload<'a> {
    pub(in crate::v2) text: Cow<'a, str>,
    /// It is written as `null`, which programs with optional fields also do for what they do not give.
    pub(in crate::v2) is_null: bool,
}

/// A payload that is given.
pub(in crate::v2) fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Payload<'de>>, D::Error> {
    let raw = <&'de RawValue>::deserialize(from)?.get();
    let given = |text| Ok(Some(Payload { text, is_null: raw == "null" }));
    let Some(inner) = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return given(Cow::Borrowed(raw));
    };
    if inner.is_empty() {
        return Err(D::Error::custom("must have at least 1 byte, has 0"));
    }
    // Most texts have no escape, and are what stands in the body.
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return given(Cow::Borrowed(inner));
    }
    let text: String = serde_json::from_str(raw).map_err(|error| {
        let text = error.to_string();
        // Where in the payload it stands says less than the path to it.
        D::Error::custom(text.rsplit_once(" at line ").map_or(&*text, |(text, _)| text))
    })?;
    given(Cow::Owned(text))
}

impl Serialize for Payload<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}
