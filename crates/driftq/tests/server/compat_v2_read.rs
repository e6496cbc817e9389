//! The calls of `/v2` that only look.

use serde_json::{Value, json};

use crate::compat::{Broker, Reply, address_of};

#[track_caller]
fn assert_problem(answer: &Reply, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let problem = answer.json();
    assert_eq!((&problem["code"], &problem["status"]), (&json!(code), &json!(status)));
    for field in ["title", "detail", "help"] {
        assert!(!problem[field].as_str().is_none_or(str::is_empty), "{problem}");
    }
    assert!(problem["retryable"].is_boolean(), "{problem}");
}

#[test]
fn topics_come_in_pages() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client();
    assert_eq!(client.get("/v2/topics").json(), json!({"topics": []}));
    for number in 0..5 {
        client.post(&format!("/v1/topics?name=t{number}&partitions={}", number + 1));
    }
    client.produce("t1", "", "four");
    let (mut seen, mut path) = (Vec::<Value>::new(), "/v2/topics?limit=2".to_owned());
    loop {
        let page = client.get(&path).json();
        let topics = page["topics"].as_array().unwrap();
        assert!(topics.len() <= 2);
        seen.extend(topics.iter().cloned());
        let Some(cursor) = page["cursor"].as_str() else { break };
        path = format!("/v2/topics?limit=2&cursor={cursor}");
    }
    assert_eq!(seen.len(), 5);
    assert_eq!(seen[1], json!({"name": "t1", "partitions": 2, "groups": 0, "messages": 1, "bytes": 4}));
    for query in ["limit=0", "limit=1001", "limit=x", "cursor=zz"] {
        assert_problem(&client.get(&format!("/v2/topics?{query}")), 400, "INVALID_ARGUMENT");
    }
}

#[test]
fn a_topic_and_its_groups_described() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client();
    client.post_json("/v1/topics", &json!({"name": "a/b é", "partitions": 2}));
    let path = "/v2/topics/a%2Fb%20%C3%A9";
    for value in ["one", "three", "seven"] {
        client.produce("a/b é", "", value);
    }
    let mut stream = broker.stream("topic=a/b+%C3%A9&group=g&owner=o&lease_ms=60000");
    let items = [stream.item(), stream.item()];
    client.post(&format!("/v1/ack?topic=a/b+%C3%A9&group=g&owner=o&{}", address_of(&items[0])));
    stream.item();
    let topic = client.get(path).json();
    assert_eq!(
        (&topic["name"], &topic["next_offset"], &topic["groups"]),
        (&json!("a/b é"), &json!(3), &json!(["g"]))
    );
    assert!(topic["created_at"].as_str().unwrap().ends_with('Z'), "{topic}");
    assert_eq!(topic["partitions"].as_array().unwrap().len(), 2);
    assert_eq!(topic["partitions"][1]["messages"], 0);
    let group = client.get(&format!("{path}/groups/g")).json();
    assert_eq!(
        (&group["name"], &group["consumers"], &group["lag"], &group["in_flight"]),
        (&json!("g"), &json!(1), &json!(2), &json!(2))
    );
    assert_eq!(group["partitions"][0]["partition"], 0);
    let groups = client.get(&format!("{path}/groups")).json();
    assert_eq!(groups["groups"].as_array().unwrap().len(), 1);
    assert_eq!(groups["groups"][0]["name"], "g");
}

#[test]
fn what_is_not_there_is_a_problem() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    assert_problem(&client.get("/v2/topics/none"), 404, "TOPIC_UNKNOWN");
    assert_problem(&client.get("/v2/topics/none/groups"), 404, "TOPIC_UNKNOWN");
    assert_problem(&client.get("/v2/topics/t/groups/none"), 404, "GROUP_UNKNOWN");
    assert_problem(&client.get("/v2/topics/%ff"), 400, "INVALID_ARGUMENT");
    assert_problem(&client.get("/v2/nothing"), 404, "NOT_FOUND");
    let answer = client.post("/v2/topics/t");
    assert_problem(&answer, 405, "METHOD_NOT_ALLOWED");
    assert_eq!(answer.header("allow"), Some("GET, PUT, PATCH, DELETE"));
}

#[test]
fn the_server_about_itself() {
    let broker = Broker::durable(&[]);
    let mut client = broker.client_with_topic("t", 1);
    assert_eq!(client.get("/v2/healthz").json(), json!({"status": "ok"}));
    assert_eq!(client.get("/v2/readyz").json(), json!({"status": "ready"}));
    let status = client.get("/v2/status").json();
    assert_eq!(
        (&status["ready"], &status["writable"], &status["durable"]),
        (&json!(true), &json!(true), &json!(true))
    );
    assert_eq!((&status["topics"], &status["connections"]), (&json!(1), &json!(1)));
    let epoch = status["epoch"].as_u64().unwrap();
    let broker = broker.kill_and_restart(&[]);
    let status = broker.client().get("/v2/status").json();
    assert_eq!(status["epoch"].as_u64().unwrap(), epoch + 1);
}
