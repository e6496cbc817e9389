//! `driftq ledger sweep`.

use anyhow::Result;
use driftq_ledger::{Ledger, PAGE_MAX, Sweep, Swept};
use indicatif::ProgressBar;
use serde::Serialize;

use super::{Place, fault::fault};
use crate::{
    Common,
    output::{self, grouped},
    progress,
    signal::Signals,
};

#[derive(clap::Args)]
#[command(
    after_help = "Records whose time is over count no more; they only take up room. A lease that lapsed and that nobody may take \
over makes its effect unknown, for every reader at once; the sweep writes that down. A service that calls \
`Ledger::keep_swept` needs no sweep by hand, and a server sweeps by itself. Sweeping while the service runs is safe, \
and so is Ctrl-C: what was swept stays swept.

Examples:
  driftq ledger sweep --dry-run                        # what there is to do; changes nothing
  driftq ledger sweep                                  # until nothing is left
  driftq ledger sweep --limit 10000                    # some of it"
)]
pub(super) struct Args {
    /// Only count, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Stop when so many records are done; all of them if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

/// What was done, or would be.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Done {
    dry_run: bool,
    /// Records whose time was over.
    removed: u64,
    /// Records that are written down as unknown from now on.
    held: u64,
    /// Whether there is more to do.
    more: bool,
    /// Whether the store does this by itself.
    by_itself: bool,
}

impl Done {
    fn add(&mut self, swept: Swept) {
        self.removed += swept.removed;
        self.held += swept.held;
        self.more = swept.more;
        self.by_itself = swept.by_itself;
    }

    const fn records(&self) -> u64 {
        self.removed + self.held
    }
}

pub(super) async fn run(common: &Common, place: &Place, args: &Args) -> Result<()> {
    let ledger = place.patient_ledger(common)?;
    let mut done = Done { dry_run: args.dry_run, ..Done::default() };
    let mut signals = Signals::new()?;
    let bar = progress::spinner("sweeping");
    let ended = tokio::select! {
        swept = sweep(&ledger, args, &mut done, &bar) => Ok(swept),
        signal = signals.next() => Err(signal),
    };
    bar.finish_and_clear();
    match ended {
        Ok(swept) => swept?,
        Err(signal) => {
            eprintln!("stopped by {}; {}", signal.name(), text(&done).trim_end());
            std::process::exit(signal.exit_code());
        }
    }
    output::print_one(common.output, &done, || text(&done))
}

/// Round after round, until nothing is left or enough is done. What a round has done is told before the next.
async fn sweep(ledger: &Ledger, args: &Args, done: &mut Done, bar: &ProgressBar) -> Result<()> {
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

fn text(done: &Done) -> String {
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
