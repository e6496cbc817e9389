//! The command line: one file per command, all of them speaking the public API like any other client. Only `serve`,
//! `dev`, `demo`, `wal`, `config`, `context`, `completions`, `man` and `reference` work without a server.

mod ack;
mod call;
mod check;
mod child;
mod colour;
mod commit;
mod completions;
mod config_check;
mod confirm;
mod consume;
mod context;
mod demo;
mod dev;
mod dlq;
mod effect;
mod entity;
pub(crate) mod exit;
mod file;
mod group;
mod items;
mod job;
mod lease;
mod ledger;
mod lodging;
mod man;
mod message;
mod nack;
mod offered;
pub(crate) mod output;
mod outputs;
mod paint;
mod parse;
mod produce;
mod progress;
mod reference;
mod report;
mod router;
mod rows;
mod runs;
mod serve;
mod shell;
mod signal;
mod startup;
mod suggest;
mod survey;
mod tenant;
mod topic;
mod wal;
mod when;
mod work;
mod wrap;

use std::ffi::OsString;

use anyhow::{Context, Result};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, error::ErrorKind, parser::ValueSource};

use crate::{bench, client::Client};
use exit::{ERRORS_AS_JSON, Exit};
use output::Format;

const ABOUT: &str = "DriftQ: a durable message broker in one binary";

const TOUR: &str = "\
A first tour, in two terminals:
  driftq demo                                         # what it is good for, in ten seconds
  driftq dev                                          # terminal 1: the broker
  driftq topic create parcels --partitions 3          # terminal 2, from here on
  driftq produce parcels 'ring twice' --key user:1
  seq 100 | driftq produce parcels                    # one message per line
  driftq message get parcels 1 0                      # the first: where it stands, and why it waits
  driftq consume parcels --group sorting --ack --max 3
  driftq work parcels --group mail --exec 'cat; echo' --concurrency 4 --until-idle
  driftq group describe parcels sorting
  driftq dlq list                                     # what was given up, to redrive or purge
  driftq effect run --key parcel-7 -- echo stamped    # runs once, and is replayed from then on
  driftq ledger list --status unknown                 # what a service of yours is not sure of
  driftq run list                                     # what happened, run by run
  driftq report                                       # how the server does, and what to do about it";

/// The whole command line.
#[derive(Parser)]
#[command(name = "driftq", version, about = ABOUT)]
pub(crate) struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(Default, clap::Args)]
pub(crate) struct Common {
    /// The server to talk to; without it, the one of a context, else http://127.0.0.1:8080
    #[arg(long, global = true, env = "DRIFTQ_SERVER", hide_env_values = true, value_name = "URL")]
    server: Option<String>,
    /// The server of this context; see `driftq context`
    #[arg(long, global = true, env = "DRIFTQ_CONTEXT", hide_env_values = true, value_name = "NAME")]
    context: Option<String>,
    /// Shape of the output; streams print NDJSON into pipes when nothing is said
    #[arg(short, long, global = true, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
    /// Which of these were written into the command line.
    #[arg(skip)]
    typed: context::Typed,
}

impl Common {
    fn client(&self) -> Result<Client> {
        let chosen = context::choose(self)?;
        Ok(Client::new(&chosen.server)?.named_by(chosen.note()))
    }
}

