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
    num::NonZero,
    panic::resume_unwind,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use hunt::{HuntResult, Hunter};
use list::Mutant;
use tree::Tree;

use crate::{
    args::Args,
    command::{self, Scene},
};

/// Seeds that must be clean on the unbroken tree first, so that not every mutant looks caught. `test` and `soak` run many
/// more of them in their simulation step; here nothing is optimised, and one takes half a second.
const SEEDS_UNBROKEN_MAX: u64 = 20;

/// Copies in which mutants are hunted at the same time, where there are so many cores.
const LANES_MAX: usize = 4;
/// A further copy has to be built first: it is worth it for so many mutants.
const MUTANTS_PER_LANE_MIN: usize = 12;

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
    let first = Lane::new(root, work, 0)?;
    let scenes: BTreeSet<Scene> = chosen.iter().map(|mutant| mutant.scene).collect();
    scenes.into_iter().try_for_each(|scene| unbroken(&first.hunter, settings.seeds_unbroken, scene))?;
    let lanes = Lane::beside(first, root, work, chosen.len())?;
    judge_list(&hunt_all(&lanes, &chosen, settings)?, &chosen, settings)
}

/// A copy of the workspace, and what is built of it. Most of a build is one compiler after the other, so that several
/// copies are built and hunted in side by side.
struct Lane {
    tree: Tree,
    hunter: Hunter,
}

impl Lane {
    fn new(root: &Path, work: &Path, number: usize) -> Result<Self> {
        let tree = Tree::copy(root, &work.join(format!("tree-{number}")))?;
        let hunter = Hunter { tree: tree.root().to_owned(), target: Self::target(work, number) };
        Ok(Self { tree, hunter })
    }

    fn target(work: &Path, number: usize) -> PathBuf {
        work.join(format!("target-{number}"))
    }

    /// The lanes of a list: the first, and others that begin with what it has built of third-party packages.
    fn beside(first: Self, root: &Path, work: &Path, mutants: usize) -> Result<Vec<Self>> {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let count = cores.min(LANES_MAX).min(mutants.div_ceil(MUTANTS_PER_LANE_MIN)).max(1);
        let mut lanes = vec![first];
        for number in 1..count {
            let (built, target) = (Self::target(work, 0), Self::target(work, number));
            if !target.exists() {
                let mut copy = Command::new("cp");
                command::expect_success(copy.arg("-a").args([&built, &target]))?;
            }
            lanes.push(Self::new(root, work, number)?);
        }
        Ok(lanes)
    }

    fn judge(&self, mutant: &Mutant, settings: &Settings) -> Result<HuntResult> {
        let judge = || self.hunter.judge(settings.seeds, mutant.seed, mutant.scene);
        self.tree.with_mutant(mutant, judge)?.context("running the simulator on a mutant")
    }
}

/// On the unbroken tree the simulator must be silent, or every mutant would look caught.
fn unbroken(hunter: &Hunter, seeds: u64, scene: Scene) -> Result<()> {
    let started = Instant::now();
    match hunter.judge(seeds, None, scene)? {
        HuntResult::Survived => {
            let took = started.elapsed().as_secs_f64();
            println!("the unbroken tree is clean on {seeds} seeds ({took:.1} s with its build)");
            Ok(())
        }
        HuntResult::Caught { by, .. } => bail!("the simulator complains about the unbroken tree: {by}"),
        HuntResult::Broken { why } => bail!("the simulator does not run on the unbroken tree: {why}"),
    }
}

/// What became of every mutant that was started before the time was up.
fn hunt_all<'a>(
    lanes: &[Lane],
    mutants: &'a [Mutant],
    settings: &Settings,
) -> Result<Vec<(&'a Mutant, HuntResult)>> {
    let started = Instant::now();
    let width = mutants.iter().map(|mutant| mutant.name.len()).max().unwrap_or(0).max(4);
    println!("{:width$}  {:>5}  {:>7}  caught by", "name", "seeds", "seconds");
    let next = AtomicUsize::new(0);
    let hunt = |lane: &Lane| {
        let mut judged = Vec::new();
        while let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
            if settings.budget.is_some_and(|budget| started.elapsed() > budget) {
                break;
            }
            let begun = Instant::now();
            let verdict = lane.judge(mutant, settings)?;
            let (seeds, text) = told(&verdict, mutant, settings);
            println!("{:width$}  {seeds:>5}  {:>7.1}  {text}", mutant.name, begun.elapsed().as_secs_f64());
            judged.push((mutant, verdict));
        }
        Ok(judged)
    };
    thread::scope(|scope| {
        let hunts: Vec<_> = lanes.iter().map(|lane| scope.spawn(|| hunt(lane))).collect();
        let ended = hunts.into_iter().map(|hunt| hunt.join().unwrap_or_else(|panic| resume_unwind(panic)));
        Ok(ended.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    })
}

/// How many seeds it took, and what was said.
fn told(verdict: &HuntResult, mutant: &Mutant, settings: &Settings) -> (String, String) {
    match verdict {
        HuntResult::Caught { by, seeds } => {
            (seeds.map_or("?".to_owned(), |seeds| seeds.to_string()), by.clone())
        }
        HuntResult::Survived => {
            (settings.seeds.to_string(), format!("NOTHING; it breaks: {}", mutant.breaks))
        }
        HuntResult::Broken { why } => ("-".to_owned(), format!("NOTHING: {why}")),
    }
}

/// Fails unless every mutant was caught and the short list keeps its promise.
fn judge_list(judged: &[(&Mutant, HuntResult)], mutants: &[Mutant], settings: &Settings) -> Result<()> {
    let (mut alive, mut caught) = (Vec::new(), Vec::new());
    for (mutant, verdict) in judged {
        match verdict {
            HuntResult::Caught { by, .. } => caught.push((mutant.is_short, check_of(by).to_owned())),
            _ => alive.push(mutant.name.as_str()),
        }
    }
    println!("{} of {} mutants caught", caught.len(), mutants.len());
    let started: BTreeSet<&str> = judged.iter().map(|(mutant, _)| mutant.name.as_str()).collect();
    let names = mutants.iter().map(|mutant| mutant.name.as_str());
    let left_out: Vec<_> = names.filter(|name| !started.contains(name)).collect();
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
