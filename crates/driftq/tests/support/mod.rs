//! The real binary as a child process, for black-box tests. Every process is ended by the handle that started it.
#![allow(dead_code, reason = "each test crate uses its own part of this module")]

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A stop that takes longer is a hang.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Variables that decide about colour. `CI` is one: a terminal of a build service has colour, whatever `TERM` says.
pub(crate) const COLOUR_VARIABLES: [&str; 4] = ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"];

/// The binary under test, deaf to the tester's own settings.
pub(crate) fn driftq() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_driftq"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("DRIFTQ_")) {
        command.env_remove(name);
    }
    command.env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
    // The tester's own contexts; a file that is not there has none.
    command.env("DRIFTQ_CONTEXTS", "/nonexistent/contexts.toml");
    for name in COLOUR_VARIABLES {
        command.env_remove(name);
    }
    command
}

/// A running `driftq serve`. Dropping it kills it.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// It speaks TLS.
    is_secure: bool,
    /// Everything it printed before and with the line that says where it listens.
    pub(crate) banner: String,
}

impl Server {
    /// Starts on a free port and waits until it listens.
    pub(crate) fn start(data: &Path, arguments: &[&str]) -> Self {
        Self::start_by(driftq(), data, arguments)
    }

    /// Starts it by a command that ends with the binary's name.
    pub(crate) fn start_by(mut command: Command, data: &Path, arguments: &[&str]) -> Self {
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--log-level", "warn", "--data"])
            .arg(data)
            .args(arguments);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the binary starts");
        let mut server =
            Self { child, address: ([0, 0, 0, 0], 0).into(), is_secure: false, banner: String::new() };
        let mut lines = BufReader::new(server.child.stdout.take().expect("stdout is piped"));
        loop {
            let mut line = String::new();
            if lines.read_line(&mut line).expect("stdout is text") == 0 {
                let status = server.child.wait().expect("the child is ours");
                panic!("the server ended before it listened ({status}):\n{}", server.banner);
            }
            server.banner.push_str(&line);
            if let Some((scheme, address)) =
                line.strip_prefix("listening on ").and_then(|url| url.split_once("://"))
            {
                server.is_secure = scheme == "https";
                server.address = address.trim().parse().expect("the line ends with the address");
                // Whatever it prints later must not fill the pipe and stop it.
                std::thread::spawn(move || drop(lines.read_to_end(&mut Vec::new())));
                return server;
            }
        }
    }

    /// Its log, if it was started with stderr piped.
    pub(crate) fn take_log(&mut self) -> ChildStderr {
        self.child.stderr.take().expect("stderr is piped, and not taken yet")
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}", if self.is_secure { "https" } else { "http" }, self.address)
    }

    /// `kill -9`, and the wait until it is gone.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("the child is ours");
        self.child.wait().expect("the child is ours");
    }

    /// Sends a signal by name, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success(), "kill -{name}");
    }

    /// Waits until it ends by itself.
    pub(crate) fn wait(mut self) -> ExitStatus {
        let deadline = Instant::now() + STOP_TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().expect("the child is ours") {
                return status;
            }
            assert!(Instant::now() < deadline, "the server did not stop in time");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails if it has ended already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
