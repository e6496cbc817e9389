//! The ledger under load: begin and finish of effects, replays, and whether either gets dearer with many records, or
//! while many records are being swept.

use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tokio::task::LocalSet;

use super::{
    Plan,
    child::Server,
    figure::{Figure, Must, Report, Unit},
    load::{self, Connection, Length, Load},
    native::tokens,
    progress::Progress,
    scrape,
    setup::data_directory,
    statistics::{median, percentile, ratio},
    template::{NUMBER_HOLE, Template},
};
use driftq_api::shown::grouped;

const CONNECTIONS: usize = 64;
/// What the anchors ask for: begin and finish together are two requests.
const MUST_RATIO: f64 = 0.5;
/// What counts as flat: run-to-run noise on a quiet machine is about a tenth.
const MUST_FLAT_RATIO: f64 = 1.2;
const RECORDS_FEW: u64 = 1_000;
/// Records that are to be swept live at least this long, so that they are all there before the first one goes.
const SWEPT_TTL: Duration = Duration::from_secs(90);
/// A sweep that takes longer than this is not waited for.
const SWEEP_MAX: Duration = Duration::from_secs(240);
const JSON: &str = "application/json";

pub(super) async fn measure(plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
    progress.expect(plan.rounds * 3 + 1);
    progress.step("starting servers");
    let bare = Server::bare().await?;
    let side = Side::new(plan).await?;
    let (mut pairs, mut bare_pairs, mut replays) = (Vec::new(), Vec::new(), Vec::new());
    side.round(plan, Length::Requests(RECORDS_FEW), "").await?;
    for _ in 0..plan.rounds {
        progress.step("begin and finish, bare hyper");
        bare_pairs.push(bare_rate(plan, bare.address).await?);
        progress.step("begin and finish, driftq");
        pairs.push(side.round(plan, plan.length, "").await?.rate);
        progress.step("replays, driftq");
        replays.push(side.replays(plan).await?);
    }
    let peer = "bare hyper, the same two requests";
    let name = format!("begin + finish of an effect, {CONNECTIONS} connections");
    let figure = Figure::new(name, median(&pairs), Unit::PerSecond);
    let figure = figure.beside(peer, median(&bare_pairs), ratio(&pairs, &bare_pairs));
    report.add(figure.must(Must::RatioAtLeast(MUST_RATIO)));
    let bare_singles: Vec<f64> = bare_pairs.iter().map(|rate| rate * 2.0).collect();
    let name = format!("replay of an effect, {CONNECTIONS} connections");
    let figure = Figure::new(name, median(&replays), Unit::PerSecond);
    report.add(figure.beside(
        "bare hyper, one request",
        median(&bare_singles),
        ratio(&replays, &bare_singles),
    ));
    bare.kill().await?;
    side.end().await
}

/// What an effect costs with many records around it and with few, and how long one takes while many are swept.
pub(super) async fn measure_flat(plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
    progress.expect(plan.rounds + 3);
    let many = grouped(plan.retained);
    progress.step(&format!("finishing {many} effects"));
    let (few, lots) = (Side::new(plan).await?, Side::new(plan).await?);
    few.round(plan, Length::Requests(RECORDS_FEW), "").await?;
    lots.round(plan, Length::Requests(plan.retained), "").await?;
    let resident = lots.server.resident_bytes();
    let (mut smalls, mut larges) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        progress.step(&format!("{} records against {many}", grouped(RECORDS_FEW)));
        smalls.push(few.round(plan, plan.length, "").await?.cpu_micros);
        larges.push(lots.round(plan, plan.length, "").await?.cpu_micros);
    }
    let name = format!("processor time per begin + finish, {many} records");
    let figure = Figure::new(name, median(&larges), Unit::Microseconds);
    let beside = format!("driftq, {} records", grouped(RECORDS_FEW));
    let figure = figure.beside(beside, median(&smalls), ratio(&larges, &smalls));
    report.add(figure.must(Must::RatioAtMost(MUST_FLAT_RATIO)));
    if let Some(bytes) = resident {
        report.add(Figure::new(format!("memory with {many} effects"), bytes as f64, Unit::Bytes));
    }
    lots.end().await?;
    sweep(plan, progress, report, &few).await?;
    few.end().await
}

