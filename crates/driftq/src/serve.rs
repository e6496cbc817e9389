//! `driftq serve`: the broker and its HTTP edge in this process.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
    process,
    sync::Arc,
};

use anyhow::{Context, Result};
use driftq_bench::demo;
use driftq_cli::{
    colour,
    exit::{Exit, Fault},
    signal::{Signal, Signals},
};
use driftq_engine::{Broker, Counters, Recovery, StartError, Started, cluster::Seat};
use tokio::net::TcpListener;

use super::{
    config_check::refuse,
    connecting::{Beside, Connecting},
    node, startup,
};
use driftq_server::{
    Deliveries,
    config::{Config, KnobArgs, Resolved, resolve},
    http::{self, Front},
    log,
};

#[derive(clap::Args)]
#[command(
    after_help = "Every option can also be set in the environment (DRIFTQ_LISTEN for --listen) and in a TOML file \
(in_flight_max = 8 for --in-flight-max). Order: default < profile < file < env < flag; `driftq config check` \
shows what came from where. Sizes read 64MiB, durations 500ms, 30s, 24h.

Ctrl-C or SIGTERM stops gracefully: streams end, unread messages go back without using up an attempt, a snapshot \
is written. A second signal ends the process at once; nothing acknowledged is lost, the next start replays.

Examples:
  driftq serve
  driftq serve --listen 127.0.0.1:9090 --data /var/lib/driftq
  driftq serve --listen 0.0.0.0:8443 --keys required --tls-cert cert.pem --tls-key key.pem
  driftq serve --listen 0.0.0.0:8080 --keys required --behind-proxy
  driftq serve --ephemeral --profile v1-dev --log-level debug
  driftq serve --config /etc/driftq.toml --log-format json"
)]
pub(crate) struct Args {
    /// Run the connectors of this file in this process, too; see `driftq connect`. With keys, they show the one in DRIFTQ_KEY
    #[cfg(feature = "connect")]
    #[arg(long, env = "DRIFTQ_CONNECT", hide_env_values = true, value_name = "FILE")]
    connect: Option<std::path::PathBuf>,
    #[command(flatten)]
    knobs: KnobArgs,
}

/// What differs between the commands that run the broker; everything else they share.
pub(super) trait Manner {
    /// Takes the address to listen on.
    async fn bind(&self, config: &Config) -> Result<TcpListener>;
    /// Says that connections are answered from now on.
    fn announce(&self, config: &Config, recovery: &Recovery, address: SocketAddr) -> Result<()>;
    /// Says what was done, after a graceful stop.
    fn part(&self, config: &Config, counters: &Counters) -> Result<()>;
    /// The connectors that run in this process.
    fn connectors(&self) -> Beside {
        Beside::default()
    }
}

/// For machines and the people who run them: the address that was asked for or none, and few words.
struct Plain {
    connectors: Beside,
}

impl Manner for Plain {
    async fn bind(&self, config: &Config) -> Result<TcpListener> {
        TcpListener::bind(&config.listen).await.map_err(|error| refuse_address(config, &error).into())
    }

    fn announce(&self, config: &Config, recovery: &Recovery, address: SocketAddr) -> Result<()> {
        startup::announce(config, recovery, address)
    }

    fn part(&self, _: &Config, _: &Counters) -> Result<()> {
        Ok(())
    }

    fn connectors(&self) -> Beside {
        self.connectors.clone()
    }
}

pub(super) fn refuse_address(config: &Config, error: &io::Error) -> Fault {
    Fault::new(Exit::Listen, format!("cannot listen on {}: {error}", config.listen))
        .help("choose another address with --listen, or port 0 for any free one")
}

/// The server of `driftq demo`, which does not outlive it.
#[derive(clap::Args)]
pub(crate) struct DemoArgs {
    /// Ends when this process does
    #[arg(long)]
    parent: u32,
    #[command(flatten)]
    serve: Args,
}

pub(super) fn run_for_demo(args: &DemoArgs) -> Result<()> {
    demo::die_with(args.parent)?;
    run(&args.serve)
}

pub(super) fn run(args: &Args) -> Result<()> {
    #[cfg(feature = "connect")]
    let connectors = Beside::read(args.connect.as_deref())?;
    #[cfg(not(feature = "connect"))]
    let connectors = Beside::default();
    host(resolve(&args.knobs), &Plain { connectors })
}

