//! Servers under measurement: children of this process, ended by their own handle.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child as Process, Command},
    time::timeout,
};

/// A server that is not up by then will not come up.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// The kernel's unit of processor time; the same on every Linux that we build for.
const TICKS_PER_SECOND: f64 = 100.0;
/// What both servers print when they take connections.
const LISTENING: &str = "listening on ";
/// Limits under which the benchmark never meets backpressure: it measures cost, not refusal.
const NO_LIMITS: [&str; 7] = [
    "--partition-messages-max=1000000000000",
    "--partition-bytes-max=1024TiB",
    "--idempotency-records-max=1000000000000",
    "--effects-max=1000000000",
    "--topics-max=1000000",
    "--groups-max=1000000",
    "--log-level=error",
];

/// What a thread has used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Used {
    /// Microseconds on a processor.
    pub(super) micros: f64,
    /// How often it gave the processor up to wait for something.
    pub(super) switches: f64,
}

impl Used {
    /// A thread's name and what it has used, from its folder in `/proc`.
    fn of_thread(folder: &Path) -> Option<(String, Self)> {
        let text = |name: &str| fs::read_to_string(folder.join(name)).ok();
        let nanos: f64 = text("schedstat")?.split_whitespace().next()?.parse().ok()?;
        let status = text("status")?;
        let switches = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        let used = Self { micros: nanos / 1e3, switches: switches.trim().parse().ok()? };
        Some((text("comm")?.trim().to_owned(), used))
    }
}

/// What ourselves are called with, on this data directory.
fn serving(data: &Path) -> Result<Vec<&str>> {
    let data = data.to_str().context("the path of the data directory is not UTF-8")?;
    Ok([&["serve", "--listen", "127.0.0.1:0", "--data", data], &NO_LIMITS[..]].concat())
}

fn own_program() -> Result<PathBuf> {
    std::env::current_exe().context("finding this program")
}

/// A running server. Dropping it kills it.
pub(super) struct Server {
    process: Process,
    pub(super) address: SocketAddr,
    /// From the start of the process to the line that says that it listens.
    pub(super) started_in: Duration,
}

impl Server {
    /// The bare peer.
    pub(super) async fn bare() -> Result<Self> {
        Self::spawn(&[super::BARE_COMMAND]).await
    }

    /// The same with more options.
    #[cfg(feature = "tls")]
    pub(super) async fn bare_with(options: &[&str]) -> Result<Self> {
        Self::spawn(&[&[super::BARE_COMMAND], options].concat()).await
    }

    /// Ourselves, on this data directory.
    pub(super) async fn driftq(data: &Path) -> Result<Self> {
        Self::driftq_with(data, &[]).await
    }

    /// The same with more options.
    pub(super) async fn driftq_with(data: &Path, options: &[&str]) -> Result<Self> {
        Self::spawn(&[&serving(data)?[..], options].concat()).await
    }

    /// Ourselves in valgrind, which writes to files that are named after `counts` how many instructions were carried
    /// out. One thread serves connections: with several, chance decides which one wakes up.
    pub(super) async fn counted(data: &Path, counts: &Path) -> Result<Self> {
        let mut command = Command::new("valgrind");
        let name = format!("--callgrind-out-file={}", counts.display());
        command
            .args(["--tool=callgrind", "--quiet", &name])
            .arg(own_program()?)
            .env("TOKIO_WORKER_THREADS", "1");
        Self::spawn_by(command, &serving(data)?).await.context("valgrind, which has to be installed")
    }

    async fn spawn(arguments: &[&str]) -> Result<Self> {
        Self::spawn_by(Command::new(own_program()?), arguments).await
    }

    async fn spawn_by(mut command: Command, arguments: &[&str]) -> Result<Self> {
        let started = Instant::now();
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        // The caller's own settings must not reach the servers: they would measure something else.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("DRIFTQ_"))
        {
            command.env_remove(name);
        }
        let mut process = command.spawn().context("starting a server")?;
        let stdout = process.stdout.take().context("the server's stdout")?;
        let mut lines = BufReader::new(stdout).lines();
        let address = timeout(START_TIMEOUT, async {
            while let Some(line) = lines.next_line().await? {
                let url = line.split_once(LISTENING).and_then(|(_, url)| url.split_once("://"));
                if let Some((_, address)) = url {
                    return address
                        .trim()
                        .parse()
                        .with_context(|| format!("the server's address in `{line}`"));
                }
            }
            bail!("the server ended before it listened: {}", arguments.join(" "))
        });
        let address = address.await.context("the server did not come up in time")??;
        let started_in = started.elapsed();
        // Whatever it says later must not fill the pipe and stop it.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { process, address, started_in })
    }

    /// Its process; none if it has ended.
    pub(super) fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// `kill -9`, and the wait until the process is gone.
    pub(super) async fn kill(mut self) -> Result<()> {
        self.process.kill().await.context("killing a server")
    }

    /// Processor time used so far, in seconds; none where there is no `/proc`.
    pub(super) fn cpu_seconds(&self) -> Option<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id()?)).ok()?;
        // The name in parentheses may hold anything; user and system time are the 12th and 13th field after it.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let ticks = fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?;
        Some(ticks / TICKS_PER_SECOND)
    }

    /// What its threads have used so far, by name; threads of one name count together. Empty where there is no `/proc`.
    pub(super) fn used_by_thread(&self) -> BTreeMap<String, Used> {
        let mut threads: BTreeMap<String, Used> = BTreeMap::new();
        let Some(id) = self.process.id() else { return threads };
        let Ok(tasks) = fs::read_dir(format!("/proc/{id}/task")) else { return threads };
        for task in tasks.flatten() {
            // A thread may end while it is looked at.
            let Some((name, used)) = Used::of_thread(&task.path()) else { continue };
            let sum = threads.entry(name).or_default();
            sum.micros += used.micros;
            sum.switches += used.switches;
        }
        threads
    }

    /// Resident memory in bytes; none where there is no `/proc`.
    pub(super) fn resident_bytes(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    }
}
