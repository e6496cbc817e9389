//! The settings of a topic: asked for, changed, and in force.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::limits::{
    COUNT_MAX, DURATION_MS_MAX, IN_FLIGHT_MAX, LEASE_MS_MAX, NAME_BYTES_MAX, PARTITIONS_MAX,
};
use super::read::{self, number, structure, text};
use super::retry_policy::RetryPolicy;
use crate::fault::Fault;

/// In which order the messages of a topic are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ordering {
    /// By offset, whatever the priority.
    Fifo,
    /// By priority, then by offset.
    #[default]
    Priority,
    /// By offset within a key, and never two messages of a key at a time.
    Key,
}

impl<'de> Deserialize<'de> for Ordering {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text::word(from, &[("fifo", Self::Fifo), ("priority", Self::Priority), ("key", Self::Key)])
    }
}

/// `PUT /v2/topics/{topic}`: what the topic should be. What is not given is the server's default.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TopicSpec {
    /// How many partitions; 1 if not given. It cannot be changed later.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, PARTITIONS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 4096)]
    pub partitions: Option<u32>,
    /// Messages are dropped when they are older than this.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, DURATION_MS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 316_224_000_000_u64)]
    pub retention_ms: Option<u64>,
    /// The oldest messages are dropped when a partition keeps more than this.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, COUNT_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 9_223_372_036_854_775_807_u64)]
    pub retention_bytes: Option<u64>,
    /// Most messages that wait in a partition; more are refused with `OVERLOADED`.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, COUNT_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 9_223_372_036_854_775_807_u64)]
    pub partition_messages_max: Option<u64>,
    /// Most bytes that wait in a partition; more are refused with `OVERLOADED`.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, COUNT_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 9_223_372_036_854_775_807_u64)]
    pub partition_bytes_max: Option<u64>,
    /// For messages that bring no policy of their own.
    #[serde(default, deserialize_with = "structure::optional", skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicy>,
    /// For readers that ask for no lease of their own.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, LEASE_MS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 604_800_000)]
    pub lease_ms: Option<u64>,
    /// Most messages of a partition on loan to one group.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, IN_FLIGHT_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub max_in_flight: Option<u32>,
    /// In which order messages are delivered; by priority if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordering: Option<Ordering>,
    /// The share of deliveries that due retries get while fresh messages wait, and at least one; 20 if not given.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, 100>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 100)]
    pub retry_share_percent: Option<u8>,
    /// What every group is done with stays until it is older than this, for groups that come or go back later; nothing
    /// stays if neither this nor `keep_bytes` is given.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, DURATION_MS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 316_224_000_000_u64)]
    pub keep_ms: Option<u64>,
    /// What every group is done with stays until a partition has more bytes of it than this.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, COUNT_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 9_223_372_036_854_775_807_u64)]
    pub keep_bytes: Option<u64>,
    /// The tenant that it belongs to, and with it every message in it; keys of other tenants do not know of it. Given
    /// when it is created and not changed later; the topic is shared by all if not given.
    #[serde(
        default,
        deserialize_with = "text::optional_owned::<_, 1, NAME_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_length = 1, max_length = 255)]
    pub tenant: Option<String>,
}

impl TopicSpec {
    /// From a JSON body; an empty body asks for the defaults.
    pub fn from_json(body: &[u8]) -> Result<Self, Fault> {
        if body.is_empty() { Ok(Self::default()) } else { read::object(body) }
    }
}

/// `PATCH /v2/topics/{topic}`: what should change. What is not given stays; `null` is back to the server's default.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TopicPatch {
    /// Messages are dropped when they are older than this.
    #[serde(
        default,
        deserialize_with = "number::patched::<_, _, 1, DURATION_MS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 316_224_000_000_u64)]
    pub retention_ms: Option<Option<u64>>,
    /// The oldest messages are dropped when a partition keeps more than this.
    #[serde(
        default,
        deserialize_with = "number::patched::<_, _, 1, COUNT_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 9_223_372_036_854_775_807_u64)]
    pub retention_bytes: Option<Option<u64>>,
    /// Most messages that wait in a partition; more are refused with `OVERLOADED`.
    #[serde(
        default,
        deserialize_with = "number::patched::<_, _, 1, COUNT_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 9_223_372_036_854_775_807_u64)]
    pub partition_messages_max: Option<Option<u64>>,
    /// Most bytes that wait in a partition; more are refused with `OVERLOADED`.
    #[serde(
        default,
        deserialize_with = "number::patched::<_, _, 1, COUNT_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 9_223_372_036_854_775_807_u64)]
    pub partition_bytes_max: Option<Option<u64>>,
    /// For messages that bring no policy of their own; replaced as a whole.
    #[serde(default, deserialize_with = "structure::patched", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<RetryPolicy>)]
    pub retry_policy: Option<Option<RetryPolicy>>,
    /// For readers that ask for no lease of their own.
    #[serde(
        default,
        deserialize_with = "number::patched::<_, _, 1, LEASE_MS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 604_800_000)]
    pub lease_ms: Option<Option<u64>>,
    /// Most messages of a partition on loan to one group.
    #[serde(
        default,
        deserialize_with = "number::patched::<_, _, 1, IN_FLIGHT_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1_000_000)]
    pub max_in_flight: Option<Option<u32>>,
    /// In which order messages are delivered.
    #[serde(default, deserialize_with = "structure::patched_value", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Ordering>)]
    pub ordering: Option<Option<Ordering>>,
    /// The share of deliveries that due retries get while fresh messages wait, and at least one.
    #[serde(
        default,
        deserialize_with = "number::patched::<_, _, 1, 100>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<u8>, minimum = 1, maximum = 100)]
    pub retry_share_percent: Option<Option<u8>>,
    /// What every group is done with stays until it is older than this.
    #[serde(
        default,
        deserialize_with = "number::patched::<_, _, 1, DURATION_MS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 316_224_000_000_u64)]
    pub keep_ms: Option<Option<u64>>,
    /// What every group is done with stays until a partition has more bytes of it than this.
    #[serde(
        default,
        deserialize_with = "number::patched::<_, _, 1, COUNT_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 9_223_372_036_854_775_807_u64)]
    pub keep_bytes: Option<Option<u64>>,
}

