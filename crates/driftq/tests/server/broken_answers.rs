//! Answers that break on their way: what they lent goes back at once.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::compat::Client;
use crate::support::Server;
use serde_json::json;

/// Together more than the buffers of a connection hold, so that the answer is still on its way when it breaks.
const MESSAGES: usize = 7;
const MESSAGE_BYTES: usize = 1 << 20;
/// Far longer than the test waits: what comes back sooner was given back.
const LEASE_MS: u64 = 600_000;
const PATIENCE: Duration = Duration::from_secs(20);

fn in_flight(client: &mut Client) -> u64 {
    let group = client.get("/v2/topics/t/groups/g").json();
    group["in_flight"].as_u64().unwrap_or_else(|| panic!("{group}"))
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_a_broken_lease_answer_lent_goes_back_at_once_and_unused() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let server = Server::start(data.path(), &[]);
    let mut client = Client::connect(server.address);
    // With a single attempt, one that nobody saw would be a dead letter.
    let settings = json!({"retry_policy": {"max_attempts": 1}, "partitions": 1});
    assert_eq!(client.put_json("/v2/topics/t", &settings).status, 201);
    let value = "x".repeat(MESSAGE_BYTES);
    for _ in 0..MESSAGES {
        assert_eq!(client.post_json("/v2/topics/t/messages", &json!([{"value": value}])).status, 200);
    }

    let body = json!({"owner": "unlucky", "max": MESSAGES, "lease_ms": LEASE_MS}).to_string();
    let mut socket = TcpStream::connect(server.address).expect("the server listens");
    write!(
        socket,
        "POST /v2/topics/t/groups/g/lease HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("the request is sent");
    // The answer has begun, and cannot end: nobody takes the rest.
    socket.read_exact(&mut [0; 64]).expect("the answer begins");
    assert_eq!(in_flight(&mut client), MESSAGES as u64);
    // Closed with bytes unread: the peer is told by a reset.
    drop(socket);

    until("what nobody got is given back", || in_flight(&mut client) == 0);
    let request = json!({"owner": "lucky", "max": MESSAGES, "lease_ms": LEASE_MS, "wait_ms": 5_000});
    let leased = client.post_json("/v2/topics/t/groups/g/lease", &request).json();
    let attempts: Vec<u64> = leased["messages"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|item| item["lease"]["attempt"].as_u64().expect("a number"))
        .collect();
    assert_eq!(attempts, [1; MESSAGES], "no attempt was used, and nothing is dead");
}

#[test]
fn what_a_whole_lease_answer_lent_stays_on_loan_when_its_reader_leaves() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let server = Server::start(data.path(), &[]);
    let mut client = Client::connect(server.address);
    assert_eq!(client.put_json("/v2/topics/t", &json!({})).status, 201);
    assert_eq!(client.post_json("/v2/topics/t/messages", &json!([{"value": "v"}])).status, 200);
    let mut reader = Client::connect(server.address);
    let request = json!({"owner": "o", "max": 1, "lease_ms": LEASE_MS});
    let leased = reader.post_json("/v2/topics/t/groups/g/lease", &request).json();
    assert_eq!(leased["messages"].as_array().map(Vec::len), Some(1));
    drop(reader);
    until("the connection is gone", || {
        client.get("/metrics").text().lines().any(|line| line == "driftq_http_connections 1")
    });
    assert_eq!(in_flight(&mut client), 1, "whoever got it keeps it");
}
