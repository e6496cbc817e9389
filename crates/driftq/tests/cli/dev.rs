//! `driftq dev`: what it says is true, and its lines can be pasted.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::support::driftq;

/// A running `driftq dev`. Dropping it kills it.
struct Desk {
    child: Child,
    stdout: BufReader<ChildStdout>,
    banner: String,
}

impl Desk {
    fn start(directory: &Path, arguments: &[&str]) -> Self {
        let mut command = driftq();
        command.arg("dev").args(arguments).current_dir(directory).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut desk = Self { child, stdout, banner: String::new() };
        while !desk.banner.contains("Ctrl-C stops it.") {
            let length = desk.stdout.read_line(&mut desk.banner).unwrap();
            assert!(length > 0, "it ended before it was ready: {}", desk.banner);
        }
        desk
    }

    /// The value of a fact of the banner.
    fn fact(&self, name: &str) -> &str {
        let line = self.banner.lines().find(|line| line.trim_start().starts_with(name));
        line.unwrap_or_else(|| panic!("no {name} in {}", self.banner)).trim_start()[name.len()..].trim()
    }

    fn server(&self) -> &str {
        self.fact("API").strip_suffix("/v2").unwrap()
    }

    /// The lines to paste.
    fn lines(&self) -> Vec<&str> {
        let after = self.banner.split("Next, in another terminal:").nth(1).unwrap();
        after.lines().filter_map(|line| line.strip_prefix("    ")).collect()
    }

    /// Ends it by a signal; what it says then, and its code.
    fn end(&mut self, signal: &str) -> (String, Option<i32>) {
        let kill = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (rest, self.child.wait().unwrap().code())
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const FREE: [&str; 3] = ["--listen", "127.0.0.1:0", "--segment-bytes=1MiB"];

#[test]
fn its_lines_can_be_pasted_and_data_stays() {
    let directory = tempfile::tempdir().unwrap();
    let mut desk = Desk::start(directory.path(), &FREE);
    assert!(desk.fact("Data").starts_with("./driftq-data (kept"), "{}", desk.banner);
    assert!(desk.fact("Durability").contains("synced to disk"));
    assert!(desk.fact("Recovered").starts_with("0 message(s)"));
    assert!(!desk.banner.contains('\u{1b}'), "colours are for terminals: {:?}", desk.banner);
    let script = desk.lines().join(" && ");
    let pasted = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&pasted.stdout);
    let erred = String::from_utf8_lossy(&pasted.stderr);
    assert!(pasted.status.success() && said.contains("Hello, world"), "{script}: {said}{erred}");
    let (rest, code) = desk.end("-INT");
    assert_eq!(code, Some(0), "{rest}");
    assert!(rest.contains("1 message stored, 1 delivery (0 again), 1 acked"), "{rest}");
    assert!(rest.contains("Data stays in ./driftq-data"), "{rest}");
    let again = Desk::start(directory.path(), &FREE);
    assert!(again.fact("Recovered").contains("1 topic(s), 1 group(s)"), "{}", again.banner);
}

#[test]
fn every_address_that_it_names_answers() {
    let directory = tempfile::tempdir().unwrap();
    let mut arguments = FREE.to_vec();
    arguments.push("--ephemeral");
    let mut desk = Desk::start(directory.path(), &arguments);
    for (name, part) in [("OpenAPI", "openapi"), ("Metrics", "driftq_"), ("Health", "ok")] {
        let (host, path) = desk.fact(name).strip_prefix("http://").unwrap().split_once('/').unwrap();
        let mut socket = std::net::TcpStream::connect(host).unwrap();
        let request = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        std::io::Write::write_all(&mut socket, request.as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(part), "{name}: {answer}");
    }
    assert!(desk.fact("Durability").starts_with("none"));
    let (rest, _) = desk.end("-TERM");
    assert!(rest.contains("Nothing was kept"), "{rest}");
    assert!(!directory.path().join("driftq-data").exists(), "in memory means in memory");
}

#[test]
fn a_taken_port_is_evaded_and_said_unless_it_was_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    // Whoever has the usual port already has done this for us.
    let _taken = TcpListener::bind("127.0.0.1:8080");
    let desk = Desk::start(directory.path(), &["--ephemeral"]);
    assert!(desk.fact("Port").contains("127.0.0.1:8080 is taken"), "{}", desk.banner);
    let server = desk.server();
    assert_ne!(server, "http://127.0.0.1:8080");
    assert!(desk.lines()[0].ends_with(server), "the lines name the server: {:?}", desk.lines());
    crate::command::run_with(&[("DRIFTQ_SERVER", server)], &["topic", "list"]).ok();
    let given = crate::command::run(&["dev", "--ephemeral", "--listen", "127.0.0.1:8080"]).code(11);
    assert!(given.stderr.contains("127.0.0.1:8080"), "{}", given.stderr);
    crate::command::run(&["serve", "--ephemeral", "--listen", "127.0.0.1:8080"]).code(11);
}
