//! A message as producers send it.

use std::borrow::Cow;

use crate::ToSchema;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};
#[cfg(feature = "openapi")]
use utoipa::PartialSchema;
#[cfg(feature = "openapi")]
use utoipa::openapi::RefOr;
#[cfg(feature = "openapi")]
use utoipa::openapi::schema::Schema;

use super::envelope::Envelope;
use super::limits::{DURATION_MS_MAX, KEY_BYTES_MAX, PRIORITY_MAX};
use super::read::{self, bytes, json, number, structure, text};
#[cfg(feature = "openapi")]
use super::shape;
use super::write::ObjectWriter;
use crate::fault::Fault;
use crate::moment::Moment;

/// A message to store.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Message<'a> {
    /// Chooses the partition; may be empty.
    pub key: Cow<'a, [u8]>,
    /// The payload; never empty.
    pub value: Cow<'a, [u8]>,
    /// 0 to 9; higher is sooner.
    pub priority: u8,
    /// When it may first be delivered; at once if not given.
    pub due: Option<Due>,
    /// Everything about it.
    pub envelope: Option<Box<Envelope<'a>>>,
}

/// When a message may first be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// From this moment on.
    At(Moment),
    /// This many milliseconds after the broker has taken it.
    AfterMs(u64),
}

/// The message as JSON writes it.
#[derive(serde::Serialize, serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Fields<'a> {
    /// Chooses the partition, and is the unit of order in topics with `key` order.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional::<_, 0, KEY_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, max_length = 4096)]
    key: Option<Cow<'a, str>>,
    /// The key, as bytes in base64 with the standard alphabet and padding. At most one of `key` and `key_b64` is
    /// given.
    #[serde(
        default,
        deserialize_with = "bytes::optional::<_, 1>",
        skip_serializing_if = "Option::is_none",
        serialize_with = "bytes::write"
    )]
    #[schema(value_type = Option<String>, min_length = 4, max_length = 5464, pattern = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$")]
    key_b64: Option<Vec<u8>>,
    /// The payload: a text is itself, any other JSON value is stored as its JSON text, as it stands here. `value` or
    /// `value_b64` is given, and not both; `null` beside a `value_b64` counts as not given.
    #[serde(borrow, default, deserialize_with = "json::given", skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = value_schema)]
    value: Option<json::Payload<'a>>,
    /// The payload, as bytes in base64 with the standard alphabet and padding.
    #[serde(
        default,
        deserialize_with = "bytes::optional::<_, 1>",
        skip_serializing_if = "Option::is_none",
        serialize_with = "bytes::write"
    )]
    #[schema(value_type = Option<String>, min_length = 4, pattern = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$")]
    value_b64: Option<Vec<u8>>,
    /// Higher is sooner, where the topic's order heeds it; 0 if not given.
    #[serde(default, deserialize_with = "number::optional::<_, _, 0, PRIORITY_MAX>")]
    #[schema(minimum = 0, maximum = 9)]
    priority: Option<u8>,
    /// Not delivered before this. At most one of `deliver_at` and `delay_ms` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deliver_at: Option<Moment>,
    /// Not delivered before this many milliseconds have passed since the broker took it.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 0, DURATION_MS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 0, maximum = 316_224_000_000_u64)]
    delay_ms: Option<u64>,
    /// Everything about it.
    #[serde(
        borrow,
        default,
        deserialize_with = "structure::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<Envelope>)]
    envelope: Option<Box<Envelope<'a>>>,
}

#[cfg(feature = "openapi")]
fn value_schema() -> shape::Described {
    let text =
        "The payload: a text is itself, any other JSON value is stored as its JSON text, as it stands here.";
    shape::any_value(text)
}

impl<'a> Message<'a> {
    /// From a JSON body that holds one message.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        read::object(body)
    }

    /// Appends its JSON to `out`.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let Self { key, value, priority, due, envelope } = self;
        let mut object = ObjectWriter::new(out);
        match std::str::from_utf8(key) {
            Ok(key) => object.text_if_any("key", key),
            Err(_) => object.text("key_b64", &STANDARD.encode(key)),
        }
        match std::str::from_utf8(value) {
            Ok(value) => object.text("value", value),
            Err(_) => object.text("value_b64", &STANDARD.encode(value)),
        }
        object.value("priority", priority);
        match due {
            None => {}
            Some(Due::At(at)) => object.value("deliver_at", at),
            Some(Due::AfterMs(millis)) => object.value("delay_ms", millis),
        }
        object.value_if_some("envelope", envelope.as_ref());
        object.end();
    }

    fn checked(fields: Fields<'a>) -> Result<Self, &'static str> {
        let payload = fields.value.filter(|payload| !payload.is_null || fields.value_b64.is_none());
        let value = bytes::either(payload.map(|payload| payload.text), fields.value_b64);
        let value = value.ok_or("value and value_b64 exclude each other")?;
        let value = value.ok_or("one of value and value_b64 is required")?;
        let key = bytes::either(fields.key, fields.key_b64);
        let key = key.ok_or("key and key_b64 exclude each other")?.unwrap_or_default();
        if key.len() > KEY_BYTES_MAX {
            return Err("key_b64: must have at most 4096 bytes");
        }
        let due = match (fields.deliver_at, fields.delay_ms) {
            (None, None) => None,
            (Some(at), None) => Some(Due::At(at)),
            (None, Some(millis)) => Some(Due::AfterMs(millis)),
            (Some(_), Some(_)) => return Err("deliver_at and delay_ms exclude each other"),
        };
        Ok(Self { key, value, priority: fields.priority.unwrap_or(0), due, envelope: fields.envelope })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Message<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::checked(structure::required(from)?).map_err(D::Error::custom)
    }
}

impl Serialize for Message<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = std::str::from_utf8(&self.value).ok();
        let key = std::str::from_utf8(&self.key).ok();
        let fields = Fields {
            key: key.filter(|key| !key.is_empty()).map(Cow::Borrowed),
            key_b64: key.is_none().then(|| self.key.to_vec()),
            value: text.map(|text| json::Payload { text: Cow::Borrowed(text), is_null: false }),
            value_b64: text.is_none().then(|| self.value.to_vec()),
            priority: Some(self.priority),
            deliver_at: if let Some(Due::At(at)) = self.due { Some(at) } else { None },
            delay_ms: if let Some(Due::AfterMs(millis)) = self.due { Some(millis) } else { None },
            envelope: self.envelope.clone(),
        };
        fields.serialize(serializer)
    }
}

#[cfg(feature = "openapi")]
impl PartialSchema for Message<'_> {
    fn schema() -> RefOr<Schema> {
        shape::all_of(
            Fields::schema(),
            [
                shape::any_of([shape::absent("key"), shape::absent("key_b64")]),
                shape::value_or("value", "value_b64"),
                shape::any_of([shape::absent("deliver_at"), shape::absent("delay_ms")]),
            ],
        )
    }
}

#[cfg(feature = "openapi")]
impl ToSchema for Message<'_> {
    fn name() -> Cow<'static, str> {
        "Message".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Fields::schemas(schemas);
    }
}
