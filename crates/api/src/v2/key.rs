//! Keys: who a client is, and what it may do.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Deserializer, Serialize};
#[cfg(feature = "openapi")]
use utoipa::openapi::schema::Schema;

use super::limits::{
    ACTIONS_MAX, DURATION_MS_MAX, KEY_NOTE_BYTES_MAX, KEY_TENANTS_MAX, KEY_TOPICS_MAX, NAME_BYTES_MAX,
};
use super::read::{self, number, structure, text};
#[cfg(feature = "openapi")]
use super::shape;
use crate::fault::Fault;
use crate::moment::Moment;

/// How long a key goes on after it was rotated, if nothing else is said: a day.
pub const OVERLAP_MS_DEFAULT: u64 = 24 * 3600 * 1000;

/// One kind of thing that a key allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyAction {
    /// Store messages.
    Produce,
    /// Lease messages and settle them.
    Consume,
    /// Begin effects and end them.
    Effects,
    /// Move pointers of datasets.
    Outputs,
    /// See what there is, without payloads.
    Read,
    /// See payloads and results, too.
    ReadPayload,
    /// Change and remove what there is.
    Manage,
    /// Make keys and end them.
    Admin,
}

impl KeyAction {
    /// All of them, by name.
    pub const WORDS: [(&'static str, Self); 8] = [
        ("produce", Self::Produce),
        ("consume", Self::Consume),
        ("effects", Self::Effects),
        ("outputs", Self::Outputs),
        ("read", Self::Read),
        ("read_payload", Self::ReadPayload),
        ("manage", Self::Manage),
        ("admin", Self::Admin),
    ];

    /// Its name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::WORDS[self as usize].0
    }
}

impl<'de> Deserialize<'de> for KeyAction {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text::word(from, &Self::WORDS)
    }
}

/// How much a key may take, and with it all keys that hang on it. What is not given has no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Calls in a second; a second's worth may come at once.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, PACE_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 4_294_967_295_u64)]
    pub requests_per_second: Option<u32>,
    /// Bytes of bodies in a second; a larger body is let in, and what follows it waits.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, PACE_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 4_294_967_295_u64)]
    pub bytes_per_second: Option<u32>,
    /// Streams that are open and calls that wait, at a time.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, PACE_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 4_294_967_295_u64)]
    pub waits: Option<u32>,
}

/// The most that a limit on a pace can be.
pub(super) const PACE_MAX: u64 = u32::MAX as u64;

/// `POST /v2/keys`: a key that hangs on the caller's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeySpec<'a> {
    /// What it allows.
    #[serde(deserialize_with = "structure::values::<_, _, ACTIONS_MAX>")]
    #[schema(min_items = 1, max_items = 8)]
    pub actions: Vec<KeyAction>,
    /// With which topics: their names, or what their names begin with and a star. All of them if not given.
    #[serde(borrow, default, deserialize_with = "named_topics", skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = topics_schema)]
    pub topics: Option<Vec<Cow<'a, str>>>,
    /// As which tenants it acts: what belongs to others does not exist for it. All of them if not given.
    #[serde(borrow, default, deserialize_with = "named_tenants", skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = tenants_schema)]
    pub tenants: Option<Vec<Cow<'a, str>>>,
    /// How much it may take; as much as the key that it hangs on, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// From when on it opens nothing; never if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Moment>,
    /// What it is for, in words.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::any::<_, KEY_NOTE_BYTES_MAX>",
        skip_serializing_if = "str::is_empty"
    )]
    #[schema(value_type = Option<String>, max_length = 255)]
    pub note: Cow<'a, str>,
}

#[cfg(feature = "openapi")]
fn topics_schema() -> Schema {
    let about = "With which topics: their names, or what their names begin with and a star. All of them if not given.";
    some_texts(KEY_TOPICS_MAX, about)
}

#[cfg(feature = "openapi")]
fn tenants_schema() -> Schema {
    let about =
        "As which tenants it acts: what belongs to others does not exist for it. All of them if not given.";
    some_texts(KEY_TENANTS_MAX, about)
}

/// A list of names that is not empty.
#[cfg(feature = "openapi")]
fn some_texts(most: usize, about: &str) -> Schema {
    match shape::texts(1, NAME_BYTES_MAX, most, about) {
        Schema::Array(mut list) => {
            list.min_items = Some(1);
            Schema::Array(list)
        }
        other => other,
    }
}

/// A list that is there but empty is not the same as none.
#[derive(Deserialize)]
#[serde(transparent)]
struct NamedTopics<'a>(
    #[serde(borrow, deserialize_with = "text::list::<_, 1, NAME_BYTES_MAX, KEY_TOPICS_MAX>")]
    Vec<Cow<'a, str>>,
);

#[derive(Deserialize)]
#[serde(transparent)]
struct NamedTenants<'a>(
    #[serde(borrow, deserialize_with = "text::list::<_, 1, NAME_BYTES_MAX, KEY_TENANTS_MAX>")]
    Vec<Cow<'a, str>>,
);

fn named_tenants<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Cow<'de, str>>>, D::Error> {
    Ok(Option::<NamedTenants<'de>>::deserialize(from)?.map(|NamedTenants(tenants)| tenants))
}

