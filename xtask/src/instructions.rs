//! Instruction counts of the hot paths, against those that are kept in the repository.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{args::Args, command, task::Log};

/// The kept counts, from the root.
const KEPT: &str = "bench/instructions.json";
/// By how much a count may exceed the kept one. Two runs of one build differ by three in a hundred at the most. The edge is
/// not optimised in these builds, and makes up most of a count: what the core costs more shows as less.
const TOLERANCE_PERCENT: u64 = 5;
/// The least of them counts.
const ROUNDS: &str = "3";

/// Instructions per request, by path.
type Counts = BTreeMap<String, u64>;

pub(crate) struct Settings {
    keep: bool,
}

impl Settings {
    pub(crate) fn parse(mut args: Args) -> Result<Self> {
        let settings = Self { keep: args.flag("--keep") };
        args.finish()?;
        Ok(settings)
    }
}

pub(crate) fn run(root: &Path, settings: &Settings) -> Result<()> {
    if let Some(why) = missing() {
        bail!("{why}");
    }
    command::expect_success(&mut command::build(root))?;
    let broker = command::target_folder(root)?.join("debug/driftq");
    let counts = count(&broker)?;
    if settings.keep {
        let file = root.join(KEPT);
        let text = serde_json::to_string_pretty(&counts).context("counts as JSON")?;
        fs::write(&file, format!("{text}\n")).with_context(|| format!("writing {}", file.display()))?;
        println!("kept in {KEPT}");
        return Ok(());
    }
    let (text, dearer) = compare(&kept(root)?, &counts);
    print!("{text}");
    judge(&dearer)
}

/// Why nothing can be counted here, if so.
pub(crate) fn missing() -> Option<&'static str> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Some("the kept counts are those of x86_64 Linux");
    }
    let is_there = command::answers(Command::new("callgrind_control").arg("--version"));
    (!is_there).then_some("valgrind is not installed; `cargo xtask setup` brings it")
}

/// Counts with the broker that the tests use, and fails when a path has become dearer.
pub(crate) fn check(root: &Path, broker: &Path, log: &mut Log) -> Result<()> {
    let (text, dearer) = compare(&kept(root)?, &count(broker)?);
    log.say(&text);
    judge(&dearer)
}

fn judge(dearer: &[String]) -> Result<()> {
    if dearer.is_empty() {
        return Ok(());
    }
    bail!(
        "dearer by more than {TOLERANCE_PERCENT} %: {}. Find out why; if it must be, `cargo xtask instructions --keep`",
        dearer.join(", ")
    )
}

fn count(broker: &Path) -> Result<Counts> {
    let mut bench = Command::new(broker);
    bench.args(["bench", "instructions", "--rounds", ROUNDS, "-o", "json"]);
    let output = bench.output().with_context(|| format!("starting {}", broker.display()))?;
    if !output.status.success() {
        bail!("`driftq bench instructions` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let report: Value = serde_json::from_slice(&output.stdout).context("the report as JSON")?;
    let figures = report.get("figures").and_then(Value::as_array).context("the report has no figures")?;
    let counts = figures.iter().map(|figure| {
        let name = figure.get("name").and_then(Value::as_str)?;
        let count = figure.get("value").and_then(Value::as_f64)?;
        Some((name.to_owned(), count as u64))
    });
    counts.collect::<Option<Counts>>().context("a figure without a name or a value")
}

fn kept(root: &Path) -> Result<Counts> {
    let file: PathBuf = root.join(KEPT);
    let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no list of counts", file.display()))
}

/// A line for each path, and the paths that have become dearer. One that is not kept, or not counted any more, is named
/// too: nobody would watch over it.
fn compare(kept: &Counts, counts: &Counts) -> (String, Vec<String>) {
    let (mut text, mut dearer) = (String::new(), Vec::new());
    for (path, count) in counts {
        let Some(before) = kept.get(path) else {
            dearer.push(format!("{path} (not kept)"));
            continue;
        };
        let change = (*count as f64 / (*before).max(1) as f64 - 1.0) * 100.0;
        // Writing to a text does not fail.
        let _ = writeln!(text, "{path}: {count} instructions, {before} are kept ({change:+.1} %)");
        if *count > before + before * TOLERANCE_PERCENT / 100 {
            dearer.push(format!("{path} ({change:+.1} %)"));
        }
    }
    dearer.extend(
        kept.keys().filter(|path| !counts.contains_key(*path)).map(|path| format!("{path} (not counted)")),
    );
    (text, dearer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(list: &[(&str, u64)]) -> Counts {
        list.iter().map(|(path, count)| ((*path).to_owned(), *count)).collect()
    }

    #[test]
    fn only_what_has_become_dearer_is_named() {
        let kept = counts(&[("produce", 1_000), ("lease", 2_000), ("commit", 3_000)]);
        let same = counts(&[("produce", 1_050), ("lease", 1_000), ("commit", 3_000)]);
        let (text, dearer) = compare(&kept, &same);
        assert_eq!(dearer, Vec::<String>::new());
        assert!(text.contains("produce: 1050 instructions, 1000 are kept (+5.0 %)"), "{text}");
        let worse = counts(&[("produce", 1_051), ("lease", 2_000), ("commit", 3_000)]);
        assert_eq!(compare(&kept, &worse).1, ["produce (+5.1 %)"]);
        assert!(judge(&compare(&kept, &worse).1).is_err());
    }

    #[test]
    fn a_path_that_nobody_watches_is_named() {
        let (kept, now) = (counts(&[("produce", 1_000)]), counts(&[("lease", 1_000)]));
        assert_eq!(compare(&kept, &now).1, ["lease (not kept)", "produce (not counted)"]);
    }
}
