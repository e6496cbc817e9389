//! The native API under load: messages in batches, leases settled in batches, and whether either gets dearer with much
//! around it.

use std::{cell::Cell, net::SocketAddr, rc::Rc, time::Instant};

use anyhow::{Context, Result, ensure};
use driftq_api::v2::{Ack, Token};
use tempfile::TempDir;
use tokio::task::LocalSet;

use super::{
    Plan,
    child::Server,
    figure::{Figure, Must, Report, Unit},
    load::{self, Connection, Length, Load},
    progress::Progress,
    setup::data_directory,
    statistics::{median, ratio},
    template::Template,
};
use driftq_api::shown::grouped;

const TOPIC: &str = "native";
const GROUP: &str = "bench";
/// Messages of one batch, and of one lease.
pub(super) const BATCH: usize = 100;
pub(super) const CONNECTIONS: usize = 16;
/// What the anchors ask for, in messages per second, everything durable.
const MUST_BATCHED: f64 = 500_000.0;
const MUST_CONSUMED: f64 = 250_000.0;
/// What counts as flat: run-to-run noise on a quiet machine is about a tenth.
const MUST_FLAT_RATIO: f64 = 1.2;
const KEYS_FEW: usize = 1_000;
const KEYS_MANY: usize = 10_000;

pub(super) async fn measure(plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
    progress.expect(plan.rounds * 4 + 1);
    progress.step("starting servers");
    let bare = Server::bare().await?;
    let side = Side::new(plan, "{}").await?;
    let (mut batched, mut bare_batched) = (Vec::new(), Vec::new());
    let (mut consumed, mut bare_consumed) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        progress.step("batches, bare hyper");
        bare_batched.push(batches(plan, bare.address, TOPIC).await?);
        progress.step("batches, driftq");
        batched.push(batches(plan, side.server.address, TOPIC).await?);
    }
    side.post(&format!("/v2/topics/{TOPIC}/groups/{GROUP}/lease"), LEASE_ONE).await?;
    for _ in 0..plan.rounds {
        progress.step("leases and acks, bare hyper");
        bare_consumed.push(settle_rate(plan, bare.address).await?);
        progress.step("leases and acks, driftq");
        side.seek("latest").await?;
        fill(side.server.address, plan.payload, plan.consume_messages, "").await?;
        consumed.push(side.consume(plan.consume_messages).await?);
    }
    let beside = |rates: &[f64], peers: &[f64], name: &str, peer: &str, least: f64| {
        let figure = Figure::new(name, median(rates), Unit::PerSecond);
        figure.beside(peer, median(peers), ratio(rates, peers)).must(Must::AtLeast(least))
    };
    let name = format!("produce, NDJSON batches of {BATCH}, {CONNECTIONS} connections");
    report.add(beside(&batched, &bare_batched, &name, "bare hyper, the same bodies", MUST_BATCHED));
    let name = format!("lease {BATCH} + ack {BATCH}, {CONNECTIONS} connections");
    let peer = "bare hyper, as many requests";
    report.add(beside(&consumed, &bare_consumed, &name, peer, MUST_CONSUMED));
    bare.kill().await?;
    side.end().await
}

