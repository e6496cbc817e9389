//! The commands that talk to a server: one file per resource, all of them speaking the public API like any other client.
//! Only `wal`, `backup`, `restore`, `migrate` and `context` work without a server. What every command of the binary
//! shares is here too: the options, the exit codes, the output as tables or JSON.
//!
//! Most commands are their arguments, a path, and what is told about the answer: `caller` makes the call and explains
//! a refusal, `output::Columns` says what is told, as rows or as facts.

pub mod absent;
mod ack;
mod args;
mod audit;
#[cfg(feature = "export")]
mod backup;
mod caller;
mod child;
pub mod client;
mod cluster;
pub mod colour;
mod commit;
mod confirm;
#[cfg(feature = "connect")]
pub mod connect;
mod consume;
mod context;
mod delivery;
mod dlq;
mod effect;
mod endpoint;
mod entity;
pub mod exit;
#[cfg(feature = "export")]
mod export;
mod file;
mod group;
mod health;
mod job;
mod key;
pub mod lease;
#[cfg(feature = "ledger")]
mod ledger;
mod message;
mod migrate;
pub mod output;
mod outputs;
pub mod parse;
mod produce;
mod progress;
mod router;
mod rows;
mod runs;
pub mod signal;
mod suggest;
pub mod temporary_directory;
mod tenant;
mod top;
mod topic;
mod ui;
mod wal;
pub mod work;
pub mod wrap;

use anyhow::{Context, Result};
use clap::{ArgMatches, FromArgMatches, Subcommand, parser::ValueSource};
use driftq_api::shown::{cut, grouped, printable};
use driftq_api::when::Now;

// What most commands name has a short path here.
use client::{CallError, Client, Path, Session};
use exit::{Exit, Fault};
use output::{Columns, Facts, Format, Listing, aligned, description, or_dash, section, table, yes_or};
use parse::{Choice, Choices};
use rows::{Amount, Pages, Rows};
use signal::Signals;
use suggest::Subject;

pub use health::check;
use health::report;

/// Options of every command.
#[derive(Default, clap::Args)]
pub struct Common {
    /// The server to talk to, or several of a cluster with commas in between; without it, that of a context, else
    /// http://127.0.0.1:8080
    #[arg(long, global = true, env = "DRIFTQ_SERVER", hide_env_values = true, value_name = "URL")]
    server: Option<String>,
    /// The server of this context; see `driftq context`
    #[arg(long, global = true, env = "DRIFTQ_CONTEXT", hide_env_values = true, value_name = "NAME")]
    context: Option<String>,
    /// File with the key to show to the server; without it, that of the context, else the key in DRIFTQ_KEY
    #[arg(long, global = true, env = "DRIFTQ_KEY_FILE", hide_env_values = true, value_name = "FILE")]
    key_file: Option<std::path::PathBuf>,
    /// File with authorities to trust besides those of the system, in PEM; without it, that of the context
    #[arg(long, global = true, env = "DRIFTQ_CA_FILE", hide_env_values = true, value_name = "FILE")]
    ca_file: Option<std::path::PathBuf>,
    /// Shape of the output; streams print NDJSON into pipes when nothing is said
    #[arg(short, long, global = true, value_enum, value_name = "FORMAT")]
    pub output: Option<Format>,
    /// Which of these were written into the command line.
    #[arg(skip)]
    typed: context::Typed,
}

impl Common {
    /// What was typed into the command line, which wins over what is only set in the environment.
    pub fn note_typed(&mut self, matches: &ArgMatches) {
        let is_typed = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
        self.typed = context::Typed {
            server: is_typed("server"),
            context: is_typed("context"),
            ca_file: is_typed("ca_file"),
        };
    }

    fn client(&self) -> Result<Client> {
        let chosen = context::choose(self)?;
        let key = chosen.key()?;
        let client = Client::trusting(&chosen.server, key.as_deref(), chosen.ca_file.as_deref())?;
        Ok(client.named_by(chosen.note()))
    }
}

/// The commands, as a part of a larger command line.
pub struct Commands(Command);

