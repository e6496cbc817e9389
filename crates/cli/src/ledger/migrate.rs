//! `driftq ledger migrate`.

use anyhow::Result;
use driftq_ledger::postgres::{Migration, PostgresStore};
use serde::Serialize;

use super::{Place, fault::fault, place::Store};
use crate::{
    Common,
    output::{self, Listing},
    progress,
};

#[derive(clap::Args)]
#[command(
    after_help = "All steps that the database lacks are taken in one transaction, or none is. Several programs may migrate at the \
same time. A table in the original form of the contract is taken over with its rows; their service may run meanwhile.

Examples:
  driftq ledger migrate --store postgres://pay@db.internal/pay
  driftq ledger migrate --table billing.idempotency_keys
  driftq ledger migrate --dry-run                      # what is there, and what is to be done
  driftq ledger migrate --print > ledger.sql           # for whoever applies SQL by other means"
)]
pub(super) struct Args {
    /// Only show which steps the database has
    #[arg(long, conflicts_with = "print")]
    dry_run: bool,
    /// Print the SQL of all steps; nothing is connected to
    #[arg(long)]
    print: bool,
}

/// What was found and done.
#[derive(Serialize)]
struct Migrated<'a> {
    table: &'a str,
    steps: Vec<Step>,
}

#[derive(Serialize)]
struct Step {
    version: i32,
    name: &'static str,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// It was there before.
    Present,
    /// It was taken now.
    Applied,
    /// It is still to be taken.
    Pending,
}

impl State {
    const fn word(self) -> &'static str {
        match self {
            Self::Present => "was there",
            Self::Applied => "applied now",
            Self::Pending => "pending",
        }
    }
}

pub(super) async fn run(common: &Common, place: &Place, args: &Args) -> Result<()> {
    match place.open(common)? {
        // What is printed is run as SQL.
        Store::Server(_) if args.print => {
            output::write("-- there is nothing to migrate: a server keeps its ledger by itself\n")
        }
        Store::Server(_) => {
            let nothing = Migrated { table: "", steps: Vec::new() };
            output::print_one(common.output, &nothing, || {
                "there is nothing to migrate: a server keeps its ledger by itself\n".to_owned()
            })
        }
        Store::Postgres(store) if args.print => output::write(&store.migrations_sql()),
        Store::Postgres(store) => migrate(common, place, &store, args.dry_run).await,
    }
}

async fn migrate(common: &Common, place: &Place, store: &PostgresStore, dry_run: bool) -> Result<()> {
    let spinner = progress::spinner(if dry_run { "looking at the table" } else { "migrating" });
    let steps = if dry_run { store.migrations().await } else { store.migrate().await };
    spinner.finish_and_clear();
    let state = |step: &Migration| match (step.applied, dry_run) {
        (true, _) => State::Present,
        (false, true) => State::Pending,
        (false, false) => State::Applied,
    };
    let steps = steps.map_err(|error| fault(&error))?;
    let steps: Vec<_> = steps
        .iter()
        .map(|step| Step { version: step.version, name: step.name, state: state(step) })
        .collect();
    let migrated = Migrated { table: place.table(), steps };
    output::print_one(common.output, &migrated, || text(&migrated))
}

fn text(migrated: &Migrated<'_>) -> String {
    let mut listing = Listing::new(&["STEP", "NAME", "STATE"]);
    for step in &migrated.steps {
        listing.row([step.version.to_string(), step.name.to_owned(), step.state.word().to_owned()]);
    }
    let has = |state: State| migrated.steps.iter().any(|step| step.state == state);
    let verdict = match (has(State::Pending), has(State::Applied)) {
        (true, _) => "is not up to date; without --dry-run it will be",
        (false, true) => "is up to date now",
        (false, false) => "was up to date",
    };
    format!("{}{} {verdict}\n", listing.text(), migrated.table)
}
