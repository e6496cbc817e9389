//! Breaks the product on purpose and expects the simulator to notice: `cargo xtask mutants`.
//!
//! A check that has never failed proves little. Each mutant of the list removes one reason why an invariant holds,
//! in a copy of the workspace; the simulator must report a violation on it.

mod hunt;
mod list;
#[cfg(test)]
mod tests;
mod tree;

use std::{
    collections::BTreeSet,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use hunt::{HuntResult, Hunter};
use list::Mutant;
use tree::Tree;

use crate::{args::Args, command};

/// Seeds that must be clean on the unbroken tree first, so that not every mutant looks caught. `test` and `soak` run many
/// more of them in their simulation step; here nothing is optimised, and one takes half a second.
const SEEDS_UNBROKEN_MAX: u64 = 20;

pub(crate) struct Settings {
    only: Option<String>,
    /// Only the short list.
    is_short: bool,
    /// How many seeds a mutant may take to be noticed.
    seeds: u64,
    /// How many seeds must be clean on the unbroken tree first.
    seeds_unbroken: u64,
    /// No further mutant is started after this time.
    budget: Option<Duration>,
    is_list_only: bool,
}

impl Settings {
    pub(crate) fn parse(mut args: Args) -> Result<Self> {
        let seeds = args.value("--seeds")?.unwrap_or(200);
        let minutes: Option<u64> = args.value("--minutes")?;
        let settings = Self {
            only: args.value("--only")?,
            budget: minutes.map(|minutes| Duration::from_secs(minutes * 60)),
            is_short: args.flag("--short"),
            is_list_only: args.flag("--list"),
            ..Self::full(seeds)
        };
        args.finish()?;
        Ok(settings)
    }

    /// Every mutant, however long it takes.
    pub(crate) fn full(seeds: u64) -> Self {
        let seeds_unbroken = seeds.min(SEEDS_UNBROKEN_MAX);
        Self { only: None, is_short: false, seeds, seeds_unbroken, budget: None, is_list_only: false }
    }

    /// The part of `test`: the short list, bounded in time.
    pub(crate) fn short() -> Self {
        let budget = Some(Duration::from_secs(8 * 60));
        Self { is_short: true, budget, ..Self::full(200) }
    }
}

pub(crate) fn run(root: &Path, settings: &Settings) -> Result<()> {
    let work = command::target_folder(root)?.join("mutants");
    run_in(root, &work, settings)
}

fn run_in(root: &Path, work: &Path, settings: &Settings) -> Result<()> {
    let all = list::read(root)?;
    let stale = list::stale(root, &all);
    for line in &stale {
        println!("{line}");
    }
    if !stale.is_empty() {
        bail!("{} of {} mutants are stale; {} must follow the code", stale.len(), all.len(), list::FILE);
    }
    let left_out = list::files_not_in_short(&all);
    if !left_out.is_empty() {
        let files = left_out.into_iter().collect::<Vec<_>>().join(", ");
        bail!("the short list has no mutant of {files}; mark one each with `short = true` in {}", list::FILE);
    }
    println!("{} mutants, all of them apply", all.len());
    if settings.is_list_only {
        print!(
            "{}",
            all.iter().map(|mutant| format!("{}: {}\n", mutant.name, mutant.breaks)).collect::<String>()
        );
        return Ok(());
    }
    let chosen: Vec<Mutant> = match &settings.only {
        Some(name) => all.into_iter().filter(|mutant| mutant.name == *name).collect(),
        None => all.into_iter().filter(|mutant| mutant.is_short || !settings.is_short).collect(),
    };
    if chosen.is_empty() {
        bail!("no mutant has this name; `cargo xtask mutants --list` shows them");
    }
    let tree = Tree::copy(root, &work.join("tree"))?;
    let hunter = Hunter { tree: tree.root().to_owned(), target: work.join("target") };
    unbroken(&hunter, settings.seeds_unbroken)?;
    hunt_all(&tree, &hunter, &chosen, settings)
}

/// On the unbroken tree the simulator must be silent, or every mutant would look caught.
fn unbroken(hunter: &Hunter, seeds: u64) -> Result<()> {
    let started = Instant::now();
    match hunter.judge(seeds, None)? {
        HuntResult::Survived => {
            let took = started.elapsed().as_secs_f64();
            println!("the unbroken tree is clean on {seeds} seeds ({took:.1} s with its build)");
            Ok(())
        }
        HuntResult::Caught { by, .. } => bail!("the simulator complains about the unbroken tree: {by}"),
        HuntResult::Broken { why } => bail!("the simulator does not run on the unbroken tree: {why}"),
    }
}

fn hunt_all(tree: &Tree, hunter: &Hunter, mutants: &[Mutant], settings: &Settings) -> Result<()> {
    let started = Instant::now();
    let width = mutants.iter().map(|mutant| mutant.name.len()).max().unwrap_or(0).max(4);
    println!("{:width$}  {:>5}  {:>7}  caught by", "name", "seeds", "seconds");
    let (mut alive, mut caught, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for mutant in mutants {
        if settings.budget.is_some_and(|budget| started.elapsed() > budget) {
            left_out.push(mutant.name.as_str());
            continue;
        }
        let begun = Instant::now();
        let verdict = tree
            .with_mutant(mutant, || hunter.judge(settings.seeds, mutant.seed))?
            .context("running the simulator on a mutant")?;
        let (seeds, text) = match &verdict {
            HuntResult::Caught { by, seeds } => {
                (seeds.map_or("?".to_owned(), |seeds| seeds.to_string()), by.clone())
            }
            HuntResult::Survived => {
                (settings.seeds.to_string(), format!("NOTHING; it breaks: {}", mutant.breaks))
            }
            HuntResult::Broken { why } => ("-".to_owned(), format!("NOTHING: {why}")),
        };
        println!("{:width$}  {seeds:>5}  {:>7.1}  {text}", mutant.name, begun.elapsed().as_secs_f64());
        match verdict {
            HuntResult::Caught { by, .. } => caught.push((mutant.is_short, check_of(&by).to_owned())),
            _ => alive.push(mutant.name.as_str()),
        }
    }
    println!("{} of {} mutants caught", caught.len(), mutants.len());
    if !left_out.is_empty() {
        println!("not started, the time was up: {}", left_out.join(", "));
    }
    if !alive.is_empty() {
        bail!("not caught: {}; add the check that notices, or correct the mutant", alive.join(", "));
    }
    // One mutant alone says nothing about the list.
    let asleep = if settings.only.is_none() { checks_not_in_short(&caught) } else { Vec::new() };
    if !asleep.is_empty() {
        bail!(
            "no mutant of the short list fails these checks: {}; mark one each with `short = true` in {}",
            asleep.join(", "),
            list::FILE
        );
    }
    Ok(())
}

/// The check that spoke: a report reads `violated: check: what happened`, with or without the seed in front.
fn check_of(report: &str) -> &str {
    let from = report.find("violat").unwrap_or(0);
    report[from..].split(": ").nth(1).unwrap_or(report)
}

/// Checks that only mutants outside the short list have failed, so that nothing in `test` shows that they can.
fn checks_not_in_short(caught: &[(bool, String)]) -> Vec<&str> {
    let checks = |short: bool| {
        caught.iter().filter(move |(is_short, _)| *is_short == short).map(|(_, check)| check.as_str())
    };
    let awake: BTreeSet<&str> = checks(true).collect();
    checks(false).collect::<BTreeSet<_>>().difference(&awake).copied().collect()
}
