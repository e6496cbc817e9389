//! Produce rates beside the bare server's, syncs per request, and memory when idle.

use std::{net::SocketAddr, time::Duration};

use anyhow::Result;

use super::{
    Plan,
    child::Server,
    disk,
    figure::{Figure, Must, Report, Unit},
    load::{self, Load},
    progress::Progress,
    scrape,
    setup::{TOPIC, create_topic, data_directory},
    statistics::{median, ratio},
    template::Template,
};

/// Requests in flight per connection where the API is pipelined.
const PIPELINE: usize = 16;
const PIPELINE_CONNECTIONS: usize = 64;
const PROBE_LENGTH: Duration = Duration::from_millis(300);

/// What the anchors ask for, by number of connections.
const MUST_RATIO: [(usize, f64); 2] = [(1, 0.20), (64, 0.60)];
const MUST_KEYED_CONNECTIONS: usize = 64;
const MUST_KEYED_RATIO: f64 = 0.9;
const MUST_SYNCS_PER_REQUEST: f64 = 0.15;
const MUST_IDLE_BYTES: f64 = 20.0 * 1024.0 * 1024.0;

/// Rates of one kind of round, for ourselves and for the peer.
#[derive(Default)]
struct Pair {
    ours: Vec<f64>,
    peer: Vec<f64>,
}

/// All rounds on one number of connections.
#[derive(Default)]
struct Row {
    connections: usize,
    plain: Pair,
    keyed: Vec<f64>,
    syncs_per_request: Vec<f64>,
}

pub(super) async fn measure(plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
    progress.expect(plan.rounds * (3 * plan.connections.len() + 3) + 1);
    progress.step("starting servers");
    let data = data_directory(plan)?;
    let bare = Server::bare().await?;
    let ours = Server::driftq(&data.path().join("data")).await?;
    if let Some(bytes) = ours.resident_bytes() {
        let figure = Figure::new("memory, idle", bytes as f64, Unit::Bytes);
        let figure = match bare.resident_bytes() {
            Some(peer) => figure.beside("bare hyper", peer as f64, bytes as f64 / peer as f64),
            None => figure,
        };
        report.add(figure.must(Must::AtMost(MUST_IDLE_BYTES)));
    }
    create_topic(ours.address, TOPIC, 1).await?;
    let mut rows: Vec<Row> =
        plan.connections.iter().map(|&connections| Row { connections, ..Row::default() }).collect();
    let mut pipelined = Pair::default();
    let mut syncs = Vec::new();
    for _ in 0..plan.rounds {
        progress.step("the disk's own sync rate");
        syncs.push(disk::syncs_per_second(data.path(), PROBE_LENGTH)?);
        for row in &mut rows {
            row.round(plan, progress, bare.address, ours.address).await?;
        }
        progress.step("pipelined, bare hyper");
        pipelined.peer.push(rate(plan, bare.address, PIPELINE_CONNECTIONS, PIPELINE, false).await?);
        progress.step("pipelined, driftq");
        pipelined.ours.push(rate(plan, ours.address, PIPELINE_CONNECTIONS, PIPELINE, false).await?);
    }
    report.add(Figure::new("disk: fdatasync of 4 KiB, pre-zeroed", median(&syncs), Unit::PerSecond));
    for row in &rows {
        row.figures(report, &syncs);
    }
    let name = format!("produce, {PIPELINE_CONNECTIONS} connections × {PIPELINE} pipelined");
    report.add(Figure::new(name, median(&pipelined.ours), Unit::PerSecond).beside(
        "bare hyper, the same",
        median(&pipelined.peer),
        ratio(&pipelined.ours, &pipelined.peer),
    ));
    bare.kill().await?;
    ours.kill().await
}

impl Row {
    async fn round(
        &mut self,
        plan: &Plan,
        progress: &Progress,
        bare: SocketAddr,
        ours: SocketAddr,
    ) -> Result<()> {
        let connections = self.connections;
        progress.step(&format!("{connections} connection(s), bare hyper"));
        self.plain.peer.push(rate(plan, bare, connections, 1, false).await?);
        progress.step(&format!("{connections} connection(s), driftq"));
        let before = scrape::syncs(ours).await?;
        let done = round(plan, ours, connections, 1, false).await?;
        let after = scrape::syncs(ours).await?;
        self.plain.ours.push(done.rate());
        self.syncs_per_request.push((after - before) / done.requests as f64);
        progress.step(&format!("{connections} connection(s), driftq, unique keys"));
        self.keyed.push(rate(plan, ours, connections, 1, true).await?);
        Ok(())
    }

    fn figures(&self, report: &mut Report, disk: &[f64]) {
        let connections = self.connections;
        let words =
            if connections == 1 { "1 connection".to_owned() } else { format!("{connections} connections") };
        let plain = Figure::new(format!("produce, {words}"), median(&self.plain.ours), Unit::PerSecond)
            .beside(
                format!("bare hyper, {words}"),
                median(&self.plain.peer),
                ratio(&self.plain.ours, &self.plain.peer),
            );
        let must = MUST_RATIO.iter().find(|(count, _)| *count == connections);
        report.add(match must {
            Some((_, least)) => plain.must(Must::RatioAtLeast(*least)),
            None => plain,
        });
        if connections == 1 {
            // One connection waits for one sync each: the disk is the second wall here.
            let beside = Figure::new("produce, 1 connection", median(&self.plain.ours), Unit::PerSecond);
            report.add(beside.beside("disk, fdatasync", median(disk), ratio(&self.plain.ours, disk)));
        }
        let keyed =
            Figure::new(format!("produce, {words}, unique keys"), median(&self.keyed), Unit::PerSecond)
                .beside("driftq, no keys", median(&self.plain.ours), ratio(&self.keyed, &self.plain.ours));
        let syncs = Figure::new(
            format!("syncs per request, {words}"),
            median(&self.syncs_per_request),
            Unit::PerRequest,
        );
        if connections == MUST_KEYED_CONNECTIONS {
            report.add(keyed.must(Must::RatioAtLeast(MUST_KEYED_RATIO)));
            report.add(syncs.must(Must::AtMost(MUST_SYNCS_PER_REQUEST)));
        } else {
            report.add(keyed);
            report.add(syncs);
        }
    }
}

async fn round(
    plan: &Plan,
    address: SocketAddr,
    connections: usize,
    pipeline: usize,
    keyed: bool,
) -> Result<load::Done> {
    let render = if keyed { Template::produce_keyed } else { Template::produce };
    let templates = vec![render(address, TOPIC, plan.payload)];
    load::run(Load { address, connections, pipeline, templates, length: plan.length }).await
}

async fn rate(
    plan: &Plan,
    address: SocketAddr,
    connections: usize,
    pipeline: usize,
    keyed: bool,
) -> Result<f64> {
    Ok(round(plan, address, connections, pipeline, keyed).await?.rate())
}
