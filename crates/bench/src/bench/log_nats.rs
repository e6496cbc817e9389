//! Batches that a log in NATS JetStream takes, beside publishes of the same size to a stream of the same kind: both synced
//! by the servers before they are acknowledged, and one in flight.

use std::{net::SocketAddr, time::Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{
    Plan,
    child::Server,
    figure::{Figure, Must, Report, Unit},
    ledger::length,
    load::{self, Load},
    nats::{Nats, Place},
    progress::Progress,
    scrape::counter,
    setup::{TOPIC, create_topic, data_directory},
    statistics::{median, ratio},
    template::Template,
};

/// What batches must reach of publishes.
const MUST_RATIO: f64 = 0.8;
/// Both are removed before and after.
const LOG: &str = "driftq_bench_log";
const STREAM: &str = "driftq_bench_publish";
/// Replicas of a stream where the servers form a cluster, as the log has.
const REPLICAS: u64 = 3;

pub(super) async fn measure(plan: &Plan, progress: &Progress, report: &mut Report, url: &str) -> Result<()> {
    let place = Place::of(url)?;
    let mut nats = Nats::connect(&place).await?;
    clear(&mut nats).await;
    let result = rounds(plan, progress, report, (&place, &mut nats)).await;
    // Also after a failure; what was measured matters more than whether this works.
    clear(&mut nats).await;
    result
}

/// One that is not there cannot be removed, and need not.
async fn clear(nats: &mut Nats) {
    for stream in [LOG, &format!("{LOG}_snapshots"), STREAM] {
        drop(nats.ask(&format!("$JS.API.STREAM.DELETE.{stream}"), b"").await);
    }
}

async fn rounds(
    plan: &Plan,
    progress: &Progress,
    report: &mut Report,
    (place, nats): (&Place<'_>, &mut Nats),
) -> Result<()> {
    progress.expect(plan.rounds * plan.connections.len() * 2 + 1);
    progress.step("starting a server");
    let data = data_directory(plan)?;
    let log = place.named(LOG);
    let server = Server::driftq_with(&data.path().join("none"), &["--log", &log]).await?;
    create_topic(server.address, TOPIC, 1).await?;
    let made = nats.ask(&format!("$JS.API.STREAM.INFO.{LOG}"), b"").await.context("the stream of the log")?;
    let replicas = made.pointer("/config/num_replicas").cloned().unwrap_or_else(|| REPLICAS.into());
    let stream = json!({"name": STREAM, "subjects": [STREAM], "storage": "file", "num_replicas": replicas});
    let stream = serde_json::to_vec(&stream)?;
    nats.ask(&format!("$JS.API.STREAM.CREATE.{STREAM}"), &stream).await.context("making a stream")?;
    for connections in plan.connections.iter().copied() {
        let (mut ours, mut rates, mut bare, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..plan.rounds {
            progress.step("produce, log in NATS");
            let round = batches(plan, server.address, connections).await?;
            progress.step("publishes of the same size");
            bare.push(publishes(plan, nats, round.bytes).await?);
            ours.push(round.batches);
            rates.push(round.messages);
            bytes.push(round.bytes as f64);
        }
        let name = format!("batches to a log in NATS, {connections} connection(s)");
        let peer = format!("publishes of {:.0} bytes, one in flight", median(&bytes));
        let figure = Figure::new(name, median(&ours), Unit::PerSecond);
        let figure = figure.beside(peer, median(&bare), ratio(&ours, &bare));
        report.add(figure.must(Must::RatioAtLeast(MUST_RATIO)));
        let name = format!("produce, log in NATS, {connections} connection(s)");
        report.add(Figure::new(name, median(&rates), Unit::PerSecond));
    }
    server.kill().await
}

/// One round of ours.
struct Round {
    /// Per second.
    messages: f64,
    batches: f64,
    /// Of one batch.
    bytes: usize,
}

async fn batches(plan: &Plan, address: SocketAddr, connections: usize) -> Result<Round> {
    let counts = || async {
        let batches = counter(address, "driftq_log_batches_total").await?;
        anyhow::Ok((batches, counter(address, "driftq_log_written_bytes_total").await?))
    };
    let before = counts().await?;
    let templates = vec![Template::produce(address, TOPIC, plan.payload)];
    let done = load::run(Load { address, connections, pipeline: 1, templates, length: plan.length }).await?;
    let after = counts().await?;
    let batches = after.0 - before.0;
    ensure!(batches > 0.0, "a round without a batch");
    let bytes = (after.1 - before.1) / batches;
    Ok(Round { messages: done.rate(), batches: batches / done.seconds, bytes: bytes.round() as usize })
}

/// Publishes of so many bytes, each acknowledged before the next; per second.
async fn publishes(plan: &Plan, nats: &mut Nats, bytes: usize) -> Result<f64> {
    let body = vec![b'x'; bytes];
    let (started, until) = (Instant::now(), length(plan));
    let mut done = 0_u32;
    while started.elapsed() < until {
        nats.ask(STREAM, &body).await?;
        done += 1;
    }
    Ok(f64::from(done) / started.elapsed().as_secs_f64())
}
