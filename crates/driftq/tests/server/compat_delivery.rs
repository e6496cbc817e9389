//! Who gets which message when: the table "Delivery" of the `/v1` contract, its defaults, and the faults of the
//! first broker that must not come back.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::compat::{Broker, Client, Stream, address_of};

fn settle(client: &mut Client, call: &str, item: &Value) {
    let answer = client.post(&format!("/v1/{call}?topic=t&group=g&owner=o&{}", address_of(item)));
    assert_eq!(answer.status, 204, "{}", answer.text());
}

fn field(items: &[Value], name: &str) -> Vec<Value> {
    items.iter().map(|item| item[name].clone()).collect()
}

#[test]
fn keys_choose_partitions_and_offsets_rise_per_topic() {
    let broker = Broker::ephemeral(&["--in-flight-max=16"]);
    let mut client = broker.client_with_topic("t", 7);
    let keys = [("user:1", 2), ("user:2", 0), ("a", 5), ("b", 6), ("é", 2), ("order-42", 4), ("", 0)];
    for (key, _) in keys {
        client.produce("t", key, if key.is_empty() { "none" } else { key });
    }
    let mut stream = broker.stream("topic=t&group=g&owner=o&lease_ms=60000");
    let mut items: Vec<_> = keys.iter().map(|_| stream.item()).collect();
    items.sort_by_key(|item| item["offset"].as_u64());
    for ((key, partition), (offset, item)) in keys.iter().zip(items.iter().enumerate()) {
        assert_eq!(
            (&item["key"], &item["partition"], &item["offset"]),
            (&json!(key), &json!(partition), &json!(offset))
        );
    }
}

#[test]
fn a_new_group_begins_with_the_oldest_message_kept_and_sees_every_one_once() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    for value in ["a", "b", "c"] {
        client.produce("t", "", value);
    }
    // Both are there before anything is acked: what every group has acked is not kept.
    let streams = ["one", "two"]
        .map(|group| (group, broker.stream(&format!("topic=t&group={group}&owner=o&lease_ms=60000"))));
    for (group, mut stream) in streams {
        for value in ["a", "b", "c"] {
            let item = stream.item();
            assert_eq!(item["value"], value);
            client.post(&format!("/v1/ack?topic=t&group={group}&owner=o&{}", address_of(&item)));
        }
        assert!(stream.is_silent_for(Duration::from_millis(50)));
    }
    client.produce("t", "", "d");
    assert_eq!(broker.stream("topic=t&group=three&owner=o").item()["value"], "d");
}

#[test]
fn readers_of_a_group_take_turns() {
    let broker = Broker::ephemeral(&["--in-flight-max=16"]);
    let mut client = broker.client_with_topic("t", 1);
    let mut streams =
        [0, 1, 2].map(|number| broker.stream(&format!("topic=t&group=g&owner=o{number}&lease_ms=60000")));
    broker.wait_for("/v2/topics/t/groups/g", "three readers", |group| group["consumers"] == 3);
    for number in 0..9 {
        client.produce("t", "", &format!("v{number}"));
    }
    let mut seen = Vec::new();
    for stream in &mut streams {
        seen.extend((0..3).map(|_| stream.item()["offset"].as_u64().unwrap()));
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..9).collect::<Vec<_>>());
}

#[test]
fn two_unacked_messages_per_partition_are_enough() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    for value in ["a", "b", "c"] {
        client.produce("t", "", value);
    }
    let mut stream = broker.stream("topic=t&group=g&owner=o&lease_ms=60000");
    let first = [stream.item(), stream.item()];
    assert!(stream.is_silent_for(Duration::from_millis(100)), "a third one before an ack");
    settle(&mut client, "ack", &first[1]);
    assert_eq!(stream.item()["value"], "c");
}

#[test]
fn without_a_wish_the_lease_is_two_seconds() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    client.produce("t", "", "v");
    let mut stream = broker.stream("topic=t&group=g&owner=o");
    assert_eq!(stream.item()["attempts"], 1);
    let begun = Instant::now();
    let again = stream.item();
    assert!((1_500..6_000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    assert_eq!((&again["attempts"], &again["last_error"]), (&json!(2), &json!("ack_timeout")));
}

#[test]
fn the_latest_failure_is_told_and_a_timeout_does_not_hide_it() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    client.produce("t", "", "v");
    let mut stream = broker.stream("topic=t&group=g&owner=o&lease_ms=300");
    for (attempt, last_error) in [(1, ""), (2, "first"), (3, "second")] {
        let item = stream.item();
        assert_eq!((&item["attempts"], &item["last_error"]), (&json!(attempt), &json!(last_error)));
        let reason = ["first", "second", ""][attempt - 1];
        if !reason.is_empty() {
            client.post(&format!("/v1/nack?topic=t&group=g&owner=o&{}&reason={reason}", address_of(&item)));
        }
    }
    let lapsed = stream.item();
    assert_eq!((&lapsed["attempts"], &lapsed["last_error"]), (&json!(4), &json!("second")));
}