impl TopicPatch {
    /// From a JSON body.
    pub fn from_json(body: &[u8]) -> Result<Self, Fault> {
        read::object(body)
    }
}

/// The settings of a topic that are in force.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct TopicSettings {
    /// Messages are dropped when they are older than this; never for their age if not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_ms: Option<u64>,
    /// The oldest messages are dropped when a partition keeps more than this; never for their size if not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_bytes: Option<u64>,
    /// Most messages that wait in a partition; no limit if not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_messages_max: Option<u64>,
    /// Most bytes that wait in a partition; no limit if not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_bytes_max: Option<u64>,
    /// For messages that come over `/v2` and bring no policy of their own.
    pub retry_policy: RetryPolicy,
    /// For readers that ask for no lease of their own.
    pub lease_ms: u64,
    /// Most messages of a partition on loan to one group; no limit if not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
    /// In which order messages are delivered.
    pub ordering: Ordering,
    /// The share of deliveries that due retries get while fresh messages wait.
    pub retry_share_percent: u8,
    /// What every group is done with stays until it is older than this; not for its age if not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_ms: Option<u64>,
    /// What every group is done with stays until a partition has more bytes of it than this. If not there and `keep_ms`
    /// is, it is as `partition_bytes_max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_bytes: Option<u64>,
    /// Names of the settings that were asked for; the others are the server's defaults and change with them.
    pub set: Vec<Cow<'static, str>>,
}

/// To `PATCH /v2/topics/{topic}`: what it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopicChanged {
    /// The topic.
    pub topic: String,
    /// Settings that are different now, in the order of the documentation; empty if all were so already.
    pub changed: Vec<SettingChange>,
}

/// One setting that is different now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingChange {
    /// Its name.
    pub setting: Cow<'static, str>,
    /// What was in force before; `null` for nothing.
    pub before: Value,
    /// What is in force now; `null` for nothing.
    pub after: Value,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v2::Jitter;

    #[test]
    fn an_empty_body_asks_for_the_defaults() {
        for body in ["", "{}", r#"{"partitions":null,"retry_policy":null,"ordering":null}"#] {
            assert_eq!(TopicSpec::from_json(body.as_bytes()).unwrap(), TopicSpec::default(), "{body}");
        }
    }

    #[test]
    fn round_trip_of_a_spec() {
        let body = r#"{"partitions":4096,"retention_ms":1,"retention_bytes":9223372036854775807,"partition_messages_max":5,"partition_bytes_max":6,"retry_policy":{"max_attempts":3,"jitter":"none"},"lease_ms":7,"max_in_flight":8,"ordering":"key","retry_share_percent":100,"keep_ms":9,"keep_bytes":10}"#;
        let spec = TopicSpec::from_json(body.as_bytes()).unwrap();
        assert_eq!(spec.retry_policy.unwrap().jitter, Jitter::None);
        assert_eq!(serde_json::to_string(&spec).unwrap(), body);
    }

    #[test]
    fn a_patch_tells_absent_from_null() {
        let patch = TopicPatch::from_json(
            br#"{"retention_ms":null,"lease_ms":5,"ordering":null,"retry_policy":null,"max_in_flight":1}"#,
        )
        .unwrap();
        let expected = TopicPatch {
            retention_ms: Some(None),
            lease_ms: Some(Some(5)),
            ordering: Some(None),
            retry_policy: Some(None),
            max_in_flight: Some(Some(1)),
            ..TopicPatch::default()
        };
        assert_eq!(patch, expected);
        let text = serde_json::to_vec(&patch).unwrap();
        assert_eq!(TopicPatch::from_json(&text).unwrap(), expected);
        let fault = TopicPatch::from_json(br#"{"partitions":2}"#).unwrap_err();
        assert!(fault.message.starts_with("partitions: unknown field, expected one of"), "{}", fault.message);
    }
}
