//! Upkeep of a ledger: `driftq ledger migrate`, `sweep` and `stats`.

use std::collections::BTreeMap;

use anyhow::Result;
use driftq_ledger::postgres::{Migration, PostgresStore};
use driftq_ledger::{Ledger, PAGE_MAX, Stats, Status, Sweep, Swept};
use indicatif::ProgressBar;
use serde::Serialize;

use super::record::status as word;
use super::store::{Store, StoreArgs, fault};
use crate::{Columns, Common, Listing, Signals, grouped, output, progress, table};

#[derive(clap::Args)]
#[command(
    after_help = "All steps that the database lacks are taken in one transaction, or none is. Several \
programs may migrate at the same time. A table in the original form of the contract is taken over with its \
rows; their service may run meanwhile.

Examples:
  driftq ledger migrate --store postgres://pay@db.internal/pay
  driftq ledger migrate --table billing.idempotency_keys
  driftq ledger migrate --dry-run                      # what is there, and what is to be done
  driftq ledger migrate --print > ledger.sql           # to apply the SQL by other means"
)]
pub(super) struct MigrateArgs {
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

const STEPS: Columns<Step> = &[
    ("STEP", |step, _| step.version.to_string()),
    ("NAME", |step, _| step.name.to_owned()),
    ("STATE", |step, _| match step.state {
        State::Present => "was there".to_owned(),
        State::Applied => "applied now".to_owned(),
        State::Pending => "pending".to_owned(),
    }),
];

pub(super) async fn migrate(common: &Common, place: &StoreArgs, args: &MigrateArgs) -> Result<()> {
    match place.open(common)? {
        // What is printed is run as SQL.
        Store::Server(_) if args.print => {
            output::write("-- there is nothing to migrate: a server keeps its ledger by itself\n")
        }
        Store::Server(_) => {
            let nothing = Migrated { table: "", steps: Vec::new() };
            common.show(&nothing, |_| {
                "there is nothing to migrate: a server keeps its ledger by itself\n".to_owned()
            })
        }
        Store::Postgres(store) if args.print => output::write(&store.migrations_sql()),
        Store::Postgres(store) => take_steps(common, place, &store, args.dry_run).await,
    }
}

async fn take_steps(common: &Common, place: &StoreArgs, store: &PostgresStore, dry_run: bool) -> Result<()> {
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
    common.show(&migrated, migrated_text)
}

fn migrated_text(migrated: &Migrated<'_>) -> String {
    let has = |state: State| migrated.steps.iter().any(|step| step.state == state);
    let verdict = match (has(State::Pending), has(State::Applied)) {
        (true, _) => "is not up to date; without --dry-run it will be",
        (false, true) => "is up to date now",
        (false, false) => "was up to date",
    };
    format!("{}{} {verdict}\n", table(STEPS, &migrated.steps), migrated.table)
}

#[derive(clap::Args)]
#[command(after_help = "Records whose time is over count no more; they only take up room. A lease that \
lapsed and that no caller may take over makes its effect unknown, for every reader at once; the sweep writes that down. A \
service that calls `Ledger::keep_swept` needs no sweep by hand, and a server sweeps by itself. Sweeping while the \
service runs is safe, and so is Ctrl-C: what was swept stays swept.

Examples:
  driftq ledger sweep --dry-run                        # what there is to do; changes nothing
  driftq ledger sweep                                  # until nothing is left
  driftq ledger sweep --limit 10000                    # some of it")]
pub(super) struct SweepArgs {
    /// Only count, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Stop when so many records are done; all of them if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

/// What was done, or would be.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Sweeping {
    dry_run: bool,
    /// Records whose time was over.
    removed: u64,
    /// Records that are written down as unknown from now on.
    held: u64,
    /// Records that this release cannot read, and that stay.
    unreadable: u64,
    /// Whether there is more to do.
    more: bool,
    /// Whether the store does this by itself.
    by_itself: bool,
}

impl Sweeping {
    fn add(&mut self, swept: Swept) {
        self.removed += swept.removed;
        self.held += swept.held;
        // They stay, and each round finds them again.
        self.unreadable = swept.unreadable;
        self.more = swept.more;
        self.by_itself = swept.by_itself;
    }

