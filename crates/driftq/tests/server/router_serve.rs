//! The router in the running server: what it decides, where that is seen, and what happens without it.

use std::sync::Arc;
use std::thread;

use crate::compat::Broker;
use crate::router_brain::Act;
use crate::router_world::{
    Brain, PATIENT, browse, lease, metric, produce, produce_lines, says, status, test, try_produce,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

#[test]
fn label_and_meta_reach_every_reader_and_survive_a_crash() {
    let brain = Brain::start(Act::Decide(1, json!({"meta": {"model": "small", "score": "0.92"}})));
    let window = ["--in-flight-max", "3"];
    let broker = Broker::durable(&[&["--router-url", &brain.url()], &PATIENT[..], &window].concat());
    let mut client = broker.client_with_topic("t", 1);
    client.produce("t", "one", "by v1");
    produce(&mut client, "t", &json!({"key": "two", "value": "by v2"}));
    let results = produce_lines(&mut client, "t", &[json!({"key": "three", "value": "by lines"})]);
    assert_eq!(results[0]["offset"], 2);

    let routing = |label: &str| json!({"label": label, "meta": {"model": "small", "score": "0.92"}});
    let expected = [routing("one"), routing("two"), routing("three")];
    let check = |broker: &Broker, group: &str| {
        let (mut client, mut stream) =
            (broker.client(), broker.stream(&format!("topic=t&group={group}-v1&owner=o&lease_ms=60000")));
        let by_v1: Vec<Value> = (0..3).map(|_| stream.item()["routing"].clone()).collect();
        let by_v2: Vec<Value> =
            lease(&mut client, "t", group, 3).iter().map(|item| item["routing"].clone()).collect();
        let browsed: Vec<Value> =
            browse(&mut client, "t").iter().map(|item| item["routing"].clone()).collect();
        assert_eq!((&by_v1[..], &by_v2[..], &browsed[..]), (&expected[..], &expected[..], &expected[..]));
    };
    check(&broker, "before");
    assert_eq!(metric(&mut client, "driftq_router_routed_total{label=\"two\"}"), 1);
    assert_eq!(metric(&mut client, "driftq_router_messages_total{verdict=\"routed\"}"), 3);
    // The next life has no router: what was decided stays decided.
    let broker = broker.kill_and_restart(&window);
    check(&broker, "after");
    assert_eq!(status(&mut broker.client())["kind"], "none");
}

#[test]
fn the_router_wins_over_the_producer_who_wins_over_the_hash() {
    let brain = Brain::saying("null");
    let broker = brain.broker(&PATIENT);
    let mut client = broker.client();
    for topic in ["asked", "theirs", "ours"] {
        client.post(&format!("/v1/topics?name={topic}&partitions=7"));
    }
    let plain = json!({"key": "user:1", "value": "v"});
    let chosen = json!({"key": "user:1", "value": "v",
        "envelope": {"target_topic": "theirs", "partition_override": 1}});
    for (word, message, topic, partition) in [
        ("null", &plain, "asked", 2),
        ("null", &chosen, "theirs", 1),
        (r#"{"label": "x"}"#, &chosen, "theirs", 1),
        (r#"{"label": "x", "target_topic": "ours"}"#, &plain, "ours", 2),
        (r#"{"label": "x", "target_topic": "ours"}"#, &chosen, "ours", 1),
        (r#"{"partition_override": 5}"#, &plain, "asked", 5),
        (r#"{"partition_override": 5}"#, &chosen, "theirs", 5),
        (r#"{"label": "x", "target_topic": "ours", "partition_override": 6}"#, &chosen, "ours", 6),
    ] {
        brain.act(says(word));
        // The test says what would happen, and then it happens.
        let tested = test(&mut client, "asked", message);
        assert_eq!((&tested["topic"], &tested["partition"]), (&json!(topic), &json!(partition)), "{word}");
        let stored = produce(&mut client, "asked", message);
        assert_eq!((&stored["topic"], &stored["partition"]), (&json!(topic), &json!(partition)), "{word}");
        let mut by_v1 = message.clone();
        by_v1["topic"] = json!("asked");
        let answer = client.post_json("/v1/produce", &by_v1);
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    // One by each API for each of the eight rows.
    let mut count = |topic, partition: u32| {
        browse(&mut client, topic).iter().filter(|item| item["partition"] == partition).count()
    };
    let places =
        [("asked", 2), ("asked", 5), ("theirs", 1), ("theirs", 5), ("ours", 1), ("ours", 2), ("ours", 6)];
    assert_eq!(places.map(|(topic, partition)| count(topic, partition)), [2, 2, 4, 2, 2, 2, 2]);
}

#[test]
fn what_the_router_would_say_can_be_asked_and_nothing_is_stored() {
    let brain = Brain::start(Act::Decide(1, json!({"target_topic": "fast", "meta": {"a": "1"}})));
    let arguments = ["--router-timeout-ms", "300ms", "--router-topics", "t,u.*"];
    let broker = brain.broker(&[&arguments[..], &["--router-breaker-failures-max", "6"]].concat());
    let mut client = broker.client_with_topic("t", 1);
    client.post("/v1/topics?name=fast&partitions=1");
    client.post("/v1/topics?name=other&partitions=1");
    let message = json!({"key": "k", "value": "v"});
    let tested = test(&mut client, "t", &message);
    let decision = json!({"label": "k", "target_topic": "fast", "meta": {"a": "1"}});
    assert_eq!((&tested["decision"], &tested["outcome"]), (&decision, &json!("answered")), "{tested}");
    assert_eq!((&tested["topic"], &tested["partition"]), (&json!("fast"), &json!(0)));
    assert!(tested["took_ms"].is_u64() && tested.get("why").is_none(), "{tested}");

    assert_eq!(test(&mut client, "other", &message)["outcome"], "not_asked");
    assert_eq!(brain.questions().len(), 1);
    // The default is to pass, and still the reason is told.
    for (act, outcome, why) in [
        (says(r#"{"lable": "x"}"#), "failed", "lable"),
        (says(r#"{"label": "x", "target_topic": "nowhere"}"#), "failed", "nowhere"),
        (says(r#"{"label": "x", "partition_override": 9}"#), "failed", "partition 9"),
        (Act::Answer(500, "", "out of memory".to_owned()), "failed", "out of memory"),
        (Act::Hang, "timed_out", "in time"),
    ] {
        brain.act(act);
        let tested = test(&mut client, "t", &message);
        assert_eq!((&tested["outcome"], &tested["topic"]), (&json!(outcome), &json!("t")), "{tested}");
        assert!(tested["why"].as_str().unwrap().contains(why), "{tested}");
        assert!(tested.get("decision").is_none(), "{tested}");
    }
    brain.act(says(r#"{"label": "x", "cache": {"on": "key", "ttl_ms": 600000}}"#));
    for outcome in ["answered", "cached"] {
        assert_eq!(test(&mut client, "t", &message)["outcome"], outcome);
    }
    let told = status(&mut client);
    assert_eq!((&told["kind"], &told["breaker"]), (&json!("http"), &json!("closed")), "{told}");
    assert_eq!((&told["on_error"], &told["topics"]), (&json!("pass"), &json!(["t", "u.*"])), "{told}");
    let numbers =
        ["asked", "answered", "failed", "timed_out", "refused", "cached"].map(|name| told[name].as_u64());
    assert_eq!(numbers, [7, 4, 2, 1, 0, 1].map(Some), "a place that does not exist is an answer: {told}");
    for topic in ["t", "fast", "other"] {
        assert_eq!(browse(&mut client, topic), [] as [Value; 0]);
    }
    assert_eq!(metric(&mut client, "driftq_router_messages_total{verdict=\"routed\"}"), 0);
    for (body, status) in [
        (json!({"topic": "none", "message": {"value": "v"}}), 404),
        (json!({"topic": "t", "message": {}}), 400),
        (json!({"message": {"value": "v"}}), 400),
        (json!({"topic": "t", "message": {"value": "v"}, "store": true}), 400),
    ] {
        let answer = client.post_json("/v2/router/test", &body);
        assert_eq!(answer.status, status, "{}", answer.text());
    }
}

#[test]
fn a_server_that_must_route_refuses_what_it_cannot_route() {
    let brain = Brain::saying(r#"{"label": "x", "target_topic": "nowhere"}"#);
    let broker = brain.broker(&[&PATIENT[..], &["--router-on-error", "reject"]].concat());
    let mut client = broker.client_with_topic("t", 1);
    let message = json!({"key": "k", "value": "v", "envelope": {"idempotency_key": "i"}});
    assert_eq!(try_produce(&mut client, "t", &message).status, 503);
    brain.act(Act::Answer(500, "", "no model".to_owned()));
    let refused = try_produce(&mut client, "t", &message);
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (503, &json!("ROUTER_REFUSED")),
        "{}",
        refused.text()
    );
    assert!(refused.text().contains("no model"), "{}", refused.text());
    client.post_json("/v1/produce", &json!({"topic": "t", "value": "v"})).assert_error_part(
        503,
        "UNAVAILABLE",
        "no model",
    );
    let results = produce_lines(&mut client, "t", &[json!({"value": "a"}), json!({"value": "b"})]);
    assert!(results.iter().all(|result| result["error"]["code"] == "ROUTER_REFUSED"), "{results:?}");
    brain.act(says("[]"));
    assert_eq!(try_produce(&mut client, "t", &message).status, 503);
    assert_eq!(browse(&mut client, "t"), [] as [Value; 0]);
    let told = status(&mut client);
    assert_eq!((&told["on_error"], &told["breaker"]), (&json!("reject"), &json!("open")), "{told}");
    // Left alone, it is not asked, and the refusal says so.
    let asked = brain.questions().len();
    let refused = try_produce(&mut client, "t", &message);
    assert!(refused.status == 503 && refused.text().contains("left alone"), "{}", refused.text());
    assert_eq!(brain.questions().len(), asked);
    assert_eq!(metric(&mut client, "driftq_router_undecided_total{reason=\"breaker_open\"}"), 1);
    assert_eq!(metric(&mut client, "driftq_router_breaker{state=\"open\"}"), 1);
    assert_eq!(metric(&mut client, "driftq_router_messages_total{verdict=\"rejected\"}"), 7);
}

#[test]
fn a_refused_message_may_come_again() {
    let brain = Brain::start(Act::Answer(500, "", String::new()));
    let broker = brain.broker(&[&PATIENT[..], &["--router-on-error", "reject"]].concat());
    let mut client = broker.client_with_topic("t", 1);
    let message = json!({"key": "k", "value": "v", "envelope": {"idempotency_key": "i"}});
    assert_eq!(try_produce(&mut client, "t", &message).status, 503);
    brain.act(Act::Label(1));
    assert_eq!(produce(&mut client, "t", &message)["duplicate"], false);
}

#[test]
fn only_the_topics_in_scope_are_routed() {
    let brain = Brain::start(Act::Label(64));
    let broker = brain.broker(&[&PATIENT[..], &["--router-topics", "orders,tasks.*"]].concat());
    let mut client = broker.client();
    for topic in ["orders", "orders.eu", "tasks.a", "tasks"] {
        client.post(&format!("/v1/topics?name={topic}&partitions=1"));
        produce(&mut client, topic, &json!({"key": "k", "value": "v"}));
        client.produce(topic, "k", "v");
        produce_lines(&mut client, topic, &[json!({"key": "k", "value": "v"})]);
        let is_routed = matches!(topic, "orders" | "tasks.a");
        let items = browse(&mut client, topic);
        assert_eq!(
            items.iter().filter(|item| item.get("routing").is_some()).count(),
            if is_routed { 3 } else { 0 }
        );
    }
    assert_eq!(brain.questions().len(), 6);
}

#[test]
fn a_duplicate_waits_for_the_answer_and_is_not_asked_about() {
    let gate = Arc::new(Semaphore::new(0));
    let brain = Brain::start(Act::AnswerAfter(Arc::clone(&gate), r#"{"label": "x"}"#.to_owned()));
    let broker = brain.broker(&PATIENT);
    let mut client = broker.client_with_topic("t", 1);
    let message =
        json!({"key": "k", "value": "v", "envelope": {"idempotency_key": "i", "tenant_id": "acme"}});
    let first = thread::scope(|scope| {
        let first = scope.spawn(|| produce(&mut broker.client(), "t", &message));
        brain.wait_for_questions(1);
        let second = try_produce(&mut client, "t", &message);
        assert_eq!(
            (second.status, &second.json()["code"]),
            (409, &json!("KEY_IN_FLIGHT")),
            "{}",
            second.text()
        );
        let results = produce_lines(&mut client, "t", std::slice::from_ref(&message));
        assert_eq!(results[0]["error"]["code"], "KEY_IN_FLIGHT");
        let mut by_v1 = message.clone();
        by_v1["topic"] = json!("t");
        client.post_json("/v1/produce", &by_v1).assert_error_part(409, "FAILED_PRECONDITION", "being routed");
        // Somebody else's key of the same name is another key.
        gate.add_permits(2);
        let mut other = message.clone();
        other["envelope"]["tenant_id"] = json!("other");
        assert_eq!(produce(&mut client, "t", &other)["duplicate"], false);
        first.join().unwrap()
    });
    assert_eq!(first["duplicate"], false);
    let again = produce(&mut client, "t", &message);
    assert_eq!((&again["duplicate"], &again["offset"]), (&json!(true), &first["offset"]));
    let mut by_v1 = message.clone();
    by_v1["topic"] = json!("t");
    assert_eq!(client.post_json("/v1/produce", &by_v1).status, 200);
    let results = produce_lines(&mut client, "t", &[message]);
    assert_eq!((&results[0]["duplicate"], &results[0]["offset"]), (&json!(true), &first["offset"]));
    assert_eq!((brain.questions().len(), browse(&mut client, "t").len()), (2, 2));
}

/// A key that one call names twice is not in its own way: it is one message, and the second is its duplicate.
#[test]
fn a_key_twice_in_one_call_is_one_message() {
    let brain = Brain::start(Act::Label(64));
    let broker = brain.broker(&PATIENT);
    let mut client = broker.client_with_topic("t", 1);
    let message =
        |key: &str, value: &str| json!({"key": "k", "value": value, "envelope": {"idempotency_key": key}});
    let same = |results: &[Value], offset: u64| {
        let told: Vec<_> = results.iter().map(|result| (&result["offset"], &result["duplicate"])).collect();
        assert_eq!(told, [(&json!(offset), &json!(false)), (&json!(offset), &json!(true))], "{results:?}");
    };
    same(&produce_lines(&mut client, "t", &[message("a", "v"), message("a", "v")]), 0);
    let sent = |key: &str| json!({"topic": "t", "message": message(key, "v")});
    let commit = json!({"produce": [sent("b"), sent("b")]});
    let done = client.post_json("/v2/commit", &commit);
    assert_eq!(done.status, 200, "{}", done.text());
    same(done.json()["produced"].as_array().unwrap(), 1);
    // Also in two commits of one call; and the key of another request is refused, not for ever in flight.
    let commits = json!({"commits": [{"produce": [sent("c")]}, {"produce": [sent("c")]}]});
    let done = client.post_json("/v2/commit", &commits).json();
    let stored = [&done["results"][0]["produced"][0], &done["results"][1]["produced"][0]];
    same(&stored.map(Value::clone), 2);
    // What was kept is given back: each key is known afterwards, and none is in flight.
    for (key, offset) in [("a", 0), ("b", 1), ("c", 2)] {
        let again = produce(&mut client, "t", &message(key, "v"));
        assert_eq!((&again["offset"], &again["duplicate"]), (&json!(offset), &json!(true)));
    }
    assert_eq!(browse(&mut client, "t").len(), 3);
    assert!(browse(&mut client, "t").iter().all(|item| item["routing"]["label"] == "k"));
}

#[test]
fn a_batch_is_one_question_once_the_brain_says_it_can() {
    let brain = Brain::start(Act::Label(64));
    let broker = brain.broker(&PATIENT);
    let mut client = broker.client_with_topic("t", 1);
    produce(&mut client, "t", &json!({"key": "first", "value": "v"}));
    let messages: Vec<Value> = (0..50).map(|n| json!({"key": format!("k{n}"), "value": "v"})).collect();
    let results = produce_lines(&mut client, "t", &messages);
    for (n, result) in results.iter().enumerate() {
        assert_eq!(result["offset"], n + 1);
    }
    let questions = brain.questions();
    let sizes: Vec<usize> =
        questions.iter().map(|question| question["messages"].as_array().map_or(1, Vec::len)).collect();
    assert_eq!(sizes, [1, 50]);
    for (n, item) in browse(&mut client, "t").iter().skip(1).enumerate() {
        assert_eq!(item["routing"]["label"], format!("k{n}"));
    }
    assert_eq!(metric(&mut client, "driftq_router_calls_total{outcome=\"answered\"}"), 2);
}

#[test]
fn a_promise_of_the_brain_saves_questions() {
    let brain = Brain::saying(r#"{"label": "x", "cache": {"on": "key", "ttl_ms": 600000}}"#);
    let broker = brain.broker(&PATIENT);
    let mut client = broker.client_with_topic("t", 1);
    for key in ["a", "a", "b", "a", "b"] {
        produce(&mut client, "t", &json!({"key": key, "value": "v"}));
        client.produce("t", key, "other value");
    }
    assert_eq!(brain.questions().len(), 2);
    assert!(browse(&mut client, "t").iter().all(|item| item["routing"]["label"] == "x"));
    assert_eq!(status(&mut client)["cached"], 8);
    assert_eq!(metric(&mut client, "driftq_router_cache_total{result=\"hit\"}"), 8);
    assert_eq!(metric(&mut client, "driftq_router_cache_total{result=\"miss\"}"), 2);
    assert_eq!(metric(&mut client, "driftq_router_cache_entries"), 2);
}

#[test]
fn settlements_that_come_too_late_are_counted() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    produce(&mut client, "t", &json!({"value": "v"}));
    let first = lease(&mut client, "t", "g", 1).remove(0);
    let token = json!({"leases": [{"token": first["lease"]["token"]}]});
    assert_eq!(client.post_json("/v2/leases/release", &token).status, 200);
    assert_eq!(lease(&mut client, "t", "g", 1).len(), 1);
    let late = client.post_json("/v2/leases/ack", &token);
    assert!(late.text().contains("stale") || late.text().contains("STALE"), "{}", late.text());
    assert_eq!(metric(&mut client, "driftq_settlements_stale_total"), 1);
    let text = String::from_utf8(client.get("/metrics").body).unwrap();
    assert!(!text.contains("driftq_router"), "there is no router");
}
