//! From the produce to the line on an open stream, at a hundred messages per second.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::json;
use tokio::{sync::mpsc, time::timeout};

use super::{
    Plan,
    child::Server,
    figure::{Figure, Must, Report, Unit},
    http::Stream,
    load::Connection,
    progress::Progress,
    setup::{create_topic, data_directory},
    statistics::percentile,
    template::{Template, produce_body},
};
use driftq_api::v1::Item;
use driftq_cli::client::Client;

const TOPIC: &str = "latency";
const GROUP: &str = "bench";
const INTERVAL: Duration = Duration::from_millis(10);
const MUST_MEDIAN_MS: f64 = 0.5;
/// A message that is not there by then is lost, not late.
const PATIENCE: Duration = Duration::from_secs(10);
/// Acks waiting to be sent; at this rate there is never more than one.
const ACKS_MAX: usize = 1024;

pub(super) async fn measure(plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
    progress.expect(2);
    progress.step("end to end at 100 messages per second");
    let data = data_directory(plan)?;
    let server = Server::driftq(&data.path().join("data")).await?;
    let latencies = latencies(plan, server.address).await?;
    let p50 = percentile(&latencies, 0.5);
    report.add(
        Figure::new("end to end at 100/s, p50", p50, Unit::Milliseconds).must(Must::AtMost(MUST_MEDIAN_MS)),
    );
    report.add(Figure::new("end to end at 100/s, p99", percentile(&latencies, 0.99), Unit::Milliseconds));
    progress.step("end to end is done");
    server.kill().await
}

/// Milliseconds from the first byte of each produce to its line on the stream.
async fn latencies(plan: &Plan, address: SocketAddr) -> Result<Vec<f64>> {
    create_topic(address, TOPIC, 1).await?;
    let path = format!("/v1/consume?topic={TOPIC}&group={GROUP}&owner=bench&lease_ms=30000");
    let stream = Stream::open(address, &path).await?;
    let count = usize::try_from(plan.latency_messages).context("too many messages")?;
    let (acks_in, acks_out) = mpsc::channel(ACKS_MAX);
    let (sent, received, ()) = tokio::try_join!(
        produce(address, plan.payload, count),
        receive(stream, count, acks_in),
        acknowledge(address, acks_out),
    )?;
    Ok(sent.iter().zip(&received).map(|(sent, at)| at.duration_since(*sent).as_secs_f64() * 1000.0).collect())
}

async fn produce(address: SocketAddr, payload: usize, count: usize) -> Result<Vec<Instant>> {
    let mut connection = Connection::open(address).await?;
    let mut sent = Vec::with_capacity(count);
    let mut ticks = tokio::time::interval(INTERVAL);
    for number in 0..count {
        let value = format!("{number:0payload$}");
        let mut bytes = Vec::new();
        Template::post(address, "/v1/produce", &produce_body(TOPIC, &value, None)).render(&mut bytes);
        ticks.tick().await;
        sent.push(Instant::now());
        connection.send(&bytes).await?;
        let status = connection.answer().await?.status;
        if status != 200 {
            bail!("a produce was answered with {status}");
        }
    }
    Ok(sent)
}

async fn receive(mut stream: Stream, count: usize, acks: mpsc::Sender<(u32, u64)>) -> Result<Vec<Instant>> {
    let mut received = Vec::with_capacity(count);
    while received.len() < count {
        let line = timeout(PATIENCE, stream.next_line()).await.context("a message did not arrive")??;
        let at = Instant::now();
        let line = line.context("the server ended the stream")?;
        let item: Item<'_> = serde_json::from_slice(&line)?;
        if item.value.parse::<usize>().ok() != Some(received.len()) {
            bail!("message {} arrived in place of {}", item.value, received.len());
        }
        received.push(at);
        acks.send((item.partition, item.offset)).await.context("the acks have ended")?;
    }
    Ok(received)
}

async fn acknowledge(address: SocketAddr, mut acks: mpsc::Receiver<(u32, u64)>) -> Result<()> {
    let mut session = Client::new(&format!("http://{address}"))?.session();
    while let Some((partition, offset)) = acks.recv().await {
        let settle = json!({"topic": TOPIC, "group": GROUP, "partition": partition, "offset": offset, "owner": "bench"});
        session
            .post::<serde::de::IgnoredAny>("/v1/ack", &settle)
            .await
            .map_err(|error| error.into_error())?;
    }
    Ok(())
}