#[test]
fn backoff_holds_after_a_nack_and_after_a_timeout() {
    for (lease, nacks) in [(60_000, true), (50, false)] {
        let broker = Broker::ephemeral(&[]);
        let mut client = broker.client_with_topic("t", 1);
        client.post(
            "/v1/produce?topic=t&value=v&retry_max_attempts=9&retry_backoff_ms=200&retry_max_backoff_ms=300",
        );
        let mut stream = broker.stream(&format!("topic=t&group=g&owner=o&lease_ms={lease}"));
        let mut failed = Instant::now();
        for attempt in 1..=3 {
            let item = stream.item();
            assert_eq!(item["attempts"], attempt);
            // Half of the wait may be taken off by jitter; never all of it.
            let least = [0, 100, 150][attempt - 1];
            assert!(failed.elapsed() >= Duration::from_millis(least), "{attempt}: {:?}", failed.elapsed());
            if nacks {
                settle(&mut client, "nack", &item);
            }
            failed = Instant::now();
        }
    }
}

#[test]
fn a_message_without_a_policy_comes_again_at_once_but_not_in_a_tight_loop() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    client.produce("t", "", "v");
    let mut stream = broker.stream("topic=t&group=g&owner=o&lease_ms=60000");
    let begun = Instant::now();
    for attempt in 1..=12 {
        let item = stream.item();
        assert_eq!(item["attempts"], attempt);
        settle(&mut client, "nack", &item);
        if attempt == 1 {
            assert!(
                begun.elapsed() < Duration::from_millis(1_500),
                "the first retry waits: {:?}",
                begun.elapsed()
            );
        }
    }
    assert!(begun.elapsed() >= Duration::from_millis(200), "a tight loop: {:?}", begun.elapsed());
}

fn poison(client: &mut Client) {
    let body = json!({
        "topic": "t", "key": "user:1", "value": "poison",
        "envelope": {
            "run_id": "r", "step_id": "s", "parent_step_id": "p", "tenant_id": "acme", "idempotency_key": "once",
            "target_topic": "t", "partition_override": 2, "deadline": "2999-01-01T00:00:00Z",
            "retry_policy": {"max_attempts": 2, "backoff_ms": 1, "max_backoff_ms": 1},
        },
    });
    assert_eq!(client.post_json("/v1/produce", &body).status, 200);
}

#[test]
fn what_fails_too_often_becomes_a_dead_letter_once() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 3);
    poison(&mut client);
    let mut stream = broker.stream("topic=t&group=g&owner=o&lease_ms=60000");
    for attempt in 1..=2 {
        let item = stream.item();
        assert_eq!(item["attempts"], attempt);
        client.post(&format!("/v1/nack?topic=t&group=g&owner=o&{}&reason=boom", address_of(&item)));
    }
    broker.wait_for("/v2/topics/dlq.t", "the dead letter", |topic| topic["messages"] == 1);
    assert!(stream.is_silent_for(Duration::from_millis(50)), "it is retired where it came from");
    assert_eq!(client.get("/v2/topics/dlq.t").json()["partitions"].as_array().unwrap().len(), 3);
    assert_eq!(client.get("/v2/topics/t/groups/g").json()["lag"], 0);
    let mut dead = broker.stream("topic=dlq.t&group=g&owner=o&lease_ms=60000");
    let letter = dead.item();
    assert_eq!(
        (&letter["key"], &letter["value"], &letter["attempts"]),
        (&json!("user:1"), &json!("poison"), &json!(1))
    );
    let mut envelope = letter["envelope"].clone();
    let at = envelope["dlq"]["at"].take();
    assert!(at.as_str().unwrap().ends_with('Z'), "{at}");
    let expected = json!({
        "run_id": "r", "step_id": "s", "parent_step_id": "p", "tenant_id": "acme", "idempotency_key": "once",
        "deadline": "2999-01-01T00:00:00Z",
        "dlq": {
            "topic": "t", "partition": 2, "offset": 0, "group": "g", "attempts": 2, "last_error": "boom",
            "reason": "max_attempts_reached", "tenant_id": "acme", "idempotency_key": "once", "at": null,
        },
    });
    assert_eq!(envelope, expected);
    // It never dies again: there is no policy left in it.
    for _ in 0..3 {
        client.post(&format!("/v1/nack?topic=dlq.t&group=g&owner=o&{}", address_of(&letter)));
        assert_eq!(dead.item()["value"], "poison");
    }
    let names = client.get("/v1/topics").json();
    assert_eq!(names, json!({"topics": ["dlq.t", "t"]}));
}

