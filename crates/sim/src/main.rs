//! `driftq-sim run --seeds N [--from S] [--steps K]`: whole shards under simulated crashes.
//!
//! Exit code 0: clean. 1: a promise was broken; the report names the seed. 2: wrong usage.

use std::process::ExitCode;

use driftq_sim::run::{Outcome, run_seed};

const USAGE: &str = "usage: driftq-sim run --seeds N [--from S] [--steps K] [--verbose]
  runs N seeds, each twice, beginning with seed S (default 1)
  --steps K    steps of chaos per seed (default 2500)
  --verbose    print every step of every seed";

struct Arguments {
    seeds: u64,
    from: u64,
    steps: u64,
    verbose: bool,
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    if words.next()? != "run" {
        return None;
    }
    let mut arguments = Arguments { seeds: 0, from: 1, steps: 2500, verbose: false };
    while let Some(word) = words.next() {
        let mut number = || words.next()?.parse().ok();
        match word.as_str() {
            "--seeds" => arguments.seeds = number()?,
            "--from" => arguments.from = number()?,
            "--steps" => arguments.steps = number()?,
            "--verbose" => arguments.verbose = true,
            _ => return None,
        }
    }
    (arguments.seeds > 0).then_some(arguments)
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
        match run_seed(seed, arguments.steps, arguments.verbose) {
            Outcome::Clean(counts) => totals.add(&counts),
            Outcome::Violated { what, recent } => {
                println!("violated: {what}");
                println!(
                    "seed {seed} (repeat: driftq-sim run --seeds 1 --from {seed} --steps {})",
                    arguments.steps
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
