//! What traces cost: produce on many connections while one message of a hundred is traced, beside ourselves without.

use anyhow::Result;

use super::{
    Plan,
    child::Server,
    figure::{Figure, Must, Report, Unit},
    load::{self, Load},
    progress::Progress,
    setup::{TOPIC, create_topic, data_directory},
    statistics::{median, ratio},
    template::Template,
};

const CONNECTIONS: usize = 64;
/// Of the messages.
const SHARE: &str = "0.01";
const MUST_RATIO: f64 = 0.97;

pub(super) async fn measure(plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
    progress.expect(plan.rounds * 2 + 1);
    progress.step("starting servers");
    let data = data_directory(plan)?;
    // The collector takes whatever comes.
    let collector = Server::bare().await?;
    let endpoint = format!("http://{}", collector.address);
    let options = ["--otlp-endpoint", endpoint.as_str(), "--trace-sample", SHARE];
    let without = Server::driftq(&data.path().join("without")).await?;
    let with = Server::driftq_with(&data.path().join("with"), &options).await?;
    for server in [&without, &with] {
        create_topic(server.address, TOPIC, 1).await?;
    }
    let (mut own, mut peer) = (Vec::new(), Vec::new());
    for round in 0..plan.rounds {
        let mut sides = [("without traces", &without, &mut peer), ("with traces", &with, &mut own)];
        // Whoever comes second may find the machine warmer.
        if round % 2 == 1 {
            sides.reverse();
        }
        for (name, server, rates) in sides {
            progress.step(&format!("produce {name}"));
            rates.push(produce(plan, server).await?);
        }
    }
    let name = format!("produce with traces of {SHARE} of the messages, {CONNECTIONS} connections");
    let figure = Figure::new(name, median(&own), Unit::PerSecond);
    let beside = figure.beside("driftq without traces", median(&peer), ratio(&own, &peer));
    report.add(beside.must(Must::RatioAtLeast(MUST_RATIO)));
    collector.kill().await?;
    without.kill().await?;
    with.kill().await
}

async fn produce(plan: &Plan, server: &Server) -> Result<f64> {
    let address = server.address;
    let body = format!("{{\"value\":\"{}\"}}", "x".repeat(plan.payload));
    let templates = vec![Template::post(address, &format!("/v2/topics/{TOPIC}/messages"), &body)];
    let load = Load { address, connections: CONNECTIONS, pipeline: 1, templates, length: plan.length };
    Ok(load::run(load).await?.rate())
}