fn named_topics<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Cow<'de, str>>>, D::Error> {
    Ok(Option::<NamedTopics<'de>>::deserialize(from)?.map(|NamedTopics(topics)| topics))
}

impl<'a> KeySpec<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        let spec: Self = read::object(body)?;
        if spec.actions.is_empty() {
            return Err(Fault::invalid("actions: names none; a key that allows nothing is of no use"));
        }
        if spec.topics.as_ref().is_some_and(Vec::is_empty) {
            return Err(Fault::invalid("topics: names none; leave it out for a key for all topics"));
        }
        if spec.tenants.as_ref().is_some_and(Vec::is_empty) {
            return Err(Fault::invalid("tenants: names none; leave it out for a key for all tenants"));
        }
        Ok(spec)
    }
}

/// `POST /v2/keys/{id}/rotate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyRotate {
    /// How long the old key goes on; a day if not given.
    #[serde(
        default = "overlap_default",
        deserialize_with = "number::or::<_, _, 0, DURATION_MS_MAX, OVERLAP_MS_DEFAULT>"
    )]
    #[schema(minimum = 0, maximum = 316_224_000_000_u64, value_type = Option<u64>)]
    pub overlap_ms: u64,
}

const fn overlap_default() -> u64 {
    OVERLAP_MS_DEFAULT
}

impl KeyRotate {
    /// From a JSON body, or none.
    pub fn from_json(body: &[u8]) -> Result<Self, Fault> {
        if body.is_empty() {
            return Ok(Self { overlap_ms: OVERLAP_MS_DEFAULT });
        }
        read::object(body)
    }
}

/// A key without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Key<'a> {
    /// Names the key and opens nothing: the middle of `dq_<id>_<secret>`.
    pub id: Cow<'a, str>,
    /// What it allows.
    pub actions: Vec<KeyAction>,
    /// With which topics; all of them if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topics: Option<Vec<Cow<'a, str>>>,
    /// As which tenants; as all of them if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenants: Option<Vec<Cow<'a, str>>>,
    /// How much it may take; not given if nothing is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// When it was made.
    pub created_at: Moment,
    /// From when on it opens nothing, by its own end or that of a key that it hangs on; never if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Moment>,
    /// Whether it opens anything now.
    pub live: bool,
    /// The key that it hangs on; none if it was made with the root key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Cow<'a, str>>,
    /// What it is for, in words.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schema(value_type = Option<String>)]
    pub note: Cow<'a, str>,
}

/// To `GET /v2/keys`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Keys<'a> {
    /// Keys that hang on the caller's, in order of their ids; all of them for the root key.
    pub keys: Vec<Key<'a>>,
    /// Cursor of the next page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// To a call that makes a key: the only time that its secret is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyMade<'a> {
    /// The whole key, to be sent as `Authorization: Bearer`. It is not kept and cannot be shown again.
    pub secret: Cow<'a, str>,
    /// The key.
    pub key: Key<'a>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs() {
        let body = br#"{"actions":["produce","read"],"topics":["a","b.*"],"tenants":["t"],"note":"n"}"#;
        let spec = KeySpec::from_json(body).unwrap();
        assert_eq!(spec.tenants.as_deref(), Some(&["t".into()][..]));
        let null = KeySpec::from_json(br#"{"actions":["read"],"topics":null,"tenants":null}"#).unwrap();
        assert_eq!((null.topics, null.tenants), (None, None));
        assert_eq!(spec.actions, [KeyAction::Produce, KeyAction::Read]);
        assert_eq!(spec.topics.unwrap(), ["a", "b.*"]);
        for (body, text) in [
            (r"{}", "actions"),
            (r#"{"actions":[]}"#, "actions: names none"),
            (r#"{"actions":["fly"]}"#, "actions[0]: must be produce"),
            (r#"{"actions":["read"],"topics":[]}"#, "topics: names none"),
            (r#"{"actions":["read"],"topics":[""]}"#, "topics[0]"),
            (r#"{"actions":["read"],"tenants":[]}"#, "tenants: names none"),
            (r#"{"actions":["read"],"tenants":[""]}"#, "tenants[0]"),
        ] {
            let fault = KeySpec::from_json(body.as_bytes()).unwrap_err();
            assert!(fault.message.contains(text), "{body}: {}", fault.message);
        }
    }

    #[test]
    fn a_rotation_overlaps_for_a_day() {
        assert_eq!(KeyRotate::from_json(b"").unwrap().overlap_ms, OVERLAP_MS_DEFAULT);
        assert_eq!(KeyRotate::from_json(b"{}").unwrap().overlap_ms, OVERLAP_MS_DEFAULT);
        assert_eq!(KeyRotate::from_json(br#"{"overlap_ms":0}"#).unwrap().overlap_ms, 0);
    }

    #[test]
    fn names_are_in_the_order_of_their_numbers() {
        for (place, (name, action)) in KeyAction::WORDS.into_iter().enumerate() {
            assert_eq!((action as usize, action.name()), (place, name));
            assert_eq!(serde_json::to_string(&action).unwrap(), format!("{name:?}"));
        }
    }
}