/// What a message costs from produce to ack, with much around it and with little.
pub(super) async fn measure_flat(plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
    progress.expect(3 * (1 + plan.rounds));
    let many = grouped(plan.retained);
    progress.step(&format!("scheduling {many} messages"));
    let (few, lots) = (Side::new(plan, "{}").await?, Side::new(plan, "{}").await?);
    fill(lots.server.address, plan.payload, plan.retained, r#","delay_ms":86400000"#).await?;
    compare(plan, progress, report, (few, lots), ("none scheduled", &format!("{many} scheduled")), 0).await?;

    progress.step(&format!("keeping {many} messages for another group"));
    let (few, lots) = (Side::new(plan, "{}").await?, Side::new(plan, "{}").await?);
    fill(lots.server.address, plan.payload, plan.retained, "").await?;
    for side in [&few, &lots] {
        // Owes everything and reads nothing.
        side.post(&format!("/v2/topics/{TOPIC}/groups/idle/lease"), LEASE_ONE).await?;
    }
    compare(plan, progress, report, (few, lots), ("none kept", &format!("{many} kept")), 0).await?;

    let ordered = r#"{"ordering":"key"}"#;
    progress.step("topics that keep the order of keys");
    let (few, lots) = (Side::new(plan, ordered).await?, Side::new(plan, ordered).await?);
    let names =
        (&*format!("{} keys", grouped(KEYS_FEW as u64)), &*format!("{} keys", grouped(KEYS_MANY as u64)));
    compare(plan, progress, report, (few, lots), names, KEYS_MANY).await
}

async fn compare(
    plan: &Plan,
    progress: &Progress,
    report: &mut Report,
    (small, large): (Side, Side),
    (small_name, large_name): (&str, &str),
    keys: usize,
) -> Result<()> {
    let (mut smalls, mut larges) = (Vec::new(), Vec::new());
    for side in [&small, &large] {
        side.post(&format!("/v2/topics/{TOPIC}/groups/{GROUP}/lease"), LEASE_ONE).await?;
        side.seek("latest").await?;
    }
    for _ in 0..plan.rounds {
        progress.step(&format!("{small_name} against {large_name}"));
        smalls.push(small.through(plan, keys.min(KEYS_FEW)).await?);
        larges.push(large.through(plan, keys).await?);
    }
    let name = format!("processor time per message, produce to ack, {large_name}");
    let beside = format!("driftq, {small_name}");
    let figure = Figure::new(name, median(&larges), Unit::Microseconds);
    let figure = figure.beside(beside, median(&smalls), ratio(&larges, &smalls));
    report.add(figure.must(Must::RatioAtMost(MUST_FLAT_RATIO)));
    small.end().await?;
    large.end().await
}

const LEASE_ONE: &str = r#"{"owner":"bench","max":1,"lease_ms":1}"#;

/// A server with a topic.
struct Side {
    server: Server,
    /// Removed with the server.
    _data: TempDir,
}

impl Side {
    async fn new(plan: &Plan, topic: &str) -> Result<Self> {
        let data = data_directory(plan)?;
        let server = Server::driftq(&data.path().join("data")).await?;
        let side = Self { server, _data: data };
        side.send("PUT", &format!("/v2/topics/{TOPIC}"), topic).await?;
        Ok(side)
    }

    async fn post(&self, path: &str, body: &str) -> Result<Vec<u8>> {
        self.send("POST", path, body).await
    }

    async fn send(&self, method: &str, path: &str, body: &str) -> Result<Vec<u8>> {
        let mut connection = Connection::open(self.server.address).await?;
        let mut out = Vec::new();
        Template::request(self.server.address, method, path, JSON, body).render(&mut out);
        connection.send(&out).await?;
        let (status, body) = connection.answer_body().await?;
        ensure!((200..300).contains(&status), "{path}: {status} {}", String::from_utf8_lossy(&body));
        Ok(body)
    }

    /// The group goes on at the end: what was there before is not its business.
    async fn seek(&self, to: &str) -> Result<()> {
        let path = format!("/v2/topics/{TOPIC}/groups/{GROUP}/seek");
        self.post(&path, &format!(r#"{{"to":"{to}"}}"#)).await.map(drop)
    }

    /// Leases and acks this many messages; messages per second.
    async fn consume(&self, messages: u64) -> Result<f64> {
        let left = Rc::new(Cell::new(messages));
        let address = self.server.address;
        let started = Instant::now();
        let local = LocalSet::new();
        let work = |_| local.spawn_local(work(address, Rc::clone(&left)));
        let tasks: Vec<_> = (0..CONNECTIONS).map(work).collect();
        let done = local.run_until(async {
            let mut done = 0;
            for task in tasks {
                done += task.await.context("a worker's task")??;
            }
            Ok::<u64, anyhow::Error>(done)
        });
        Ok(done.await? as f64 / started.elapsed().as_secs_f64())
    }

    /// Messages go all the way through; the server's processor time per message, in microseconds.
    async fn through(&self, plan: &Plan, keys: usize) -> Result<f64> {
        let before = self.server.cpu_seconds().context("no processor time here: this part needs Linux")?;
        let bodies = if keys == 0 { vec![lines(plan.payload, "")] } else { keyed_bodies(plan.payload, keys) };
        let done = through(self.server.address, TOPIC, bodies, plan.consume_messages / 2).await?;
        let after = self.server.cpu_seconds().context("no processor time here: this part needs Linux")?;
        Ok((after - before) * 1e6 / done as f64)
    }

    async fn end(self) -> Result<()> {
        self.server.kill().await
    }
}

const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";

/// A batch of equal messages; `more` goes into each.
fn lines(payload: usize, more: &str) -> String {
    let value = "x".repeat(payload);
    format!("{{\"value\":\"{value}\"{more}}}\n").repeat(BATCH)
}

/// Batches that go through the keys in turn.
fn keyed_bodies(payload: usize, keys: usize) -> Vec<String> {
    let value = "x".repeat(payload);
    let body = |batch: usize| {
        let line =
            |place: usize| format!("{{\"key\":\"k{}\",\"value\":\"{value}\"}}\n", batch * BATCH + place);
        (0..BATCH).map(line).collect()
    };
    (0..keys / BATCH).map(body).collect()
}

fn messages_path(topic: &str) -> String {
    format!("/v2/topics/{topic}/messages")
}

/// Batches as fast as they go; messages per second.
pub(super) async fn batches(plan: &Plan, address: SocketAddr, topic: &str) -> Result<f64> {
    let template = Template::request(address, "POST", &messages_path(topic), LINES, &lines(plan.payload, ""));
    let load = Load {
        address,
        connections: CONNECTIONS,
        pipeline: 1,
        templates: vec![template],
        length: plan.length,
    };
    Ok(load::run(load).await?.rate() * BATCH as f64)
}

async fn fill(address: SocketAddr, payload: usize, messages: u64, more: &str) -> Result<()> {
    let template = Template::request(address, "POST", &messages_path(TOPIC), LINES, &lines(payload, more));
    let length = Length::Requests(messages / BATCH as u64);
    let load = Load { address, connections: CONNECTIONS, pipeline: 1, templates: vec![template], length };
    load::run(load).await.with_context(|| format!("producing {messages} messages")).map(drop)
}

/// Two requests per batch against a server that does nothing with them.
async fn settle_rate(plan: &Plan, address: SocketAddr) -> Result<f64> {
    let tokens = vec![Token { token: "x".repeat(64).into() }; BATCH];
    let ack = serde_json::to_string(&Ack { leases: tokens })?;
    let templates = vec![
        Template::request(address, "POST", "/lease", JSON, LEASE),
        Template::request(address, "POST", "/ack", JSON, &ack),
    ];
    let load = Load { address, connections: CONNECTIONS, pipeline: 1, templates, length: plan.length };
    Ok(load::run(load).await?.rate() / 2.0 * BATCH as f64)
}

const LEASE: &str = r#"{"owner":"bench","max":100,"wait_ms":5000,"lease_ms":60000}"#;

/// Leases and acks until everything is done.
async fn work(address: SocketAddr, left: Rc<Cell<u64>>) -> Result<u64> {
    let mut connection = Connection::open(address).await?;
    let mut done = 0;
    while left.get() > 0 {
        // Taken before the answer is there, so that no worker waits for messages that another one will get.
        left.set(left.get().saturating_sub(BATCH as u64));
        let got = lease_and_ack(address, &mut connection, (TOPIC, LEASE)).await?;
        ensure!(got > 0, "nothing was left to lease, with {} messages to go", left.get());
        left.set(left.get() + (BATCH as u64).saturating_sub(got));
        done += got;
    }
    Ok(done)
}

/// At least so many messages go all the way through, in batches; how many it were.
async fn through(address: SocketAddr, topic: &str, bodies: Vec<String>, messages: u64) -> Result<u64> {
    let (bodies, local) = (Rc::new(bodies), LocalSet::new());
    let share = messages / CONNECTIONS as u64;
    let pass = |number| pass((address, topic.to_owned()), Rc::clone(&bodies), number, share);
    let tasks: Vec<_> = (0..CONNECTIONS).map(|number| local.spawn_local(pass(number))).collect();
    local
        .run_until(async {
            let mut done = 0;
            for task in tasks {
                done += task.await.context("a worker's task")??;
            }
            Ok(done)
        })
        .await
}

/// Batches that are produced, leased and acked as fast as they go; messages per second.
pub(super) async fn batches_through(plan: &Plan, address: SocketAddr, topic: &str) -> Result<f64> {
    let started = Instant::now();
    let bodies = vec![lines(plan.payload, "")];
    let done = through(address, topic, bodies, plan.consume_messages / 2).await?;
    Ok(done as f64 / started.elapsed().as_secs_f64())
}

/// Produces a batch, then leases and acks as much, until its share is done.
async fn pass(
    (address, topic): (SocketAddr, String),
    bodies: Rc<Vec<String>>,
    number: usize,
    share: u64,
) -> Result<u64> {
    let mut connection = Connection::open(address).await?;
    let (mut done, mut turn, mut out) = (0, number, Vec::new());
    while done < share {
        out.clear();
        let body = &bodies[turn % bodies.len()];
        turn += CONNECTIONS;
        Template::request(address, "POST", &messages_path(&topic), LINES, body).render(&mut out);
        connection.send(&out).await?;
        let status = connection.answer().await?.status;
        ensure!(status == 200, "a batch was answered with {status}");
        done += lease_and_ack(address, &mut connection, (&topic, LEASE)).await?;
    }
    Ok(done)
}

/// Asks once for messages of a topic, and acks what came; how many.
pub(super) async fn lease_and_ack(
    address: SocketAddr,
    connection: &mut Connection,
    (topic, lease): (&str, &str),
) -> Result<u64> {
    let mut out = Vec::new();
    let path = format!("/v2/topics/{topic}/groups/{GROUP}/lease");
    Template::request(address, "POST", &path, JSON, lease).render(&mut out);
    connection.send(&out).await?;
    let (status, body) = connection.answer_body().await?;
    ensure!(status == 200, "a lease was answered with {status}: {}", String::from_utf8_lossy(&body));
    let tokens = tokens(&body);
    if tokens.is_empty() {
        return Ok(0);
    }
    let mut ack = String::with_capacity(tokens.len() * 80 + 16);
    ack.push_str(r#"{"leases":["#);
    for (place, token) in tokens.iter().enumerate() {
        ack.push_str(if place == 0 { r#"{"token":""# } else { r#",{"token":""# });
        ack.push_str(token);
        ack.push_str(r#""}"#);
    }
    ack.push_str("]}");
    out.clear();
    Template::request(address, "POST", "/v2/leases/ack", JSON, &ack).render(&mut out);
    connection.send(&out).await?;
    let (status, body) = connection.answer_body().await?;
    let settled = body.windows(4).filter(|window| window == b"\"ok\"").count();
    ensure!(status == 200 && settled == tokens.len(), "acks: {status} {}", String::from_utf8_lossy(&body));
    Ok(tokens.len() as u64)
}

/// The tokens of a lease's answer. Not parsed: the load must cost as little as it can.
pub(super) fn tokens(body: &[u8]) -> Vec<&str> {
    const MARK: &[u8] = br#""token":""#;
    let (mut tokens, mut rest) = (Vec::new(), body);
    while let Some(at) = rest.windows(MARK.len()).position(|window| window == MARK) {
        rest = &rest[at + MARK.len()..];
        let end = rest.iter().position(|byte| *byte == b'"').unwrap_or(rest.len());
        tokens.extend(std::str::from_utf8(&rest[..end]));
        rest = &rest[end..];
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_without_parsing() {
        let body = br#"{"messages":[{"lease":{"token":"ab","attempt":1}},{"lease":{"token":"cd"}}]}"#;
        assert_eq!(tokens(body), ["ab", "cd"]);
        assert!(tokens(br#"{"messages":[]}"#).is_empty());
    }

    #[test]
    fn every_key_has_its_turn() {
        let bodies = keyed_bodies(3, 1_000);
        assert_eq!(bodies.len(), 10);
        assert!(bodies[9].ends_with("{\"key\":\"k999\",\"value\":\"xxx\"}\n"));
    }
}
