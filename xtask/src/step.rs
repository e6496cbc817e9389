//! A run of named steps: each is timed, a failure does not stop the others, and the summary is the last word.

use std::{
    fmt,
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::task::{self, Ended, Task};

/// The error of a run whose summary has been printed. Nothing is printed after it: continuous integration reads the
/// last line.
#[derive(Debug)]
pub(crate) struct Told;

impl fmt::Display for Told {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("some steps failed; the summary lists them")
    }
}

impl std::error::Error for Told {}

enum Outcome {
    Passed,
    Failed(String),
    /// Not run, with the reason. Counts neither as passed nor as failed.
    Skipped(String),
}

pub(crate) struct Steps {
    started: Instant,
    done: Vec<(String, Outcome, Duration)>,
}

impl Steps {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), done: Vec::new() }
    }

    /// Runs one step; true when it passed.
    pub(crate) fn run(&mut self, name: &str, step: impl FnOnce() -> Result<()>) -> bool {
        println!("\n=== {name}");
        let started = Instant::now();
        let outcome = match step() {
            Ok(()) => Outcome::Passed,
            Err(error) => Outcome::Failed(format!("{error:#}")),
        };
        let took = started.elapsed();
        let passed = matches!(outcome, Outcome::Passed);
        match &outcome {
            Outcome::Failed(why) => println!("=== {name}: FAILED after {:.1} s: {why}", took.as_secs_f64()),
            _ => println!("=== {name}: passed in {:.1} s", took.as_secs_f64()),
        }
        self.done.push((name.to_owned(), outcome, took));
        passed
    }

    /// Runs steps side by side, `lanes` at a time.
    pub(crate) fn run_side_by_side(&mut self, lanes: usize, tasks: Vec<Task<'_>>) {
        for Ended { name, result, took } in task::side_by_side(lanes, tasks) {
            let outcome = match result {
                Ok(()) => Outcome::Passed,
                Err(error) => Outcome::Failed(format!("{error:#}")),
            };
            self.done.push((name, outcome, took));
        }
    }

    /// Notes a step that cannot run, and why.
    pub(crate) fn skip(&mut self, name: &str, reason: &str) {
        println!("\n=== {name}: skipped: {reason}");
        self.done.push((name.to_owned(), Outcome::Skipped(reason.to_owned()), Duration::ZERO));
    }

    /// Prints the table and the line that continuous integration reads; an error when a step failed.
    pub(crate) fn finish(self) -> Result<()> {
        println!("\n=== summary after {:.0} s", self.started.elapsed().as_secs_f64());
        print!("{}", self.table());
        let (passed, failed) = self.counts();
        println!("{passed} passed, {failed} failed");
        if failed > 0 { Err(Told.into()) } else { Ok(()) }
    }

    fn table(&self) -> String {
        let width = self.done.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
        let line = |(name, outcome, took): &(String, Outcome, Duration)| {
            let took = took.as_secs_f64();
            match outcome {
                Outcome::Passed => format!("  {name:width$}  passed   {took:7.1} s\n"),
                Outcome::Failed(why) => format!("  {name:width$}  FAILED   {took:7.1} s  {why}\n"),
                Outcome::Skipped(why) => format!("  {name:width$}  skipped            {why}\n"),
            }
        };
        self.done.iter().map(line).collect()
    }

    fn counts(&self) -> (usize, usize) {
        let count =
            |wanted: fn(&Outcome) -> bool| self.done.iter().filter(|(_, outcome, _)| wanted(outcome)).count();
        (
            count(|outcome| matches!(outcome, Outcome::Passed)),
            count(|outcome| matches!(outcome, Outcome::Failed(_))),
        )
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::Steps;

    #[test]
    fn a_failure_does_not_stop_the_others_and_fails_the_whole() {
        let mut steps = Steps::new();
        assert!(steps.run("one", || Ok(())));
        assert!(!steps.run("two", || bail!("broken")));
        assert!(steps.run("three", || Ok(())));
        steps.skip("four", "not here");
        assert_eq!(steps.counts(), (2, 1));
        let table = steps.table();
        assert!(table.contains("broken") && table.contains("not here"), "{table}");
        assert!(steps.finish().is_err());
    }

    #[test]
    fn skipped_steps_do_not_fail_the_whole() {
        let mut steps = Steps::new();
        steps.run("one", || Ok(()));
        steps.skip("two", "not here");
        assert!(steps.finish().is_ok());
    }
}
