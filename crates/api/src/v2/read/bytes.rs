//! Bytes as texts: base64 with the standard alphabet and padding.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserializer, Error};
use serde::ser::{Serialize, Serializer};

use super::text;

/// Bytes that may be left out or `null`; their text has at least `MIN` bytes.
pub(in crate::v2) fn optional<'de, D, const MIN: usize>(from: D) -> Result<Option<Vec<u8>>, D::Error>
where
    D: Deserializer<'de>,
{
    let Some(text) = text::optional::<D, MIN, { usize::MAX }>(from)? else { return Ok(None) };
    let bytes = STANDARD.decode(&*text).map_err(|error| {
        D::Error::custom(format_args!("must be base64 with the standard alphabet and padding: {error}"))
    })?;
    Ok(Some(bytes))
}

/// Writes bytes as such a text.
#[expect(clippy::ref_option, reason = "the signature that serde calls")]
pub(in crate::v2) fn write<S: Serializer>(bytes: &Option<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
    bytes.as_ref().map(|bytes| STANDARD.encode(bytes)).serialize(serializer)
}

/// The bytes of a field that is given as text or as base64; `None` if both are.
pub(in crate::v2) fn either<'a>(
    text: Option<Cow<'a, str>>,
    base64: Option<Vec<u8>>,
) -> Option<Option<Cow<'a, [u8]>>> {
    match (text, base64) {
        (None, None) => Some(None),
        (Some(Cow::Borrowed(text)), None) => Some(Some(Cow::Borrowed(text.as_bytes()))),
        (Some(Cow::Owned(text)), None) => Some(Some(Cow::Owned(text.into_bytes()))),
        (None, Some(bytes)) => Some(Some(Cow::Owned(bytes))),
        (Some(_), Some(_)) => None,
    }
}
