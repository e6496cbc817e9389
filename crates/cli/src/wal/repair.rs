//! `driftq wal repair`: makes a damaged log open again, at a price that is told first.

use anyhow::Result;
use driftq_api::units::about_bytes;
use driftq_engine::tools::{self, Repair};
use serde::Serialize;

use super::{Directory, explain};
use crate::{Columns, Common, Exit, Fault, grouped, progress, section};

#[derive(clap::Args)]
#[command(after_help = "A repair gives up acknowledged messages: everything behind the damage. Try a copy \
of the disk first. What is cut is kept in files beside the log. A torn tail, as a crash leaves it, needs no \
repair: starting takes care of it.

Mends one log. If the server has several shards, that of shard n lies in DIR/shard-n: name that directory with --data. \
What the other shards have told this one behind the damage is given up, too.

Examples:
  driftq wal repair --data /var/lib/driftq --dry-run   # what would be cut
  driftq wal repair --data /var/lib/driftq --yes       # cut it")]
pub(crate) struct Args {
    #[command(flatten)]
    directory: Directory,
    /// Say what would be done and do nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Do it
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct Report {
    applied: bool,
    damage: Vec<String>,
    headers_rewritten: Vec<String>,
    cuts: Vec<Cut>,
}

#[derive(Serialize)]
struct Cut {
    file: String,
    from_byte: u64,
    bytes: u64,
    batches_lost: u64,
    kept_in: String,
}

const CUTS: Columns<Cut> = &[
    ("CUT FROM", |cut, _| cut.file.clone()),
    ("BYTE", |cut, _| cut.from_byte.to_string()),
    ("BYTES", |cut, _| about_bytes(cut.bytes)),
    ("BATCHES LOST", |cut, _| grouped(cut.batches_lost)),
    ("KEPT IN", |cut, _| cut.kept_in.clone()),
];

pub(super) fn run(common: &Common, args: &Args) -> Result<()> {
    if !args.dry_run && !args.yes {
        let fault = Fault::new(Exit::Usage, "a repair must be asked for by name: give --dry-run or --yes");
        return Err(fault.help("--dry-run shows what would be lost").into());
    }
    let spinner = progress::spinner("reading the log");
    let repair = tools::repair(&args.directory.data, args.dry_run);
    spinner.finish_and_clear();
    let repair = repair.map_err(|error| explain(&error))?;
    let report = report(repair);
    common.show(&report, |report| text(report, args.dry_run))
}

fn report(repair: Repair) -> Report {
    let cuts = repair.cuts.into_iter().map(|cut| Cut {
        file: cut.file,
        from_byte: cut.byte,
        bytes: cut.bytes,
        batches_lost: cut.batches,
        kept_in: cut.kept_in,
    });
    Report {
        applied: repair.applied,
        damage: repair.damage.iter().map(|damage| cause(damage).to_owned()).collect(),
        headers_rewritten: repair.headers,
        cuts: cuts.collect(),
    }
}

/// What is damaged, without the advice that a refused start adds to it: to look here, where the reader already is.
fn cause(damage: &str) -> &str {
    damage.split_once(". Nothing was changed").map_or(damage, |(cause, _)| cause)
}

fn text(report: &Report, dry_run: bool) -> String {
    if report.damage.is_empty() && report.cuts.is_empty() && report.headers_rewritten.is_empty() {
        return "nothing to repair: a server starts on this log\n".to_owned();
    }
    let mut text = String::new();
    for damage in &report.damage {
        text.push_str(&format!("damage: {damage}\n"));
    }
    for file in &report.headers_rewritten {
        text.push_str(&format!("header of {file}: written anew, nothing is lost by it\n"));
    }
    text.push_str(&section(CUTS, &report.cuts));
    text.push_str(if dry_run { "\nnothing was changed; repeat with --yes to do it\n" } else { "\ndone\n" });
    text
}
