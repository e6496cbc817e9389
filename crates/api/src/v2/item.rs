//! A message as readers get it: leased, streamed, browsed, or dead.

use std::borrow::Cow;

use crate::ToSchema;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::labels::{self, Labels};
use super::retry_policy::RetryPolicy;
use super::settle::is_false;
use super::write::ObjectWriter;
use crate::moment::Moment;

/// One message. With a `lease` it is a delivery, which its holder must settle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Item<'a> {
    /// The topic.
    pub topic: Cow<'a, str>,
    /// The partition.
    pub partition: u32,
    /// The offset.
    pub offset: u64,
    /// The key, if it has one.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schema(value_type = Option<String>)]
    pub key: Cow<'a, str>,
    /// The key in base64, if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_b64: Option<Cow<'a, str>>,
    /// The payload, if it is UTF-8. What was sent as another JSON value than a text comes as its JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Cow<'a, str>>,
    /// The payload in base64, if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_b64: Option<Cow<'a, str>>,
    /// 0 to 9; higher is sooner.
    pub priority: u8,
    /// When it was stored.
    pub produced_at: Moment,
    /// When it may first be delivered, if it was scheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliver_at: Option<Moment>,
    /// Everything about it, if it has an envelope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envelope: Option<ItemEnvelope<'a>>,
    /// A router's word, if one answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<ItemRouting<'a>>,
    /// Why the attempt before failed, if there was one and it said.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schema(value_type = Option<String>)]
    pub last_error: Cow<'a, str>,
    /// Where it was born. A fresh message was born where it lies; one that died, or was sent back, keeps the place that
    /// it had first. Only servers of an older version do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ItemOrigin, required = true)]
    pub origin: Option<ItemOrigin<'a>>,
    /// The loan, if it is a delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease<'a>>,
    /// Whether every group is done with it and the topic keeps it; only where messages are looked at.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(value_type = Option<bool>)]
    pub kept: bool,
    /// Whether the value is left out because the caller's key has `read` and not `read_payload`.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(value_type = Option<bool>)]
    pub payload_hidden: bool,
}

/// Where a message was born: what it is known by for as long as it is tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ItemOrigin<'a> {
    /// The topic.
    pub topic: Cow<'a, str>,
    /// The topic's number: another topic of the same name, before or after, has another.
    pub incarnation: u32,
    /// The partition.
    pub partition: u32,
    /// The offset.
    pub offset: u64,
}

impl ItemOrigin<'_> {
    fn write(&self, object: &mut ObjectWriter<'_>) {
        let Self { topic, incarnation, partition, offset } = self;
        object.text("topic", topic);
        object.value("incarnation", incarnation);
        object.value("partition", partition);
        object.value("offset", offset);
    }
}

impl<'a> Item<'a> {
    /// Puts the key where it belongs: `key` if it is UTF-8, `key_b64` if not.
    #[must_use]
    pub fn with_key(mut self, key: &'a [u8]) -> Self {
        (self.key, self.key_b64) = match std::str::from_utf8(key) {
            Ok(text) => (Cow::Borrowed(text), None),
            Err(_) => (Cow::Borrowed(""), Some(Cow::Owned(STANDARD.encode(key)))),
        };
        self
    }

    /// Puts the payload where it belongs: `value` if it is UTF-8, `value_b64` if not.
    #[must_use]
    pub fn with_payload(mut self, payload: &'a [u8]) -> Self {
        (self.value, self.value_b64) = match std::str::from_utf8(payload) {
            Ok(text) => (Some(Cow::Borrowed(text)), None),
            Err(_) => (None, Some(Cow::Owned(STANDARD.encode(payload)))),
        };
        self
    }

    /// The payload's bytes; `None` if the wire held none or broken base64.
    #[must_use]
    pub fn payload(&self) -> Option<Cow<'_, [u8]>> {
        match (&self.value, &self.value_b64) {
            (Some(text), _) => Some(Cow::Borrowed(text.as_bytes())),
            (None, Some(text)) => STANDARD.decode(&**text).ok().map(Cow::Owned),
            (None, None) => None,
        }
    }

    /// Appends its JSON to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let Self { topic, partition, offset, key, key_b64, value, value_b64, priority, produced_at, .. } =
            self;
        let Self { deliver_at, envelope, routing, last_error, origin, lease, kept, payload_hidden, .. } =
            self;
        let mut object = ObjectWriter::new(out);
        object.text("topic", topic);
        object.value("partition", partition);
        object.value("offset", offset);
        object.text_if_any("key", key);
        object.value_if_some("key_b64", key_b64.as_ref());
        if let Some(value) = value {
            object.text("value", value);
        }
        object.value_if_some("value_b64", value_b64.as_ref());
        object.value("priority", priority);
        object.value("produced_at", produced_at);
        object.value_if_some("deliver_at", deliver_at.as_ref());
        object.value_if_some("envelope", envelope.as_ref());
        object.value_if_some("routing", routing.as_ref());
        object.text_if_any("last_error", last_error);
        if let Some(origin) = origin {
            object.object("origin", |object| origin.write(object));
        }
        if let Some(lease) = lease {
            object.object("lease", |object| lease.write(object));
        }
        object.flag("kept", *kept);
        object.flag("payload_hidden", *payload_hidden);
        object.end();
    }
}

