//! One budget for the bytes that the edge holds for its peers: who holds everything, who is turned away, and who goes
//! through all the same.

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
