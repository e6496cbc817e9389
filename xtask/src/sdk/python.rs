//! The Python SDK: a wheel, an environment with nothing but that wheel and the test tools, and the suite in it.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::{Shop, newcomer_runs};
use crate::{
    command::BROKER_BINARY,
    outside::SEAWEED,
    task::{Log, fresh_folder},
};

/// The Python that has the wheel.
pub(super) fn interpreter(shop: &Shop) -> PathBuf {
    shop.python_folder().join("venv/bin/python")
}

/// Builds the wheel and installs it into an environment of its own.
pub(super) fn install(shop: &Shop, log: &mut Log) -> Result<()> {
    let folder = shop.python_folder();
    fresh_folder(&folder)?;
    log.expect_success(Command::new("python3").args(["-m", "venv"]).arg(folder.join("venv")))?;
    let source = shop.root.join("sdk/python");
    log.expect_success(pip(shop, "install").arg("-r").arg(source.join("requirements-test.txt")))?;
    let wheels = folder.join("dist");
    let build = ["--no-deps", "--no-build-isolation", "--wheel-dir"];
    log.expect_success(pip(shop, "wheel").args(build).arg(&wheels).arg(&source))?;
    log.expect_success(pip(shop, "install").arg("--no-deps").arg(only_file(&wheels)?))
}

/// Checks the types of the installed wheel, as its users' checkers see them, and runs the suite against it.
pub(super) fn test(shop: &Shop, log: &mut Log) -> Result<()> {
    let mut types = Command::new(interpreter(shop));
    types
        .args(["-P", "-m", "mypy", "--package", "driftq", "--cache-dir"])
        .arg(shop.python_folder().join("mypy"));
    log.expect_success(types.current_dir(shop.root.join("sdk/python")))?;
    let mut suite = Command::new(interpreter(shop));
    // Beside the sources and not among them: what is imported is what was installed.
    suite.args(["-P", "-m", "pytest", "tests"]).current_dir(shop.root.join("sdk/python"));
    if let Some(weed) = SEAWEED.installed(&shop.folder) {
        suite.env(SEAWEED.variable, weed);
    }
    log.expect_success(suite.env(BROKER_BINARY, &shop.broker))?;
    let program = "sdk/python/examples/quickstart.py";
    newcomer_runs(shop, log, program, Command::new(interpreter(shop)).arg("-P").arg(program))
}

fn pip(shop: &Shop, verb: &str) -> Command {
    let mut command = Command::new(interpreter(shop));
    command.args(["-m", "pip", "--disable-pip-version-check", "--quiet", verb]);
    command
}

fn only_file(folder: &Path) -> Result<PathBuf> {
    let mut files = folder.read_dir().with_context(|| format!("listing {}", folder.display()))?;
    Ok(files.next().with_context(|| format!("{} is empty", folder.display()))??.path())
}
