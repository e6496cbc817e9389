//! A brain on loopback, the real broker that asks it, and what both have to say.
#![allow(dead_code, reason = "each test crate uses its own part of this module")]

use std::net::SocketAddr;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::compat::{Broker, Client, Reply, TIMEOUT};
use crate::router_brain::{Act, Server};

/// Long enough that only a brain which never answers runs into it.
pub(crate) const PATIENT: [&str; 2] = ["--router-timeout-ms", "15s"];

/// A brain with a thread of its own, so that tests can talk to the broker in plain blocking calls.
pub(crate) struct Brain {
    runtime: Runtime,
    server: Option<Server>,
    address: SocketAddr,
}

impl Brain {
    pub(crate) fn start(act: Act) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = runtime.block_on(Server::start(act));
        Self { runtime, address: server.address, server: Some(server) }
    }

    /// Answers everything with this.
    pub(crate) fn saying(body: &str) -> Self {
        Self::start(says(body))
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/route", self.address)
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn act(&self, act: Act) {
        self.server.as_ref().unwrap().act(act);
    }

    /// Questions so far.
    pub(crate) fn questions(&self) -> Vec<Value> {
        self.server.as_ref().map(Server::requests).unwrap_or_default()
    }

    pub(crate) fn wait_for_questions(&self, count: usize) {
        let deadline = Instant::now() + TIMEOUT;
        while self.questions().len() < count {
            assert!(Instant::now() < deadline, "the brain was not asked");
            std::thread::yield_now();
        }
    }

    pub(crate) fn die(&mut self) {
        let server = self.server.take().unwrap();
        self.runtime.block_on(server.die());
    }

    /// At the address where it died.
    pub(crate) fn come_back(&mut self, act: Act) {
        self.server = Some(self.runtime.block_on(Server::start_at(self.address, act)));
    }

    /// A broker that asks this brain.
    pub(crate) fn broker(&self, arguments: &[&str]) -> Broker {
        Broker::ephemeral(&[&["--router-url", &self.url()], arguments].concat())
    }
}

/// An answer that is always the same.
pub(crate) fn says(body: &str) -> Act {
    Act::Answer(200, "", body.to_owned())
}

/// Stores a message by `/v2`; it must be stored, now or before.
#[track_caller]
pub(crate) fn produce(client: &mut Client, topic: &str, message: &Value) -> Value {
    let answer = try_produce(client, topic, message);
    let is_duplicate = answer.json()["duplicate"] == true;
    assert_eq!(answer.status, if is_duplicate { 200 } else { 201 }, "{}", answer.text());
    answer.json()
}

pub(crate) fn try_produce(client: &mut Client, topic: &str, message: &Value) -> Reply {
    client.post_json(&format!("/v2/topics/{topic}/messages"), message)
}

/// Stores messages by `/v2` in one call; one result each.
#[track_caller]
pub(crate) fn produce_lines(client: &mut Client, topic: &str, messages: &[Value]) -> Vec<Value> {
    let lines: String = messages.iter().map(|message| format!("{message}\n")).collect();
    let path = format!("/v2/topics/{topic}/messages");
    let answer =
        client.call("POST", &path, &[("content-type", "application/x-ndjson")], Some(lines.as_bytes()));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let results: Vec<Value> = answer
        .body
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    assert_eq!(results.len(), messages.len(), "{}", answer.text());
    results
}

/// Everything that a topic keeps.
pub(crate) fn browse(client: &mut Client, topic: &str) -> Vec<Value> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let answer = client.get(&format!("/v2/topics/{topic}/messages?limit=500{cursor}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        let page = answer.json();
        found.extend(page["messages"].as_array().unwrap().iter().cloned());
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

/// Borrows up to this many messages for a group.
pub(crate) fn lease(client: &mut Client, topic: &str, group: &str, max: u32) -> Vec<Value> {
    let body = json!({"owner": "o", "max": max, "wait_ms": 0});
    let answer = client.post_json(&format!("/v2/topics/{topic}/groups/{group}/lease"), &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["messages"].as_array().unwrap().clone()
}

/// What `GET /v2/router` says.
pub(crate) fn status(client: &mut Client) -> Value {
    client.get("/v2/router").json()
}

/// What `POST /v2/router/test` says.
pub(crate) fn test(client: &mut Client, topic: &str, message: &Value) -> Value {
    let answer = client.post_json("/v2/router/test", &json!({"topic": topic, "message": message}));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// A number of `/metrics`, by its name and labels as they stand there.
#[track_caller]
pub(crate) fn metric(client: &mut Client, line: &str) -> u64 {
    let text = String::from_utf8(client.get("/metrics").body).unwrap();
    let found = text.lines().find_map(|candidate| candidate.strip_prefix(line)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {line} in {text}")).parse().unwrap()
}
