//! A sink into PostgreSQL, beside `COPY` of the same rows into the same table by `psql`.

use std::{
    fmt::Write as _,
    io::Write as _,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use driftq_client::{Client, raw};
use driftq_connect::{config::File, run::Connectors};
use driftq_ledger::postgres::PostgresStore;
use tempfile::NamedTempFile;
use tokio::{process::Command, runtime::Builder, sync::watch, time::timeout};

use super::{
    Plan,
    child::Server,
    figure::{Figure, Must, Report, Unit},
    ledger::SCHEMA,
    progress::Progress,
    setup::{create_topic, data_directory},
    statistics::{median, ratio},
};

/// What a sink must reach of `COPY`.
const MUST_RATIO: f64 = 0.5;
const TOPIC: &str = "sink";
/// Messages of one call.
const PRODUCED_AT_ONCE: u64 = 1_000;
/// A round that takes longer will not end.
const ROUND_MAX: Duration = Duration::from_secs(600);

/// One way to write, and the table that it writes into.
struct Way {
    words: &'static str,
    table: &'static str,
    key: &'static str,
    mode: &'static str,
}

const WAYS: [Way; 3] = [
    Way { words: "append, no key", table: "plain", key: "", mode: "mode = \"append\"" },
    Way {
        words: "insert by key",
        table: "keyed",
        key: ", UNIQUE (id)",
        mode: "mode = \"insert\"\ndedupe_key = [\"id\"]",
    },
    Way {
        words: "upsert by key and version",
        table: "versioned",
        key: ", UNIQUE (id)",
        mode: "mode = \"upsert\"\ndedupe_key = [\"id\"]\nversion = \"at\"",
    },
];

pub(super) async fn measure(plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
    let Some(url) = &plan.postgres else {
        bail!("say which database to measure: --postgres postgres://user@host/database");
    };
    let bed = Bed::new(plan, url).await?;
    let result = bed.measure(plan, progress, report).await;
    // Also after a failure; what was measured matters more than whether this works.
    drop(bed.run(&format!("DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")).await);
    result
}

struct Bed<'a> {
    url: &'a str,
    store: PostgresStore,
    messages: u64,
    note: String,
}

impl<'a> Bed<'a> {
    async fn new(plan: &Plan, url: &'a str) -> Result<Self> {
        let store = PostgresStore::connect(url)?;
        let bed = Self { url, store, messages: plan.consume_messages, note: "x".repeat(plan.payload) };
        bed.run(&format!("DROP SCHEMA IF EXISTS {SCHEMA} CASCADE; CREATE SCHEMA {SCHEMA}")).await?;
        for Way { table, key, .. } in WAYS {
            bed.run(&format!(
                "CREATE TABLE {SCHEMA}.{table} (id bigint NOT NULL, customer text, amount numeric, \
                 at timestamptz NOT NULL, note text{key})"
            ))
            .await?;
        }
        Ok(bed)
    }

    async fn run(&self, statements: &str) -> Result<()> {
        let client = self.store.pool().get().await.context("connecting to the database")?;
        client.batch_execute(statements).await.context("preparing the database")
    }

    async fn measure(&self, plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
        progress.expect(WAYS.len() * plan.rounds * 3 + 1);
        progress.step("starting a server");
        let folder = data_directory(plan)?;
        let server = Server::driftq(folder.path()).await?;
        create_topic(server.address, TOPIC, 1).await?;
        let url = format!("http://{}", server.address);
        let client = Client::new(&url)?;
        let mut file = NamedTempFile::new().context("a file of rows")?;
        file.write_all(self.rows().as_bytes()).context("writing a file of rows")?;
        for way in &WAYS {
            let (mut ours, mut bare) = (Vec::new(), Vec::new());
            for _ in 0..plan.rounds {
                progress.step("COPY, psql");
                bare.push(self.copy(way, &file).await?);
                progress.step("producing");
                self.produce(&client).await?;
                progress.step("sink");
                ours.push(self.sink(way, &url).await?);
            }
            let figure =
                Figure::new(format!("sink into PostgreSQL, {}", way.words), median(&ours), Unit::PerSecond);
            let figure = figure.beside("COPY of the same rows", median(&bare), ratio(&ours, &bare));
            report.add(figure.must(Must::RatioAtLeast(MUST_RATIO)));
        }
        Ok(())
    }

