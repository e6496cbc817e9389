//! `driftq connect …`: connectors that a file describes, such as sinks into PostgreSQL.

use std::path::{Path, PathBuf};
use std::process;

use anyhow::Result;
use driftq_client::Client;
use driftq_connect::config::{ConfigError, File};
pub use driftq_connect::deliver::breaker::Position;
pub use driftq_connect::deliver::{Counts, EndpointCounts};
pub use driftq_connect::run::Connectors;
use driftq_connect::run::RunError;
use driftq_connect::secret::{Plain, SealingKey, SecretError};
use driftq_connect::sink::{Need, Sink, SinkError};
use serde::Serialize;
use tokio::sync::watch;

use crate::{Common, Exit, Fault, Format, Signals, context, printable, work};

const ABOUT: &str = "A connector is a program that uses a server like any other, and that you need not write. A sink \
writes the messages of a topic into a table of PostgreSQL, each once: rows and progress are committed in one \
transaction, and messages are acked after it. Any number of copies may run, and any of them may be killed.

With [deliveries], what is sent to the server's endpoints goes out (`driftq endpoint`, `driftq delivery`).

The file, in TOML:
  [deliveries]                         # to all endpoints of the server
  allow = [\"10.1.0.0/16\"]            # besides the public Internet: networks and host names

  [exports.places.lake]                # what `driftq export request lake` asks for is written here
  url = \"s3://lake/exports\"          # or a directory
  [exports.databases.shop]             # queries may be asked of it
  url_env = \"SHOP_DATABASE_URL\"

  [[sink]]
  name = \"orders\"                     # its progress, and its group sink.orders
  topic = \"orders\"
  postgres = { url_env = \"DATABASE_URL\" }   # or url, or url_file
  table = \"public.orders\"
  mode = \"upsert\"                     # or insert, or append
  dedupe_key = [\"id\"]
  version = \"version\"                 # an older one never overwrites a newer one
  columns = [
    { name = \"id\", from = \"/id\", type = \"bigint\", required = true },
    { name = \"version\", from = \"$offset\", type = \"bigint\" },
    { name = \"paid\", from = \"/paid\", type = \"boolean\", default = false },
  ]

from is a JSON pointer into the payload, or $key, $offset, $partition, $produced_at, $idempotency_key or $value; type \
is text, bigint, integer, double, numeric, boolean, timestamptz, jsonb, uuid or bytea. Messages that are no row of the \
table become dead letters with the reason; `driftq dlq` shows them, and sends them back.

Examples:
  driftq connect check connect.toml              # does it fit the tables? What is missing?
  driftq connect run connect.toml --migrate      # make tables that are missing, and run
  driftq connect check connect.toml -o json | jq '.sinks[].needs'
  driftq serve --connect connect.toml            # within the server's own process";

#[derive(clap::Args)]
#[command(after_help = ABOUT)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Read the file, compare it with the tables, and say what would be done
    #[command(
        after_help = "Nothing is changed. What is missing is shown with the SQL that makes it, and the exit code \
is then 9.

Examples:
  driftq connect check connect.toml
  driftq connect check connect.toml -o json"
    )]
    Check(CheckArgs),
    /// Seal a secret for an endpoint, so that the server can keep it and only connectors can read it
    #[command(
        after_help = "Reads the secret from stdin. The key of secrets is 32 bytes in base64, in DRIFTQ_SECRETS_KEY or \
in the file that DRIFTQ_SECRETS_KEY_FILE names; connectors that send for the endpoint need the same.

Examples:
  export DRIFTQ_SECRETS_KEY=$(head -c 32 /dev/urandom | base64)
  echo \"whsec_$(head -c 32 /dev/urandom | base64)\" | driftq connect seal shop"
    )]
    Seal {
        /// The endpoint that it is for; it opens for no other
        endpoint: String,
    },
    /// Run what the file describes, until Ctrl-C or SIGTERM
    #[command(
        after_help = "Ctrl-C or SIGTERM drains: what was begun is committed and acked, what waits is given back. A \
second one ends the process at once, which loses and doubles nothing either. A database or a server that goes away is \
waited for; that is said once, and once when it is back.

Examples:
  driftq connect run connect.toml
  driftq connect run connect.toml --migrate      # make tables that are missing; alters none
  driftq connect run connect.toml --server https://queue.internal --key-file key"
    )]
    Run(RunArgs),
}

