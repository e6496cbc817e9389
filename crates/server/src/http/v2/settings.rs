//! Settings of a topic in the words of the wire.

use std::borrow::Cow;

use driftq_api::v2::{Ordering, SettingChange, TopicPatch, TopicSettings, TopicSpec};
use driftq_engine::core::{self, Order, Settings};
use serde_json::Value;

use super::words::{shown_policy, taken_policy};

const fn order(ordering: Ordering) -> Order {
    match ordering {
        Ordering::Fifo => Order::Fifo,
        Ordering::Priority => Order::Priority,
        Ordering::Key => Order::Key,
    }
}

const fn ordering(order: Order) -> Ordering {
    match order {
        Order::Fifo => Ordering::Fifo,
        Order::Priority => Ordering::Priority,
        Order::Key => Ordering::Key,
    }
}

/// What a topic should be, as the broker takes it.
pub(super) fn taken_spec(spec: &TopicSpec) -> core::TopicSettings {
    core::TopicSettings {
        retention_ms: spec.retention_ms,
        retention_bytes: spec.retention_bytes,
        messages_max: spec.partition_messages_max,
        bytes_max: spec.partition_bytes_max,
        retry: spec.retry_policy.map(taken_policy),
        lease_ms: spec.lease_ms,
        in_flight_max: spec.max_in_flight,
        order: order(spec.ordering.unwrap_or_default()),
        retry_share: spec.retry_share_percent,
        keep_ms: spec.keep_ms,
        keep_bytes: spec.keep_bytes,
    }
}

/// What should change, as the broker takes it.
pub(super) fn taken_patch(patch: &TopicPatch) -> core::TopicPatch {
    core::TopicPatch {
        retention_ms: patch.retention_ms,
        retention_bytes: patch.retention_bytes,
        messages_max: patch.partition_messages_max,
        bytes_max: patch.partition_bytes_max,
        retry: patch.retry_policy.map(|policy| policy.map(taken_policy)),
        lease_ms: patch.lease_ms,
        in_flight_max: patch.max_in_flight,
        order: patch.ordering.map(|ordering| order(ordering.unwrap_or_default())),
        retry_share: patch.retry_share_percent,
        keep_ms: patch.keep_ms,
        keep_bytes: patch.keep_bytes,
    }
}

/// The settings in force: the topic's own, or the server's.
pub(super) fn in_force(own: &core::TopicSettings, server: &Settings) -> TopicSettings {
    let set = [
        ("retention_ms", own.retention_ms.is_some()),
        ("retention_bytes", own.retention_bytes.is_some()),
        ("partition_messages_max", own.messages_max.is_some()),
        ("partition_bytes_max", own.bytes_max.is_some()),
        ("retry_policy", own.retry.is_some()),
        ("lease_ms", own.lease_ms.is_some()),
        ("max_in_flight", own.in_flight_max.is_some()),
        ("ordering", own.order != Order::default()),
        ("retry_share_percent", own.retry_share.is_some()),
        ("keep_ms", own.keep_ms.is_some()),
        ("keep_bytes", own.keep_bytes.is_some()),
    ];
    TopicSettings {
        retention_ms: own.retention_ms.or(server.retention_ms),
        retention_bytes: own.retention_bytes.or(server.retention_bytes),
        partition_messages_max: Some(own.messages_max.unwrap_or(server.partition_messages_max)),
        partition_bytes_max: Some(own.bytes_max.unwrap_or(server.partition_bytes_max)),
        retry_policy: shown_policy(own.retry.unwrap_or(server.retry)),
        lease_ms: own.lease_ms.unwrap_or(server.lease_ms_default),
        max_in_flight: Some(own.in_flight_max.unwrap_or(server.lease_in_flight_max)),
        ordering: ordering(own.order),
        retry_share_percent: own.retry_share.unwrap_or(server.retry_share),
        keep_ms: own.keep_ms,
        keep_bytes: own.keep_bytes,
        set: set.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| Cow::Borrowed(name)).collect(),
    }
}

/// What is different now.
pub(super) fn changes(before: &TopicSettings, after: &TopicSettings) -> Vec<SettingChange> {
    let value = |settings: &TopicSettings| serde_json::to_value(settings).unwrap_or_default();
    let (before, after) = (value(before), value(after));
    let names = [
        "retention_ms",
        "retention_bytes",
        "partition_messages_max",
        "partition_bytes_max",
        "retry_policy",
        "lease_ms",
        "max_in_flight",
        "ordering",
        "retry_share_percent",
        "keep_ms",
        "keep_bytes",
    ];
    let get = |settings: &Value, name: &str| settings.get(name).cloned().unwrap_or(Value::Null);
    let changed = names.into_iter().filter(|name| get(&before, name) != get(&after, name));
    changed
        .map(|name| SettingChange {
            setting: Cow::Borrowed(name),
            before: get(&before, name),
            after: get(&after, name),
        })
        .collect()
}