    /// The columns of one row. Keys come in no order.
    fn row(&self, number: u64) -> (u64, u64, String) {
        let id = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1;
        (
            id,
            id % 1_000,
            format!("2026-11-17T{:02}:{:02}:{:02}Z", number / 3600 % 24, number / 60 % 60, number % 60),
        )
    }

    fn rows(&self) -> String {
        let mut text = String::new();
        for number in 0..self.messages {
            let ((id, cents, at), note) = (self.row(number), &self.note);
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{id}\tcustomer-{cents}\t{cents}.25\t{at}\t{note}");
        }
        text
    }

    /// The peer's side of a round, rows per second.
    async fn copy(&self, way: &Way, file: &NamedTempFile) -> Result<f64> {
        let table = way.table;
        self.run(&format!("TRUNCATE {SCHEMA}.{table}")).await?;
        let copy = format!("\\copy {SCHEMA}.{table} FROM '{}'", file.path().display());
        let mut command = Command::new("psql");
        command.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", &copy, self.url]);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let started = Instant::now();
        let output = command.output().await.context("starting psql; it comes with PostgreSQL")?;
        ensure!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
        Ok(self.messages as f64 / started.elapsed().as_secs_f64())
    }

    async fn produce(&self, client: &Client) -> Result<()> {
        for first in (0..self.messages).step_by(usize::try_from(PRODUCED_AT_ONCE)?) {
            let last = (first + PRODUCED_AT_ONCE).min(self.messages);
            let messages = (first..last).map(|number| {
                let ((id, cents, at), note) = (self.row(number), &self.note);
                raw(format!(
                    r#"{{"id":{id},"customer":"customer-{cents}","amount":{cents}.25,"at":"{at}","note":"{note}"}}"#
                ))
            });
            for stored in client.produce_all(TOPIC, messages).await? {
                stored?;
            }
        }
        Ok(())
    }

    /// Our side of a round, rows per second: from the start of the sink to the commit of the last row.
    async fn sink(&self, way: &Way, server: &str) -> Result<f64> {
        let Way { table, mode, .. } = way;
        self.run(&format!("TRUNCATE {SCHEMA}.{table}")).await?;
        let file = File::parse(&format!(
            "[[sink]]\nname = \"bench\"\ntopic = \"{TOPIC}\"\npostgres = {{ url = '{}' }}\ntable = \"{SCHEMA}.{table}\"\n\
             progress_table = \"{SCHEMA}.progress\"\n{mode}\ncolumns = [\n\
             {{ name = \"id\", from = \"/id\", type = \"bigint\", required = true }},\n\
             {{ name = \"customer\", from = \"/customer\", type = \"text\" }},\n\
             {{ name = \"amount\", from = \"/amount\", type = \"numeric\" }},\n\
             {{ name = \"at\", from = \"/at\", type = \"timestamptz\", required = true }},\n\
             {{ name = \"note\", from = \"/note\", type = \"text\" }},\n]\n",
            self.url
        ))?;
        let connectors = Connectors::new(file)?;
        connectors.migrate().await?;
        let mut done = connectors.sinks().first().context("a sink")?.progress();
        let stop = watch::Sender::new(false);
        let started = Instant::now();
        let all = async {
            let reached = done.wait_for(|progress| progress.rows >= self.messages).await.map(drop);
            let elapsed = started.elapsed();
            stop.send_replace(true);
            reached.map(|()| elapsed)
        };
        // On threads of their own, as `driftq connect run` has them.
        let runtime = Builder::new_multi_thread().enable_all().build().context("starting a runtime")?;
        let running = runtime.spawn({
            // A client belongs to the runtime that first uses it.
            let (client, stopped) = (Client::new(server)?, stop.subscribe());
            async move { connectors.run(&client, stopped).await }
        });
        let round = async { tokio::join!(running, all) };
        let (outcome, elapsed) = timeout(ROUND_MAX, round).await.context("the sink did not end")?;
        runtime.shutdown_background();
        outcome.context("the sink")??;
        Ok(self.messages as f64 / elapsed?.as_secs_f64())
    }
}