#[derive(Subcommand)]
enum Command {
    /// Run the broker
    Serve(serve::Args),
    /// Run the broker on a desk: finds a free port, says what to do next
    Dev(dev::Args),
    /// See what happens to side effects when workers are killed: with DriftQ and without
    Demo(demo::Args),
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
    Ack(ack::Args),
    /// Say that a message failed, so that it is tried again
    Nack(nack::Args),
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
    Ledger(ledger::Args),
    /// Ack, finish, produce and register outputs, all together or not at all
    Commit(commit::Args),
    /// See where results lie, and choose the version that readers see
    #[command(subcommand)]
    Output(outputs::Command),
    /// See the versions of entities, and forget them
    #[command(subcommand)]
    Entity(entity::Command),
    /// See what happened in a run, across topics
    #[command(subcommand)]
    Run(runs::Command),
    /// Watch and stop work that goes on in the server
    #[command(subcommand)]
    Job(job::Command),
    /// See how the router does, and ask it about a message
    #[command(subcommand)]
    Router(router::Command),
    /// Look into the log on disk and repair it, without a server
    #[command(subcommand)]
    Wal(wal::Command),
    /// See how the server does, and what to do about it
    Report(report::Args),
    /// Tell a monitor how the server does, in one line and one number
    Check(check::Args),
    /// Measure this machine: every figure beside a bare HTTP server in the same run
    Bench(bench::Args),
    /// Remember servers by name, and choose between them
    #[command(subcommand)]
    Context(context::Command),
    /// Check a configuration without starting anything
    #[command(subcommand)]
    Config(config_check::Command),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Print or write man pages
    Man(man::Args),
    /// Print the reference of commands, errors or API calls
    Reference(reference::Args),
    /// The bare HTTP server that `bench` compares with
    #[command(name = bench::BARE_COMMAND, hide = true)]
    BenchBare(bench::BareArgs),
    /// The server of `demo`
    #[command(name = demo::SERVER_COMMAND, hide = true)]
    DemoServer(demo::ServerArgs),
    /// A worker of `demo`
    #[command(name = demo::WORKER_COMMAND, hide = true)]
    DemoWorker(demo::WorkerArgs),
}

/// Runs the command line of this process.
pub(crate) fn run() -> Exit {
    let arguments: Vec<_> = std::env::args_os().collect();
    let cli = match parse(&arguments) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error, &arguments),
    };
    let format = cli.common.output;
    match dispatch(cli) {
        Ok(exit) => exit,
        Err(error) if output::is_closed_pipe(&error) => Exit::Success,
        Err(error) => exit::report(&error, format),
    }
}

/// For a command line that is not understood, and for help, which clap takes for an error too.
fn refuse(error: &clap::Error, arguments: &[OsString]) -> Exit {
    let format = output::asked(arguments);
    if error.use_stderr() && check::is_meant(arguments) {
        return check::refuse(error);
    }
    if error.use_stderr() && matches!(format, Some(Format::Json | Format::Ndjson)) {
        return exit::report(&exit::misunderstood(error).into(), format);
    }
    // clap prints help, version and usage errors itself and ends with the codes 0 and 2.
    error.exit()
}

fn parse(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(lease::sheltered(arguments.to_vec()))?;
    offered::refuse_unheard(&matches).map_err(|why| command.error(ErrorKind::ArgumentConflict, why))?;
    let mut cli = Cli::from_arg_matches(&matches)?;
    let is_typed = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
    cli.common.typed = context::Typed { server: is_typed("server"), context: is_typed("context") };
    Ok(cli)
}

/// The command line's shape, with the tables that derive macros cannot compute.
fn command() -> clap::Command {
    let long = format!("{TOUR}\n\n{}\n\n{ERRORS_AS_JSON}", Exit::table());
    let command = Cli::command().after_help(TOUR).after_long_help(long).color(colour::of_help());
    offered::hidden(parse::named(command))
}

