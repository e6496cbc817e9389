//! Runs commands of the binary and reads what they say.
#![allow(dead_code, reason = "each test crate uses its own part of this module")]

use std::io::Write;
use std::process::{Output, Stdio};

use serde_json::Value;

use super::support::{Server, driftq};

/// What a command did.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        self.code(0)
    }

    #[track_caller]
    pub(crate) fn code(self, expected: i32) -> Self {
        assert_eq!(self.code, expected, "\nstdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// Stdout as one JSON document.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {}", self.stdout))
    }

    /// Stdout as lines of JSON.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<Value> {
        let parse =
            |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"));
        self.stdout.lines().map(parse).collect()
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is text");
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

/// A command that needs no server.
pub(crate) fn run(arguments: &[&str]) -> Ran {
    driftq().args(arguments).stdin(Stdio::null()).output().expect("the binary runs").into()
}

/// A command with these variables set.
pub(crate) fn run_with(variables: &[(&str, &str)], arguments: &[&str]) -> Ran {
    let mut command = driftq();
    command.args(arguments).envs(variables.iter().copied()).stdin(Stdio::null());
    command.output().expect("the binary runs").into()
}

impl Server {
    /// A command that talks to this server.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        run_with(&[("DRIFTQ_SERVER", &self.url())], arguments)
    }

    /// The same, with text on stdin.
    pub(crate) fn run_piped(&self, arguments: &[&str], input: &str) -> Ran {
        let mut command = driftq();
        command.args(arguments).env("DRIFTQ_SERVER", self.url());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        child.stdin.take().expect("stdin is piped").write_all(input.as_bytes()).expect("the command reads");
        child.wait_with_output().expect("the command ends").into()
    }
}
