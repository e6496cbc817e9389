//! Workers in each language under the same driver: killed again and again, and together in one trace.

use std::{path::Path, process::Command};

use anyhow::Result;

use super::{Shop, python as python_sdk, typescript as typescript_sdk};
use crate::{command, task::Log};

pub(super) fn rust(shop: &Shop, log: &mut Log, kills: u64) -> Result<()> {
    let mut worker = Command::new(shop.examples.join("crash_worker"));
    log.expect_success(&mut driver(shop, "Rust", kills, &mut worker))
}

pub(super) fn python(shop: &Shop, log: &mut Log, kills: u64) -> Result<()> {
    let mut worker = Command::new(python_sdk::interpreter(shop));
    worker.arg("-P").arg(shop.root.join("sdk/python/examples/crash_worker.py"));
    log.expect_success(&mut driver(shop, "Python", kills, &mut worker))
}

pub(super) fn typescript(shop: &Shop, log: &mut Log, kills: u64) -> Result<()> {
    let program = typescript_sdk::copied(shop, "sdk/typescript/examples/crash-worker.mjs")?;
    log.expect_success(&mut driver(shop, "TypeScript", kills, Command::new("node").arg(program)))
}

/// One order goes through a worker of each language.
pub(super) fn traced(shop: &Shop, log: &mut Log) -> Result<()> {
    let example = |path: &str| shop.root.join(path);
    let (python, script) = (python_sdk::interpreter(shop), example("sdk/python/examples/traced_worker.py"));
    let mut run = command::python(&shop.root, Path::new("tests/python/_sdk_traces.py"), &shop.broker);
    run.arg("--rust").arg(shop.examples.join("traced_worker"));
    run.arg("--python").arg(format!("{} -P {}", python.display(), script.display()));
    let script = example("sdk/typescript/examples/traced-worker.mjs");
    run.arg("--typescript").arg(format!("node {}", script.display()));
    log.expect_success(&mut run)
}

fn driver(shop: &Shop, name: &str, kills: u64, worker: &mut Command) -> Command {
    let mut command = command::python(&shop.root, Path::new("tests/python/_sdk_kill9.py"), &shop.broker);
    command.args(["--name", name, "--kills", &kills.to_string(), "--"]);
    command.arg(worker.get_program()).args(worker.get_args());
    command
}