#[test]
fn each_group_gives_up_for_itself_and_a_timeout_counts() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    client.post("/v1/produce?topic=t&value=v&retry_max_attempts=1");
    for group in ["g1", "g2"] {
        assert_eq!(
            broker.stream(&format!("topic=t&group={group}&owner=o&lease_ms=150")).item()["attempts"],
            1
        );
    }
    broker.wait_for("/v2/topics/dlq.t", "both dead letters", |topic| topic["messages"] == 2);
    let mut dead = broker.stream("topic=dlq.t&group=g&owner=o&lease_ms=60000");
    let letters = [dead.item(), dead.item()];
    let mut groups = letters.each_ref().map(|letter| letter["envelope"]["dlq"]["group"].clone());
    groups.sort_by_key(ToString::to_string);
    assert_eq!(groups, [json!("g1"), json!("g2")]);
    assert_eq!(letters[0]["envelope"]["dlq"]["last_error"], "ack_timeout");
}

#[test]
fn a_short_lease_and_a_key_go_together() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    client.post("/v1/produce?topic=t&value=keyed&idempotency_key=k");
    client.produce("t", "", "behind it");
    let mut stream = broker.stream("topic=t&group=g&owner=o&lease_ms=100");
    // It lapses several times, fails once, and is done in the end; nothing sticks.
    let mut attempts = 0;
    while attempts < 3 {
        let item = stream.item();
        if item["value"] == "keyed" {
            attempts = item["attempts"].as_u64().unwrap();
        }
    }
    drop(stream);
    broker.wait_for("/v2/topics/t/groups/g", "the lapse", |group| {
        group["in_flight"] == 0 && group["consumers"] == 0
    });
    let mut calm = broker.stream("topic=t&group=g&owner=o&lease_ms=60000");
    let items = [calm.item(), calm.item()];
    for item in &items {
        settle(&mut client, "ack", item);
    }
    broker.wait_for("/v2/topics/t/groups/g", "the end", |group| group["lag"] == 0);
}

#[test]
fn an_ack_out_of_order_loses_nothing_over_a_kill() {
    let broker = Broker::durable(&[]);
    let mut client = broker.client_with_topic("t", 1);
    for value in ["zero", "one"] {
        client.produce("t", "", value);
    }
    client.post("/v1/topics?name=empty&partitions=5");
    let mut stream = broker.stream("topic=t&group=g&owner=o&lease_ms=1500");
    let items = [stream.item(), stream.item()];
    settle(&mut client, "ack", &items[1]);
    let broker = broker.kill_and_restart(&[]);
    let mut client = broker.client();
    let mut stream = broker.stream("topic=t&group=g&owner=o&lease_ms=1500");
    assert_eq!(stream.item()["value"], "zero");
    assert!(stream.is_silent_for(Duration::from_millis(100)), "one was acked");
    assert_eq!(client.get("/v1/topics").json(), json!({"topics": ["empty", "t"]}));
    let again = client.post_json("/v1/topics", &json!({"name": "empty"}));
    assert_eq!(again.json()["partitions"], 5);
}

#[test]
fn attempts_errors_and_keys_survive_a_kill() {
    let broker = Broker::durable(&[]);
    let mut client = broker.client_with_topic("t", 1);
    client.post("/v1/produce?topic=t&value=v&idempotency_key=k&run_id=r");
    let mut stream = broker.stream("topic=t&group=g&owner=o&lease_ms=1500");
    for reason in ["first", "second"] {
        let item = stream.item();
        client.post(&format!("/v1/nack?topic=t&group=g&owner=o&{}&reason={reason}", address_of(&item)));
    }
    stream.item();
    // The third lease may not be on disk yet; whatever is synced behind it carries it along.
    client.produce("t", "", "behind");
    let broker = broker.kill_and_restart(&[]);
    let mut client = broker.client();
    let duplicate = client.post("/v1/produce?topic=t&value=v&idempotency_key=k");
    assert_eq!(duplicate.status, 200);
    assert_eq!(client.get("/v2/topics/t").json()["next_offset"], 2, "the key is still known");
    // The third lease goes on, and the message comes again when it is over.
    let mut stream = broker.stream("topic=t&group=g&owner=o&lease_ms=60000");
    let item = std::iter::repeat_with(|| stream.item()).find(|item| item["value"] == "v").unwrap();
    assert_eq!(
        (&item["value"], &item["attempts"], &item["last_error"]),
        (&json!("v"), &json!(4), &json!("second"))
    );
    assert_eq!(item["envelope"], json!({"run_id": "r", "idempotency_key": "k"}));
}

#[test]
fn messages_do_not_overtake_each_other_in_a_partition() {
    let broker = Broker::ephemeral(&["--in-flight-max=4"]);
    let mut client = broker.client_with_topic("t", 1);
    for number in 0..40 {
        client.produce("t", "", &number.to_string());
    }
    let mut stream: Stream = broker.stream("topic=t&group=g&owner=o&lease_ms=60000");
    let mut items = Vec::new();
    for _ in 0..40 {
        let item = stream.item();
        settle(&mut client, "ack", &item);
        items.push(item);
    }
    assert_eq!(field(&items, "offset"), (0..40).map(|offset| json!(offset)).collect::<Vec<_>>());
}
