//! Several shards beside one: the same requests, spread over as many topics, by rate and by what a request costs.

use anyhow::Result;

use super::{
    Plan,
    child::Server,
    figure::{Figure, Must, Report, Unit},
    load,
    progress::Progress,
    request_kind::RequestKind,
    setup::{create_topic, data_directory},
    statistics::{median, ratio},
};

const SHARDS: &str = "4";
/// So many that every shard has some.
const TOPICS: usize = 32;
const CONNECTIONS: usize = 64;
/// Cores from which the rate is the shards' and not the machine's.
const CORES_MIN: usize = 8;
const RATE_MUST: f64 = 1.6;
const COST_MUST: f64 = 1.1;

/// Requests per second, and microseconds on a processor per request.
async fn cost(kind: &RequestKind, plan: &Plan, server: &Server, topics: &[String]) -> Result<(f64, f64)> {
    let spent = || server.used_by_thread().values().map(|used| used.micros).sum::<f64>();
    let before = spent();
    let done = load::run(kind.load(plan, server.address, topics.iter().map(String::as_str))).await?;
    Ok((done.rate(), (spent() - before) / done.requests as f64))
}

pub(super) async fn measure(plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
    let kinds = RequestKind::all(plan, &[CONNECTIONS]);
    let topics: Vec<String> = (0..TOPICS).map(|number| format!("bench-{number}")).collect();
    progress.expect(kinds.len() * plan.rounds * 2);
    let data = data_directory(plan)?;
    let one = Server::driftq(&data.path().join("one")).await?;
    let several = Server::driftq_with(&data.path().join("several"), &["--shards", SHARDS]).await?;
    for topic in &topics {
        create_topic(one.address, topic, 1).await?;
        create_topic(several.address, topic, 1).await?;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for kind in &kinds {
        let (mut own, mut peer) = (Vec::new(), Vec::new());
        for round in 0..plan.rounds {
            // Whoever comes second may find the machine warmer.
            for is_several in [round % 2 == 1, round % 2 == 0] {
                progress.step(&format!("{}, {} shard(s)", kind.name, if is_several { SHARDS } else { "1" }));
                if is_several {
                    own.push(cost(kind, plan, &several, &topics).await?);
                } else {
                    peer.push(cost(kind, plan, &one, &topics).await?);
                }
            }
        }
        let (rates, costs): (Vec<f64>, Vec<f64>) = own.into_iter().unzip();
        let (peer_rates, peer_costs): (Vec<f64>, Vec<f64>) = peer.into_iter().unzip();
        let titled = |what: &str| format!("{}, {SHARDS} shards: {what}", kind.name);
        let rate = Figure::new(titled("requests"), median(&rates), Unit::PerSecond);
        let rate = rate.beside("1 shard", median(&peer_rates), ratio(&rates, &peer_rates));
        // With fewer cores there is nothing for a second thread to decide on.
        let rate = if cores >= CORES_MIN { rate.must(Must::RatioAtLeast(RATE_MUST)) } else { rate };
        report.add(rate);
        let cost = Figure::new(titled("processor time per request"), median(&costs), Unit::Microseconds);
        let cost = cost.beside("1 shard", median(&peer_costs), ratio(&costs, &peer_costs));
        report.add(cost.must(Must::RatioAtMost(COST_MUST)));
    }
    one.kill().await?;
    several.kill().await
}
