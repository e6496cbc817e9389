//! One PostgreSQL server for all tests of a run, so that not every test has to start its own.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::command;

/// Names the server (as a URL) to the tests.
const VARIABLE: &str = "DRIFTQ_TEST_POSTGRES";

/// A server that ends with this value, and with this process however that ends.
pub(crate) struct Server {
    keeper: Child,
    url: String,
}

impl Server {
    /// Starts one by the built testbed. It is quick, and forgets what it said when the machine crashes.
    pub(crate) fn start(testbed: &Path) -> Result<Self> {
        Self::start_with(testbed, &["serve"])
    }

    /// One that writes through to the disk, as a broker's log demands.
    pub(crate) fn start_durable(testbed: &Path) -> Result<Self> {
        Self::start_with(testbed, &["serve", "--durable"])
    }

    fn start_with(testbed: &Path, words: &[&str]) -> Result<Self> {
        let mut keeper = Command::new(testbed)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", testbed.display()))?;
        let output = keeper.stdout.take().context("the testbed has an output")?;
        let mut url = String::new();
        BufReader::new(output).read_line(&mut url).context("reading the URL of the server")?;
        let server = Self { keeper, url: url.trim().to_owned() };
        if server.url.is_empty() {
            bail!("no PostgreSQL server for the tests; the reason is above");
        }
        println!("{VARIABLE}={}", server.url);
        Ok(server)
    }

    /// The same command, with the server known to it.
    pub(crate) fn known_to(&self, mut command: Command) -> Command {
        command.env(VARIABLE, &self.url);
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // The summary of a run is not to be printed over the server's last words.
        let _ = self.keeper.wait();
    }
}

/// `cargo xtask postgres -- COMMAND`: runs the command with a server of its own.
pub(crate) fn run(root: &Path, words: &[String]) -> Result<()> {
    let words = words.strip_prefix(&["--".to_owned()]).unwrap_or(words);
    if words.is_empty() {
        bail!("what to run? `cargo xtask postgres -- COMMAND`");
    }
    command::expect_success(&mut command::build_testbed(root))?;
    let testbed = command::target_folder(root)?.join("debug/driftq-testbed");
    command::expect_success(Command::new(testbed).args(["run", "--"]).args(words))
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, fs, os::unix::fs::PermissionsExt, process::Command};

    use super::{Server, VARIABLE};

    #[test]
    fn the_url_reaches_the_tests_and_the_keeper_ends_with_the_value() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let script = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a folder takes a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is our file");
            path
        };
        let gone = folder.path().join("gone");
        let keeper = script("keeper", &format!("echo the-url; cat; touch {}", gone.display()));
        let server = Server::start(&keeper).expect("it says where it is");
        let command = server.known_to(Command::new("true"));
        assert!(command.get_envs().any(|pair| pair == (OsStr::new(VARIABLE), Some(OsStr::new("the-url")))));
        assert!(!gone.exists());
        drop(server);
        assert!(gone.exists(), "the keeper was not waited for");

        assert!(Server::start(&script("broken", "exit 1")).is_err());
        assert!(Server::start(&folder.path().join("missing")).is_err());
    }
}
