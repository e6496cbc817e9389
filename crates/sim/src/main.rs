//! `driftq-sim run --seeds N [--from S] [--steps K] [--nodes M] [--shards L]`: whole shards under simulated crashes.
//!
//! Exit code 0: clean. 1: a promise was broken; the report names the seed. 2: wrong usage.

use std::process::ExitCode;

use driftq_sim::run::{Outcome, Setting, run_seed};

const USAGE: &str =
    "usage: driftq-sim run --seeds N [--from S] [--steps K] [--nodes M] [--shards L] [--verbose]
  runs N seeds, each twice, beginning with seed S (default 1)
  --steps K    steps of chaos per seed (default 2500)
  --nodes M    nodes that share one log (default 1: one server on its own disk)
  --shards L   shards of a house, with messages that hop from one to another (default 1)
  --verbose    print every step of every seed";

/// More would only take turns.
const NODES_MAX: usize = 9;
const SHARDS_MAX: usize = 9;

struct Arguments {
    seeds: u64,
    from: u64,
    setting: Setting,
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    if words.next()? != "run" {
        return None;
    }
    let setting = Setting { nodes: 1, shards: 1, steps: 2500, verbose: false };
    let mut arguments = Arguments { seeds: 0, from: 1, setting };
    while let Some(word) = words.next() {
        let mut number = || words.next()?.parse().ok();
        match word.as_str() {
            "--seeds" => arguments.seeds = number()?,
            "--from" => arguments.from = number()?,
            "--steps" => arguments.setting.steps = number()?,
            "--nodes" => arguments.setting.nodes = usize::try_from(number()?).ok()?,
            "--shards" => arguments.setting.shards = usize::try_from(number()?).ok()?,
            "--verbose" => arguments.setting.verbose = true,
            _ => return None,
        }
    }
    let Setting { nodes, shards, .. } = arguments.setting;
    let fits = (1..=NODES_MAX).contains(&nodes) && (1..=SHARDS_MAX).contains(&shards);
    (arguments.seeds > 0 && fits).then_some(arguments)
}

fn main() -> ExitCode {
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    // A panic inside the core is a broken promise like any other: it is reported with its seed.
    std::panic::set_hook(Box::new(|_| ()));
    let mut totals = driftq_sim::run::Totals::default();
    for seed in arguments.from..arguments.from.saturating_add(arguments.seeds) {
        match run_seed(seed, arguments.setting) {
            Outcome::Clean(counts) => totals.add(&counts),
            Outcome::Violated { what, recent } => {
                println!("violated: {what}");
                let Setting { steps, nodes, shards, .. } = arguments.setting;
                let more = |flag, count: usize| match count {
                    1 => String::new(),
                    count => format!(" --{flag} {count}"),
                };
                let (nodes, shards) = (more("nodes", nodes), more("shards", shards));
                println!(
                    "seed {seed} (repeat: driftq-sim run --seeds 1 --from {seed} --steps {steps}{nodes}{shards})"
                );
                for line in recent {
                    println!("    {line}");
                }
                return ExitCode::from(1);
            }
        }
        if (seed + 1 - arguments.from).is_multiple_of(100) {
            println!("{} seeds clean", seed + 1 - arguments.from);
        }
    }
    println!("{} seeds clean, each run twice: {totals}", arguments.seeds);
    ExitCode::SUCCESS
}
