//! The ledger on PostgreSQL, beside the bare statements under it: `pgbench` inserts and updates the same kind of row on
//! the same server, with the same number of connections, each statement a transaction of its own.

use std::{
    io::Write,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use driftq_ledger::{
    Begin, Decision, Ending, Identity, Ledger, RequestHash, Response,
    postgres::{PostgresStore, Statements},
};
use tempfile::NamedTempFile;
use tokio::process::Command;

use super::{
    Plan,
    figure::{Figure, Must, Report, Unit},
    load::Length,
    progress::Progress,
    statistics::{median, ratio},
};

/// What a replay must reach of a read of the row.
const MUST_REPLAY_RATIO: f64 = 0.9;
/// PostgreSQL allows a hundred connections unless it is told otherwise.
const CONNECTIONS_MAX: usize = 64;
/// Everything is made in a schema of this name, which is dropped before and after.
pub(super) const SCHEMA: &str = "driftq_bench";
pub(super) const PRINCIPAL: &str = "bench";
pub(super) const METHOD: &str = "/bench.Bench/Charge";
/// Replays ask for these, all of them finished.
const REPLAYED: u64 = 1_000;

/// How statements are sent, by us and by the peer.
#[derive(Clone, Copy)]
pub(super) struct Way {
    statements: Statements,
    /// The peer's word for it.
    pgbench: &'static str,
    words: &'static str,
    /// What begin + finish must reach of an insert and an update.
    must_ratio: f64,
}

pub(super) const WAYS: [Way; 2] = [
    Way { statements: Statements::Unnamed, pgbench: "extended", words: "nothing prepared", must_ratio: 0.9 },
    Way {
        statements: Statements::Prepared,
        pgbench: "prepared",
        words: "prepared statements",
        must_ratio: 0.8,
    },
];

pub(super) async fn measure(plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
    let Some(url) = &plan.postgres else {
        bail!("say which database to measure: --postgres postgres://user@host/database");
    };
    let bed = Bed::new(plan, url).await?;
    let result = bed.measure_all(plan, progress, report).await;
    // Also after a failure; what was measured matters more than whether this works.
    drop(bed.run(&format!("DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")).await);
    result
}

pub(super) struct Bed<'a> {
    url: &'a str,
    pub(super) store: PostgresStore,
    pub(super) payload: Vec<u8>,
    keys: Arc<AtomicU64>,
}

impl<'a> Bed<'a> {
    async fn new(plan: &Plan, url: &'a str) -> Result<Self> {
        let store = PostgresStore::connect(url)?.table(&format!("{SCHEMA}.keys"))?;
        let keys = Arc::new(AtomicU64::new(0));
        let bed = Self { url, store, payload: vec![b'x'; plan.payload], keys };
        bed.run(&format!("DROP SCHEMA IF EXISTS {SCHEMA} CASCADE; CREATE SCHEMA {SCHEMA}")).await?;
        bed.store.migrate().await?;
        bed.run(&format!(
            "CREATE TABLE {SCHEMA}.bare (LIKE {SCHEMA}.keys INCLUDING DEFAULTS INCLUDING IDENTITY); \
             ALTER TABLE {SCHEMA}.bare ADD PRIMARY KEY (principal, grpc_method, idempotency_key)"
        ))
        .await?;
        Ok(bed)
    }

    async fn measure_all(&self, plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
        self.measure(plan, progress, report).await?;
        self.measure_storage(plan, progress, report).await
    }

    pub(super) async fn run(&self, statements: &str) -> Result<()> {
        let client = self.store.pool().get().await.context("connecting to the database")?;
        client.batch_execute(statements).await.context("preparing the database")
    }

    async fn measure(&self, plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
        let mut counts: Vec<usize> =
            plan.connections.iter().map(|count| (*count).min(CONNECTIONS_MAX)).collect();
        counts.dedup();
        progress.expect(WAYS.len() * counts.len() * plan.rounds * 2);
        for way in WAYS {
            for connections in &counts {
                self.pairs(plan, way, *connections, progress, report).await?;
            }
        }
        let connections = counts.last().copied().unwrap_or(1);
        for way in WAYS {
            self.replays(plan, way, connections, progress, report).await?;
        }
        Ok(())
    }

    async fn pairs(
        &self,
        plan: &Plan,
        way: Way,
        connections: usize,
        progress: &Progress,
        report: &mut Report,
    ) -> Result<()> {
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        let payload = "78".repeat(plan.payload);
        let script = format!(
            "\\set key random(1, 1000000000000000)\n\
             INSERT INTO {SCHEMA}.bare (principal, grpc_method, idempotency_key, request_hash, status, lease_expires_at, \
             expires_at) VALUES ('{PRINCIPAL}', '{METHOD}', 'key-' || :key, repeat('a', 64), 'IN_PROGRESS', \
             now() + interval '30 s', now() + interval '1 day');\n\
             UPDATE {SCHEMA}.bare SET status = 'SUCCEEDED', response_code = 200, response_payload = '\\x{payload}', \
             updated_at = now() WHERE principal = '{PRINCIPAL}' AND grpc_method = '{METHOD}' \
             AND idempotency_key = 'key-' || :key AND status = 'IN_PROGRESS';\n"
        );
        for _ in 0..plan.rounds {
            progress.step("insert and update, pgbench");
            bare.push(pgbench(self.url, &script, way.pgbench, connections, plan).await?);
            progress.step("begin and finish, ledger");
            ours.push(self.load(&self.store, way, connections, plan, Job::Pair).await?);
        }
        let name = format!("begin + finish in PostgreSQL, {}", circumstances(connections, way));
        let figure = Figure::new(name, median(&ours), Unit::PerSecond);
        let figure = figure.beside("pgbench, INSERT and UPDATE of a row", median(&bare), ratio(&ours, &bare));
        report.add(figure.must(Must::RatioAtLeast(way.must_ratio)));
        Ok(())
    }

