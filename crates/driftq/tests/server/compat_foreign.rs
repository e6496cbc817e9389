//! What clients of the first broker send and expect, as it was found by running them.

use serde_json::json;

use crate::compat::{Broker, Client};

/// Characters at which common readers of lines split, although JSON allows them in texts.
const BREAKS: &str = "a\u{85}b\u{2028}c\u{2029}d";

fn body_of(client: &mut Client, path: &str, accept: Option<&str>) -> (String, String) {
    let headers: Vec<(&str, &str)> = accept.into_iter().map(|accept| ("accept", accept)).collect();
    let answer = client.call("GET", path, &headers, None);
    (answer.header("content-type").unwrap().to_owned(), answer.text())
}

#[test]
fn a_line_of_a_stream_is_one_line_to_every_reader() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    let body = json!({"topic": "t", "key": BREAKS, "value": BREAKS, "envelope": {"run_id": BREAKS}});
    assert_eq!(client.post_json("/v1/produce", &body).status, 200);
    let mut second = broker.client();
    second.send("GET /v2/topics/t/groups/native/stream?owner=o HTTP/1.1\r\nhost: test\r\n\r\n");
    for mut stream in [broker.stream("topic=t&group=g&owner=o"), crate::compat::Stream::opened(second)] {
        let line = stream.line();
        assert!(!line.contains(['\u{85}', '\u{2028}', '\u{2029}']), "{line:?}");
        let item: serde_json::Value = serde_json::from_str(&line).unwrap();
        let texts = [&item["key"], &item["value"], &item["envelope"]["run_id"]];
        assert_eq!(texts, [BREAKS; 3], "the value is the same: {line}");
    }
    // The results of a batch of lines are lines, too.
    let lines = format!("{{\"value\":\"v\",\"envelope\":{{\"target_topic\":{}}}}}\n", json!(BREAKS));
    let kind = [("content-type", "application/x-ndjson")];
    client.post_json("/v1/topics", &json!({"name": BREAKS}));
    let answer = client.call("POST", "/v2/topics/t/messages", &kind, Some(lines.as_bytes()));
    assert_eq!(answer.json()["topic"], BREAKS, "{}", answer.text());
    assert!(!answer.text().contains(['\u{85}', '\u{2028}', '\u{2029}']), "{}", answer.text());
}

#[test]
fn half_a_character_is_a_replacement_character() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    let cut = br#"{"topic":"t","key":"\ude00","value":"cut \ud83d","envelope":{"run_id":"\ud83d\ude00"}}"#;
    for body in [&cut[..], b"{\"topic\":\"t\",\"value\":\"bytes \xff\"}"] {
        let answer = client.call("POST", "/v1/produce", &[], Some(body));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let mut stream = broker.stream("topic=t&group=g&owner=o");
    let item = stream.item();
    assert_eq!((&item["key"], &item["value"]), (&json!("\u{fffd}"), &json!("cut \u{fffd}")));
    assert_eq!(item["envelope"]["run_id"], "\u{1f600}", "a whole pair stays");
    assert_eq!(stream.item()["value"], "bytes \u{fffd}");
    let nack = format!(
        "{{\"topic\":\"t\",\"group\":\"g\",\"owner\":\"o\",{}}}",
        r#""partition":0,"offset":0,"reason":"\ud83d""#
    );
    assert_eq!(client.post_text("/v1/nack", &nack).status, 204);
}

#[test]
fn blanks_around_the_texts_of_a_query_go() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    assert_eq!(client.post("/v1/produce?topic=+t%20&value=%20a+b%0A&key=+k&run_id=+r+&value=x").status, 200);
    assert_eq!(client.post("/v1/produce?topic=t&value=%ff").status, 200);
    client.post("/v1/produce?topic=t&value=+%20").assert_error(
        400,
        "INVALID_ARGUMENT",
        "topic and value are required",
    );
    let mut stream = broker.stream("topic=+t+&group=+g+&owner=+o&lease_ms=+60000+");
    let item = stream.item();
    assert_eq!((&item["value"], &item["key"]), (&json!("a b"), &json!("k")));
    assert_eq!(item["envelope"]["run_id"], "r");
    assert_eq!(stream.item()["value"], "\u{fffd}");
    assert_eq!(client.get("/v2/topics/t/groups/g").status, 200);
    // A blank that is not encoded ends the address, as it did for the first broker.
    client.send("POST /v1/produce?topic=t&value=a b HTTP/1.1\r\nhost: test\r\ncontent-length: 0\r\n\r\n");
    assert_eq!(client.reply().status, 400);
}

