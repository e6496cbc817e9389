//! `driftq config check`: what the server would run with, and who said so.

use anyhow::Result;
use serde::Serialize;

use driftq_cli::{
    Common,
    exit::{Exit, Fault},
    output::{self, Format, Listing},
};
use driftq_server::config::{Exposure, KNOBS, KnobArgs, Origin, Resolved, resolve};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Print every value with its origin, and every problem
    #[command(after_help = "Later origins win: default < profile < file < env < flag.

Examples:
  driftq config check
  driftq config check --config /etc/driftq.toml
  DRIFTQ_IN_FLIGHT_MAX=8 driftq config check --profile v1-dev -o json")]
    Check(Box<Args>),
}

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    knobs: KnobArgs,
}

#[derive(Serialize)]
struct Report {
    valid: bool,
    values: Vec<Value>,
    problems: Vec<String>,
    warnings: Vec<String>,
    /// What whoever starts it should know about who reaches it.
    #[serde(skip_serializing_if = "Option::is_none")]
    access: Option<&'static str>,
}

#[derive(Serialize)]
struct Value {
    name: &'static str,
    value: String,
    origin: Origin,
}

pub(super) fn run(common: &Common, command: &Command) -> Result<()> {
    let Command::Check(args) = command;
    let report = report(&resolve(&args.knobs));
    match common.output {
        Some(Format::Ndjson) => output::print_many(common.output, &report.values, String::new)?,
        format => output::print_one(format, &report, || table(&report))?,
    }
    for warning in &report.warnings {
        eprintln!("warning: {warning}");
    }
    refuse(&report.problems)
}

/// One error for all problems; none if there are none.
pub(super) fn refuse(problems: &[String]) -> Result<()> {
    if problems.is_empty() {
        return Ok(());
    }
    let list: String = problems.iter().map(|problem| format!("\n  {problem}")).collect();
    let fault = Fault::new(Exit::Config, format!("the configuration is not valid:{list}"));
    Err(fault.help("`driftq config check` shows every value and where it came from").into())
}

fn report(resolved: &Resolved) -> Report {
    let values = KNOBS.iter().zip(&resolved.origins).map(|(knob, origin)| Value {
        name: knob.name,
        value: (knob.get)(&resolved.config),
        origin: *origin,
    });
    Report {
        valid: resolved.problems.is_empty(),
        values: values.collect(),
        problems: resolved.problems.iter().map(ToString::to_string).collect(),
        warnings: resolved.warnings.clone(),
        access: match resolved.config.exposure() {
            Exposure::Open(why) => Some(why),
            // That is among the problems.
            Exposure::Closed | Exposure::Refused(_) => None,
        },
    }
}

fn table(report: &Report) -> String {
    let mut listing = Listing::new(&["NAME", "VALUE", "ORIGIN"]);
    for value in &report.values {
        listing.row([value.name, &value.value, value.origin.word()]);
    }
    let access = report.access.map(|why| format!("\naccess: {why}\n"));
    listing.text() + &access.unwrap_or_default()
}
