//! Every rule with a server that breaks it, and one that breaks none.

use serde_json::{Value, json};

use super::rules::{Finding, Verdict, findings};
use crate::{
    survey::{Failing, Seen, Survey, Unknown},
    when::Now,
};

/// A server on which all is well: one topic, one group, nothing waits.
fn healthy() -> Survey {
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
        topics: vec![serde_json::from_value(topic()).unwrap()],
        groups: vec![seen(group(0), None)],
        dead: Vec::new(),
        unknown: Unknown::default(),
        failing: Vec::new(),
    }
}

fn topic() -> Value {
    json!({
        "name": "orders", "created_at": "2030-01-01T00:00:00Z", "next_offset": 9, "messages": 1, "bytes": 1,
        "oldest_at": null, "dead_letters": 0, "groups": ["billing"], "scheduled": 0,
        "partitions": [{"partition": 0, "messages": 1, "bytes": 1, "oldest_offset": 0, "oldest_at": null}],
        "settings": {
            "partition_messages_max": 100, "partition_bytes_max": 1000, "lease_ms": 30000, "max_in_flight": 2,
            "retry_policy": {"max_attempts": 20, "jitter": "full"}, "ordering": "fifo",
            "retry_share_percent": 20, "set": [],
        },
    })
}

/// A group that somebody reads for.
fn group(lag: u64) -> Value {
    json!({
        "topic": "orders", "name": "billing", "consumers": 1, "seen_at": "2030-01-01T00:00:00Z", "lag": lag,
        "in_flight": 0, "retrying": 0, "partitions": [], "waiting": {"ready": lag},
        "members": [{"owner": "w", "kind": "stream", "in_flight": 0}],
    })
}

fn seen(group: Value, oldest_ms: Option<u64>) -> Seen {
    Seen { group: serde_json::from_value(group).unwrap(), oldest_ms }
}

fn with(base: Value, changes: Value) -> Value {
    let (Value::Object(mut base), Value::Object(changes)) = (base, changes) else { panic!("objects") };
    base.extend(changes);
    base.into()
}

/// Changes a healthy server, and expects this to be the only finding that is not ok.
#[track_caller]
fn finds(change: impl FnOnce(&mut Survey), verdict: Verdict, what: &str, next: &str) -> Finding {
    let mut survey = healthy();
    change(&mut survey);
    let all = findings(&survey, Now::read());
    let mut bad: Vec<_> = all.into_iter().filter(|finding| finding.verdict != Verdict::Ok).collect();
    assert_eq!(bad.len(), 1, "{bad:#?}");
    let finding = bad.remove(0);
    assert_eq!(finding.verdict, verdict, "{finding:?}");
    assert!(finding.what.contains(what), "{finding:?}");
    assert!(finding.next.as_deref().unwrap().starts_with(next), "{finding:?}");
    assert!(!finding.cause.is_empty(), "{finding:?}");
    finding
}

#[test]
fn a_healthy_server_needs_nothing() {
    let all = findings(&healthy(), Now::read());
    assert!(all.iter().all(|finding| finding.verdict == Verdict::Ok), "{all:#?}");
    assert!(all.len() >= 5, "every area says something");
    let mut reading = healthy();
    reading.groups = vec![seen(group(50), Some(10_000))];
    let all = findings(&reading, Now::read());
    assert!(
        all.iter().all(|finding| finding.verdict == Verdict::Ok),
        "work in progress is no fault: {all:#?}"
    );
}

#[test]
fn what_is_most_urgent_comes_first() {
    let mut survey = healthy();
    survey.status.durable = false;
    survey.unknown.count = 1;
    let order: Vec<_> = findings(&survey, Now::read()).iter().map(|finding| finding.verdict).collect();
    assert!(order.is_sorted_by(|one, other| one >= other), "{order:?}");
    assert_eq!(order[..2], [Verdict::Act, Verdict::Look]);
}

#[test]
fn the_server_s_own_troubles_are_found() {
    let full = |survey: &mut Survey| {
        survey.status.writable = false;
        survey.status.why = Some("the disk is full".into());
    };
    let finding = finds(full, Verdict::Act, "no new messages", "df -h /var/lib/driftq");
    assert!(finding.cause.contains("the disk is full"));
    finds(|survey| survey.status.ready = false, Verdict::Act, "not ready", "df -h");
    finds(|survey| survey.status.durable = false, Verdict::Look, "nothing is on disk", "driftq serve --data");
    let router = |breaker: &str, on_error: &str| {
        let (breaker, on_error) = (json!(breaker), json!(on_error));
        move |survey: &mut Survey| {
            survey.router.kind = driftq_api::v2::RouterKind::Http;
            survey.router.breaker = serde_json::from_value(breaker).unwrap();
            survey.router.on_error = serde_json::from_value(on_error).unwrap();
        }
    };
    finds(router("half_open", "pass"), Verdict::Look, "tried again", "driftq router status");
    let finding = finds(router("open", "reject"), Verdict::Act, "left alone", "driftq router status");
    assert!(finding.cause.contains("refused"));
}

#[test]
fn what_was_given_up_is_found() {
    let letters = |survey: &mut Survey| {
        survey.dead = vec![serde_json::from_value(json!({"name": "my orders", "letters": 3})).unwrap()];
    };
    finds(letters, Verdict::Act, "3 dead letter(s) of my orders", "driftq dlq list 'my orders'");
    let unknown =
        |survey: &mut Survey| survey.unknown = Unknown { count: 7, more: true, oldest_ms: Some(90_000) };
    let finding = finds(unknown, Verdict::Act, "7 or more effect(s)", "driftq effect list --state unknown");
    assert!(finding.cause.contains("1m 30s"), "{finding:?}");
}