    const fn records(&self) -> u64 {
        self.removed + self.held
    }
}

pub(super) async fn sweep(common: &Common, place: &StoreArgs, args: &SweepArgs) -> Result<()> {
    let ledger = place.patient_ledger(common)?;
    let mut done = Sweeping { dry_run: args.dry_run, ..Sweeping::default() };
    let mut signals = Signals::new()?;
    let bar = progress::spinner("sweeping");
    let ended = tokio::select! {
        swept = rounds(&ledger, args, &mut done, &bar) => Ok(swept),
        signal = signals.next() => Err(signal),
    };
    bar.finish_and_clear();
    match ended {
        Ok(swept) => swept?,
        Err(signal) => {
            eprintln!("stopped by {}; {}", signal.name(), swept_text(&done).trim_end());
            std::process::exit(signal.exit_code());
        }
    }
    common.show(&done, swept_text)?;
    super::warn_of_unreadable(done.unreadable);
    Ok(())
}

/// Round after round, until nothing is left or enough is done. What a round has done is told before the next.
async fn rounds(ledger: &Ledger, args: &SweepArgs, done: &mut Sweeping, bar: &ProgressBar) -> Result<()> {
    let limit = args.limit.unwrap_or(u64::MAX);
    loop {
        let left = limit.saturating_sub(done.records());
        let round =
            Sweep { dry_run: args.dry_run, limit: u32::try_from(left).unwrap_or(PAGE_MAX).min(PAGE_MAX) };
        let swept = ledger.sweep(round).await.map_err(|error| fault(&error))?;
        done.add(swept);
        bar.set_message(format!("{} removed, {} held", grouped(done.removed), grouped(done.held)));
        // What is only counted is found again by the next round.
        if !swept.more || args.dry_run || done.records() >= limit {
            return Ok(());
        }
    }
}

fn swept_text(done: &Sweeping) -> String {
    if done.by_itself {
        return "the server sweeps by itself; there is nothing to do\n".to_owned();
    }
    let (removed, held) = (grouped(done.removed), grouped(done.held));
    match (done.dry_run, done.more) {
        (true, false) => format!("would remove {removed} record(s) and hold {held} as unknown\n"),
        (true, true) => {
            format!(
                "would remove {removed} record(s) and hold {held} as unknown in the first round; there is more\n"
            )
        }
        (false, false) => format!("removed {removed} record(s), held {held} as unknown\n"),
        (false, true) => format!("removed {removed} record(s), held {held} as unknown; there may be more\n"),
    }
}

/// How many records there are, as JSON has it.
#[derive(Serialize)]
struct Counts {
    store: &'static str,
    records: u64,
    by_status: BTreeMap<&'static str, u64>,
    /// Of those in progress, how many may be taken over.
    lapsed: u64,
    /// Those that count no more and are not swept yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    over: Option<u64>,
    /// Those with a status that this release does not know.
    unreadable: u64,
    /// About how many are in none of the counts; 0 if the counts are complete.
    uncounted: u64,
}

pub(super) async fn stats(common: &Common, place: &StoreArgs) -> Result<()> {
    let ledger = place.patient_ledger(common)?;
    let Stats { by_status, lapsed, over, unreadable, uncounted } =
        ledger.stats().await.map_err(|error| fault(&error))?;
    let count = |status: &Status| {
        let records = by_status.get(driftq_ledger::words::of_status(*status)).copied().unwrap_or(0);
        (word(*status), records)
    };
    let counts = Counts {
        store: ledger.store_name(),
        records: by_status.values().sum(),
        by_status: Status::ALL.iter().map(count).collect(),
        lapsed,
        over,
        unreadable,
        uncounted,
    };
    common.show(&counts, counted_text)?;
    super::warn_of_unreadable(unreadable);
    Ok(())
}

fn counted_text(counts: &Counts) -> String {
    let mut listing = Listing::new(&["STATUS", "RECORDS", "NOTE"]);
    for status in Status::ALL {
        let word = word(status);
        let note = match (status, counts.lapsed) {
            (Status::InProgress, 1..) => format!("{} with a lapsed lease", grouped(counts.lapsed)),
            (Status::Unknown, _) if counts.by_status[word] > 0 => "an operator must find out".to_owned(),
            _ => String::new(),
        };
        listing.row([word.to_owned(), grouped(counts.by_status[word]), note]);
    }
    if let Some(over) = counts.over {
        let note = if over > 0 { "`driftq ledger sweep` removes them" } else { "" };
        listing.row(["over".to_owned(), grouped(over), note.to_owned()]);
    }
    if counts.uncounted > 0 {
        let note = "about so many; counted when `driftq ledger sweep` has looked over them".to_owned();
        listing.row(["not counted".to_owned(), grouped(counts.uncounted), note]);
    }
    listing.text()
}
