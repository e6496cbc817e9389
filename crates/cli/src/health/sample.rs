//! A server for tests, to be changed by each of them.

use serde_json::{Value, json};

use super::survey::{Seen, Survey, Unknown};

/// A server on which all is well: one topic, one group, nothing waits.
pub(super) fn healthy() -> Survey {
    let status = json!({
        "version": "1", "commit": "c", "ready": true, "writable": true, "durability": "d", "durable": true,
        "data": "/var/lib/driftq", "epoch": 1, "uptime_ms": 5000, "topics": 1, "streams": 0, "connections": 1,
        "segments": 1, "recovery": {"duration_ms": 1},
    });
    let router = json!({
        "kind": "none", "breaker": "closed", "asked": 0, "answered": 0, "failed": 0, "timed_out": 0, "refused": 0,
        "cached": 0, "on_error": "pass", "topics": [],
    });
    Survey {
        status: serde_json::from_value(status).unwrap(),
        router: serde_json::from_value(router).unwrap(),
        topic_names: vec!["orders".to_owned()],
        groups: vec![seen(group(0), None)],
        dead: Vec::new(),
        unknown: Unknown::default(),
    }
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
    Seen { group: serde_json::from_value(group).unwrap(), oldest_ms }
}
