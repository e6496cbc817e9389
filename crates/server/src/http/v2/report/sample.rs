//! A server for the tests of rules, to be changed by each of them.

use driftq_engine::Status;
use driftq_engine::core::{PartitionDescription, TopicDescription};
use serde_json::{Value, json};

use super::survey::{Seen, Survey, Topic};

/// A server on which all is well: one topic, one group, nothing waits.
pub(super) fn healthy() -> Survey {
    let router = json!({
        "kind": "none", "breaker": "closed", "asked": 0, "answered": 0, "failed": 0, "timed_out": 0, "refused": 0,
        "cached": 0, "on_error": "pass", "topics": [],
    });
    Survey {
        status: Status {
            ready: true,
            writable: true,
            durable: true,
            epoch: 1,
            settles: true,
            why: None,
            data: Some("/var/lib/driftq".into()),
        },
        uptime_ms: 5_000,
        router: serde_json::from_value(router).unwrap(),
        topic_count: 1,
        group_count: 1,
        topics: vec![topic()],
        groups: vec![seen(group(0), None)],
        dead: Vec::new(),
        unknown: 0,
        unknown_oldest_ms: None,
        failing: Vec::new(),
        left_out: 0,
    }
}

pub(super) fn topic() -> Topic {
    let lane = PartitionDescription { messages: 1, bytes: 1, ..PartitionDescription::default() };
    let described =
        TopicDescription { name: "orders".into(), partitions: vec![lane], ..TopicDescription::default() };
    Topic { described, is_read: true, waiting: 0, messages_max: 100, bytes_max: 1_000 }
}

/// A group that a worker reads for.
pub(super) fn group(lag: u64) -> Value {
    json!({
        "topic": "orders", "name": "billing", "consumers": 1, "seen_at": "2030-01-01T00:00:00Z", "lag": lag,
        "in_flight": 0, "retrying": 0, "partitions": [], "waiting": {"ready": lag},
        "members": [{"owner": "w", "kind": "stream", "in_flight": 0}],
    })
}

pub(super) fn seen(group: Value, oldest_ms: Option<u64>) -> Seen {
    Seen { group: serde_json::from_value(group).unwrap(), is_topic_paused: false, oldest_ms }
}
