//! Produce with the log in PostgreSQL, beside a queue of a row per job on the same server: each job inserted by a
//! transaction of its own, into a table that workers take it from by `SKIP LOCKED`; and messages that are produced, leased
//! and acked one by one, beside jobs that are inserted, taken and deleted. Both again in batches, which is what clients
//! make of many messages by themselves, and a server beside it that only answers: what single requests can reach at all.
//! All of it again while another session holds a snapshot open, as a backup or a long report does.

use std::{cell::Cell, net::SocketAddr, rc::Rc, time::Instant};

use anyhow::{Context, Result, ensure};
use driftq_ledger::postgres::PostgresStore;
use tokio::task::LocalSet;

use super::{
    Plan,
    child::Server,
    figure::{Figure, Must, Report, Unit},
    ledger::{length, pgbench},
    load::{self, Connection, Load},
    native::{self, lease_and_ack},
    progress::Progress,
    setup::{TOPIC, create_topic, data_directory},
    statistics::{median, ratio},
    template::Template,
};

/// What produce must reach of inserts of single rows.
const MUST_RATIO: f64 = 5.0;
/// What it must reach of itself while a snapshot is held.
const MUST_HELD_RATIO: f64 = 0.9;
/// PostgreSQL allows a hundred connections unless it is told otherwise.
const CONNECTIONS_MAX: usize = 64;
/// The topic of messages that go all the way, and how one of them is asked for.
const THROUGH_TOPIC: &str = "through";
/// The topics of messages that go in batches.
const BATCHED_TOPIC: &str = "batched";
const BATCHED_THROUGH_TOPIC: &str = "batched-through";
const LEASE_ONE: &str = r#"{"owner":"bench","max":1,"wait_ms":5000,"lease_ms":60000}"#;
/// Both schemas are dropped before and after.
const JOBS: &str = "driftq_bench_jobs";
const LOG: &str = "driftq_bench_log";

/// A queue of a row per job, with the index that finds the next one.
const TABLE: &str = "CREATE TABLE driftq_bench_jobs.job (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, \
    state text NOT NULL DEFAULT 'available', priority smallint NOT NULL DEFAULT 1, attempt smallint NOT NULL DEFAULT 0, \
    run_at timestamptz NOT NULL DEFAULT now(), args bytea NOT NULL); \
    CREATE INDEX ON driftq_bench_jobs.job (state, priority, run_at, id);";
/// What a producer and a worker do to one job.
const THROUGH: &str = "WITH next AS (SELECT id FROM driftq_bench_jobs.job WHERE state = 'available' AND run_at <= now() \
    ORDER BY priority, run_at, id LIMIT 1 FOR UPDATE SKIP LOCKED) \
    UPDATE driftq_bench_jobs.job SET state = 'running', attempt = attempt + 1 FROM next WHERE job.id = next.id \
    RETURNING job.id AS taken \\gset\n\
    DELETE FROM driftq_bench_jobs.job WHERE id = :taken;\n";

pub(super) async fn measure(plan: &Plan, progress: &Progress, report: &mut Report, url: &str) -> Result<()> {
    let bed = Bed::new(plan, url).await?;
    let result = bed.measure(plan, progress, report).await;
    // Also after a failure; what was measured matters more than whether this works.
    drop(bed.run(&clear()).await);
    result
}

fn clear() -> String {
    format!("DROP SCHEMA IF EXISTS {JOBS} CASCADE; DROP SCHEMA IF EXISTS {LOG} CASCADE")
}

struct Bed<'a> {
    url: &'a str,
    store: PostgresStore,
    insert: String,
}

/// Rates of the rounds in one circumstance.
#[derive(Default)]
struct Rates {
    ours: Vec<f64>,
    inserts: Vec<f64>,
    ours_through: Vec<f64>,
    through: Vec<f64>,
    /// Requests to a server that only answers.
    bare: Vec<f64>,
    batched: Vec<f64>,
    batched_through: Vec<f64>,
}

impl<'a> Bed<'a> {
    async fn new(plan: &Plan, url: &'a str) -> Result<Self> {
        let payload = "78".repeat(plan.payload);
        let insert = format!("INSERT INTO {JOBS}.job (args) VALUES ('\\x{payload}');\n");
        let bed = Self { url, store: PostgresStore::connect(url)?, insert };
        bed.run(&clear()).await?;
        bed.run(&format!("CREATE SCHEMA {JOBS}; {TABLE}")).await?;
        Ok(bed)
    }

    async fn run(&self, statements: &str) -> Result<()> {
        let client = self.store.pool().get().await.context("connecting to the database")?;
        client.batch_execute(statements).await.context("preparing the database")
    }

    async fn measure(&self, plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
        let connections = plan.connections.iter().copied().max().unwrap_or(1).min(CONNECTIONS_MAX);
        progress.expect(plan.rounds * 14 + 1);
        progress.step("starting a server");
        let data = data_directory(plan)?;
        let options = ["--log", self.url, "--log-schema", LOG];
        let server = Server::driftq_with(&data.path().join("none"), &options).await?;
        for topic in [TOPIC, BATCHED_TOPIC, BATCHED_THROUGH_TOPIC] {
            create_topic(server.address, topic, 1).await?;
        }
        let bare = Server::bare().await?;
        let servers = (&server, &bare);
        let (mut free, mut held) = (Rates::default(), Rates::default());
        for _ in 0..plan.rounds {
            self.round(plan, progress, (servers, connections), &mut free).await?;
            let holder = self.store.pool().get().await.context("connecting to the database")?;
            let hold = format!("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM {JOBS}.job");
            holder.batch_execute(&hold).await.context("holding a snapshot")?;
            self.round(plan, progress, (servers, connections), &mut held).await?;
            holder.batch_execute("COMMIT").await.context("letting a snapshot go")?;
        }
        tell(report, connections, &free, &held);
        bare.kill().await?;
        server.kill().await
    }