/// Effects go on while as many records as are kept otherwise stop to count all at once.
async fn sweep(plan: &Plan, progress: &Progress, report: &mut Report, quiet: &Side) -> Result<()> {
    let many = grouped(plan.retained);
    let swept = Side::new(plan).await?;
    progress.step(&format!("finishing {many} effects that expire"));
    let ttl = format!(r#","ttl_ms":{}"#, SWEPT_TTL.as_millis());
    swept.round(plan, Length::Requests(plan.retained), &ttl).await?;
    let filled = scrape::effects(swept.server.address).await?;
    progress.step(&format!("sweeping {many} records"));
    let (mut busy, mut calm) = (Vec::new(), Vec::new());
    let started = Instant::now();
    let second = Length::Time(Duration::from_secs(1));
    loop {
        let before = scrape::effects(swept.server.address).await?;
        let round = swept.round(plan, second, "").await?;
        let after = scrape::effects(swept.server.address).await?;
        // Only rounds in which records went tell something.
        if after < before {
            busy.extend(round.millis);
            calm.extend(quiet.round(plan, second, "").await?.millis);
        }
        if after < filled / 10.0 || (!busy.is_empty() && after >= before) {
            break;
        }
        ensure!(started.elapsed() < SWEEP_MAX, "the records were not swept in time: {after} are left");
    }
    for (word, share) in [("99 % of", 0.99), ("the slowest of", 1.0)] {
        let name = format!("begin + finish while {many} records are swept, {word} them");
        let (ours, peer) = (percentile(&busy, share), percentile(&calm, share));
        let figure = Figure::new(name, ours, Unit::Milliseconds);
        report.add(figure.beside("driftq, nothing to sweep", peer, ours / peer));
    }
    swept.end().await
}

/// A server with a ledger.
struct Side {
    server: Server,
    /// Removed with the server.
    _data: TempDir,
}

/// What one round came to.
struct Round {
    /// Effects per second.
    rate: f64,
    /// The server's processor time per effect; zero where it cannot be told.
    cpu_micros: f64,
    /// How long each took.
    millis: Vec<f64>,
}

impl Side {
    async fn new(plan: &Plan) -> Result<Self> {
        let data = data_directory(plan)?;
        let server = Server::driftq(&data.path().join("data")).await?;
        Ok(Self { server, _data: data })
    }

    /// Effects are begun and finished; `more` goes into each begin.
    async fn round(&self, plan: &Plan, length: Length, more: &str) -> Result<Round> {
        let address = self.server.address;
        let work = Rc::new(Work {
            begin: Template::post(address, "/v2/effects/begin", &begin_body(more)),
            body: "x".repeat(plan.payload),
            started: Instant::now(),
            length,
            left: Cell::new(if let Length::Requests(count) = length { count } else { u64::MAX }),
            millis: RefCell::new(Vec::new()),
        });
        let before = self.server.cpu_seconds();
        let local = LocalSet::new();
        let tasks: Vec<_> =
            (0..CONNECTIONS).map(|_| local.spawn_local(effects(address, Rc::clone(&work)))).collect();
        local
            .run_until(async {
                for task in tasks {
                    task.await.context("a worker's task")??;
                }
                Ok::<_, anyhow::Error>(())
            })
            .await?;
        let seconds = work.started.elapsed().as_secs_f64();
        let used = self.server.cpu_seconds().zip(before).map_or(0.0, |(after, before)| after - before);
        let millis = work.millis.take();
        Ok(Round {
            rate: millis.len() as f64 / seconds,
            cpu_micros: used * 1e6 / millis.len() as f64,
            millis,
        })
    }

    /// The same finished effect, asked for again and again; answers per second.
    async fn replays(&self, plan: &Plan) -> Result<f64> {
        let address = self.server.address;
        let mut connection = Connection::open(address).await?;
        let begin = r#"{"scope":"bench","key":"replayed"}"#;
        one_effect(address, &mut connection, begin, "x", &mut Vec::new()).await?;
        let templates = vec![Template::post(address, "/v2/effects/begin", begin)];
        let load = Load { address, connections: CONNECTIONS, pipeline: 1, templates, length: plan.length };
        Ok(load::run(load).await?.rate())
    }

    async fn end(self) -> Result<()> {
        self.server.kill().await
    }
}

/// What the connections of a round share; they all live on one thread.
struct Work {
    begin: Template,
    body: String,
    started: Instant,
    length: Length,
    left: Cell<u64>,
    millis: RefCell<Vec<f64>>,
}

impl Work {
    fn goes_on(&self) -> bool {
        match self.length {
            Length::Time(length) => self.started.elapsed() < length,
            Length::Requests(_) => {
                let left = self.left.get();
                self.left.set(left.saturating_sub(1));
                left > 0
            }
        }
    }
}

fn begin_body(more: &str) -> String {
    format!(r#"{{"scope":"bench","key":"{NUMBER_HOLE}","lease_ms":60000{more}}}"#)
}

fn finish_body(token: &str, body: &str) -> String {
    format!(r#"{{"token":"{token}","status":"succeeded","code":200,"body":"{body}"}}"#)
}

async fn effects(address: SocketAddr, work: Rc<Work>) -> Result<()> {
    let mut connection = Connection::open(address).await?;
    let mut out = Vec::new();
    while work.goes_on() {
        let started = Instant::now();
        out.clear();
        work.begin.render(&mut out);
        finish_begun(address, &mut connection, &work.body, &mut out).await?;
        work.millis.borrow_mut().push(started.elapsed().as_secs_f64() * 1e3);
    }
    Ok(())
}

async fn one_effect(
    address: SocketAddr,
    connection: &mut Connection,
    begin: &str,
    body: &str,
    out: &mut Vec<u8>,
) -> Result<()> {
    out.clear();
    Template::post(address, "/v2/effects/begin", begin).render(out);
    match finish_begun(address, connection, body, out).await {
        // It is there since the first round.
        Err(error) if error.is::<Replayed>() => Ok(()),
        other => other,
    }
}

/// A begin was answered with an outcome.
#[derive(Debug, thiserror::Error)]
#[error("the effect has an outcome already")]
struct Replayed;

/// Sends the begin in `out`, then the finish of what it gave.
async fn finish_begun(
    address: SocketAddr,
    connection: &mut Connection,
    body: &str,
    out: &mut Vec<u8>,
) -> Result<()> {
    connection.send(out).await?;
    let (status, answer) = connection.answer_body().await?;
    ensure!(status == 200, "a begin was answered with {status}: {}", String::from_utf8_lossy(&answer));
    let tokens = tokens(&answer);
    let Some(token) = tokens.first() else { return Err(Replayed.into()) };
    out.clear();
    Template::request(address, "POST", "/v2/effects/finish", JSON, &finish_body(token, body)).render(out);
    connection.send(out).await?;
    let (status, answer) = connection.answer_body().await?;
    ensure!(status == 200, "a finish was answered with {status}: {}", String::from_utf8_lossy(&answer));
    Ok(())
}

/// Both requests against a server that does nothing with them; pairs per second.
async fn bare_rate(plan: &Plan, address: SocketAddr) -> Result<f64> {
    let finish = finish_body(&"x".repeat(32), &"x".repeat(plan.payload));
    let templates =
        vec![Template::post(address, "/begin", &begin_body("")), Template::post(address, "/finish", &finish)];
    let load = Load { address, connections: CONNECTIONS, pipeline: 1, templates, length: plan.length };
    Ok(load::run(load).await?.rate() / 2.0)
}
