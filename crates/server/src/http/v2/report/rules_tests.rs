//! Every rule with a server that breaks it, and one that breaks none.

use driftq_api::v2::{Finding, Urgency};
use driftq_api::when::Now;
use driftq_engine::core::Time;
use serde_json::{Value, json};

use super::rules::findings;
use super::sample::{group, healthy, seen};
use super::survey::{Failing, Survey};

fn with(base: Value, changes: Value) -> Value {
    let (Value::Object(mut base), Value::Object(changes)) = (base, changes) else { panic!("objects") };
    base.extend(changes);
    base.into()
}

/// Changes a healthy server, and expects this to be the only finding that is not ok.
#[track_caller]
fn finds(change: impl FnOnce(&mut Survey), urgency: Urgency, what: &str, next: &str) -> Finding<'static> {
    let mut survey = healthy();
    change(&mut survey);
    let all = findings(&survey, Now::read());
    let mut bad: Vec<_> = all.into_iter().filter(|finding| finding.verdict != Urgency::Ok).collect();
    assert_eq!(bad.len(), 1, "{bad:#?}");
    let finding = bad.remove(0);
    assert_eq!(finding.verdict, urgency, "{finding:?}");
    assert!(finding.what.contains(what), "{finding:?}");
    assert!(finding.next.as_deref().unwrap().starts_with(next), "{finding:?}");
    assert!(!finding.cause.is_empty(), "{finding:?}");
    finding
}

#[test]
fn a_healthy_server_needs_nothing() {
    let all = findings(&healthy(), Now::read());
    assert!(all.iter().all(|finding| finding.verdict == Urgency::Ok), "{all:#?}");
    assert!(all.len() >= 5, "every area says something");
    let mut reading = healthy();
    reading.groups = vec![seen(group(50), Some(10_000))];
    let all = findings(&reading, Now::read());
    assert!(
        all.iter().all(|finding| finding.verdict == Urgency::Ok),
        "work in progress is no fault: {all:#?}"
    );
}

#[test]
fn what_is_most_urgent_comes_first() {
    let mut survey = healthy();
    survey.status.durable = false;
    survey.unknown = 1;
    let order: Vec<_> = findings(&survey, Now::read()).iter().map(|finding| finding.verdict).collect();
    assert!(order.is_sorted_by(|one, other| one >= other), "{order:?}");
    assert_eq!(order[..2], [Urgency::Act, Urgency::Look]);
}

#[test]
fn the_server_s_own_troubles_are_found() {
    let full = |survey: &mut Survey| {
        survey.status.writable = false;
        survey.status.why = Some("the disk is full".to_owned());
    };
    let finding = finds(full, Urgency::Act, "no new messages", "df -h /var/lib/driftq");
    assert!(finding.cause.contains("the disk is full"));
    finds(|survey| survey.status.ready = false, Urgency::Act, "not ready", "df -h");
    finds(|survey| survey.status.durable = false, Urgency::Look, "nothing is on disk", "driftq serve --data");
    let router = |breaker: &str, on_error: &str| {
        let (breaker, on_error) = (json!(breaker), json!(on_error));
        move |survey: &mut Survey| {
            survey.router.kind = driftq_api::v2::RouterKind::Http;
            survey.router.breaker = serde_json::from_value(breaker).unwrap();
            survey.router.on_error = serde_json::from_value(on_error).unwrap();
        }
    };
    finds(router("half_open", "pass"), Urgency::Look, "tried again", "driftq router status");
    let finding = finds(router("open", "reject"), Urgency::Act, "left alone", "driftq router status");
    assert!(finding.cause.contains("refused"));
}

#[test]
fn what_was_given_up_is_found() {
    let letters = |survey: &mut Survey| {
        survey.dead = vec![serde_json::from_value(json!({"name": "my orders", "letters": 3})).unwrap()];
    };
    finds(letters, Urgency::Act, "3 dead letters of my orders", "driftq dlq list 'my orders'");
    let unknown = |survey: &mut Survey| (survey.unknown, survey.unknown_oldest_ms) = (7, Some(90_000));
    let finding = finds(unknown, Urgency::Act, "7 effects", "driftq effect list --state unknown");
    assert!(finding.cause.contains("1m 30s"), "{finding:?}");
}

