//! Builds the simulator on a broken tree, runs it, and judges what it said.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::command::{self, FIRST_SEED, Scene};

/// A mutant may turn a loop endless; that is not a report, so the run is cut off after this…
const RUN_SECONDS: u64 = 120;
/// …and a second more for this many seeds: unbroken, a slow machine does several in a second.
const SEEDS_PER_SECOND: u64 = 4;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HuntResult {
    /// The simulator reported a violation: its first line, and how many seeds it took when the report says.
    Caught { by: String, seeds: Option<u64> },
    /// All seeds came out clean.
    Survived,
    /// The build failed, the simulator crashed, hung or misbehaved. Nothing was shown.
    Broken { why: String },
}

pub(crate) struct Hunter {
    /// The tree in which mutants are applied.
    pub(crate) tree: PathBuf,
    /// Shared by all builds, so that only what a mutant touches is compiled again.
    pub(crate) target: PathBuf,
}

impl Hunter {
    /// Builds the tree as it is now and runs `seeds` seeds of a scene; before them `first`, if there is one.
    pub(crate) fn judge(&self, seeds: u64, first: Option<u64>, scene: Scene) -> Result<HuntResult> {
        if let Err(error) = self.build() {
            return Ok(HuntResult::Broken { why: format!("{error:#}") });
        }
        if let Some(seed) = first
            && let HuntResult::Caught { by, .. } = self.simulate(seed, 1, scene)?
        {
            return Ok(HuntResult::Caught { by, seeds: Some(1) });
        }
        self.simulate(FIRST_SEED, seeds, scene)
    }

    fn simulate(&self, from: u64, seeds: u64, scene: Scene) -> Result<HuntResult> {
        let simulator = self.target.join("debug/driftq-sim");
        let mut run = command::simulate_scene(&simulator, from, seeds, scene);
        let log = self.target.join("run.log");
        let code = run_into(&mut run, &log, Duration::from_secs(RUN_SECONDS + seeds / SEEDS_PER_SECOND))?;
        let output = fs::read(&log).with_context(|| format!("reading {}", log.display()))?;
        Ok(hunt_result(code, &String::from_utf8_lossy(&output)))
    }

    fn build(&self) -> Result<()> {
        let mut build = command::build_simulator(&self.tree);
        // Most mutants show within a second of running and take many to compile: unoptimised, the list takes half as long.
        build.env("CARGO_TARGET_DIR", &self.target);
        build.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
        let output = build.output().context("starting the build")?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let first = text.lines().find(|line| line.starts_with("error")).unwrap_or("no message");
            bail!("it does not build: {first}");
        }
        Ok(())
    }
}

/// Runs with all output in a file; none when it took too long or a signal ended it.
fn run_into(run: &mut Command, log: &Path, limit: Duration) -> Result<Option<i32>> {
    let file = File::create(log).with_context(|| format!("creating {}", log.display()))?;
    let errors = file.try_clone().context("sharing the output file")?;
    let mut child =
        run.stdin(Stdio::null()).stdout(file).stderr(errors).spawn().context("starting the simulator")?;
    let until = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().context("waiting for the simulator")? {
            return Ok(status.code());
        }
        if Instant::now() > until {
            child.kill().context("ending a simulator that hangs")?;
            child.wait().context("waiting for the simulator")?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn hunt_result(code: Option<i32>, output: &str) -> HuntResult {
    let report = output.lines().find(|line| line.to_lowercase().contains("violat"));
    match (code, report) {
        (Some(0), _) => HuntResult::Survived,
        (Some(1), Some(line)) => {
            HuntResult::Caught { by: line.trim().to_owned(), seeds: seeds_needed(output) }
        }
        // An error that `main` returns also ends with 1: without a report nothing was found.
        (Some(1), None) => {
            HuntResult::Broken { why: "exit code 1 without a report of a violation".to_owned() }
        }
        (Some(code), _) => HuntResult::Broken { why: format!("exit code {code}: {}", last_line(output)) },
        (None, _) => HuntResult::Broken { why: "it hung, or a signal ended it".to_owned() },
    }
}

/// Seeds run in order and the first violation ends the run, so the seed in the report tells how many it took.
fn seeds_needed(output: &str) -> Option<u64> {
    let lower = output.to_lowercase();
    let numbers = lower.match_indices("seed").filter_map(|(offset, word)| {
        let rest = lower[offset + word.len()..].trim_start_matches([' ', '=', ':', '#']);
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse::<u64>().ok()
    });
    numbers.map(|seed| seed.saturating_sub(FIRST_SEED) + 1).next()
}

fn last_line(output: &str) -> &str {
    output.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no output")
}

#[cfg(test)]
mod tests {
    use std::{process::Command, time::Duration};

    use super::{HuntResult, hunt_result, run_into};

    #[test]
    fn only_a_reported_violation_counts_as_caught() {
        let report = "12 seeds\nseed 13: violation: acked message came back\nsee above\n";
        let by = "seed 13: violation: acked message came back".to_owned();
        assert_eq!(hunt_result(Some(1), report), HuntResult::Caught { by, seeds: Some(13) });
        assert_eq!(hunt_result(Some(0), "200 seeds, no violation"), HuntResult::Survived);
        for (code, output) in
            [(Some(1), "Error: no such file"), (Some(101), report), (Some(2), "usage"), (None, report)]
        {
            assert!(matches!(hunt_result(code, output), HuntResult::Broken { .. }), "{code:?} {output}");
        }
    }

    #[test]
    fn a_run_that_hangs_is_cut_off() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut endless = Command::new("sleep");
        let code = run_into(endless.arg("60"), &folder.path().join("log"), Duration::from_millis(50));
        assert_eq!(code.expect("sleep starts"), None);
    }
}
