//! Whether a produce costs the same with much around it: messages kept, topics, groups.
//!
//! Two servers run side by side, one small and one large, and take turns. The bound is on the server's processor time
//! per request, which other processes on the machine disturb least; the rates stand beside it.

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::{
    Plan,
    child::Server,
    figure::{Figure, Must, Report, Unit},
    http::Stream,
    load::{self, Load},
    progress::Progress,
    setup::{TOPIC, create_topic, data_directory, fill},
    statistics::{median, ratio},
    template::Template,
};
use driftq_api::shown::grouped;

const CONNECTIONS: usize = 64;
const MESSAGES_FEW: u64 = 1_000;
const TOPICS_MANY: usize = 1_000;
const GROUPS_MANY: usize = 1_000;
/// What counts as flat: run-to-run noise on a quiet machine is about a tenth.
const MUST_FLAT_RATIO: f64 = 1.2;

/// A server with something in it.
struct Side {
    server: Server,
    topics: Vec<String>,
    /// Removed with the server.
    _data: TempDir,
}

impl Side {
    async fn new(plan: &Plan, topics: usize) -> Result<Self> {
        let data = data_directory(plan)?;
        let server = Server::driftq(&data.path().join("data")).await?;
        let topics: Vec<String> = (0..topics).map(|number| format!("{TOPIC}-{number}")).collect();
        for topic in &topics {
            create_topic(server.address, topic, 1).await?;
        }
        Ok(Self { server, topics, _data: data })
    }

    async fn fill(&self, plan: &Plan, messages: u64) -> Result<()> {
        fill(self.server.address, &self.topics[0], plan.payload, messages).await
    }

    /// A group exists from its first stream on.
    async fn make_groups(&self, count: usize) -> Result<()> {
        for number in 0..count {
            let path =
                format!("/v1/consume?topic={}&group=g{number}&owner=bench&lease_ms=1000", self.topics[0]);
            Stream::open(self.server.address, &path).await.context("making a group")?;
        }
        Ok(())
    }

    async fn round(&self, plan: &Plan) -> Result<Round> {
        let address = self.server.address;
        let templates =
            self.topics.iter().map(|topic| Template::produce(address, topic, plan.payload)).collect();
        let load = Load { address, connections: CONNECTIONS, pipeline: 1, templates, length: plan.length };
        let before = self.server.cpu_seconds();
        let done = load::run(load).await?;
        let used = self.server.cpu_seconds().zip(before).map(|(after, before)| after - before);
        Ok(Round { rate: done.rate(), cpu_micros: used.map(|used| used * 1e6 / done.requests as f64) })
    }

    async fn end(self) -> Result<()> {
        self.server.kill().await
    }
}

/// What one round came to.
struct Round {
    rate: f64,
    /// The server's processor time per request.
    cpu_micros: Option<f64>,
}

pub(super) async fn measure(plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
    progress.expect(3 * (1 + plan.rounds));
    progress.step(&format!("producing {} messages", grouped(plan.retained)));
    let (few, many) = (Side::new(plan, 1).await?, Side::new(plan, 1).await?);
    few.fill(plan, MESSAGES_FEW).await?;
    many.fill(plan, plan.retained).await?;
    let names = (format!("{} kept", grouped(MESSAGES_FEW)), format!("{} kept", grouped(plan.retained)));
    compare(plan, progress, report, (&few, &many), names).await?;
    few.end().await?;
    many.end().await?;

    progress.step(&format!("creating {TOPICS_MANY} topics"));
    let (one, many) = (Side::new(plan, 1).await?, Side::new(plan, TOPICS_MANY).await?);
    let names = ("1 topic".to_owned(), format!("{} topics", grouped(TOPICS_MANY as u64)));
    compare(plan, progress, report, (&one, &many), names).await?;
    one.end().await?;
    many.end().await?;

    progress.step(&format!("creating {GROUPS_MANY} groups"));
    let (one, many) = (Side::new(plan, 1).await?, Side::new(plan, 1).await?);
    one.make_groups(1).await?;
    many.make_groups(GROUPS_MANY).await?;
    let names = ("1 group".to_owned(), format!("{} groups", grouped(GROUPS_MANY as u64)));
    compare(plan, progress, report, (&one, &many), names).await?;
    one.end().await?;
    many.end().await
}

async fn compare(
    plan: &Plan,
    progress: &Progress,
    report: &mut Report,
    (small, large): (&Side, &Side),
    (small_name, large_name): (String, String),
) -> Result<()> {
    let (mut smalls, mut larges) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        progress.step(&format!("{small_name} against {large_name}"));
        smalls.push(small.round(plan).await?);
        larges.push(large.round(plan).await?);
    }
    let rates = |rounds: &[Round]| rounds.iter().map(|round| round.rate).collect::<Vec<_>>();
    let costs = |rounds: &[Round]| rounds.iter().filter_map(|round| round.cpu_micros).collect::<Vec<_>>();
    let mut add = |name: String, unit: Unit, ours: &[f64], peer: &[f64], must: Option<Must>| {
        let beside = format!("driftq, {small_name}");
        let figure = Figure::new(name, median(ours), unit).beside(beside, median(peer), ratio(ours, peer));
        report.add(match must {
            Some(must) => figure.must(must),
            None => figure,
        });
    };
    let (name, flat) =
        (format!("processor time per produce, {large_name}"), Must::RatioAtMost(MUST_FLAT_RATIO));
    add(name, Unit::Microseconds, &costs(&larges), &costs(&smalls), Some(flat));
    let name = format!("produce, 64 connections, {large_name}");
    add(name, Unit::PerSecond, &rates(&larges), &rates(&smalls), None);
    Ok(())
}
