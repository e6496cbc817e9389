//! One binary: the broker, its command line and its benchmark, joined to one command line.

mod completions;
mod config_check;
mod connecting;
mod dev;
mod dev_nodes;
mod global_options;
mod node;
mod serve;
mod startup;
#[cfg(feature = "tls")]
mod tls_dev;

use std::ffi::OsString;

use anyhow::Result;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, error::ErrorKind};
#[cfg(feature = "bench")]
use driftq_bench::bench;
use driftq_bench::demo;
use driftq_cli::{
    Common, check, colour,
    exit::{self, ERRORS_AS_JSON, Exit},
    lease,
    output::{self, Format},
    parse as values,
};

pub use driftq_server::{MetricFamily, metric_families};

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
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the broker
    Serve(serve::Args),
    /// Run the broker on a desk: finds a free port, says what to do next
    Dev(dev::Args),
    /// See what happens to side effects when workers are killed: with DriftQ and without
    Demo(demo::Args),
    #[command(flatten)]
    Client(Box<driftq_cli::Commands>),
    /// Measure this machine: every figure beside a bare HTTP server in the same run
    #[cfg(feature = "bench")]
    Bench(bench::Args),
    /// Not in this build: measure this machine
    #[cfg(not(feature = "bench"))]
    Bench(driftq_cli::absent::Args),
    /// Check a configuration without starting anything
    #[command(subcommand)]
    Config(config_check::Command),
    /// Make certificates to try TLS with
    #[cfg(feature = "tls")]
    #[command(subcommand)]
    Tls(tls_dev::Command),
    /// Not in this build: make certificates to try TLS with
    #[cfg(not(feature = "tls"))]
    Tls(driftq_cli::absent::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// The bare HTTP server that `bench` compares with
    #[cfg(feature = "bench")]
    #[command(name = bench::BARE_COMMAND, hide = true)]
    BenchBare(bench::BareArgs),
    /// The server of `demo`
    #[command(name = demo::SERVER_COMMAND, hide = true)]
    DemoServer(serve::DemoArgs),
    /// A worker of `demo`
    #[command(name = demo::WORKER_COMMAND, hide = true)]
    DemoWorker(demo::WorkerArgs),
}

/// Runs the command line of this process.
pub fn run() -> Exit {
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
    let matches = command.try_get_matches_from_mut(lease::with_tokens_last(arguments.to_vec()))?;
    global_options::refuse_unheard(&matches)
        .map_err(|why| command.error(ErrorKind::ArgumentConflict, why))?;
    let mut cli = Cli::from_arg_matches(&matches)?;
    cli.common.note_typed(&matches);
    Ok(cli)
}

/// The command line's shape, with the tables that derive macros cannot compute.
pub fn command() -> clap::Command {
    let long = format!("{TOUR}\n\n{}\n\n{ERRORS_AS_JSON}", Exit::table());
    let command = Cli::command().after_help(TOUR).after_long_help(long).color(colour::of_help());
    global_options::hidden(values::named(command))
}

fn dispatch(cli: Cli) -> Result<Exit> {
    let common = &cli.common;
    let done = match cli.command {
        Command::Client(command) => return driftq_cli::run(common, *command),
        Command::Demo(args) => return demo::run(common, &args),
        Command::Serve(args) => serve::run(&args),
        Command::Dev(args) => dev::run(&args),
        #[cfg(feature = "bench")]
        Command::Bench(args) => bench::run(common.output, &args),
        #[cfg(not(feature = "bench"))]
        Command::Bench(_) => Err(driftq_cli::absent::refusal("bench").into()),
        Command::Config(command) => config_check::run(common, &command),
        #[cfg(feature = "tls")]
        Command::Tls(command) => tls_dev::run(&command),
        #[cfg(not(feature = "tls"))]
        Command::Tls(_) => Err(driftq_cli::absent::refusal("tls").into()),
        Command::Completions(args) => completions::run(&args),
        #[cfg(feature = "bench")]
        Command::BenchBare(args) => bench::run_bare(&args),
        Command::DemoServer(args) => serve::run_for_demo(&args),
        Command::DemoWorker(args) => demo::run_worker(&args),
    };
    done.map(|()| Exit::Success)
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