fn dispatch(cli: Cli) -> Result<Exit> {
    let common = &cli.common;
    let done = match cli.command {
        Command::Effect(command) => return block_on(effect::run(common, &command)),
        Command::Report(args) => return block_on(report::run(common, &args)),
        Command::Check(args) => return block_on(check::run(common, &args)),
        Command::Demo(args) => return block_on(demo::run(common, &args)),
        Command::Serve(args) => serve::run(&args),
        Command::Dev(args) => dev::run(&args),
        Command::Topic(command) => block_on(topic::run(common, &command)),
        Command::Produce(args) => block_on(produce::run(common, args)),
        Command::Consume(args) => block_on(consume::run(common, args)),
        Command::Work(args) => block_on(work::run(common, args)),
        Command::Ack(args) => block_on(ack::run(common, &args)),
        Command::Nack(args) => block_on(nack::run(common, &args)),
        Command::Message(command) => block_on(message::run(common, &command)),
        Command::Lease(command) => block_on(lease::run(common, &command)),
        Command::Group(command) => block_on(group::run(common, &command)),
        Command::Dlq(command) => block_on(dlq::run(common, &command)),
        Command::Ledger(args) => block_on(ledger::run(common, &args)),
        Command::Commit(args) => block_on(commit::run(common, &args)),
        Command::Output(command) => block_on(outputs::run(common, &command)),
        Command::Entity(command) => block_on(entity::run(common, &command)),
        Command::Run(command) => block_on(runs::run(common, &command)),
        Command::Job(command) => block_on(job::run(common, &command)),
        Command::Router(command) => block_on(router::run(common, &command)),
        Command::Wal(command) => wal::run(common, &command),
        Command::Bench(args) => bench::run(common.output, &args),
        Command::Context(command) => context::run(common, &command),
        Command::Config(command) => config_check::run(common, &command),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(common, &args),
        Command::Reference(args) => reference::run(common, &args),
        Command::BenchBare(args) => bench::run_bare(&args),
        Command::DemoServer(args) => demo::run_server(&args),
        Command::DemoWorker(args) => block_on(demo::run_worker(&args)),
    };
    done.map(|()| Exit::Success)
}

/// A client needs one thread: it waits for a server most of the time.
fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting a runtime")?;
    runtime.block_on(Box::pin(future))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    /// clap breaks lines beyond this, and then an example is no longer one that can be pasted.
    #[test]
    fn examples_fit_into_a_line() {
        fn check(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines().filter(|line| line.starts_with("  ")) {
                assert!(line.chars().count() <= 100, "{}: {line}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&command());
    }

    /// Tokens are base64 for URLs: some of them begin with a hyphen.
    #[test]
    fn tokens_may_look_like_flags() {
        for line in [
            "effect finish -_token --status succeeded",
            "effect finish --status succeeded -_token",
            "effect finish --status succeeded --error no -- --token",
            "effect renew --lease 1s -_token",
            "effect begin s k --lease-token -_token",
            "commit --ack -_token --fence -_token --finish -_token:succeeded",
        ] {
            let arguments = ["driftq"].into_iter().chain(line.split(' '));
            assert!(command().try_get_matches_from(arguments).is_ok(), "{line}");
        }
    }

    /// Where many tokens are taken, a flag behind them stays a flag, and a misspelt one an error.
    #[test]
    fn many_tokens_do_not_swallow_flags() {
        let token = "-_AAAAAAAAAAAAAAAAAAAAAAAAAA";
        let parsed = |line: &str| {
            let words = line.replace("TOKEN", token);
            let words = ["driftq"].into_iter().chain(words.split(' ')).map(Into::into);
            parse(&words.collect::<Vec<_>>()).map(|cli| cli.command)
        };
        for line in [
            "lease ack TOKEN",
            "lease nack TOKEN --dead",
            "lease nack TOKEN --error no",
            "lease extend --lease 1s TOKEN",
            "lease release TOKEN plain TOKEN",
            "lease release -- TOKEN",
        ] {
            assert!(parsed(line).is_ok(), "{line}");
        }
        for line in ["lease nack plain --daed", "lease nack TOKEN --daed", "lease ack"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn every_command_has_an_example_that_is_one() {
        fn check(command: &clap::Command, path: &str, lacking: &mut Vec<String>) {
            let inner: Vec<_> = command.get_subcommands().filter(|inner| !inner.is_hide_set()).collect();
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let has_example = help.lines().any(|line| line.starts_with("  ") && line.contains(path));
            if inner.is_empty() && !has_example {
                lacking.push(path.to_owned());
            }
            for inner in inner {
                check(inner, &format!("{path} {}", inner.get_name()), lacking);
            }
        }
        let mut lacking = Vec::new();
        check(&command(), "driftq", &mut lacking);
        assert!(lacking.is_empty(), "no example in the help of {lacking:?}");
    }

    #[test]
    fn help_teaches_and_lists_the_codes() {
        let help = command().render_long_help().to_string();
        assert!(help.contains("driftq produce parcels"));
        for exit in Exit::ALL {
            assert!(help.contains(exit.meaning()), "{exit:?}");
        }
    }
}