#[test]
fn a_deadline_comes_back_as_it_was_given() {
    let broker = Broker::durable(&["--in-flight-max=16"]);
    let mut client = broker.client_with_topic("t", 1);
    let given = [
        "9999-12-31T23:59:59Z",
        "9999-12-31T23:59:59.999999999Z",
        "9999-12-31T23:59:59-11:00",
        "2999-12-21T14:00:00.120+02:00",
        "2999-12-21T14:00:00.000000001-07:30",
        "2999-12-21T14:00:00+00:00",
    ];
    for deadline in given {
        let body = json!({"topic": "t", "value": "v", "envelope": {"deadline": deadline}});
        assert_eq!(client.post_json("/v1/produce", &body).status, 200, "{deadline}");
    }
    let broker = broker.kill_and_restart(&["--in-flight-max=16"]);
    let mut stream = broker.stream("topic=t&group=g&owner=o&lease_ms=60000");
    // As Go writes them: without zeros at the end, and with Z for no offset.
    let expected = given.map(|text| text.replace(".120", ".12").replace("+00:00", "Z"));
    let found = given.map(|_| stream.item()["envelope"]["deadline"].as_str().unwrap().to_owned());
    assert_eq!(found, expected);
}

#[test]
fn metrics_are_text_unless_a_scraper_asks_for_more() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    for accept in [None, Some("*/*"), Some("text/plain;version=0.0.4")] {
        let (kind, text) = body_of(&mut client, "/metrics", accept);
        assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
        assert!(text.contains("# TYPE produce_rejected_total counter\nproduce_rejected_total{"), "{text}");
        assert!(text.contains("# TYPE driftq_ready gauge\ndriftq_ready 1\n"), "{text}");
        assert!(!text.contains("# EOF"), "{text}");
    }
    let prometheus =
        "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
    let (kind, text) = body_of(&mut client, "/metrics", Some(prometheus));
    assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(text.contains("# TYPE produce_rejected counter\n") && text.ends_with("# EOF\n"), "{text}");
}

/// Workers of both APIs share a group: what one has borrowed leaves the other its window.
#[test]
fn leases_over_v2_leave_a_v1_stream_its_window() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    for number in 0..49 {
        client.produce("t", "", &number.to_string());
    }
    let lease = json!({"owner": "native", "max": 4, "lease_ms": 60_000});
    let lent = client.post_json("/v2/topics/t/groups/g/lease", &lease).json();
    assert_eq!(lent["messages"].as_array().unwrap().len(), 4);
    let mut stream = broker.stream("topic=t&group=g&owner=o&lease_ms=60000");
    assert_eq!([stream.item(), stream.item()].map(|item| item["offset"].clone()), [4, 5]);
    let group = broker.wait_for("/v2/topics/t/groups/g", "both", |group| group["in_flight"] == 6);
    assert_eq!(group["readers"], 2, "{group}");
}

#[test]
fn a_lease_may_be_asked_for_longer_than_a_week() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    client.produce("t", "", "v");
    let item = broker.stream("topic=t&group=g&owner=o&lease_ms=31536000000").item();
    assert_eq!(item["value"], "v");
}

/// Between two calls of a worker nothing of it waits, and still it reads.
#[test]
fn a_worker_that_asks_call_by_call_is_a_reader() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    for owner in ["a", "b", "a"] {
        let answer = client.post_json("/v2/topics/t/groups/g/lease", &json!({"owner": owner}));
        assert_eq!(answer.json()["messages"], json!([]));
    }
    let group = client.get("/v2/topics/t/groups/g").json();
    assert_eq!((&group["consumers"], &group["readers"]), (&json!(0), &json!(2)), "{group}");
    let members = json!([
        {"owner": "a", "kind": "lease", "in_flight": 0},
        {"owner": "b", "kind": "lease", "in_flight": 0},
    ]);
    assert_eq!(group["members"], members);
}
