//! One budget for the bytes that the edge holds for its peers: who holds everything, who is turned away, and who goes
//! through all the same.

use std::net::TcpStream;
use std::time::Instant;

use serde_json::{Value, json};

use crate::compat::{Broker, Client, Reply, TIMEOUT};

const MIB: usize = 1 << 20;
/// Two bodies of one MiB, and not a byte more.
const TWO_MIB: [&str; 1] = ["--edge-bytes-max=2MiB"];
const MESSAGES: &str = "/v2/topics/t/messages";

fn metric(client: &mut Client, name: &str) -> usize {
    let text = client.get("/metrics").text();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

fn until_held(client: &mut Client, bytes: usize) {
    let deadline = Instant::now() + TIMEOUT;
    while metric(client, "driftq_edge_bytes") != bytes {
        assert!(Instant::now() < deadline, "not {bytes} but {}", metric(client, "driftq_edge_bytes"));
        std::thread::yield_now();
    }
}

/// A body of exactly this size with one message in it.
fn body(size: usize) -> String {
    let around = json!([{"value": ""}]).to_string().len();
    json!([{"value": "x".repeat(size - around)}]).to_string()
}

/// A request whose body ends before its last byte.
fn unfinished(broker: &Broker, size: usize) -> Client {
    let mut client = broker.client();
    let head = "content-type: application/json\r\n";
    client.send(format!("POST {MESSAGES} HTTP/1.1\r\nhost: t\r\n{head}content-length: {size}\r\n\r\n"));
    client.send(&body(size)[..size - 1]);
    client
}

fn assert_turned_away(reply: &Reply) {
    let problem: Value = reply.json();
    assert_eq!((reply.status, &problem["code"]), (503, &json!("UNAVAILABLE")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("edge_bytes_max"), "{problem}");
    assert_eq!(reply.header("retry-after"), Some("1"), "{problem}");
}

#[test]
fn bodies_that_do_not_end_hold_no_more_than_the_budget_and_small_ones_go_through() {
    let broker = Broker::ephemeral(&TWO_MIB);
    let mut client = broker.client_with_topic("t", 1);
    let holders = [unfinished(&broker, MIB), unfinished(&broker, MIB)];
    until_held(&mut client, 2 * MIB);
    assert_turned_away(&client.call(
        "POST",
        MESSAGES,
        &[("content-type", "application/json")],
        Some(body(MIB).as_bytes()),
    ));
    assert_eq!(metric(&mut client, "driftq_edge_refused_total"), 1, "on the same connection, which goes on");
    assert_eq!(client.post_json(MESSAGES, &json!([{"value": "small"}])).status, 200);
    drop(holders);
    until_held(&mut client, 0);
    let large =
        client.call("POST", MESSAGES, &[("content-type", "application/json")], Some(body(MIB).as_bytes()));
    assert_eq!(large.status, 200, "what was given back is there for others: {}", large.text());
    assert_eq!(metric(&mut client, "driftq_edge_bytes"), 0, "and whatever was handled is given back");
    let topic = client.get("/v2/topics/t").json();
    assert_eq!(topic["next_offset"], 2, "what was turned away is not stored");
}

/// Asks for messages and reads nothing of the answer.
fn unread(broker: &Broker, group: &str, max: usize) -> TcpStream {
    let mut client = broker.client();
    let body = json!({"owner": "deaf", "max": max, "lease_ms": 600_000}).to_string();
    let head = format!("content-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    client.send(format!("POST /v2/topics/t/groups/{group}/lease HTTP/1.1\r\nhost: t\r\n{head}{body}"));
    client.socket.into_inner()
}

fn in_flight(client: &mut Client, group: &str) -> u64 {
    client.get(&format!("/v2/topics/t/groups/{group}")).json()["in_flight"].as_u64().unwrap()
}

fn lease(client: &mut Client, group: &str, max: usize) -> Reply {
    client.post_json(
        &format!("/v2/topics/t/groups/{group}/lease"),
        &json!({"owner": "o", "max": max, "lease_ms": 600_000}),
    )
}

fn attempts(leased: &Reply) -> Vec<u64> {
    let messages = leased.json();
    let messages = messages["messages"].as_array().unwrap_or_else(|| panic!("{}", leased.text()));
    messages.iter().map(|item| item["lease"]["attempt"].as_u64().unwrap()).collect()
}

/// A topic in which a delivery that counted and was lost would be a dead letter.
fn strict_topic(client: &mut Client, messages: &[Value]) {
    let settings = json!({"retry_policy": {"max_attempts": 1}, "partitions": 1});
    assert_eq!(client.put_json("/v2/topics/t", &settings).status, 201);
    for message in messages {
        let stored = client.post_json(MESSAGES, &json!([message]));
        assert_eq!(stored.status, 200, "{}", stored.text());
    }
}

#[test]
fn an_answer_that_finds_no_room_gives_its_messages_back_unused() {
    let broker = Broker::ephemeral(&["--edge-bytes-max=3MiB"]);
    let mut client = broker.client();
    strict_topic(&mut client, &vec![json!({"value": "x".repeat(MIB)}); 3]);
    // One MiB and a little for each: the third would be too much for everything.
    let deaf = unread(&broker, "deaf", 2);
    let deadline = Instant::now() + TIMEOUT;
    while metric(&mut client, "driftq_edge_bytes") < 2 * MIB {
        assert!(Instant::now() < deadline, "nobody reads it, and it is not held");
    }
    assert_turned_away(&lease(&mut client, "g", 1));
    assert_eq!(in_flight(&mut client, "g"), 0, "nobody has it");
    assert_turned_away(&client.get("/v2/topics/t/messages/0/0"));
    assert_turned_away(&client.get("/v2/topics/t/messages"));
    assert_eq!(client.get("/v2/topics/t").status, 200, "small questions are answered");
    drop(deaf);
    until_held(&mut client, 0);
    assert_eq!(attempts(&lease(&mut client, "g", 1)), [1], "no attempt was used, and nothing is dead");
    assert_eq!(attempts(&lease(&mut client, "deaf", 3)), [1, 1, 1]);
    assert_eq!(metric(&mut client, "driftq_edge_bytes"), 0, "what is read is given back");
}

#[test]
fn whoever_takes_nothing_of_its_answer_is_cut_off_and_its_messages_go_back() {
    let broker = Broker::ephemeral(&["--answer-timeout-ms=300"]);
    let mut client = broker.client();
    strict_topic(&mut client, &vec![json!({"value": "x".repeat(MIB)}); 3]);
    let deaf = unread(&broker, "g", 3);
    let deadline = Instant::now() + TIMEOUT;
    while metric(&mut client, "driftq_edge_bytes") < 2 * MIB {
        assert!(Instant::now() < deadline, "nobody reads it, and it is not held");
    }
    until_held(&mut client, 0);
    broker
        .wait_for("/v2/topics/t/groups/g", "the return of what nobody took", |group| group["in_flight"] == 0);
    assert_eq!(attempts(&lease(&mut client, "g", 3)), [1, 1, 1]);
    drop(deaf);
}

/// What is counted is what is sent: JSON makes six bytes of some.
#[test]
fn an_answer_that_lends_has_no_more_than_eight_mib_unless_it_lends_one_message() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client();
    let controls = json!({"value": "\u{1}".repeat(600 << 10)});
    let zeros = "AQEB".repeat((3 * MIB / 2) / 3);
    strict_topic(&mut client, &[controls.clone(), controls.clone(), controls, json!({"value_b64": zeros})]);
    let lent = [2, 1, 1].map(|expected| {
        let leased = lease(&mut client, "g", 100);
        assert_eq!(attempts(&leased), vec![1; expected], "what was left out comes next, unused");
        leased.body.len()
    });
    assert!(lent[0] > 7 * MIB && lent[0] <= 8 * MIB, "{lent:?}");
    assert!(lent[2] > 8 * MIB, "alone it may be larger: {lent:?}");
    // Payloads alone fill it, too.
    assert_eq!(client.put_json("/v2/topics/plain", &json!({"partitions": 1})).status, 201);
    for _ in 0..3 {
        let stored =
            client.post_json("/v2/topics/plain/messages", &json!([{"value": "x".repeat(3_900_000)}]));
        assert_eq!(stored.status, 200);
    }
    let leased = client.post_json("/v2/topics/plain/groups/g/lease", &json!({"owner": "o", "max": 100}));
    assert_eq!(attempts(&leased), [1, 1]);
    assert!(leased.body.len() <= 8 * MIB, "{}", leased.body.len());
}

#[test]
fn a_page_of_messages_has_an_end_in_bytes() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client();
    strict_topic(&mut client, &vec![json!({"value": "x".repeat(3 * MIB)}); 5]);
    let (mut path, mut pages) = (format!("{MESSAGES}?limit=100"), Vec::new());
    loop {
        let page = client.get(&path).json();
        let messages = page["messages"].as_array().unwrap();
        pages.extend(messages.iter().map(|message| message["offset"].as_u64().unwrap()));
        assert!(messages.len() <= 3, "{} messages of 3 MiB", messages.len());
        let Some(cursor) = page["cursor"].as_str() else { break };
        path = format!("{MESSAGES}?limit=100&cursor={cursor}");
    }
    assert_eq!(pages, [0, 1, 2, 3, 4]);
}

/// A stream with a large credit that nobody reads takes what its sockets take, and leaves the rest to others.
#[test]
fn a_stream_that_nobody_reads_leaves_the_rest_to_others() {
    const COUNT: usize = 2_000;
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client();
    strict_topic(&mut client, &[]);
    let value = "x".repeat(2_000);
    for _ in 0..4 {
        let messages = vec![json!({"value": value}); COUNT / 4];
        assert_eq!(client.post_json(MESSAGES, &Value::from(messages)).status, 200);
    }
    let mut deaf = broker.client();
    deaf.send("GET /v2/topics/t/groups/g/stream?owner=deaf&credit=10000&lease_ms=600000 HTTP/1.1\r\nhost: t\r\n\r\n");
    broker.wait_for("/v2/topics/t/groups/g", "the first delivery", |group| group["in_flight"] != 0);
    let mut got = 0;
    loop {
        let count = attempts(&lease(&mut client, "g", 1_000)).len();
        if count == 0 {
            break;
        }
        got += count;
    }
    let deaf_holds = in_flight(&mut client, "g") as usize - got;
    assert!(deaf_holds < COUNT / 2, "{deaf_holds} of {COUNT} went to a stream that nobody reads");
    drop(deaf);
    let deadline = Instant::now() + TIMEOUT;
    while got < COUNT {
        assert!(Instant::now() < deadline, "{got} of {COUNT}");
        let leased = attempts(&lease(&mut client, "g", 1_000));
        assert!(leased.iter().all(|attempt| *attempt == 1));
        got += leased.len();
        // What its socket took it has, as far as anybody knows.
        if got + deaf_holds >= COUNT {
            break;
        }
    }
}

#[test]
fn a_promise_to_send_much_holds_nothing() {
    let broker = Broker::ephemeral(&TWO_MIB);
    let mut client = broker.client_with_topic("t", 1);
    let promises: Vec<Client> = (0..50)
        .map(|_| {
            let mut client = broker.client();
            client.send(format!("POST {MESSAGES} HTTP/1.1\r\nhost: t\r\ncontent-length: {MIB}\r\n\r\n["));
            client
        })
        .collect();
    let large =
        client.call("POST", MESSAGES, &[("content-type", "application/json")], Some(body(MIB).as_bytes()));
    assert_eq!(large.status, 200, "{}", large.text());
    assert_eq!(metric(&mut client, "driftq_edge_bytes"), 0);
    drop(promises);
}