#[derive(clap::Args)]
struct CheckArgs {
    /// The file that describes the connectors
    file: PathBuf,
}

#[derive(clap::Args)]
struct RunArgs {
    /// The file that describes the connectors
    file: PathBuf,
    /// Make tables that are missing; what exists is not altered
    #[arg(long)]
    migrate: bool,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    match &args.command {
        Command::Check(args) => check(common, args).await,
        Command::Run(args) => start(common, args).await,
        Command::Seal { endpoint } => seal(common, endpoint),
    }
}

/// What a check tells.
#[derive(Serialize)]
struct Checked {
    /// Whether all of it could run.
    ok: bool,
    /// Whether deliveries would be sent.
    deliveries: bool,
    /// Where exports would be written.
    places: Vec<String>,
    sinks: Vec<CheckedSink>,
}

#[derive(Serialize)]
struct CheckedSink {
    name: String,
    topic: String,
    group: String,
    table: String,
    mode: &'static str,
    /// What must be done before it can run.
    needs: Vec<Need>,
}

impl CheckedSink {
    fn new(sink: &Sink, needs: Vec<Need>) -> Self {
        let config = sink.config();
        Self {
            name: config.name.clone(),
            topic: config.topic.clone(),
            group: config.group(),
            table: config.table.clone(),
            mode: config.mode.name(),
            needs,
        }
    }

    fn text(&self) -> String {
        let Self { name, topic, group, table, mode, needs } = self;
        let name = printable(name);
        let mut text = format!("sink {name}: topic {topic}, as group {group}, into table {table} ({mode})\n");
        for Need { what, sql } in needs {
            text.push_str(&format!("  {what}\n"));
            for line in sql.iter().flat_map(|sql| sql.lines()) {
                text.push_str(&format!("    {line}\n"));
            }
        }
        if needs.is_empty() {
            text.push_str("  the table fits\n");
        }
        text
    }
}

/// What is told of a sealed secret.
#[derive(Serialize)]
struct Sealed {
    sealed: String,
}

fn seal(common: &Common, endpoint: &str) -> Result<()> {
    let text = crate::file::read("SECRET", "-")?;
    let refused = |error: SecretError| Fault::new(Exit::Usage, error.to_string());
    let text = String::from_utf8(text).map_err(|_| refused(SecretError::Size))?;
    let secret = Plain::new(text.trim_end_matches(['\r', '\n'])).map_err(refused)?;
    let key = SealingKey::from_environment().map_err(refused)?;
    let key = key.ok_or_else(|| refused(SecretError::NoKey))?;
    let sealed = Sealed { sealed: key.seal(endpoint, &secret).map_err(refused)? };
    common.show(&sealed, |sealed| format!("{}\n", sealed.sealed))
}

async fn check(common: &Common, args: &CheckArgs) -> Result<()> {
    let connectors = read(&args.file)?;
    let mut sinks = Vec::new();
    for sink in connectors.sinks() {
        let finding = sink.check().await.map_err(|error| fault(error.into()))?;
        sinks.push(CheckedSink::new(sink, finding.needs));
    }
    let ok = sinks.iter().all(|sink| sink.needs.is_empty());
    let places = connectors.places().map(str::to_owned).collect();
    let checked = Checked { ok, deliveries: connectors.delivers(), places, sinks };
    common.show(&checked, |checked| {
        let others = others(&connectors).map(|line| line + "\n");
        others.chain(checked.sinks.iter().map(CheckedSink::text)).collect()
    })?;
    if checked.ok {
        return Ok(());
    }
    let fault = Fault::new(Exit::Config, "not everything that the file describes could run");
    Err(fault.help("run the SQL above; or `driftq connect run --migrate` if only tables are missing").into())
}

