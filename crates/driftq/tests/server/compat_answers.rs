//! What is answered: every row of the table "Answers" of the `/v1` contract that one request can show.

use serde_json::json;

use crate::compat::{Broker, Client, address_of};

const INVALID: &str = "INVALID_ARGUMENT";
const PRECONDITION: &str = "FAILED_PRECONDITION";

#[test]
fn health_and_version() {
    for (arguments, durable) in [(&["--ephemeral"][..], false), (&[], true)] {
        let broker = Broker::durable(arguments);
        let mut client = broker.client();
        let health = client.get("/v1/healthz");
        assert_eq!((health.status, health.json()), (200, json!({"status": "ok"})));
        assert_eq!(health.header("content-type"), Some("application/json; charset=utf-8"));
        let version = client.get("/v1/version").json();
        assert_eq!(version["wal_enabled"], durable);
        assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
        let fields: Vec<_> = version.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["commit", "version", "wal_enabled"]);
    }
}

#[test]
fn topics_that_do_not_exist() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client();
    let produce = json!({"topic": "t", "value": "v"});
    client.post_json("/v1/produce", &produce).assert_error(
        400,
        INVALID,
        "topic does not exist (create it first)",
    );
    client.post("/v1/produce?topic=t&value=v").assert_error(
        400,
        INVALID,
        "topic does not exist (create it first)",
    );
    client.get("/v1/consume?topic=t&group=g&owner=o").assert_error(400, INVALID, "topic does not exist");
    for call in ["/v1/ack", "/v1/nack"] {
        let answer = client.post(&format!("{call}?topic=t&group=g&owner=o&partition=0&offset=0"));
        answer.assert_error(400, INVALID, "topic does not exist");
        assert_eq!(answer.header("x-driftq-code"), Some("TOPIC_UNKNOWN"));
    }
}

#[test]
fn where_and_until_when_a_message_can_go() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 2);
    for number in [2, -1, 5_000_000_000_i64] {
        let body = json!({"topic": "t", "value": "v", "envelope": {"partition_override": number}});
        let answers = [
            client.post_json("/v1/produce", &body),
            client.post(&format!("/v1/produce?topic=t&value=v&partition_override={number}")),
        ];
        for answer in answers {
            answer.assert_error(400, INVALID, "partition_override out of range");
        }
    }
    let body = json!({"topic": "t", "value": "v", "envelope": {"deadline": "2020-01-01T00:00:00Z"}});
    client.post_json("/v1/produce", &body).assert_error(400, INVALID, "message deadline exceeded");
    client.post("/v1/produce?topic=t&value=v&deadline_ms=1000").assert_error(
        400,
        INVALID,
        "message deadline exceeded",
    );
    assert_eq!(client.get("/v2/topics/t").json()["next_offset"], 0);
}

#[test]
fn a_key_that_was_committed_before_is_produced_and_not_stored_again() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    client.post("/v1/topics?name=u");
    let produce = |client: &mut Client, topic: &str, tenant: &str, key: &str| {
        let envelope = json!({"tenant_id": tenant, "idempotency_key": key});
        let answer =
            client.post_json("/v1/produce", &json!({"topic": topic, "value": "v", "envelope": envelope}));
        assert_eq!((answer.status, answer.json()), (200, json!({"status": "produced", "topic": topic})));
        client.get(&format!("/v2/topics/{topic}")).json()["next_offset"].clone()
    };
    assert_eq!(produce(&mut client, "t", "", "k"), 1);
    assert_eq!(produce(&mut client, "t", "", "k"), 1, "the same operation");
    assert_eq!(produce(&mut client, "t", "acme", "k"), 2, "another tenant");
    assert_eq!(produce(&mut client, "t", "", "l"), 3, "another key");
    assert_eq!(produce(&mut client, "t", "", ""), 4, "no key at all");
    assert_eq!(produce(&mut client, "t", "", ""), 5, "no key at all, again");
    assert_eq!(produce(&mut client, "u", "", "k"), 1, "another topic");
    // The scope is the topic where it ends, whatever the way there.
    let rerouted = client.post("/v1/produce?topic=u&value=v&target_topic=t&idempotency_key=k");
    assert_eq!(rerouted.json(), json!({"status": "produced", "topic": "u"}));
    assert_eq!(client.get("/v2/topics/t").json()["next_offset"], 5);
}

