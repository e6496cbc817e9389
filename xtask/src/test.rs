//! The README's test command: `cargo xtask test`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{
    args::Args,
    command::{self, Scene},
    deny, host, instructions, mutants,
    outside::{NATS, SEAWEED},
    postgres::Server,
    sdk::{self, Shop},
    step::Steps,
    task::Task,
    tidy,
};

/// How often a worker of each SDK is killed; a third of what `cargo xtask sdk` does, because this has to end soon.
const WORKER_KILLS: u64 = 30;

/// Packages whose tests need no third-party programs and end soon: the inner loop.
const QUICK: [&str; 8] = [
    "driftq-api",
    "driftq-canonical",
    "driftq-core",
    "driftq-engine",
    "driftq-rules",
    "driftq-sim",
    "driftq-wal",
    "xtask",
];
const QUICK_SEEDS: u64 = 50;
const SEEDS: u64 = 200;
/// Seeds with several nodes on one log, or several shards, or both.
const SCENE_SEEDS: u64 = 40;
const KILL_CYCLES: u64 = 30;
/// The step that watches over the cost of the hot paths.
const INSTRUCTIONS: &str = "instruction counts";

pub(crate) struct Settings {
    is_quick: bool,
    may_install: bool,
}

impl Settings {
    pub(crate) fn parse(mut args: Args) -> Result<Self> {
        let settings =
            Self { is_quick: args.flag("--quick"), may_install: host::may_install(args.flag("--setup")) };
        args.finish()?;
        Ok(settings)
    }
}

pub(crate) fn run(root: &Path, settings: &Settings) -> Result<()> {
    let mut steps = Steps::new();
    if settings.is_quick {
        quick(root, &mut steps)?;
        return steps.finish();
    }
    steps.run("machine", || if settings.may_install { host::provide() } else { host::look() });
    style(root, &mut steps);
    let target = command::target_folder(root)?.join("debug");
    if steps.run("build, linted by clippy", || command::expect_success(&mut command::build(root))) {
        tests(root, &target, &mut steps);
    } else {
        steps.skip("tests", "the build failed");
    }
    steps.run("mutants", || mutants::run(root, &mutants::Settings::short()));
    steps.finish()
}

/// What can be known in two minutes, without a database.
fn quick(root: &Path, steps: &mut Steps) -> Result<()> {
    style(root, steps);
    let has_nextest = command::has_cargo_tool(root, "nextest");
    steps.run("tests of core, log and engine", || {
        command::expect_success(&mut command::package_tests(root, has_nextest, &QUICK))
    });
    let simulator = command::target_folder(root)?.join("debug/driftq-sim");
    steps.run("simulation", || {
        command::expect_success(&mut command::build_simulator_linted(root))?;
        command::expect_success(&mut command::simulate(&simulator, command::FIRST_SEED, QUICK_SEEDS))?;
        simulate_scenes(&simulator)
    });
    Ok(())
}

fn simulate_scenes(simulator: &Path) -> Result<()> {
    Scene::OTHERS.into_iter().try_for_each(|scene| {
        let mut run = command::simulate_scene(simulator, command::FIRST_SEED, SCENE_SEEDS, scene);
        command::expect_success(&mut run)
    })
}

fn style(root: &Path, steps: &mut Steps) {
    if command::has_cargo_tool(root, "fmt") {
        steps.run("format", || command::expect_success(&mut command::format_check(root)));
    } else {
        steps.skip("format", "rustfmt is not installed; `rustup component add rustfmt` brings it");
    }
    if command::clippy_driver().is_none() {
        steps.skip("clippy", "clippy is not installed; `rustup component add clippy` brings it");
    }
    steps.run("tidy", || tidy::run(root));
    steps.run("deny", || deny::run(root));
}

fn tests(root: &Path, target: &Path, steps: &mut Steps) {
    let has_nextest = command::has_cargo_tool(root, "nextest");
    let mut server = None;
    steps.run("postgres", || {
        server = Some(Server::start(&target.join("driftq-testbed"))?);
        Ok(())
    });
    let outside = [SEAWEED, NATS].map(|one| (one.variable, one.provide(target, steps)));
    // Without a server the tests that need one start their own, or say what they miss.
    let expect_success = |mut command: Command| {
        for (variable, program) in &outside {
            command.envs(program.as_ref().map(|program| (variable, program)));
        }
        command::expect_success(&mut match &server {
            Some(server) => server.known_to(command),
            None => command,
        })
    };
    steps.run("unit tests", || expect_success(command::unit_tests(root, has_nextest)));
    steps.run("integration and black-box tests", || {
        expect_success(command::integration_tests(root, has_nextest, KILL_CYCLES))
    });
    steps.run("doc tests", || expect_success(command::doc_tests(root)));
    let simulator = target.join("driftq-sim");
    steps.run("simulation", || {
        command::expect_success(&mut command::simulate(&simulator, command::FIRST_SEED, SEEDS))?;
        simulate_scenes(&simulator)
    });
    let scripts = match python_scripts(root) {
        Ok(scripts) => scripts,
        Err(error) => {
            steps.run("scripts in tests/python", || Err(error));
            Vec::new()
        }
    };
    let broker = target.join("driftq");
    let task = |script: PathBuf| {
        let command = command::python(root, &script, &broker);
        let mut command = match &server {
            Some(server) => server.known_to(command),
            None => command,
        };
        Task::new(&script.to_string_lossy(), move |log| log.expect_success(&mut command))
    };
    let mut others: Vec<_> = scripts.into_iter().map(task).collect();
    let mut first_build = command::check_first_build(root);
    others.push(Task::new("build without features", move |log| log.expect_success(&mut first_build)));
    match instructions::missing() {
        Some(why) => steps.skip(INSTRUCTIONS, why),
        None => {
            let work = |log: &mut _| instructions::check(root, &broker, log);
            others.push(Task::new(INSTRUCTIONS, work));
        }
    }
    Shop::new(root, target).run(steps, WORKER_KILLS, others);
}

fn python_scripts(root: &Path) -> Result<Vec<PathBuf>> {
    let folder = root.join("tests/python");
    let mut scripts = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("listing {}", folder.display()))? {
        let path = entry.with_context(|| format!("listing {}", folder.display()))?.path();
        // Names that start with an underscore are shared helpers, or need more than a broker.
        let is_helper = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('_'));
        let script = path.strip_prefix(root).unwrap_or(&path);
        if script.extension().is_some_and(|extension| extension == "py")
            && !is_helper
            && script != Path::new(sdk::PAGES)
        {
            scripts.push(script.to_owned());
        }
    }
    scripts.sort();
    Ok(scripts)
}
