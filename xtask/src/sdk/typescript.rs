//! The TypeScript SDK: compiled, packed, installed into an empty project, and its suite.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context, Result};

use super::{Shop, newcomer_runs};
use crate::{
    command::{BROKER_BINARY, answers},
    task::{Log, fresh_folder},
};

/// Succeeds where Node.js is new enough.
const IS_NEW_ENOUGH: &str = "process.exit(Number(process.versions.node.split('.')[0]) >= 20 ? 0 : 1)";

/// What npm is not to do: ask for money, audit for vulnerabilities, draw progress bars.
pub(super) const QUIET: [&str; 4] = ["--no-fund", "--no-audit", "--no-progress", "--loglevel=error"];

pub(super) fn is_possible() -> bool {
    answers(Command::new("node").args(["-e", IS_NEW_ENOUGH])) && answers(Command::new("npm").arg("--version"))
}

/// The project of a newcomer who has only the packed SDK.
pub(super) fn newcomer(shop: &Shop) -> PathBuf {
    shop.typescript_folder().join("newcomer")
}

/// Compiles and packs the SDK, and installs the pack into an empty project.
pub(super) fn install(shop: &Shop, log: &mut Log) -> Result<()> {
    let folder = shop.typescript_folder();
    fresh_folder(&folder)?;
    log.expect_success(npm(shop, "ci").args(QUIET))?;
    log.expect_success(npm(shop, "run").args(["--silent", "build"]))?;
    log.expect_success(npm(shop, "pack").args(QUIET).arg("--pack-destination").arg(&folder))?;
    let newcomer = newcomer(shop);
    fresh_folder(&newcomer)?;
    fs::write(newcomer.join("package.json"), "{\"private\": true, \"type\": \"module\"}\n")
        .context("writing the newcomer's package.json")?;
    let pack = shop.typescript_folder().join("driftq-0.1.0.tgz");
    log.expect_success(npm(shop, "install").args(QUIET).arg(pack).current_dir(&newcomer))
}

/// Checks the types, runs the suite, and a newcomer's first program against the installed pack.
pub(super) fn test(shop: &Shop, log: &mut Log) -> Result<()> {
    log.expect_success(npm(shop, "run").args(["--silent", "check"]))?;
    log.expect_success(npm(shop, "test").arg("--silent").env(BROKER_BINARY, &shop.broker))?;
    let program = "sdk/typescript/examples/quickstart.mjs";
    let copy = copied(shop, program)?;
    newcomer_runs(shop, log, program, Command::new("node").arg(copy))
}

/// A program where the pack is installed: a module is looked for from where the program lies.
pub(super) fn copied(shop: &Shop, program: &str) -> Result<PathBuf> {
    let source = shop.root.join(program);
    let copy = newcomer(shop).join(source.file_name().context("a program has a name")?);
    fs::copy(&source, &copy).with_context(|| format!("copying {}", source.display()))?;
    Ok(copy)
}

fn npm(shop: &Shop, verb: &str) -> Command {
    let mut command = Command::new("npm");
    command.arg(verb).current_dir(shop.root.join("sdk/typescript"));
    command
}