    async fn round(
        &self,
        plan: &Plan,
        progress: &Progress,
        ((server, bare), connections): ((&Server, &Server), usize),
        rates: &mut Rates,
    ) -> Result<()> {
        progress.step("a row per job, inserted");
        rates.inserts.push(pgbench(self.url, &self.insert, "prepared", connections, plan).await?);
        progress.step("a row per job, inserted, taken and deleted");
        let through = format!("{}{THROUGH}", self.insert);
        rates.through.push(pgbench(self.url, &through, "prepared", connections, plan).await?);
        progress.step("produce, log in PostgreSQL");
        rates.ours.push(singles(plan, server.address, connections).await?);
        progress.step("produce, lease and ack, log in PostgreSQL");
        rates.ours_through.push(one_by_one(plan, server.address, connections).await?);
        progress.step("produce in batches, log in PostgreSQL");
        rates.batched.push(native::batches(plan, server.address, BATCHED_TOPIC).await?);
        progress.step("produce, lease and ack in batches, log in PostgreSQL");
        let through = native::batches_through(plan, server.address, BATCHED_THROUGH_TOPIC).await?;
        rates.batched_through.push(through);
        progress.step("bare hyper");
        rates.bare.push(singles(plan, bare.address, connections).await?);
        Ok(())
    }
}

/// Messages of which each is a request; per second.
async fn singles(plan: &Plan, address: SocketAddr, connections: usize) -> Result<f64> {
    let templates = vec![Template::produce(address, TOPIC, plan.payload)];
    let load = Load { address, connections, pipeline: 1, templates, length: plan.length };
    Ok(load::run(load).await?.rate())
}

/// Messages that are produced, leased and acked one by one on so many connections; per second.
async fn one_by_one(plan: &Plan, address: SocketAddr, connections: usize) -> Result<f64> {
    create_topic(address, THROUGH_TOPIC, 1).await?;
    let (started, done) = (Instant::now(), Rc::new(Cell::new(0_u64)));
    let until = started + length(plan);
    let local = LocalSet::new();
    let pass = |_| {
        let (done, payload) = (Rc::clone(&done), plan.payload);
        local.spawn_local(async move {
            let mut connection = Connection::open(address).await?;
            let (template, mut out) = (Template::produce(address, THROUGH_TOPIC, payload), Vec::new());
            while Instant::now() < until {
                out.clear();
                template.render(&mut out);
                connection.send(&out).await?;
                let status = connection.answer().await?.status;
                ensure!(status == 200, "a message was answered with {status}");
                let acked = lease_and_ack(address, &mut connection, (THROUGH_TOPIC, LEASE_ONE)).await?;
                ensure!(acked == 1, "a message was produced, and none was there to be leased");
                done.set(done.get() + acked);
            }
            anyhow::Ok(())
        })
    };
    let tasks: Vec<_> = (0..connections).map(pass).collect();
    local.run_until(async { tasks_ended(tasks).await }).await?;
    Ok(done.get() as f64 / started.elapsed().as_secs_f64())
}

async fn tasks_ended(tasks: Vec<tokio::task::JoinHandle<Result<()>>>) -> Result<()> {
    for task in tasks {
        task.await.context("a connection's task ended")??;
    }
    Ok(())
}

fn tell(report: &mut Report, connections: usize, free: &Rates, held: &Rates) {
    let (insert, take) = ("INSERT of a row per job", "a row per job, insert, SKIP LOCKED, delete");
    let (batch, wide) = (native::BATCH, native::CONNECTIONS);
    for (rates, words) in [(free, ""), (held, ", a snapshot held")] {
        let must = Must::RatioAtLeast(MUST_RATIO);
        for (name, ours, peer, theirs, must) in [
            (format!("bare hyper, {connections} connections"), &rates.bare, insert, &rates.inserts, None),
            (
                format!("produce, log in PostgreSQL, {connections} connections"),
                &rates.ours,
                insert,
                &rates.inserts,
                Some(must),
            ),
            (
                format!("produce, lease and ack one by one, {connections} connections"),
                &rates.ours_through,
                take,
                &rates.through,
                Some(must),
            ),
            (
                format!("produce in batches of {batch}, {wide} connections"),
                &rates.batched,
                insert,
                &rates.inserts,
                Some(must),
            ),
            (
                format!("produce, lease and ack in batches of {batch}, {wide} connections"),
                &rates.batched_through,
                take,
                &rates.through,
                Some(must),
            ),
        ] {
            let figure = Figure::new(format!("{name}{words}"), median(ours), Unit::PerSecond);
            let figure = figure.beside(peer, median(theirs), ratio(ours, theirs));
            report.add(match must {
                Some(must) => figure.must(must),
                None => figure,
            });
        }
    }
    let figure = Figure::new("produce while a snapshot is held", median(&held.ours), Unit::PerSecond);
    let figure = figure.beside("none held", median(&free.ours), ratio(&held.ours, &free.ours));
    report.add(figure.must(Must::RatioAtLeast(MUST_HELD_RATIO)));
}