#[test]
fn overload_says_why_and_when_to_come_back() {
    let broker = Broker::ephemeral(&["--profile", "v1-dev"]);
    let mut client = broker.client_with_topic("t", 2);
    let check = |client: &mut Client, query: &str, reason: &str| {
        let answer = client.post(&format!("/v1/produce?topic=t&{query}"));
        answer.assert_error(429, "RESOURCE_EXHAUSTED", &format!("producer overload: {reason}"));
        assert_eq!(answer.header("retry-after"), Some("1"));
        let body = answer.json();
        assert_eq!((&body["reason"], &body["retry_after_ms"]), (&json!(reason), &json!(1000)));
    };
    check(&mut client, "value=more-than-twenty-bytes", "partition_buffer_bytes_full");
    client.produce("t", "", "a");
    client.produce("t", "", "b");
    check(&mut client, "value=c", "partition_buffer_full");
    assert_eq!(
        client.post("/v1/produce?topic=t&value=c&partition_override=1").status,
        200,
        "the other is free"
    );
    let metrics = String::from_utf8(client.get("/metrics").body).unwrap();
    for line in [
        "produce_rejected_total{reason=\"partition_buffer_full\"} 1",
        "produce_rejected_total{reason=\"partition_buffer_bytes_full\"} 1",
    ] {
        assert!(metrics.lines().any(|candidate| candidate == line), "{metrics}");
    }
}

#[test]
fn addresses_that_make_no_sense() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    broker.stream("topic=t&group=g&owner=o");
    for call in ["/v1/ack", "/v1/nack"] {
        for (place, message) in [
            ("partition=1&offset=0", "partition out of range"),
            ("partition=5000000000&offset=0", "partition out of range"),
            ("partition=-1&offset=0", "partition cannot be negative"),
            ("partition=0&offset=-1", "offset cannot be negative"),
        ] {
            let answer = client.post(&format!("{call}?topic=t&group=g&owner=o&{place}"));
            answer.assert_error(400, INVALID, message);
        }
        let negative = json!({"topic": "t", "group": "g", "owner": "o", "partition": -1, "offset": 0});
        client.post_json(call, &negative).assert_error(400, INVALID, "partition cannot be negative");
    }
}

#[test]
fn who_may_settle_what() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    client.produce("t", "", "v");
    for call in ["/v1/ack", "/v1/nack"] {
        let answer = client.post(&format!("{call}?topic=t&group=nobody&owner=o&partition=0&offset=0"));
        answer.assert_error(409, PRECONDITION, "message is not in-flight");
    }
    let item = broker.stream("topic=t&group=g&owner=o&lease_ms=60000").item();
    let place = address_of(&item);
    for call in ["/v1/ack", "/v1/nack"] {
        let never = client.post(&format!("{call}?topic=t&group=g&owner=o&partition=0&offset=7"));
        never.assert_error(409, PRECONDITION, "message is not in-flight");
        let other = client.post(&format!("{call}?topic=t&group=g&owner=other&{place}"));
        other.assert_error(409, PRECONDITION, "not owner");
        assert_eq!(other.header("x-driftq-code"), Some("NOT_OWNER"), "the code that the body does not have");
    }
    for round in ["the first", "a duplicate"] {
        let answer = client.post(&format!("/v1/ack?topic=t&group=g&owner=o&{place}"));
        assert_eq!((answer.status, answer.body.len()), (204, 0), "{round}");
    }
}

#[test]
fn a_late_ack_counts_until_somebody_else_has_the_message() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    for value in ["a", "b"] {
        client.produce("t", "", value);
    }
    let mut stream = broker.stream("topic=t&group=g&owner=slow&lease_ms=150");
    assert_eq!((stream.item()["value"].clone(), stream.item()["value"].clone()), (json!("a"), json!("b")));
    drop(stream);
    let group = "/v2/topics/t/groups/g";
    broker.wait_for(group, "the reader's end", |group| group["consumers"] == 0);
    broker.wait_for(group, "the lapse of both leases", |group| group["in_flight"] == 0);
    assert_eq!(client.post("/v1/ack?topic=t&group=g&owner=slow&partition=0&offset=0").status, 204);
    let mut other = broker.stream("topic=t&group=g&owner=other&lease_ms=60000");
    let item = other.item();
    assert_eq!(
        (&item["value"], &item["attempts"]),
        (&json!("b"), &json!(2)),
        "what was acked does not come again"
    );
    let late = client.post("/v1/ack?topic=t&group=g&owner=slow&partition=0&offset=1");
    late.assert_error(409, PRECONDITION, "not owner");
    assert_eq!(client.post("/v1/ack?topic=t&group=g&owner=other&partition=0&offset=1").status, 204);
}

#[test]
fn several_workers_under_one_name_may_ack_for_each_other() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    let mut streams = [0, 1].map(|_| broker.stream("topic=t&group=g&owner=pool&lease_ms=60000"));
    broker.wait_for("/v2/topics/t/groups/g", "both readers", |group| group["consumers"] == 2);
    client.produce("t", "", "a");
    client.produce("t", "", "b");
    let items = streams.each_mut().map(|stream| stream.item());
    assert_ne!(items[0]["offset"], items[1]["offset"], "each message goes to one of them, in turn");
    for item in &items {
        let other = client.post(&format!("/v1/ack?topic=t&group=g&owner=stranger&{}", address_of(item)));
        other.assert_error(409, PRECONDITION, "not owner");
        assert_eq!(
            client.post(&format!("/v1/ack?topic=t&group=g&owner=pool&{}", address_of(item))).status,
            204
        );
    }
}

