//! One line of a consume stream. The order of the fields is that of the specification.

use std::borrow::Cow;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use super::RetryPolicy;
use crate::moment::Moment;

/// One delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item<'a> {
    /// The partition.
    pub partition: u32,
    /// The offset.
    pub offset: u64,
    /// 1-based count of deliveries to this group.
    pub attempts: u32,
    /// The key; may be empty.
    pub key: Cow<'a, str>,
    /// The payload.
    pub value: Cow<'a, str>,
    /// Why the attempt before failed; empty at first.
    pub last_error: Cow<'a, str>,
    /// A router's word, if one answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<Routing<'a>>,
    /// The envelope, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envelope: Option<ItemEnvelope<'a>>,
}

/// A router's word on a message.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Routing<'a> {
    /// What the message is.
    pub label: Cow<'a, str>,
    /// More about it.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub meta: Pairs<'a>,
}

/// The envelope of a delivery: what the producer sent, and what only the broker can add.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ItemEnvelope<'a> {
    /// The workflow run.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub run_id: Cow<'a, str>,
    /// The step within the run.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub step_id: Cow<'a, str>,
    /// The step that caused it.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub parent_step_id: Cow<'a, str>,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub tenant_id: Cow<'a, str>,
    /// Names the operation.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub idempotency_key: Cow<'a, str>,
    /// Where the producer sent it.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub target_topic: Cow<'a, str>,
    /// The partition that the producer asked for; 0 is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_override: Option<u32>,
    /// No use after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Moment>,
    /// How often and when to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicy>,
    /// Free tags.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub labels: Pairs<'a>,
    /// Where a dead letter came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dlq: Option<DeadLetter<'a>>,
}

/// Where a dead letter came from and why it is dead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter<'a> {
    /// The source topic.
    pub topic: Cow<'a, str>,
    /// The source partition.
    pub partition: u32,
    /// The source offset.
    pub offset: u64,
    /// The group that gave it up.
    pub group: Cow<'a, str>,
    /// How often it was delivered.
    pub attempts: u32,
    /// Why the last attempt failed.
    pub last_error: Cow<'a, str>,
    /// Why it was given up.
    pub reason: Cow<'a, str>,
    /// Its tenant; may be empty.
    pub tenant_id: Cow<'a, str>,
    /// Its idempotency key; may be empty.
    pub idempotency_key: Cow<'a, str>,
    /// When it was given up.
    pub at: Moment,
}

/// A JSON object of texts that keeps its order and copies nothing.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Pairs<'a>(pub Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl Pairs<'_> {
    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Pairs<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;
        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Vec<(Cow<'static, str>, Cow<'static, str>)>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, String>()? {
                    pairs.push((Cow::Owned(name), Cow::Owned(value)));
                }
                Ok(pairs)
            }
        }
        deserializer.deserialize_map(PairsVisitor).map(Pairs)
    }
}

/// A retry policy as a stream writes it: what is zero was not given.
#[derive(Serialize, Deserialize)]
struct WirePolicy {
    #[serde(default, skip_serializing_if = "is_zero")]
    max_attempts: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    backoff_ms: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    max_backoff_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Serialize for RetryPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let wire = WirePolicy {
            max_attempts: self.max_attempts.into(),
            backoff_ms: self.backoff_ms,
            max_backoff_ms: self.max_backoff_ms,
        };
        wire.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RetryPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = WirePolicy::deserialize(deserializer)?;
        Ok(Self {
            max_attempts: u32::try_from(wire.max_attempts).unwrap_or(u32::MAX),
            backoff_ms: wire.backoff_ms,
            max_backoff_ms: wire.max_backoff_ms,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bare() -> Item<'static> {
        Item {
            partition: 0,
            offset: 12,
            attempts: 1,
            key: "".into(),
            value: "v".into(),
            last_error: "".into(),
            routing: None,
            envelope: None,
        }
    }

    #[test]
    fn six_fields_are_always_there() {
        let line = serde_json::to_string(&bare()).unwrap();
        assert_eq!(line, r#"{"partition":0,"offset":12,"attempts":1,"key":"","value":"v","last_error":""}"#);
        assert_eq!(serde_json::from_str::<Item<'_>>(&line).unwrap(), bare());
    }

    #[test]
    fn the_order_is_that_of_the_specification() {
        let item = Item {
            routing: Some(Routing {
                label: "some-label".into(),
                meta: Pairs(vec![("k".into(), "v".into())]),
            }),
            envelope: Some(ItemEnvelope {
                run_id: "run_123".into(),
                step_id: "step_7".into(),
                parent_step_id: "step_3".into(),
                tenant_id: "tenant_a".into(),
                idempotency_key: "key".into(),
                target_topic: "tasks.enrich".into(),
                partition_override: Some(0),
                deadline: Moment::parse("2025-12-21T12:00:00Z"),
                retry_policy: Some(RetryPolicy { max_attempts: 5, backoff_ms: 250, max_backoff_ms: 0 }),
                labels: Pairs(vec![("model".into(), "small".into())]),
                dlq: Some(DeadLetter {
                    topic: "t".into(),
                    partition: 1,
                    offset: 2,
                    group: "g".into(),
                    attempts: 3,
                    last_error: "boom".into(),
                    reason: "max_attempts_reached".into(),
                    tenant_id: "".into(),
                    idempotency_key: "".into(),
                    at: Moment::from_epoch_ms(0).unwrap(),
                }),
            }),
            ..bare()
        };
        let line = serde_json::to_string(&item).unwrap();
        let expected = r#"{"partition":0,"offset":12,"attempts":1,"key":"","value":"v","last_error":"","#
            .to_owned()
            + r#""routing":{"label":"some-label","meta":{"k":"v"}},"#
            + r#""envelope":{"run_id":"run_123","step_id":"step_7","parent_step_id":"step_3","#
            + r#""tenant_id":"tenant_a","idempotency_key":"key","target_topic":"tasks.enrich","#
            + r#""partition_override":0,"deadline":"2025-12-21T12:00:00Z","#
            + r#""retry_policy":{"max_attempts":5,"backoff_ms":250},"labels":{"model":"small"},"#
            + r#""dlq":{"topic":"t","partition":1,"offset":2,"group":"g","attempts":3,"last_error":"boom","#
            + r#""reason":"max_attempts_reached","tenant_id":"","idempotency_key":"","at":"1970-01-01T00:00:00Z"}}}"#;
        assert_eq!(line, expected);
        assert_eq!(serde_json::from_str::<Item<'_>>(&line).unwrap(), item);
    }

    #[test]
    fn what_is_empty_is_left_out() {
        let item =
            Item { envelope: Some(ItemEnvelope::default()), routing: Some(Routing::default()), ..bare() };
        let line = serde_json::to_string(&item).unwrap();
        assert!(line.ends_with(r#""last_error":"","routing":{"label":""},"envelope":{}}"#), "{line}");
    }
}