/// What runs besides sinks, a line each.
fn others(connectors: &Connectors) -> impl Iterator<Item = String> {
    let deliveries = connectors.delivers().then(|| "deliveries: to the endpoints of the server".to_owned());
    let exports = connectors.places().map(|place| format!("exports: to the place {}", printable(place)));
    deliveries.into_iter().chain(exports)
}

async fn start(common: &Common, args: &RunArgs) -> Result<()> {
    if common.output == Some(Format::Json) {
        let fault = Fault::new(Exit::Usage, "--output json: this never ends, so it is never one document");
        return Err(fault.help("what it does is told on stderr").into());
    }
    let connectors = read(&args.file)?;
    let chosen = context::choose(common)?;
    let mut client = Client::builder().url(&chosen.server);
    if let Some(key) = chosen.key()? {
        client = client.key(key);
    }
    if let Some(file) = &chosen.ca_file {
        client = client.ca_file(file);
    }
    let client = client.build().map_err(work::fault)?;
    let mut signals = Signals::new()?;
    work::log::start();
    if args.migrate {
        connectors.migrate().await.map_err(fault)?;
    }
    for line in others(&connectors) {
        eprintln!("{line}");
    }
    for sink in connectors.sinks() {
        let config = sink.config();
        let (name, topic, table) = (printable(&config.name), &config.topic, &config.table);
        eprintln!("sink {name}: topic {topic} into table {table} ({})", config.mode.name());
    }
    let stop = watch::Sender::new(false);
    let watch = async {
        signals.next().await;
        eprintln!("draining; a second signal ends the process at once");
        stop.send_replace(true);
        process::exit(signals.next().await.exit_code());
    };
    let outcome = tokio::select! {
        outcome = connectors.run(&client, stop.subscribe()) => outcome,
        () = watch => Ok(()),
    };
    for sink in connectors.sinks() {
        let progress = *sink.progress().borrow();
        let (name, rows, dead) = (printable(&sink.config().name), progress.rows, progress.dead);
        eprintln!("sink {name}: {rows} rows, {dead} dead letters");
    }
    if let Some(counts) = connectors.counts() {
        let sum = |of: fn(&EndpointCounts) -> u64| counts.read().values().map(of).sum::<u64>();
        let (delivered, failed) = (sum(|counts| counts.delivered), sum(|counts| counts.failed));
        eprintln!(
            "deliveries: {delivered} sends delivered, {failed} failed, {} unknown",
            sum(|counts| counts.unknown)
        );
    }
    outcome.map_err(fault)
}

/// Reads a file that describes connectors. Nothing is connected yet.
pub fn read(path: &Path) -> Result<Connectors> {
    let file = File::read(path).map_err(|error| match error {
        ConfigError::Unreadable { .. } => Fault::new(Exit::Usage, error.to_string()),
        error => Fault::new(Exit::Config, format!("{}: {error}", path.display()))
            .help("`driftq connect --help` has an example"),
    })?;
    Connectors::new(file).map_err(fault)
}

fn fault(error: RunError) -> anyhow::Error {
    let text = error.to_string();
    let exit = match error {
        RunError::Sink(SinkError::Server { sink, topic, error }) => {
            return work::fault(*error).context(format!("sink `{}`, topic `{topic}`", printable(&sink)));
        }
        RunError::Sink(SinkError::Setting { .. } | SinkError::Table { .. }) => Exit::Config,
        RunError::Sink(SinkError::Database { .. }) => Exit::Unreachable,
        RunError::Deliveries(_) | RunError::Exports(_) => Exit::Config,
        RunError::NotDrained => Exit::Failure,
    };
    Fault::new(exit, text).into()
}

/// Runs connectors within the process of a server, until `stop` turns true. The key, if the server asks for one, is that of the
/// environment.
pub async fn beside(connectors: &Connectors, server: &str, stop: watch::Receiver<bool>) -> Result<()> {
    let client = Client::builder().url(server).build().map_err(work::fault)?;
    connectors.run(&client, stop).await.map_err(fault)
}