    async fn replays(
        &self,
        plan: &Plan,
        way: Way,
        connections: usize,
        progress: &Progress,
        report: &mut Report,
    ) -> Result<()> {
        let ledger = Ledger::new(self.store.clone());
        for number in 0..REPLAYED {
            pair(&ledger, &format!("replay-{number}"), &self.payload).await?;
        }
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        let script = format!(
            "\\set key random(0, {})\n\
             SELECT * FROM {SCHEMA}.keys WHERE principal = '{PRINCIPAL}' AND grpc_method = '{METHOD}' \
             AND idempotency_key = 'replay-' || :key;\n",
            REPLAYED - 1
        );
        progress.expect(plan.rounds * 2);
        for _ in 0..plan.rounds {
            progress.step("read of a row, pgbench");
            bare.push(pgbench(self.url, &script, way.pgbench, connections, plan).await?);
            progress.step("replays, ledger");
            ours.push(self.load(&self.store, way, connections, plan, Job::Replay).await?);
        }
        let name = format!("replay in PostgreSQL, {}", circumstances(connections, way));
        let figure = Figure::new(name, median(&ours), Unit::PerSecond);
        let figure = figure.beside("pgbench, SELECT of the row", median(&bare), ratio(&ours, &bare));
        report.add(figure.must(Must::RatioAtLeast(MUST_REPLAY_RATIO)));
        Ok(())
    }

    /// Our side of a round, per second.
    pub(super) async fn load(
        &self,
        store: &PostgresStore,
        way: Way,
        connections: usize,
        plan: &Plan,
        job: Job,
    ) -> Result<f64> {
        let store = store.clone().statements(way.statements);
        store.pool().resize(connections);
        let ledger = Ledger::new(store);
        let until = Instant::now() + length(plan);
        let started = Instant::now();
        let tasks: Vec<_> = (0..connections)
            .map(|_| {
                let (ledger, keys, payload) = (ledger.clone(), Arc::clone(&self.keys), self.payload.clone());
                tokio::spawn(async move {
                    let mut done = 0_u64;
                    while Instant::now() < until {
                        let number = keys.fetch_add(1, Ordering::Relaxed);
                        match job {
                            Job::Pair => pair(&ledger, &scattered(number), &payload).await?,
                            Job::Replay => replay(&ledger, &format!("replay-{}", number % REPLAYED)).await?,
                        }
                        done += 1;
                    }
                    anyhow::Ok(done)
                })
            })
            .collect();
        let mut done = 0;
        for task in tasks {
            done += task.await.context("a task of the load ended early")??;
        }
        Ok(done as f64 / started.elapsed().as_secs_f64())
    }
}

/// Runs a script by pgbench, over and over, each statement a transaction of its own; how often in a second. `mode` is
/// pgbench's word for how statements are sent.
pub(super) async fn pgbench(
    url: &str,
    script: &str,
    mode: &str,
    connections: usize,
    plan: &Plan,
) -> Result<f64> {
    let mut file = NamedTempFile::new().context("a file for pgbench's script")?;
    file.write_all(script.as_bytes()).context("writing pgbench's script")?;
    let seconds = length(plan).as_secs().max(1).to_string();
    let count = connections.to_string();
    let mut command = Command::new("pgbench");
    command
        .args(["-n", "-j", "1", "-M", mode, "-c", &count, "-T", &seconds, "-f"])
        .arg(file.path())
        .arg(url)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = command.output().await.context("starting pgbench; it comes with PostgreSQL")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "pgbench: {}", String::from_utf8_lossy(&output.stderr));
    let rate = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    rate.with_context(|| format!("pgbench tells no rate: {text}"))
}

/// A key as clients make them up: they come in no order. Each number has its own.
pub(super) fn scattered(number: u64) -> String {
    let mut mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    format!("{:016x}-{number:08x}", mixed ^ (mixed >> 31))
}

#[derive(Clone, Copy)]
pub(super) enum Job {
    Pair,
    Replay,
}

fn circumstances(connections: usize, way: Way) -> String {
    let plural = if connections == 1 { "" } else { "s" };
    format!("{connections} connection{plural}, {}", way.words)
}

/// pgbench counts in whole seconds.
pub(super) fn length(plan: &Plan) -> Duration {
    match plan.length {
        Length::Time(time) => time.max(Duration::from_secs(1)),
        Length::Requests(_) => Duration::from_secs(2),
    }
}

fn asked(key: &str) -> Result<Begin> {
    Ok(Begin::new(Identity::new(PRINCIPAL, METHOD, key)?, RequestHash::of_bytes(b"charge 5 EUR")))
}

pub(super) async fn pair(ledger: &Ledger, key: &str, payload: &[u8]) -> Result<()> {
    match ledger.begin(asked(key)?).await? {
        Decision::Execute(lease) => {
            let ending = Ending::succeeded(Response::new(payload.to_vec()).code(200));
            ledger.finish(&lease, &ending).await?;
            Ok(())
        }
        Decision::Replay(_) if key.starts_with("replay") => Ok(()),
        other => bail!("{key} was to be new, and is {}", other.word()),
    }
}

async fn replay(ledger: &Ledger, key: &str) -> Result<()> {
    match ledger.begin(asked(key)?).await? {
        Decision::Replay(_) => Ok(()),
        other => bail!("{key} was to be finished, and is {}", other.word()),
    }
}
