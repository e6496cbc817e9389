//! What keys cost, and what they are worth: produce with a key beside produce without, and a quiet key's latency beside a
//! noisy one.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use driftq_engine::key_text;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{MissedTickBehavior, interval};

use super::{
    Plan,
    child::Server,
    figure::{Figure, Must, Report, Unit},
    load::{self, Connection, Load},
    progress::Progress,
    setup::{TOPIC, create_topic, data_directory},
    statistics::{median, percentile, ratio},
    template::Template,
};

const CONNECTIONS: usize = 64;
/// Produce with a key, by produce without.
const MUST_KEYED_RATIO: f64 = 0.97;
/// The quiet key's p99 beside the noisy one, by its p99 without.
const MUST_QUIET_RATIO: f64 = 2.0;
/// How often the quiet one asks.
const QUIET_PAUSE: Duration = Duration::from_millis(5);
/// Messages of one body of the noisy one that sends batches, and its connections.
const BATCH: usize = 100;
const BATCH_CONNECTIONS: usize = 16;

/// A server that asks for keys.
struct Keyed {
    server: Server,
    root: String,
    _data: TempDir,
}

impl Keyed {
    async fn start(plan: &Plan) -> Result<Self> {
        let data = data_directory(plan)?;
        let path = data.path().join("data");
        let root = key_text::create(&path).context("making a root key")?;
        let server = Server::driftq_with(&path, &["--keys=required"]).await?;
        let keyed = Self { server, root, _data: data };
        keyed.call("PUT", &format!("/v2/topics/{TOPIC}"), "{}").await?;
        Ok(keyed)
    }

    /// A call with the root key.
    async fn call(&self, method: &str, path: &str, body: &str) -> Result<Value> {
        let address = self.server.address;
        let template =
            Template::request(address, method, path, "application/json", body).with_key(&self.root);
        let (mut connection, mut out) = (Connection::open(address).await?, Vec::new());
        template.render(&mut out);
        connection.send(&out).await?;
        let (status, body) = connection.answer_body().await?;
        ensure!((200..300).contains(&status), "{path}: {status} {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).with_context(|| format!("the answer to {path}"))
    }

    async fn key(&self) -> Result<String> {
        let made = self.call("POST", "/v2/keys", &json!({"actions": ["produce"]}).to_string()).await?;
        Ok(made["secret"].as_str().context("a key without a secret")?.to_owned())
    }
}

pub(super) async fn measure(plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
    progress.expect(plan.rounds * 7 + 1);
    progress.step("starting servers");
    let keyed = Keyed::start(plan).await?;
    let (quiet, noisy) = (keyed.key().await?, keyed.key().await?);
    measure_cost(plan, progress, report, (&keyed, &noisy)).await?;
    measure_noise(plan, progress, report, (&keyed, &quiet, &noisy)).await?;
    keyed.server.kill().await
}

/// Produce with a key beside produce without.
async fn measure_cost(
    plan: &Plan,
    progress: &Progress,
    report: &mut Report,
    (keyed, key): (&Keyed, &str),
) -> Result<()> {
    let data = data_directory(plan)?;
    let open = Server::driftq(&data.path().join("data")).await?;
    create_topic(open.address, TOPIC, 1).await?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        progress.step("produce without a key");
        let plain = Template::produce(open.address, TOPIC, plan.payload);
        without.push(rate(plan, open.address, plain).await?);
        progress.step("produce with a key");
        let shown = Template::produce(keyed.server.address, TOPIC, plan.payload).with_key(key);
        with.push(rate(plan, keyed.server.address, shown).await?);
    }
    let name = format!("produce, {CONNECTIONS} connections, with a key");
    let figure = Figure::new(name, median(&with), Unit::PerSecond);
    let figure = figure.beside("without", median(&without), ratio(&with, &without));
    report.add(figure.must(Must::RatioAtLeast(MUST_KEYED_RATIO)));
    open.kill().await
}

