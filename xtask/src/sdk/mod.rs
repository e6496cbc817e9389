//! The SDKs as their users get them: built into packages, installed from those, and tested there.

mod dashboard;
mod python;
mod rust;
mod typescript;
mod workers;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use crate::{
    args::Args,
    command,
    step::Steps,
    task::{Log, Task},
};

/// Runs what stands in README and docs. It needs the SDKs, unlike the scripts beside it.
pub(crate) const PAGES: &str = "tests/python/docs_run.py";

/// Steps at a time: they wait more than they work, so that there may be one more than the smallest machine has cores.
pub(crate) const LANES: usize = 3;

/// Kills of a worker that show what they are to show.
pub(crate) const KILLS: u64 = 100;

pub(crate) struct Settings {
    kills: u64,
}

impl Settings {
    pub(crate) fn parse(mut args: Args) -> Result<Self> {
        let settings = Self { kills: args.value("--kills")?.unwrap_or(KILLS) };
        args.finish()?;
        Ok(settings)
    }
}

/// `cargo xtask sdk`.
pub(crate) fn run(root: &Path, settings: &Settings) -> Result<()> {
    let mut steps = Steps::new();
    if steps.run("build", || command::expect_success(&mut command::build_for_sdks(root))) {
        let shop = Shop::new(root, &command::target_folder(root)?.join("debug"));
        shop.run(&mut steps, settings.kills, Vec::new());
    } else {
        steps.skip("SDKs", "the build failed");
    }
    steps.finish()
}

/// Where the steps put what they build, and what they test against.
pub(crate) struct Shop {
    root: PathBuf,
    /// The built broker.
    broker: PathBuf,
    /// Programs that cargo has built as examples.
    examples: PathBuf,
    /// Ours alone, below the target folder.
    folder: PathBuf,
}

impl Shop {
    /// `debug` is the folder of built programs.
    pub(crate) fn new(root: &Path, debug: &Path) -> Self {
        Self {
            root: root.to_owned(),
            broker: debug.join("driftq"),
            examples: debug.join("examples"),
            folder: debug.with_file_name("sdk"),
        }
    }

    /// Runs everything, and other steps of the same kind beside it.
    pub(crate) fn run(&self, steps: &mut Steps, kills: u64, others: Vec<Task<'_>>) {
        steps.run_side_by_side(LANES, self.packages());
        if !typescript::is_possible() {
            steps.skip("SDK: TypeScript, dashboard", "there is no Node.js 20 with npm; install both");
        } else if !dashboard::has_browser() {
            steps.skip("dashboard: in a browser", "there is no Chromium; install the package chromium");
        }
        let mut tasks = self.tests(kills);
        tasks.extend(others);
        steps.run_side_by_side(LANES, tasks);
    }

    fn python_folder(&self) -> PathBuf {
        self.folder.join("python")
    }

    fn typescript_folder(&self) -> PathBuf {
        self.folder.join("typescript")
    }

    /// Builds the packages of Python and TypeScript and installs them; the steps of `tests` stand on it.
    fn packages(&self) -> Vec<Task<'_>> {
        let mut tasks = vec![Task::new("package: Python", |log| python::install(self, log))];
        if typescript::is_possible() {
            tasks.push(Task::new("package: TypeScript", |log| typescript::install(self, log)));
            tasks.push(Task::new("dashboard: built from its sources", |log| dashboard::verify(self, log)));
        }
        tasks
    }

    /// The suites of the SDKs, workers under kill -9, and the pages' examples.
    fn tests(&self, kills: u64) -> Vec<Task<'_>> {
        let mut tasks = vec![
            Task::new("SDK: Python", |log| python::test(self, log)),
            Task::new("package: Rust", |log| rust::package(self, log)),
            Task::new("kill -9: Rust worker", move |log| workers::rust(self, log, kills)),
            Task::new("kill -9: Python worker", move |log| workers::python(self, log, kills)),
        ];
        if typescript::is_possible() {
            tasks.push(Task::new("SDK: TypeScript", |log| typescript::test(self, log)));
            tasks.push(Task::new("kill -9: TypeScript worker", move |log| {
                workers::typescript(self, log, kills)
            }));
            tasks.push(Task::new("one trace through three languages", |log| workers::traced(self, log)));
        }
        if typescript::is_possible() && dashboard::has_browser() {
            tasks.push(Task::new("dashboard: in a browser", |log| dashboard::test(self, log)));
        }
        tasks.push(Task::new("pages", |log| self.pages(log)));
        tasks
    }

    /// Runs every command and program of README and docs, with the SDKs installed from their packages.
    fn pages(&self, log: &mut Log) -> Result<()> {
        let mut run = command::python(&self.root, Path::new(PAGES), &self.broker);
        run.env("DRIFTQ_DOCS_PYTHON", python::interpreter(self));
        if typescript::is_possible() {
            run.env("DRIFTQ_DOCS_NODE_MODULES", typescript::newcomer(self).join("node_modules"));
        }
        log.expect_success(&mut run)
    }
}

/// Runs a quick start's program against a fresh server; `source` is what the newcomer typed.
fn newcomer_runs(shop: &Shop, log: &mut Log, source: &str, program: &Command) -> Result<()> {
    let mut run = command::python(&shop.root, Path::new("tests/python/_sdk_newcomer.py"), &shop.broker);
    run.args(["--source", source, "--"]).arg(program.get_program()).args(program.get_args());
    log.expect_success(&mut run)
}
