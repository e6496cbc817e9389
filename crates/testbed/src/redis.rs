//! A Redis server that lives as long as the value.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
    path::Path,
    process::Command,
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

/// Longest that a start may take.
pub(crate) const START_MAX: Duration = Duration::from_secs(20);

/// How often it is asked whether it is there.
pub(crate) const ASK_EVERY: Duration = Duration::from_millis(10);

/// A Redis server that keeps nothing on disk.
#[derive(Debug)]
pub struct Redis {
    port: u16,
    process: Pid,
    _guard: Guard,
}

impl Redis {
    /// Starts one at a free port of the loopback.
    ///
    /// # Errors
    /// If it cannot be started; the error says what is missing, or has the end of the server's log.
    pub fn start() -> Result<Self> {
        let program = program::find("redis-server", &[], "redis-server")?;
        let mut tries = 0;
        loop {
            let folder = program::folder("redis")?;
            tries += 1;
            match Self::start_in(&folder, &program) {
                Err(error) if tries < port::TRIES_MAX && port::was_taken(&format!("{error:#}")) => {}
                result => return result,
            }
        }
    }

    fn start_in(folder: &Path, program: &Path) -> Result<Self> {
        let port = port::free()?;
        let mut command = Command::new(program);
        command.args([
            "--bind",
            "127.0.0.1",
            "--port",
            &port.to_string(),
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
        command.arg("--dir").arg(folder);
        let (guard, process) = Guard::beside(folder, &command)?;
        let redis = Self { port, process, _guard: guard };
        let until = Instant::now() + START_MAX;
        while redis.ping().is_err() {
            if !guard::is_alive(process) || Instant::now() > until {
                bail!("Redis did not start; its log: {}", log_tail(&folder.join("log")));
            }
            thread::sleep(ASK_EVERY);
        }
        Ok(redis)
    }

    /// How to connect to it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Ends it at once; what it held is gone.
    ///
    /// # Errors
    /// If the process cannot be ended.
    pub fn kill(&self) -> Result<()> {
        guard::kill(self.process)?;
        let until = Instant::now() + START_MAX;
        while guard::is_alive(self.process) {
            if Instant::now() > until {
                bail!("Redis is still there after SIGKILL");
            }
            thread::sleep(ASK_EVERY);
        }
        Ok(())
    }

    fn ping(&self) -> Result<()> {
        let mut stream =
            TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).context("connecting to Redis")?;
        stream.set_read_timeout(Some(START_MAX)).context("setting a time limit")?;
        stream.write_all(b"PING\r\n").context("asking Redis")?;
        let mut answer = [0; 7];
        stream.read_exact(&mut answer).context("reading Redis's answer")?;
        if &answer != b"+PONG\r\n" {
            bail!("Redis answers {:?}", String::from_utf8_lossy(&answer));
        }
        Ok(())
    }
}
