//! Where the time goes: processor time and context switches per request, by thread of the server, beside a bare server
//! that answers the same requests. Both count what was used, not how long it took, so that a busy machine blurs them
//! less than any rate.

use std::collections::BTreeMap;

use anyhow::Result;

use super::{
    Plan,
    child::{Server, Used},
    figure::{Figure, Report, Unit},
    load,
    progress::Progress,
    request_kind::RequestKind,
    setup::{TOPIC, create_topic, data_directory},
    statistics::{median, ratio},
};

/// What one request cost the server, by thread.
async fn cost(kind: &RequestKind, plan: &Plan, server: &Server) -> Result<Threads> {
    let before = server.used_by_thread();
    let done = load::run(kind.load(plan, server.address, [TOPIC])).await?;
    let mut used = server.used_by_thread();
    for (thread, used) in &mut used {
        let before = before.get(thread).copied().unwrap_or_default();
        used.micros = (used.micros - before.micros) / done.requests as f64;
        used.switches = (used.switches - before.switches) / done.requests as f64;
    }
    Ok(used)
}

pub(super) async fn measure(plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
    let kinds = RequestKind::all(plan, &plan.connections);
    progress.expect(kinds.len() * plan.rounds * 2);
    let data = data_directory(plan)?;
    let (bare, server) = (Server::bare().await?, Server::driftq(&data.path().join("profile")).await?);
    create_topic(server.address, TOPIC, 1).await?;
    for kind in &kinds {
        let (mut own, mut peer) = (Vec::new(), Vec::new());
        for _ in 0..plan.rounds {
            progress.step(&format!("{}, bare hyper", kind.name));
            peer.push(cost(kind, plan, &bare).await?);
            progress.step(&kind.name);
            own.push(cost(kind, plan, &server).await?);
        }
        tell(&kind.name, &own, &peer, report);
    }
    bare.kill().await?;
    server.kill().await
}

/// What the threads of a server used in one round, by name.
type Threads = BTreeMap<String, Used>;

/// One number of what was used.
type Measure = (&'static str, Unit, fn(&Used) -> f64);
const MEASURES: [Measure; 2] = [
    ("processor time", Unit::Microseconds, |used| used.micros),
    ("context switches", Unit::PerRequest, |used| used.switches),
];

/// The whole first, then what of it each thread has.
fn tell(kind: &str, own: &[Threads], peer: &[Threads], report: &mut Report) {
    for (name, unit, of) in MEASURES {
        let sums = |rounds: &[Threads]| -> Vec<f64> {
            rounds.iter().map(|threads| threads.values().map(of).sum()).collect()
        };
        let (own_sums, peer_sums) = (sums(own), sums(peer));
        let figure = Figure::new(format!("{kind}: {name} per request"), median(&own_sums), unit);
        report.add(figure.beside("bare hyper", median(&peer_sums), ratio(&own_sums, &peer_sums)));
        let Some(threads) = own.last() else { continue };
        for thread in threads.keys() {
            let of_thread: Vec<f64> = own.iter().map(|threads| threads.get(thread).map_or(0.0, of)).collect();
            let value = median(&of_thread);
            // What sleeps all the time is no part of the answer.
            if value >= 0.005 {
                report.add(Figure::new(format!("{kind}: {name}, {thread}"), value, unit));
            }
        }
    }
}
