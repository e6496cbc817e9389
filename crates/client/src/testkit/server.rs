//! A server of a test's own.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::client::Client;
use crate::error::Error;
use crate::outcome::Failure;

/// The environment variable that says where the program is.
const BINARY_VARIABLE: &str = "DRIFTQ_BIN";
/// What the server prints before its URL.
const LISTENING: &str = "listening on ";
/// By when the server listens.
const UP_WITHIN: Duration = Duration::from_secs(30);

/// How a [`Server`] is started.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    binary: Option<PathBuf>,
    is_on_disk: bool,
    flags: Vec<OsString>,
}

impl Launch {
    /// The program; `DRIFTQ_BIN` if not given, else `driftq` in the `PATH`.
    #[must_use]
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// Keeps its data on disk, in a folder that goes away with the server.
    #[must_use]
    pub const fn on_disk(mut self) -> Self {
        self.is_on_disk = true;
        self
    }

    /// One more flag of `driftq serve`.
    #[must_use]
    pub fn flag(mut self, flag: impl Into<OsString>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Starts it on a free port of the loopback, and waits until it listens.
    ///
    /// # Errors
    /// If the program cannot be run, or ends before it listens.
    pub async fn start(self) -> Result<Server, Failure> {
        let folder = TempDir::new()?;
        let (child, url) = self.spawn(&folder, "127.0.0.1:0").await?;
        Ok(Server { launch: self, folder, child, url })
    }

    async fn spawn(&self, folder: &TempDir, listen: &str) -> Result<(Child, String), Failure> {
        let named = std::env::var_os(BINARY_VARIABLE).map(PathBuf::from);
        let binary = self.binary.clone().or(named).unwrap_or_else(|| PathBuf::from("driftq"));
        let mut command = Command::new(&binary);
        // What is set for the test's own workers is not meant for the server.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("DRIFTQ_"))
        {
            command.env_remove(name);
        }
        command.args(["serve", "--listen", listen, "--log-level", "warn"]).args(&self.flags);
        match self.is_on_disk {
            true => command.arg("--data").arg(folder.path().join("data")),
            false => command.arg("--ephemeral"),
        };
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| {
            Failure::new(format!(
                "{} cannot be run ({error}); build it, or name it in {BINARY_VARIABLE}",
                binary.display()
            ))
        })?;
        let stdout = child.stdout.take().ok_or_else(|| Failure::new("the server has no output to read"))?;
        let mut lines = BufReader::new(stdout).lines();
        let url = timeout(UP_WITHIN, address(&mut lines)).await;
        let url = url.map_err(|_| Failure::new("the server did not listen in time"))??;
        // Whatever it prints later must not fill the pipe and stop it.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok((child, url))
    }
}

async fn address(lines: &mut Lines<BufReader<ChildStdout>>) -> Result<String, Failure> {
    while let Some(line) = lines.next_line().await? {
        if let Some(url) = line.strip_prefix(LISTENING) {
            return Ok(url.trim().to_owned());
        }
    }
    Err(Failure::new("the server ended before it listened; see what it wrote to stderr"))
}

/// `driftq serve`, for one test. It ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    launch: Launch,
    folder: TempDir,
    child: Child,
    url: String,
}

impl Server {
    /// A server in memory.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn ephemeral() -> Result<Self, Failure> {
        Launch::default().start().await
    }

    /// A server on disk, which can be killed and started again.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn on_disk() -> Result<Self, Failure> {
        Launch::default().on_disk().start().await
    }

    /// Where it is: an `https://` URL if it was started with `--tls-cert`.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// A client of it, which shows the key in `DRIFTQ_KEY` and trusts the authorities of the system.
    ///
    /// # Errors
    /// None that a test would see.
    pub fn client(&self) -> Result<Client, Error> {
        Client::new(&self.url())
    }

    /// What `kill -9` does.
    ///
    /// # Errors
    /// If there is no such process any more.
    pub async fn kill(&mut self) -> Result<(), Failure> {
        Ok(self.child.kill().await?)
    }

    /// Starts it again, at the same address, with the same data if they are on disk.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn restart(&mut self) -> Result<(), Failure> {
        if self.child.try_wait()?.is_none() {
            self.kill().await?;
        }
        let authority = self.url.split_once("://").map_or(&*self.url, |(_, authority)| authority);
        let (child, url) = self.launch.spawn(&self.folder, authority).await?;
        (self.child, self.url) = (child, url);
        Ok(())
    }
}