/// A delivery on loan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Lease<'a> {
    /// Names this delivery, and is the authority to settle it.
    pub token: Cow<'a, str>,
    /// 1-based count of deliveries to this group.
    pub attempt: u32,
    /// When the loan ends unless it is extended.
    pub expires_at: Moment,
    /// The span of this delivery, as W3C's `traceparent` writes it, if the server traces the message. What its holder
    /// does is part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<Cow<'a, str>>,
}

impl Lease<'_> {
    fn write(&self, object: &mut ObjectWriter<'_>) {
        let Self { token, attempt, expires_at, traceparent } = self;
        object.text("token", token);
        object.value("attempt", attempt);
        object.value("expires_at", expires_at);
        object.value_if_some("traceparent", traceparent.as_ref());
    }
}

/// A router's word on a message.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ItemRouting<'a> {
    /// What the message is.
    pub label: Cow<'a, str>,
    /// More about it.
    #[serde(default, deserialize_with = "labels::stored", skip_serializing_if = "Labels::is_empty")]
    #[schema(value_type = std::collections::BTreeMap<String, String>, required = false)]
    pub meta: Labels<'a>,
}

/// The envelope of a stored message: what the producer sent, and what only the broker can add.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ItemEnvelope<'a> {
    /// The workflow run.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schema(value_type = Option<String>)]
    pub run_id: Cow<'a, str>,
    /// The step within the run.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schema(value_type = Option<String>)]
    pub step_id: Cow<'a, str>,
    /// The step that caused it.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schema(value_type = Option<String>)]
    pub parent_step_id: Cow<'a, str>,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schema(value_type = Option<String>)]
    pub tenant_id: Cow<'a, str>,
    /// Free tags.
    #[serde(default, deserialize_with = "labels::stored", skip_serializing_if = "Labels::is_empty")]
    #[schema(value_type = std::collections::BTreeMap<String, String>, required = false)]
    pub labels: Labels<'a>,
    /// Names the operation.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schema(value_type = Option<String>)]
    pub idempotency_key: Cow<'a, str>,
    /// A hash of what the key stands for.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schema(value_type = Option<String>)]
    pub request_hash: Cow<'a, str>,
    /// Where the producer sent it.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schema(value_type = Option<String>)]
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
    /// Where a dead letter came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letter: Option<Box<DeadLetter<'a>>>,
}

/// Where a dead letter came from and why it is dead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
    /// When it was given up.
    pub at: Moment,
    /// Its tenant, if it has one.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schema(value_type = Option<String>)]
    pub tenant_id: Cow<'a, str>,
    /// Its idempotency key, if it has one.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schema(value_type = Option<String>)]
    pub idempotency_key: Cow<'a, str>,
    /// The attempts that are still known, oldest first.
    #[serde(default)]
    #[schema(required = false)]
    pub history: Vec<Attempt<'a>>,
}

/// One attempt that ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attempt<'a> {
    /// 1-based count of deliveries.
    pub attempt: u32,
    /// Who held it.
    pub owner: Cow<'a, str>,
    /// Why it failed.
    pub error: Cow<'a, str>,
    /// When the loan began.
    pub leased_at: Moment,
    /// When it ended.
    pub ended_at: Moment,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_writes_itself_as_serde_writes_it() {
        let least =
            r#"{"topic":"t","partition":0,"offset":1,"priority":0,"produced_at":"2026-01-02T03:04:05Z"}"#;
        let full = r#"{"topic":"a\"b","partition":4294967295,"offset":18446744073709551615,"key":"k","key_b64":"/w==","value":"line\nline","value_b64":"/w==","priority":9,"produced_at":"2026-01-02T03:04:05.678Z","deliver_at":"2026-01-02T03:04:05Z","envelope":{"run_id":"r","labels":{"a":"b"}},"routing":{"label":"l","meta":{"m":"n"}},"last_error":"e","origin":{"topic":"o","incarnation":1,"partition":2,"offset":3},"lease":{"token":"x","attempt":4,"expires_at":"2026-01-02T03:04:05Z","traceparent":"00-1"},"kept":true,"payload_hidden":true}"#;
        for text in [least, full] {
            let item: Item<'_> = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&item).unwrap(), text);
            let mut out = b"before".to_vec();
            item.write(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), format!("before{text}"));
        }
    }
}
