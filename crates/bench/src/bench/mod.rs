//! `driftq bench`: what this machine does, beside what it could do.
//!
//! Absolute figures move with the machine and its neighbours. So every figure of ours stands beside a peer that was
//! measured in the same run: a bare hyper server that answers the same requests and does nothing, the disk's own sync
//! rate, or ourselves under other circumstances. Rounds of both alternate, and the median counts.

mod bare;
mod child;
mod consume;
mod deliveries;
mod disk;
mod effects;
mod end_to_end;
mod figure;
mod flat;
mod http;
mod instructions;
mod keys;
mod ledger;
mod ledger_storage;
mod load;
mod log;
mod log_nats;
mod native;
mod nats;
mod produce;
mod profile;
mod progress;
mod recovery;
mod request_kind;
mod scrape;
mod setup;
mod shards;
mod sink;
mod statistics;
mod template;
#[cfg(feature = "tls")]
mod tls;
mod watched;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};

pub use bare::{Args as BareArgs, COMMAND as BARE_COMMAND, run as run_bare};

use driftq_cli::output::{self, Format};
use figure::Report;
use load::Length;
use progress::Progress;

/// Which part to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Produce rates, syncs per request, idle memory
    Produce,
    /// End-to-end latency, consume and ack rate
    E2e,
    /// Batches, leases and acks of the native API
    Native,
    /// Begin and finish of effects, replays
    Effects,
    /// What a key costs, and a quiet key's latency beside a noisy one
    Keys,
    /// What TLS costs: produce on 64 connections, and new connections
    #[cfg(feature = "tls")]
    Tls,
    /// What traces cost: produce on 64 connections while one message of a hundred is traced
    #[cfg(feature = "otlp")]
    Traces,
    /// What an open dashboard costs: produce on 64 connections
    Dashboard,
    /// Where the time goes: processor time and context switches per request, by thread; not part of `all`
    Profile,
    /// Instructions per request, counted by valgrind, the same on a busy machine; not part of `all`
    Instructions,
    /// Several shards beside one: produce rates, and what a request costs; not part of `all`
    Shards,
    /// Memory with many messages kept, and the start after kill -9
    Recovery,
    /// Whether produce and effects stay as cheap with many messages, topics, groups and records
    Flat,
    /// The ledger in PostgreSQL beside bare statements by pgbench; needs --postgres
    Ledger,
    /// Produce with the log in PostgreSQL beside a queue of a row per job, or in NATS beside bare publishes; needs
    /// --postgres or --nats
    Log,
    /// Deliveries to a hundred endpoints of which one hangs, beside a hundred that answer
    Deliveries,
    /// A sink into PostgreSQL beside COPY of the same rows by psql; needs --postgres
    Sink,
    /// All but profile, instructions and shards; ledger, log and sink only with --postgres, log also with --nats
    All,
}

#[derive(clap::Args)]
#[command(
    after_help = "Two servers are started as children of this process, on ports that the system chooses: a bare HTTP server, \
and `driftq serve` with a temporary data directory that is removed at the end. Every figure is printed with its \
ratio to its peer in this run, and with what it must reach. Nothing here fails when a figure is missed.

Examples:
  driftq bench                     # everything; takes minutes
  driftq bench produce --quick
  driftq bench all -o json > bench.json
  driftq bench --dir /mnt/fast     # measure that disk
  driftq bench ledger --postgres postgres://me@127.0.0.1/test   # in a schema of its own
  driftq bench log --postgres postgres://me@127.0.0.1/test      # in two schemas of its own
  driftq bench log --nats 'nats://127.0.0.1:4222/x?monitor=http://127.0.0.1:8222'
  driftq bench sink --postgres postgres://me@127.0.0.1/test     # in schemas of its own
  driftq bench deliveries --rounds 9 -o json | jq '.figures[].ratio'
  driftq bench ledger --postgres … --connections 1,16 --retained 10000000  # gigabytes"
)]
pub struct Args {
    /// Which part
    #[arg(value_enum, default_value = "all")]
    part: Part,
    /// Short rounds and few messages: a smoke test, not a measurement
    #[arg(long)]
    quick: bool,
    /// Connections of the produce rounds
    #[arg(long, value_delimiter = ',', default_value = "1,64", value_name = "N,…")]
    connections: Vec<usize>,
    /// Length of one round
    #[arg(long, value_name = "N", conflicts_with = "messages")]
    seconds: Option<f64>,
    /// Requests of one round, instead of a length in time
    #[arg(long, value_name = "N")]
    messages: Option<u64>,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..100))]
    rounds: u16,
    /// Bytes of one message's value
    #[arg(long, default_value_t = 100, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    payload: u32,
    /// Messages kept for the memory, recovery and flatness figures
    #[arg(long, value_name = "N")]
    retained: Option<u64>,
    /// Where the temporary data directory is made; put it on the disk that you want to measure
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The database for the parts ledger, log and sink
    #[arg(long, value_name = "URL", env = "DRIFTQ_BENCH_POSTGRES", hide_env_values = true)]
    postgres: Option<String>,
    /// The NATS servers for the part log, as `driftq serve --log` names them
    #[arg(long, value_name = "URL", env = "DRIFTQ_BENCH_NATS", hide_env_values = true)]
    nats: Option<String>,
}