/// The latency of a quiet key: alone, beside a noisy one, and beside its own noise.
async fn measure_noise(
    plan: &Plan,
    progress: &Progress,
    report: &mut Report,
    (keyed, quiet, noisy): (&Keyed, &str, &str),
) -> Result<()> {
    let address = keyed.server.address;
    let probe = Template::produce(address, TOPIC, plan.payload).with_key(quiet);
    // What the same noise does to a client of a server that has no part in it: cores and disk are shared here.
    let neighbour = Keyed::start(plan).await?;
    let noises = noises(plan, address, (quiet, noisy), (neighbour.server.address, &neighbour.key().await?));
    let mut alone = Vec::new();
    let mut beside: Vec<(Vec<f64>, Vec<f64>)> = noises.iter().map(|_| Default::default()).collect();
    for _ in 0..plan.rounds {
        progress.step("a quiet key alone");
        alone.push(p99(plan, address, &probe).await?);
        for (noise, (latencies, rates)) in noises.iter().zip(&mut beside) {
            progress.step(&format!("a quiet key {}", noise.name));
            let (noise, length) = (noise.clone(), plan.length);
            // On a thread of its own, or the noise would delay the one that measures.
            let made = thread::spawn(move || noise.make(length));
            latencies.push(p99(plan, address, &probe).await?);
            let done = made.join().map_err(|_| anyhow::anyhow!("the noise ended early"))??;
            rates.push(done.rate());
        }
    }
    let at_neighbour = noises.iter().position(|noise| noise.beside == Beside::Nothing);
    let at_neighbour = at_neighbour.map(|place| beside[place].0.clone()).unwrap_or_default();
    for (noise, (latencies, rates)) in noises.into_iter().zip(&beside) {
        let name = format!("p99 of a quiet key {}", noise.name);
        let (without, denominator) = match noise.beside {
            Beside::Neighbour => ("the same elsewhere", &at_neighbour),
            _ => ("alone", &alone),
        };
        let figure = Figure::new(name, median(latencies), Unit::Milliseconds);
        let figure = figure.beside(without, median(denominator), ratio(latencies, denominator));
        let is_bounded = matches!(noise.beside, Beside::Alone | Beside::Neighbour);
        report.add(if is_bounded { figure.must(Must::RatioAtMost(MUST_QUIET_RATIO)) } else { figure });
        let name = format!("requests of the noisy one, a quiet key {}", noise.name);
        report.add(Figure::new(name, median(rates), Unit::PerSecond));
    }
    neighbour.server.kill().await
}

fn noises(
    plan: &Plan,
    address: SocketAddr,
    (quiet, noisy): (&str, &str),
    (neighbour, key): (SocketAddr, &str),
) -> [Noise; 4] {
    let single = |key: &str| Template::produce(address, TOPIC, plan.payload).with_key(key);
    let line = json!({"value": "x".repeat(plan.payload)}).to_string() + "\n";
    let path = format!("/v2/topics/{TOPIC}/messages");
    let batches = |address, key: &str| {
        let body = line.repeat(BATCH);
        Template::request(address, "POST", &path, "application/x-ndjson", &body).with_key(key)
    };
    let in_batches = format!("batches of {BATCH} on {BATCH_CONNECTIONS} connections");
    [
        Noise {
            name: format!("beside a key with {CONNECTIONS} connections"),
            address,
            template: single(noisy),
            connections: CONNECTIONS,
            beside: Beside::Alone,
        },
        Noise {
            name: format!("beside a key with {in_batches}"),
            address,
            template: batches(address, noisy),
            connections: BATCH_CONNECTIONS,
            beside: Beside::Neighbour,
        },
        Noise {
            name: format!("beside {in_batches} at another server"),
            address: neighbour,
            template: batches(neighbour, key),
            connections: BATCH_CONNECTIONS,
            beside: Beside::Nothing,
        },
        Noise {
            name: format!("beside {CONNECTIONS} more connections of its own"),
            address,
            template: single(quiet),
            connections: CONNECTIONS,
            beside: Beside::Itself,
        },
    ]
}

async fn rate(plan: &Plan, address: SocketAddr, template: Template) -> Result<f64> {
    let templates = vec![template];
    let load = Load { address, connections: CONNECTIONS, pipeline: 1, templates, length: plan.length };
    Ok(load::run(load).await?.rate())
}

/// What the latency beside a noise is compared with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    /// The latency alone: the noise leaves cores and disk enough.
    Alone,
    /// The latency beside the same noise at another server of this machine: what cores and disk alone make of it.
    Neighbour,
    /// The latency alone, for the record: the noise is its own.
    Itself,
    /// The same: this is that other server.
    Nothing,
}

/// A client at full speed.
#[derive(Clone)]
struct Noise {
    name: String,
    beside: Beside,
    address: SocketAddr,
    template: Template,
    connections: usize,
}

impl Noise {
    fn make(self, length: load::Length) -> Result<load::Done> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let Self { address, template, connections, .. } = self;
        let templates = vec![template];
        runtime.block_on(load::run(Load { address, connections, pipeline: 1, templates, length }))
    }
}

/// Sends at a steady pace on one connection for a round; the 99th percentile in milliseconds.
async fn p99(plan: &Plan, address: SocketAddr, template: &Template) -> Result<f64> {
    let (mut connection, mut out) = (Connection::open(address).await?, Vec::new());
    let mut latencies = Vec::new();
    let mut pace = interval(QUIET_PAUSE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let length = match plan.length {
        load::Length::Time(length) => length,
        load::Length::Requests(_) => Duration::from_secs(2),
    };
    let begun = Instant::now();
    while begun.elapsed() < length {
        pace.tick().await;
        out.clear();
        template.render(&mut out);
        let sent = Instant::now();
        connection.send(&out).await?;
        let status = connection.answer().await?.status;
        ensure!((200..300).contains(&status), "the server answered {status}");
        latencies.push(sent.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(percentile(&latencies, 0.99))
}
