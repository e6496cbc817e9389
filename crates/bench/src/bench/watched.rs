//! What being watched costs: produce on many connections while messages are traced or a dashboard is open, beside
//! ourselves without.

use std::{
    convert::Infallible,
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::{
    Plan,
    child::Server,
    figure::{Figure, Must, Report, Unit},
    http::{self, Stream},
    load::{self, Load},
    progress::Progress,
    setup::{TOPIC, create_topic, data_directory},
    statistics::{median, ratio},
    template::Template,
};

const CONNECTIONS: usize = 64;
/// Of the messages.
#[cfg(feature = "otlp")]
const SHARE: &str = "0.01";
#[cfg(feature = "otlp")]
const TRACED_MUST: f64 = 0.97;
const DASHBOARD_MUST: f64 = 0.98;
/// What the first page of the dashboard loads anew when something has changed, and how long it waits in between.
const LOADED: [&str; 2] = ["/v2/report", "/v2/status"];
const PAUSE: Duration = Duration::from_millis(1_500);

/// While one message of a hundred is traced.
#[cfg(feature = "otlp")]
pub(super) async fn traces(plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
    let data = data_directory(plan)?;
    // The collector takes whatever comes.
    let collector = Server::bare().await?;
    let endpoint = format!("http://{}", collector.address);
    let options = ["--otlp-endpoint", endpoint.as_str(), "--trace-sample", SHARE];
    let with = Server::driftq_with(&data.path().join("with"), &options).await?;
    let without = Server::driftq(&data.path().join("without")).await?;
    let (own, peer) = compare(plan, progress, [&without, &with], None).await?;
    let name = format!("produce with traces of {SHARE} of the messages, {CONNECTIONS} connections");
    let figure = Figure::new(name, median(&own), Unit::PerSecond);
    let beside = figure.beside("driftq without traces", median(&peer), ratio(&own, &peer));
    report.add(beside.must(Must::RatioAtLeast(TRACED_MUST)));
    collector.kill().await?;
    without.kill().await?;
    with.kill().await
}

/// While the first page of the dashboard is open. The browser that would draw it is on another machine.
pub(super) async fn dashboard(plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
    let data = data_directory(plan)?;
    let server = Server::driftq(&data.path().join("watched")).await?;
    let (own, peer) = compare(plan, progress, [&server, &server], Some(server.address)).await?;
    let name = format!("produce while a dashboard is open, {CONNECTIONS} connections");
    let figure = Figure::new(name, median(&own), Unit::PerSecond);
    let beside = figure.beside("driftq without one", median(&peer), ratio(&own, &peer));
    report.add(beside.must(Must::RatioAtLeast(DASHBOARD_MUST)));
    server.kill().await
}

/// The rates of the second server and of the first, in turns; `opened` is watched while the second has its turn.
async fn compare(
    plan: &Plan,
    progress: &Progress,
    [plain, watched]: [&Server; 2],
    opened: Option<SocketAddr>,
) -> Result<(Vec<f64>, Vec<f64>)> {
    progress.expect(plan.rounds * 2);
    create_topic(plain.address, TOPIC, 1).await?;
    if plain.address != watched.address {
        create_topic(watched.address, TOPIC, 1).await?;
    }
    let (mut own, mut peer) = (Vec::new(), Vec::new());
    for round in 0..plan.rounds {
        // Whoever comes second may find the machine warmer.
        for is_watched in [round % 2 == 1, round % 2 == 0] {
            progress.step(if is_watched { "produce, watched" } else { "produce, unwatched" });
            if !is_watched {
                peer.push(produce(plan, plain).await?);
                continue;
            }
            let produced = produce(plan, watched);
            own.push(match opened {
                None => produced.await?,
                Some(address) => tokio::select! {
                    rate = produced => rate?,
                    Err(error) = look(address) => return Err(error.context("looking at the dashboard")),
                },
            });
        }
    }
    Ok((own, peer))
}

/// What an open page asks for, until it is dropped.
async fn look(address: SocketAddr) -> Result<Infallible> {
    let mut events = Stream::open(address, "/v2/events").await?;
    let mut next = Instant::now();
    loop {
        events.next_line().await?.context("the stream of events has ended")?;
        if Instant::now() < next {
            continue;
        }
        next = Instant::now() + PAUSE;
        for path in LOADED {
            http::text(address, path).await?;
        }
    }
}

async fn produce(plan: &Plan, server: &Server) -> Result<f64> {
    let address = server.address;
    let body = format!("{{\"value\":\"{}\"}}", "x".repeat(plan.payload));
    let templates = vec![Template::post(address, &format!("/v2/topics/{TOPIC}/messages"), &body)];
    let load = Load { address, connections: CONNECTIONS, pipeline: 1, templates, length: plan.length };
    Ok(load::run(load).await?.rate())
}