/// The arguments with every default filled in.
struct Plan {
    part: Part,
    connections: Vec<usize>,
    length: Length,
    rounds: usize,
    payload: usize,
    retained: u64,
    /// Messages of the end-to-end part, at a hundred per second.
    latency_messages: u64,
    /// Messages of the consume and ack part.
    consume_messages: u64,
    dir: PathBuf,
    postgres: Option<String>,
    nats: Option<String>,
}

impl Plan {
    fn new(args: &Args) -> Result<Self> {
        if args.connections.iter().any(|count| !(1..=CONNECTIONS_MAX).contains(count)) {
            bail!("--connections must lie between 1 and {CONNECTIONS_MAX}");
        }
        let seconds = args.seconds.unwrap_or(if args.quick { 0.4 } else { 2.0 });
        if !(0.05..=3600.0).contains(&seconds) {
            bail!("--seconds must lie between 0.05 and 3600");
        }
        let time = Length::Time(Duration::from_secs_f64(seconds));
        Ok(Self {
            part: args.part,
            connections: args.connections.clone(),
            length: args.messages.map_or(time, Length::Requests),
            rounds: args.rounds.into(),
            payload: usize::try_from(args.payload).context("--payload")?,
            retained: args.retained.unwrap_or(if args.quick { 100_000 } else { 1_000_000 }),
            latency_messages: if args.quick { 200 } else { 1_000 },
            consume_messages: if args.quick { 5_000 } else { 100_000 },
            dir: args.dir.clone().unwrap_or_else(std::env::temp_dir),
            postgres: args.postgres.clone(),
            nats: args.nats.clone(),
        })
    }

    const fn runs(&self, part: Part) -> bool {
        matches!(self.part, Part::All) || self.part as u8 == part as u8
    }
}

/// More sockets than this need limits that a benchmark should not change.
const CONNECTIONS_MAX: usize = 512;

pub fn run(format: Option<Format>, args: &Args) -> Result<()> {
    let plan = Plan::new(args)?;
    // One thread for the load: what it does not use is left to the servers.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting a runtime")?;
    let report = runtime.block_on(Box::pin(async {
        tokio::select! {
            report = measure(&plan) => report,
            // Returning drops the children and the temporary directory.
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        }
    }))?;
    match format {
        Some(Format::Ndjson) => output::print_many(format, &report.figures, String::new),
        format => output::print_one(format, &report, || report.text()),
    }
}

async fn measure(plan: &Plan) -> Result<Report> {
    let progress = Progress::new();
    let mut report = Report::new(plan);
    if plan.runs(Part::Produce) {
        produce::measure(plan, &progress, &mut report).await?;
    }
    if plan.runs(Part::E2e) {
        end_to_end::measure(plan, &progress, &mut report).await?;
        consume::measure(plan, &progress, &mut report).await?;
    }
    if plan.runs(Part::Native) {
        native::measure(plan, &progress, &mut report).await?;
    }
    if plan.runs(Part::Effects) {
        effects::measure(plan, &progress, &mut report).await?;
    }
    if plan.runs(Part::Keys) {
        keys::measure(plan, &progress, &mut report).await?;
    }
    #[cfg(feature = "tls")]
    if plan.runs(Part::Tls) {
        tls::measure(plan, &progress, &mut report).await?;
    }
    #[cfg(feature = "otlp")]
    if plan.runs(Part::Traces) {
        watched::traces(plan, &progress, &mut report).await?;
    }
    if plan.runs(Part::Dashboard) {
        watched::dashboard(plan, &progress, &mut report).await?;
    }
    if matches!(plan.part, Part::Profile) {
        profile::measure(plan, &progress, &mut report).await?;
    }
    if matches!(plan.part, Part::Shards) {
        shards::measure(plan, &progress, &mut report).await?;
    }
    if matches!(plan.part, Part::Instructions) {
        instructions::measure(plan, &progress, &mut report).await?;
    }
    if matches!(plan.part, Part::Ledger) || plan.runs(Part::Ledger) && plan.postgres.is_some() {
        ledger::measure(plan, &progress, &mut report).await?;
    }
    if matches!(plan.part, Part::Log) && plan.postgres.is_none() && plan.nats.is_none() {
        bail!(
            "say what to measure: --postgres postgres://user@host/database, or --nats nats://host:port/NAME?…"
        );
    }
    if let Some(url) = plan.postgres.as_ref().filter(|_| plan.runs(Part::Log)) {
        log::measure(plan, &progress, &mut report, url).await?;
    }
    if let Some(url) = plan.nats.as_ref().filter(|_| plan.runs(Part::Log)) {
        log_nats::measure(plan, &progress, &mut report, url).await?;
    }
    if matches!(plan.part, Part::Sink) || plan.runs(Part::Sink) && plan.postgres.is_some() {
        sink::measure(plan, &progress, &mut report).await?;
    }
    if plan.runs(Part::Deliveries) {
        deliveries::measure(plan, &progress, &mut report).await?;
    }
    if plan.runs(Part::Recovery) {
        recovery::measure(plan, &progress, &mut report).await?;
    }
    if plan.runs(Part::Flat) {
        flat::measure(plan, &progress, &mut report).await?;
        native::measure_flat(plan, &progress, &mut report).await?;
        effects::measure_flat(plan, &progress, &mut report).await?;
    }
    progress.done();
    Ok(report)
}