#[test]
fn wrong_methods_are_told_the_right_ones() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client();
    for (path, allow) in [
        ("/v1/healthz", "GET"),
        ("/v1/version", "GET"),
        ("/v1/topics", "GET, POST"),
        ("/v1/produce", "POST"),
        ("/v1/consume", "GET"),
        ("/v1/ack", "POST"),
        ("/v1/nack", "POST"),
        ("/metrics", "GET"),
    ] {
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"] {
            if allow.split(", ").any(|allowed| allowed == method) {
                continue;
            }
            let answer = client.call(method, path, &[], None);
            assert_eq!((answer.status, answer.header("allow")), (405, Some(allow)), "{method} {path}");
            if method != "HEAD" {
                answer.assert_error(405, "METHOD_NOT_ALLOWED", "method not allowed");
            }
        }
    }
}

#[test]
fn paths_that_are_nothing() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client();
    for path in ["/", "/topics", "/produce?topic=t&value=v", "/healthz", "/v10/topics", "/index.html"] {
        client.get(path).assert_error(404, "NOT_FOUND", "use /v1/* endpoints");
        client.post(path).assert_error(404, "NOT_FOUND", "use /v1/* endpoints");
    }
    for path in ["/v1", "/v1/", "/v1/nothing", "/v1/produce/", "/v1/topics/t"] {
        client.get(path).assert_error(404, "NOT_FOUND", "not found");
    }
    assert_eq!(client.get("/metrics").status, 200);
}

#[test]
fn the_requested_topic_is_echoed_and_names_are_sorted() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client();
    assert_eq!(client.get("/v1/topics").json(), json!({"topics": []}));
    for name in ["zebra", "Ångström", "apple", "Zoo", "tasks.enrich"] {
        assert_eq!(client.post_json("/v1/topics", &json!({"name": name})).status, 201);
    }
    let names = json!({"topics": ["Zoo", "apple", "tasks.enrich", "zebra", "Ångström"]});
    assert_eq!(client.get("/v1/topics").json(), names);
    let envelope = json!({"target_topic": "tasks.enrich"});
    let answer =
        client.post_json("/v1/produce", &json!({"topic": "zebra", "value": "v", "envelope": envelope}));
    assert_eq!(answer.json(), json!({"status": "produced", "topic": "zebra"}));
    let item = broker.stream("topic=tasks.enrich&group=g&owner=o").item();
    assert_eq!(item["envelope"], json!({"target_topic": "tasks.enrich"}));
    let nowhere = client.post("/v1/produce?topic=zebra&value=v&target_topic=nowhere");
    nowhere.assert_error(400, INVALID, "topic does not exist (create it first)");
}

#[test]
fn metrics_keep_their_names() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    for _ in 0..3 {
        client.produce("t", "", "v");
    }
    client.post("/v1/produce?topic=t&value=poison&retry_max_attempts=1");
    let mut stream = broker.stream("topic=t&group=g&owner=o&lease_ms=60000");
    for _ in 0..3 {
        let item = stream.item();
        client.post(&format!("/v1/ack?topic=t&group=g&owner=o&{}", address_of(&item)));
    }
    let poison = stream.item();
    let metrics = |client: &mut Client| String::from_utf8(client.get("/metrics").body).unwrap();
    let has = |text: &str, line: &str| text.lines().any(|candidate| candidate == line);
    let text = metrics(&mut client);
    assert!(has(&text, "inflight_messages{topic=\"t\",group=\"g\",partition=\"0\"} 1"), "{text}");
    assert!(has(&text, "consumer_lag{topic=\"t\",group=\"g\",partition=\"0\"} 1"), "{text}");
    assert_eq!(client.post(&format!("/v1/nack?topic=t&group=g&owner=o&{}", address_of(&poison))).status, 204);
    broker.wait_for("/v2/topics/dlq.t", "the dead letter", |topic| topic["messages"] == 1);
    // A scrape may be a moment old.
    let gone = "inflight_messages{topic=\"t\",group=\"g\",partition=\"0\"} 0";
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !has(&metrics(&mut client), gone) {
        assert!(std::time::Instant::now() < patience, "{}", metrics(&mut client));
    }
    let answer = client.get("/metrics");
    let kind = answer.header("content-type").unwrap().to_owned();
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    let text = String::from_utf8(answer.body).unwrap();
    assert!(has(&text, "dlq_messages_total{topic=\"t\",reason=\"max_attempts_reached\"} 1"), "{text}");
    assert!(has(&text, "inflight_messages{topic=\"t\",group=\"g\",partition=\"0\"} 0"), "{text}");
    assert!(text.contains("driftq_http_requests_total{route=\"/v1/produce\",status=\"200\"} 4"), "{text}");
    assert!(has(&text, "driftq_http_streams 1"), "{text}");
}
