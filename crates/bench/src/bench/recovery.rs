//! Memory with many messages kept, and how long a start takes after `kill -9`.

use anyhow::{Result, ensure};
use driftq_api::v2::Topic;

use super::{
    Plan,
    child::Server,
    figure::{Figure, Must, Report, Unit},
    progress::Progress,
    setup::{TOPIC, create_topic, data_directory, fill},
    statistics::median,
};
use driftq_api::shown::grouped;
use driftq_cli::client::Client;

/// What the anchors ask for with a million messages; with more of them, as much more.
const MUST_RETAINED_BYTES: f64 = 80.0 * 1024.0 * 1024.0;
const MUST_RECOVERY_MS: f64 = 500.0;

pub(super) async fn measure(plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
    progress.expect(2 + plan.rounds);
    let data = data_directory(plan)?;
    let path = data.path().join("data");
    let mut server = Server::driftq(&path).await?;
    create_topic(server.address, TOPIC, 1).await?;
    let kept = grouped(plan.retained);
    let millions = (plan.retained as f64 / 1_000_000.0).max(1.0);
    progress.step(&format!("producing {kept} messages"));
    fill(server.address, TOPIC, plan.payload, plan.retained).await?;
    if let Some(bytes) = server.resident_bytes() {
        let figure = Figure::new(format!("memory, {kept} messages kept"), bytes as f64, Unit::Bytes);
        report.add(figure.must(Must::AtMost(MUST_RETAINED_BYTES * millions)));
    }
    let mut starts = Vec::new();
    for _ in 0..plan.rounds {
        progress.step("kill -9 and start");
        server.kill().await?;
        server = Server::driftq(&path).await?;
        starts.push(server.started_in.as_secs_f64() * 1000.0);
        let client = Client::new(&format!("http://{}", server.address))?;
        let topic: Topic =
            client.session().get(&format!("/v2/topics/{TOPIC}")).await.map_err(|error| error.into_error())?;
        ensure!(
            topic.messages == plan.retained,
            "{} messages after kill -9, {kept} were acknowledged",
            topic.messages
        );
    }
    let figure =
        Figure::new(format!("start after kill -9, {kept} messages"), median(&starts), Unit::Milliseconds);
    report.add(figure.must(Must::AtMost(MUST_RECOVERY_MS * millions)));
    if let Some(bytes) = server.resident_bytes() {
        let figure = Figure::new("memory after that start", bytes as f64, Unit::Bytes);
        report.add(figure.must(Must::AtMost(MUST_RETAINED_BYTES * millions)));
    }
    progress.step("done");
    server.kill().await
}
