//! How fast a group reads and acks, one ack per request as `/v1` has it.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use anyhow::{Context, Result};
use driftq_api::v1::Item;
use serde_json::json;
use tokio::{
    sync::{Mutex, mpsc},
    task::JoinSet,
};

use super::{
    Plan,
    child::Server,
    figure::{Figure, Report, Unit},
    http::Stream,
    load::{self, Connection, Load},
    progress::Progress,
    setup::{create_topic, data_directory},
    template::{Template, produce_body},
};

const TOPIC: &str = "consume";
const GROUP: &str = "bench";
/// Enough lanes that two unacked messages in each keep every ack connection busy.
const PARTITIONS: u32 = 64;
const STREAMS: usize = 4;
const ACK_CONNECTIONS: usize = 64;
/// Received and not yet acked; bounded by the server's own limit anyway.
const QUEUE_MAX: usize = 4096;

pub(super) async fn measure(plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
    progress.expect(2);
    progress.step("filling a topic to read");
    let data = data_directory(plan)?;
    let bare = Server::bare().await?;
    let ours = Server::driftq(&data.path().join("data")).await?;
    fill(plan, ours.address).await?;
    progress.step("consume and ack");
    let peer = bare_rate(plan, bare.address).await?;
    let rate = drain(ours.address, plan.consume_messages).await?;
    // Each message costs one request, its ack; the stream's line comes on top.
    let name = format!("consume + ack, {ACK_CONNECTIONS} ack connections");
    report.add(Figure::new(name, rate, Unit::PerSecond).beside(
        format!("bare hyper, {ACK_CONNECTIONS} connections"),
        peer,
        rate / peer,
    ));
    report.notes.push(
        "consume + ack has no bound of its own here: it is set for batched, fenced acks, which /v1 lacks"
            .to_owned(),
    );
    bare.kill().await?;
    ours.kill().await
}

async fn fill(plan: &Plan, address: SocketAddr) -> Result<()> {
    create_topic(address, TOPIC, PARTITIONS).await?;
    let value = "x".repeat(plan.payload);
    let templates = (0..PARTITIONS).map(|number| {
        // A key's hash would leave some lanes empty.
        let envelope = json!({"partition_override": number});
        Template::post(address, "/v1/produce", &produce_body(TOPIC, &value, Some(envelope)))
    });
    let templates = templates.collect();
    let length = load::Length::Requests(plan.consume_messages);
    load::run(Load { address, connections: 32, pipeline: 16, templates, length }).await.map(drop)
}

async fn bare_rate(plan: &Plan, address: SocketAddr) -> Result<f64> {
    let templates = vec![Template::post(address, "/v1/ack", &ack_body(0, 0))];
    let load = Load { address, connections: ACK_CONNECTIONS, pipeline: 1, templates, length: plan.length };
    Ok(load::run(load).await?.rate())
}

fn ack_body(partition: u32, offset: u64) -> String {
    format!(
        r#"{{"topic":"{TOPIC}","group":"{GROUP}","partition":{partition},"offset":{offset},"owner":"bench"}}"#
    )
}

/// Reads and acks everything; messages per second.
async fn drain(address: SocketAddr, messages: u64) -> Result<f64> {
    let (queue_in, queue_out) = mpsc::channel::<(u32, u64)>(QUEUE_MAX);
    let queue_out = Arc::new(Mutex::new(queue_out));
    let started = Instant::now();
    let mut readers = JoinSet::new();
    for _ in 0..STREAMS {
        readers.spawn(read(address, queue_in.clone()));
    }
    drop(queue_in);
    let (done_in, mut done_out) = mpsc::channel::<()>(QUEUE_MAX);
    let mut ackers = JoinSet::new();
    for _ in 0..ACK_CONNECTIONS {
        ackers.spawn(acknowledge(address, queue_out.clone(), done_in.clone()));
    }
    drop(done_in);
    for _ in 0..messages {
        tokio::select! {
            done = done_out.recv() => done.context("all ack connections ended")?,
            Some(ended) = readers.join_next() => ended.context("a reader's task")??,
            Some(ended) = ackers.join_next() => ended.context("an acker's task")??,
        }
    }
    Ok(messages as f64 / started.elapsed().as_secs_f64())
}

async fn read(address: SocketAddr, queue: mpsc::Sender<(u32, u64)>) -> Result<()> {
    let path = format!("/v1/consume?topic={TOPIC}&group={GROUP}&owner=bench&lease_ms=60000");
    let mut stream = Stream::open(address, &path).await?;
    while let Some(line) = stream.next_line().await? {
        let item: Item<'_> = serde_json::from_slice(&line)?;
        if queue.send((item.partition, item.offset)).await.is_err() {
            break;
        }
    }
    Ok(())
}

async fn acknowledge(
    address: SocketAddr,
    queue: Arc<Mutex<mpsc::Receiver<(u32, u64)>>>,
    done: mpsc::Sender<()>,
) -> Result<()> {
    let mut connection = Connection::open(address).await?;
    let mut bytes = Vec::new();
    loop {
        let Some((partition, offset)) = queue.lock().await.recv().await else { return Ok(()) };
        bytes.clear();
        Template::post(address, "/v1/ack", &ack_body(partition, offset)).render(&mut bytes);
        connection.send(&bytes).await?;
        let status = connection.answer().await?.status;
        anyhow::ensure!(status == 204, "an ack was answered with {status}");
        if done.send(()).await.is_err() {
            return Ok(());
        }
    }
}
