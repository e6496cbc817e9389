//! The demo's own server: a child that does not outlive it.

use std::{
    ffi::OsStr,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};

/// The hidden command that it is.
pub const COMMAND: &str = "demo-server";
/// A server that is not up by then will not come up.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// A killed process is gone by then.
const END_TIMEOUT: Duration = Duration::from_secs(5);
const LISTENING: &str = "listening on ";

/// From now on this process is killed when its parent ends, however that ends.
pub fn die_with(parent: u32) -> Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, getppid, set_parent_process_death_signal};
        set_parent_process_death_signal(Some(Signal::KILL)).context("tying this process to its parent")?;
        // It may have ended before.
        if getppid().is_none_or(|found| u32::try_from(found.as_raw_nonzero().get()) != Ok(parent)) {
            bail!("the demo that started this has ended");
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = parent;
    Ok(())
}

/// This program, deaf to the caller's own settings, told by `arguments` what to be.
pub(super) fn part(command: &str) -> Result<Command> {
    let mut part = Command::new(std::env::current_exe().context("finding this program")?);
    part.args([command, "--parent", &std::process::id().to_string()]).kill_on_drop(true);
    // Ctrl-C in a terminal goes to everything in the foreground; who ends when is decided here.
    part.process_group(0);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("DRIFTQ_")) {
        part.env_remove(name);
    }
    Ok(part)
}

/// A running server. Dropping it kills it, and waits: its directory is removed next.
pub(super) struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// On disk, in this directory.
    pub(super) async fn start(place: &Path) -> Result<Self> {
        Self::start_with(place, &[]).await
    }

    /// The same with more options.
    pub(super) async fn start_with(place: &Path, options: &[&OsStr]) -> Result<Self> {
        let mut command = part(COMMAND)?;
        command
            .args(["--listen", "127.0.0.1:0", "--log-level", "error", "--segment-bytes", "1MiB", "--data"])
            .arg(place.join("data"))
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut server = Self { child: command.spawn().context("starting a server")?, url: String::new() };
        let stdout = server.child.stdout.take().context("the server's stdout")?;
        let mut lines = BufReader::new(stdout).lines();
        let listens = timeout(START_TIMEOUT, async {
            while let Some(line) = lines.next_line().await? {
                if let Some((_, url)) = line.split_once(LISTENING) {
                    return Ok(url.trim().to_owned());
                }
            }
            bail!("the server ended before it listened")
        });
        server.url = listens.await.context("the server did not come up in time")??;
        // Whatever it says later must not fill the pipe and stop it.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(server)
    }

    pub(super) fn url(&self) -> String {
        self.url.clone()
    }

    /// `kill -9`. Says who it was, and how it ended.
    #[cfg(feature = "connect")]
    pub(super) async fn kill(mut self) -> Result<(Option<u32>, std::process::ExitStatus)> {
        let pid = self.child.id();
        self.child.kill().await.context("killing the server")?;
        Ok((pid, self.child.wait().await.context("a killed server")?))
    }

    pub(super) async fn end(mut self) -> Result<()> {
        self.child.kill().await.context("ending the server")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.start_kill();
        let deadline = Instant::now() + END_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