impl FromArgMatches for Commands {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Command::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl Subcommand for Commands {
    fn augment_subcommands(command: clap::Command) -> clap::Command {
        Command::augment_subcommands(command)
    }

    fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
        Command::augment_subcommands_for_update(command)
    }

    fn has_subcommand(name: &str) -> bool {
        Command::has_subcommand(name)
    }
}

#[derive(Subcommand)]
enum Command {
    /// Create, describe, change, pause and delete topics
    #[command(subcommand)]
    Topic(topic::Command),
    /// Send messages: one from the command line, or one per line of stdin
    Produce(produce::Args),
    /// Receive messages, or run a command for each
    Consume(consume::Args),
    /// Run a command for each message, with heartbeats, retries and dead letters
    Work(work::Args),
    /// Say that a message is done
    Ack(ack::AckArgs),
    /// Say that a message failed, so that it is tried again
    Nack(ack::NackArgs),
    /// Look at messages, see why they wait, cancel them
    #[command(subcommand)]
    Message(message::Command),
    /// Borrow messages by token: take, ack, nack, extend, release
    #[command(subcommand)]
    Lease(lease::Command),
    /// List, describe, move, pause and delete consumer groups
    #[command(subcommand)]
    Group(group::Command),
    /// Look at dead letters, send them back, throw them away
    #[command(subcommand)]
    Dlq(dlq::Command),
    /// Carry out side effects once: begin, finish, resolve, look
    #[command(subcommand)]
    Effect(effect::Command),
    /// Look after the idempotency records of a service, in PostgreSQL or on a server
    #[cfg(feature = "ledger")]
    Ledger(ledger::Args),
    /// Not in this build: look after the idempotency records of a service
    #[cfg(not(feature = "ledger"))]
    Ledger(absent::Args),
    /// Run connectors that a file describes: topics into tables of PostgreSQL
    #[cfg(feature = "connect")]
    Connect(connect::Args),
    /// Not in this build: run connectors that a file describes
    #[cfg(not(feature = "connect"))]
    Connect(absent::Args),
    /// Ack, finish, produce and register outputs, all together or not at all
    Commit(commit::Args),
    /// See where results lie, and choose the version that readers see
    #[command(subcommand)]
    Output(outputs::Command),
    /// Write messages, dead letters, runs, effects or pointers into files, all or nothing
    #[cfg(feature = "export")]
    Export(Box<export::Args>),
    /// Not in this build: write messages, dead letters, runs, effects or pointers into files
    #[cfg(not(feature = "export"))]
    Export(absent::Args),
    /// See the versions of entities, and forget them
    #[command(subcommand)]
    Entity(entity::Command),
    /// See what happened in a run, across topics
    #[command(subcommand)]
    Run(runs::Command),
    /// Watch and stop work that goes on in the server
    #[command(subcommand)]
    Job(job::Command),
    /// Say where deliveries go: webhooks, HTTP calls, e-mails
    #[command(subcommand)]
    Endpoint(endpoint::Command),
    /// Send deliveries to endpoints, and see what came of them
    #[command(subcommand)]
    Delivery(delivery::Command),
    /// Make keys, see what they allow, rotate and revoke them
    #[command(subcommand)]
    Key(key::Command),
    /// See what tenants have, and say how much each may have
    #[command(subcommand)]
    Tenant(tenant::Command),
    /// See who did what, when, from where
    Audit(audit::Args),
    /// See which of the servers that share a log serves, and move the work
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// See how the router does, and ask it about a message
    #[command(subcommand)]
    Router(router::Command),
    /// Look into the log on disk and repair it, without a server
    #[command(subcommand)]
    Wal(wal::Command),
    /// Keep the log elsewhere, while the server is at work or not
    #[cfg(feature = "export")]
    Backup(backup::Args),
    /// Not in this build: keep the log elsewhere
    #[cfg(not(feature = "export"))]
    Backup(absent::Args),
    /// Bring a log back from a backup
    #[cfg(feature = "export")]
    Restore(backup::RestoreArgs),
    /// Not in this build: bring a log back from a backup
    #[cfg(not(feature = "export"))]
    Restore(absent::Args),
    /// Take the log from a directory into PostgreSQL or NATS, or back, without a server
    Migrate(migrate::Args),
    /// See how the server does, and what to do about it
    Report(report::Args),
    /// Watch the server in a terminal
    Top(top::Args),
    /// Open the dashboard in a browser
    Ui(ui::Args),
    /// Tell a monitor how the server does, in one line and one number
    Check(check::Args),
    /// Remember servers by name, and choose between them
    #[command(subcommand)]
    Context(context::Command),
}