#[test]
fn groups_that_are_behind_are_found() {
    let alone = json!({"consumers": 0, "members": [], "seen_at": "2020-01-01T00:00:00Z"});
    let abandoned = |survey: &mut Survey| survey.groups = vec![seen(with(group(5), alone.clone()), None)];
    let just_left = with(alone.clone(), json!({"seen_at": "2999-01-01T00:00:00Z"}));
    let polled = |survey: &mut Survey| survey.groups = vec![seen(with(group(5), just_left), None)];
    finds(polled, Verdict::Look, "nobody reads", "driftq group describe");
    finds(
        abandoned,
        Verdict::Act,
        "nobody reads for group billing of orders, and 5",
        "driftq group describe orders billing",
    );
    for (oldest, verdict) in [(301_000, Verdict::Look), (3_600_000, Verdict::Act)] {
        let slow = move |survey: &mut Survey| survey.groups = vec![seen(group(5), Some(oldest))];
        finds(slow, verdict, "billing of orders is behind", "driftq group describe");
    }
    let full = json!({"waiting": {"ready": 1, "window_full": 4}});
    let held = |survey: &mut Survey| survey.groups = vec![seen(with(group(5), full), Some(301_000))];
    assert!(finds(held, Verdict::Look, "behind", "driftq").cause.contains("max_in_flight"));
    // What is not due waits for nobody.
    let mut survey = healthy();
    let later = with(alone, json!({"waiting": {"scheduled": 5}}));
    survey.groups = vec![seen(with(group(5), later), None)];
    assert!(findings(&survey, Now::read()).iter().all(|finding| finding.verdict == Verdict::Ok));
}

#[test]
fn a_pause_is_told_once_and_only_if_something_waits() {
    let since = json!({"paused_at": "2030-01-01T00:00:00Z"});
    let group_since = since.clone();
    let group_paused =
        move |survey: &mut Survey| survey.groups = vec![seen(with(group(5), group_since), None)];
    finds(
        group_paused,
        Verdict::Look,
        "group billing of orders is paused",
        "driftq group resume orders billing",
    );
    let topic_since = since.clone();
    let topic_paused = move |survey: &mut Survey| {
        survey.groups = vec![seen(group(5), Some(3_600_000))];
        survey.topics = vec![serde_json::from_value(with(topic(), topic_since)).unwrap()];
    };
    finds(topic_paused, Verdict::Look, "topic orders is paused, and 5", "driftq topic resume orders");
    let mut idle = healthy();
    idle.topics = vec![serde_json::from_value(with(topic(), since)).unwrap()];
    assert!(findings(&idle, Now::read()).iter().all(|finding| finding.verdict == Verdict::Ok));
}

#[test]
fn a_topic_that_nobody_reads_is_found() {
    let unread = |name: &'static str, scheduled: u64| {
        move |survey: &mut Survey| {
            let change = json!({"name": name, "groups": [], "messages": 9, "scheduled": scheduled});
            survey.topics = vec![serde_json::from_value(with(topic(), change)).unwrap()];
            survey.groups = Vec::new();
        }
    };
    finds(unread("orders", 2), Verdict::Look, "no group reads orders, and 7", "driftq message list orders");
    for (name, scheduled) in [("dlq.orders", 0), ("orders", 9)] {
        let mut survey = healthy();
        unread(name, scheduled)(&mut survey);
        let all = findings(&survey, Now::read());
        assert!(all.iter().all(|finding| finding.verdict == Verdict::Ok), "{all:#?}");
    }
}

#[test]
fn limits_are_told_before_they_are_reached() {
    let kept = |messages: u64, bytes: u64| {
        move |survey: &mut Survey| {
            survey.topics[0].partitions[0].messages = messages;
            survey.topics[0].partitions[0].bytes = bytes;
        }
    };
    let next = "driftq topic set orders partition_messages_max=200";
    finds(kept(80, 1), Verdict::Look, "80 % full: 80 of 100 messages", next);
    finds(kept(95, 1), Verdict::Act, "95 % full", next);
    finds(kept(1, 990), Verdict::Act, "99 % full", "driftq topic set orders partition_bytes_max=2000");
    let mut survey = healthy();
    kept(79, 799)(&mut survey);
    assert!(findings(&survey, Now::read()).iter().all(|finding| finding.verdict == Verdict::Ok));
}

#[test]
fn messages_that_keep_failing_are_found() {
    let failing = |attempts| Failing {
        topic: "orders".to_owned(),
        partition: 0,
        offset: 12,
        group: "billing".to_owned(),
        attempts,
        max_attempts: Some(20),
        error: "no account".to_owned(),
    };
    let poison = |survey: &mut Survey| survey.failing = vec![failing(4), failing(5)];
    let finding =
        finds(poison, Verdict::Look, "0/12 of orders has failed 5 times", "driftq message get orders 0 12");
    assert!(finding.cause.contains("no account"));
    let endless = |survey: &mut Survey| {
        survey.failing = vec![failing(9)];
        survey.failing[0].max_attempts = None;
    };
    assert!(finds(endless, Verdict::Act, "9 times", "driftq").cause.contains("for ever"));
}