#[test]
fn groups_that_are_behind_are_found() {
    let alone = json!({"consumers": 0, "members": [], "seen_at": "2020-01-01T00:00:00Z"});
    let abandoned = |survey: &mut Survey| survey.groups = vec![seen(with(group(5), alone.clone()), None)];
    let just_left = with(alone.clone(), json!({"seen_at": "2999-01-01T00:00:00Z"}));
    let polled = |survey: &mut Survey| survey.groups = vec![seen(with(group(5), just_left), None)];
    finds(polled, Urgency::Look, "no worker reads", "driftq group describe");
    finds(
        abandoned,
        Urgency::Act,
        "no worker reads for group billing of orders, and 5",
        "driftq group describe orders billing",
    );
    for (oldest, urgency) in [(301_000, Urgency::Look), (3_600_000, Urgency::Act)] {
        let slow = move |survey: &mut Survey| survey.groups = vec![seen(group(5), Some(oldest))];
        finds(slow, urgency, "billing of orders is behind", "driftq group describe");
    }
    let full = json!({"waiting": {"ready": 1, "window_full": 4}});
    let held = |survey: &mut Survey| survey.groups = vec![seen(with(group(5), full), Some(301_000))];
    assert!(finds(held, Urgency::Look, "behind", "driftq").cause.contains("max_in_flight"));
    // What is not due waits for nobody.
    let mut survey = healthy();
    let later = with(alone, json!({"waiting": {"scheduled": 5}}));
    survey.groups = vec![seen(with(group(5), later), None)];
    assert!(findings(&survey, Now::read()).iter().all(|finding| finding.verdict == Urgency::Ok));
}

#[test]
fn a_pause_is_told_once_and_only_if_something_waits() {
    let since = json!({"paused_at": "2030-01-01T00:00:00Z"});
    let group_paused = move |survey: &mut Survey| survey.groups = vec![seen(with(group(5), since), None)];
    finds(
        group_paused,
        Urgency::Look,
        "group billing of orders is paused",
        "driftq group resume orders billing",
    );
    let topic_paused = |survey: &mut Survey| {
        survey.groups = vec![seen(group(5), Some(3_600_000))];
        survey.groups[0].is_topic_paused = true;
        (survey.topics[0].waiting, survey.topics[0].described.paused) = (5, Some(Time(1_000)));
    };
    finds(topic_paused, Urgency::Look, "topic orders is paused, and 5", "driftq topic resume orders");
    let mut idle = healthy();
    idle.topics[0].described.paused = Some(Time(1_000));
    assert!(findings(&idle, Now::read()).iter().all(|finding| finding.verdict == Urgency::Ok));
}

#[test]
fn a_topic_that_nobody_reads_is_found() {
    let unread = |name: &'static str, scheduled: u64| {
        move |survey: &mut Survey| {
            let topic = &mut survey.topics[0];
            (topic.described.name, topic.described.scheduled) = (name.into(), scheduled);
            (topic.described.partitions[0].messages, topic.is_read) = (9, false);
            survey.groups = Vec::new();
        }
    };
    finds(
        unread("orders", 2),
        Urgency::Look,
        "no group reads orders, which keeps 7",
        "driftq message list orders",
    );
    for (name, scheduled) in [("dlq.orders", 0), ("orders", 9)] {
        let mut survey = healthy();
        unread(name, scheduled)(&mut survey);
        let all = findings(&survey, Now::read());
        assert!(all.iter().all(|finding| finding.verdict == Urgency::Ok), "{all:#?}");
    }
}

#[test]
fn limits_are_told_before_they_are_reached() {
    let kept = |messages: u64, bytes: u64| {
        move |survey: &mut Survey| {
            survey.topics[0].described.partitions[0].messages = messages;
            survey.topics[0].described.partitions[0].bytes = bytes;
        }
    };
    let next = "driftq topic set orders partition_messages_max=200";
    finds(kept(80, 1), Urgency::Look, "80 % full: 80 of 100 messages", next);
    finds(kept(95, 1), Urgency::Act, "95 % full", next);
    finds(kept(1, 990), Urgency::Act, "99 % full", "driftq topic set orders partition_bytes_max=2000");
    let mut survey = healthy();
    kept(79, 799)(&mut survey);
    assert!(findings(&survey, Now::read()).iter().all(|finding| finding.verdict == Urgency::Ok));
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
        finds(poison, Urgency::Look, "0/12 of orders has failed 5 times", "driftq message get orders 0 12");
    assert!(finding.cause.contains("no account"));
    let endless = |survey: &mut Survey| {
        survey.failing = vec![failing(9)];
        survey.failing[0].max_attempts = None;
    };
    assert!(finds(endless, Urgency::Act, "9 times", "driftq").cause.contains("for ever"));
}