/// Runs the broker until a signal ends it.
pub(super) fn host(resolved: Resolved, manner: &impl Manner) -> Result<()> {
    let problems: Vec<String> = resolved.problems.iter().map(ToString::to_string).collect();
    refuse(&problems)?;
    for warning in &resolved.warnings {
        // A warning that cannot be written stops nothing.
        let _ = writeln!(io::stderr(), "warning: {warning}");
    }
    let config = resolved.config;
    // Logs go to stderr, so that stdout holds only what the start announces.
    log::start(&config.log_level, config.log_format, colour::is_on(&io::stderr()))?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting a runtime")?;
    let outcome = runtime.block_on(serve(config, manner));
    // Whatever still runs belongs to connections that did not end in time.
    runtime.shutdown_background();
    log::flush();
    outcome
}

async fn serve(config: Config, manner: &impl Manner) -> Result<()> {
    let mut signals = Signals::new()?;
    // Bound before the data is touched: an address in use is noticed at once. Connections wait in the backlog.
    let listener = manner.bind(&config).await?;
    if !config.node_url.is_empty() {
        return node::serve(&config, manner, &mut signals, listener).await;
    }
    let address = listener.local_addr().context("the listen address")?;
    let started = open(&config, &mut signals).await?;
    let Started { broker, recovery } = started.map_err(|error| startup::explain(&error, &config))?;
    if config.keys_required() {
        broker.load_keys().await.context("reading the keys")?;
    }
    if let Err(error) = manner.announce(&config, &recovery, address) {
        tracing::warn!(error = format!("{error:#}"), %address, "stdout does not take what is announced there");
    }
    let options = config.http(address.port());
    let open = |broker, deliveries| {
        Front::serving(listener, options, broker, http::Beside { deliveries, seat: None })
    };
    let serving = Serving::begin(&config, manner, address, broker, open)?;
    let signal = signals.next().await;
    tracing::info!(signal = signal.name(), "stopping; a second signal ends the process at once");
    let graceful = async { manner.part(&config, &serving.end().await?) };
    tokio::select! {
        outcome = graceful => {
            tracing::info!("stopped");
            outcome
        }
        signal = signals.next() => leave(signal),
    }
}

/// Opens the log and recovers what is in it.
pub(super) async fn open(config: &Config, signals: &mut Signals) -> Result<Result<Started, StartError>> {
    let engine = config.engine();
    let starting = tokio::task::spawn_blocking(move || Broker::start(engine));
    tokio::select! {
        started = starting => started.context("the start ended"),
        // Nothing is served yet and a log being replayed is not changed: there is nothing to end gracefully.
        signal = signals.next() => process::exit(signal.exit_code()),
    }
}

/// A broker, what makes it reachable, and what uses it.
pub(super) struct Serving {
    broker: Broker,
    front: Front,
    connectors: Connecting,
}

impl Serving {
    /// Has a front answer from the broker, and starts what uses it.
    pub(super) fn begin(
        config: &Config,
        manner: &impl Manner,
        address: SocketAddr,
        broker: Broker,
        front: impl FnOnce(Broker, Option<Deliveries>) -> io::Result<Front>,
    ) -> Result<Self> {
        let connectors = manner.connectors();
        let front = front(broker.clone(), connectors.deliveries()).context("the HTTP edge")?;
        Ok(Self { broker, front, connectors: connectors.start(config, address) })
    }

    /// Ends gracefully: first what uses the server, then the server. Tells what it did.
    pub(super) async fn end(self) -> Result<Counters> {
        self.connectors.stop().await;
        self.front.end().await.context("the HTTP edge ended")?;
        let counters = self.broker.counters();
        self.broker.stop().await;
        Ok(counters)
    }

    /// Leaves the work to another server of the cluster: connections stay, and what they ask is passed on.
    pub(super) async fn hand_over(mut self, seat: &Arc<Seat>) -> Front {
        self.connectors.stop().await;
        self.front.stand_by(Arc::clone(seat)).await;
        self.broker.stop().await;
        self.front
    }
}

/// What is acknowledged is on disk: leaving now costs the next start a replay and nothing else.
pub(super) fn leave(signal: Signal) -> ! {
    tracing::warn!(signal = signal.name(), "ending at once");
    log::flush();
    process::exit(signal.exit_code())
}
