//! A log that nobody takes: its reader is gone, its reader stalls, its disk is full. The broker goes on.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::compat::Client;
use crate::support::{Server, driftq};
use serde_json::{Value, json};

/// Far more than a pipe and the log's queue hold together, with several lines per request.
const REQUESTS: u32 = 4_000;

fn serve(data: &Path, stderr: Stdio) -> Server {
    let mut command: Command = driftq();
    command.stderr(stderr);
    Server::start_by(command, data, &["--log-level=trace", "--in-flight-max=64"])
}

/// A full disk that every Linux has: each write to it fails.
fn full_disk() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").expect("/dev/full can be opened").into()
}

/// Produces, borrows and acks; every request must succeed.
fn work(server: &Server, rounds: u32) {
    let mut client = Client::connect(server.address);
    for round in 0..rounds {
        let stored = client.post_json("/v2/topics/t/messages", &json!([{ "value": format!("{round}") }]));
        assert_eq!(stored.status, 200, "{}", stored.text());
        let leased = client.post_json("/v2/topics/t/groups/g/lease", &json!({"owner": "o", "max": 10}));
        assert_eq!(leased.status, 200, "{}", leased.text());
        let leased = leased.json();
        let tokens: Vec<Value> = leased["messages"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|item| json!({"token": item["lease"]["token"]}))
            .collect();
        assert!(!tokens.is_empty(), "what was stored is delivered");
        let acked = client.post_json("/v2/leases/ack", &json!({"leases": tokens}));
        assert_eq!(acked.status, 200, "{}", acked.text());
    }
}

fn dropped(server: &Server) -> u64 {
    let text = Client::connect(server.address).get("/metrics").text();
    let line = text.lines().find(|line| line.starts_with("driftq_log_lines_dropped_total "));
    let number = line.and_then(|line| line.rsplit(' ').next()).and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("the metrics count dropped lines: {text}"))
}

fn stop(server: Server) {
    server.signal("TERM");
    let status = server.wait();
    assert!(status.success(), "SIGTERM ends it gracefully: {status}");
}

#[test]
fn a_reader_of_the_log_that_goes_away_disturbs_nobody() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let mut server = serve(data.path(), Stdio::piped());
    let mut log = BufReader::new(server.take_log());
    let mut client = Client::connect(server.address);
    assert_eq!(client.post_json("/v1/topics", &json!({"name": "t"})).status, 201);
    // As `driftq serve 2>&1 | head -1` does.
    let mut line = String::new();
    log.read_line(&mut line).expect("a line");
    drop(log);
    work(&server, 50);
    assert!(dropped(&server) > 0);
    stop(server);
}

#[test]
fn a_reader_of_the_log_that_stalls_makes_nobody_wait() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let mut server = serve(data.path(), Stdio::piped());
    // Held open, never read.
    let _log = server.take_log();
    let mut client = Client::connect(server.address);
    assert_eq!(client.post_json("/v1/topics", &json!({"name": "t"})).status, 201);
    work(&server, REQUESTS / 3);
    assert!(dropped(&server) > 0, "more was logged than the pipe and the queue hold");
    stop(server);
}

#[test]
fn a_full_disk_under_the_log_disturbs_nobody_through_kills_either() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let mut server = serve(data.path(), full_disk());
    assert_eq!(Client::connect(server.address).post_json("/v1/topics", &json!({"name": "t"})).status, 201);
    for _ in 0..5 {
        work(&server, 20);
        assert!(dropped(&server) > 0);
        server.kill();
        server = serve(data.path(), full_disk());
    }
    stop(server);
}

#[test]
fn without_stderr_a_refused_start_keeps_its_exit_code() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let first = serve(data.path(), Stdio::null());
    let mut command = driftq();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data.path());
    let second = command.stdout(Stdio::null()).stderr(full_disk()).status().expect("it runs");
    assert_eq!(second.code(), Some(8), "the data is locked");
    stop(first);
}