/// Carries a command out.
pub fn run(common: &Common, Commands(command): Commands) -> Result<Exit> {
    let done = match command {
        Command::Effect(command) => return block_on(effect::run(common, &command)),
        Command::Report(args) => return block_on(report::run(common, &args)),
        Command::Check(args) => return block_on(check::run(common, &args)),
        Command::Topic(command) => block_on(topic::run(common, &command)),
        Command::Produce(args) => block_on(produce::run(common, args)),
        Command::Consume(args) => block_on(consume::run(common, args)),
        Command::Work(args) => block_on(work::run(common, args)),
        Command::Ack(args) => block_on(ack::ack(common, &args)),
        Command::Nack(args) => block_on(ack::nack(common, &args)),
        Command::Message(command) => block_on(message::run(common, &command)),
        Command::Lease(command) => block_on(lease::run(common, &command)),
        Command::Group(command) => block_on(group::run(common, &command)),
        Command::Dlq(command) => block_on(dlq::run(common, &command)),
        #[cfg(feature = "ledger")]
        Command::Ledger(args) => block_on(ledger::run(common, &args)),
        #[cfg(not(feature = "ledger"))]
        Command::Ledger(_) => Err(absent::refusal("ledger").into()),
        #[cfg(feature = "connect")]
        Command::Connect(args) => block_on_all_threads(connect::run(common, &args)),
        #[cfg(not(feature = "connect"))]
        Command::Connect(_) => Err(absent::refusal("connect").into()),
        Command::Commit(args) => block_on(commit::run(common, &args)),
        Command::Output(command) => block_on(outputs::run(common, &command)),
        #[cfg(feature = "export")]
        Command::Export(args) => block_on(export::run(common, &args)),
        #[cfg(not(feature = "export"))]
        Command::Export(_) => Err(absent::refusal("export").into()),
        Command::Entity(command) => block_on(entity::run(common, &command)),
        Command::Run(command) => block_on(runs::run(common, &command)),
        Command::Job(command) => block_on(job::run(common, &command)),
        Command::Key(command) => key::run(common, &command),
        Command::Endpoint(command) => block_on(endpoint::run(common, &command)),
        Command::Delivery(command) => block_on(delivery::run(common, &command)),
        Command::Tenant(command) => block_on(tenant::run(common, &command)),
        Command::Audit(args) => block_on(audit::run(common, &args)),
        Command::Cluster(command) => block_on(cluster::run(common, &command)),
        Command::Router(command) => block_on(router::run(common, &command)),
        Command::Wal(command) => wal::run(common, &command),
        #[cfg(feature = "export")]
        Command::Backup(args) => block_on(backup::run(common, &args)),
        #[cfg(not(feature = "export"))]
        Command::Backup(_) => Err(absent::refusal("backup").into()),
        #[cfg(feature = "export")]
        Command::Restore(args) => block_on(backup::restore(common, &args)),
        #[cfg(not(feature = "export"))]
        Command::Restore(_) => Err(absent::refusal("restore").into()),
        Command::Migrate(args) => migrate::run(common, &args),
        Command::Top(args) => block_on(top::run(common, &args)),
        Command::Ui(args) => ui::run(common, &args),
        Command::Context(command) => context::run(common, &command),
    };
    done.map(|()| Exit::Success)
}

/// Connectors work: they take the threads that there are.
#[cfg(feature = "connect")]
pub fn block_on_all_threads<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting a runtime")?;
    runtime.block_on(Box::pin(future))
}

/// A client needs one thread: it waits for a server most of the time.
pub fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting a runtime")?;
    runtime.block_on(Box::pin(future))
}
