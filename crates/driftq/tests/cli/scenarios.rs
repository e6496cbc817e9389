//! The scenarios that all SDKs run, from the command line: `driftq work` with a shell script that uses `driftq effect
//! run`, exit codes and the files that it may write.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Server, driftq};
use serde_json::Value;

/// Scenarios at a time: most of them wait.
const AT_ONCE: usize = 4;
/// After this a worker hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// Scenarios that commands cannot play.
const SKIPPED_MAX: usize = 5;
/// What a command cannot do, and why.
const CANNOT: [(&str, &str); 3] = [
    ("typed_payload", "a command gets bytes and parses them itself; the worker has no types"),
    ("not_sent", "a command has no exit code for it"),
    ("front", "what is lost between client and server is for the SDK to bear, which commands have no say in"),
];

#[test]
fn the_command_line_does_what_the_sdks_do() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    files.retain(|path| path.file_name().is_some_and(|name| name != "digests.json"));
    files.sort();
    assert!(files.len() > 15, "where are the scenarios?");
    let next = AtomicUsize::new(0);
    let ran = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let scenario: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
                    ran.fetch_add(usize::from(run(&scenario)), Ordering::Relaxed);
                }
            });
        }
    });
    assert!(ran.into_inner() >= files.len() - SKIPPED_MAX, "too many were skipped");
}

/// Runs it; false if it was skipped.
fn run(scenario: &Value) -> bool {
    let name = scenario["name"].as_str().unwrap();
    let needs = scenario["needs"].as_array().unwrap();
    if let Some((need, why)) = CANNOT.iter().find(|(need, _)| needs.iter().any(|needed| needed == need)) {
        println!("skipped: {name} needs {need}: {why}");
        return false;
    }
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"), &["--ephemeral"]);
    for (topic, settings) in scenario["topics"].as_object().unwrap() {
        ask(&server, "PUT", &format!("/v2/topics/{topic}"), settings);
    }
    for sent in scenario["produce"].as_array().unwrap() {
        let path = format!("/v2/topics/{}/messages", sent["topic"].as_str().unwrap());
        ask(&server, "POST", &path, &sent["message"]);
    }
    let script = directory.path().join("handler.sh");
    fs::write(&script, crate::script::handler(scenario)).unwrap();
    let lines = work(name, scenario, &server, directory.path());
    check(name, scenario, &server, directory.path(), &lines);
    true
}

/// Runs the worker until the group has nothing left; its lines.
fn work(name: &str, scenario: &Value, server: &Server, directory: &Path) -> Vec<Value> {
    let worker = &scenario["worker"];
    let text = |field: &str| worker[field].as_str().unwrap();
    let mut command = driftq();
    command.args([
        "work",
        text("topic"),
        "--group",
        text("group"),
        "--exec",
        "sh handler.sh",
        "--until-idle",
    ]);
    command.args(["-o", "ndjson", "--lease", &format!("{}ms", worker["lease_ms"])]);
    if let Some(limit) = worker.get("timeout_ms") {
        command.args(["--timeout", &format!("{limit}ms")]);
    }
    if let Some(concurrency) = worker.get("concurrency") {
        command.args(["--concurrency", &concurrency.to_string()]);
    }
    if worker.get("heartbeat") == Some(&Value::Bool(false)) {
        command.arg("--no-heartbeat");
    }
    command.current_dir(directory).env("DRIFTQ_SERVER", server.url());
    command.env("DQ", env!("CARGO_BIN_EXE_driftq")).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("{name}: the worker does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let ran = crate::command::Ran::from(child.wait_with_output().unwrap()).ok();
    ran.lines()
}

fn check(name: &str, scenario: &Value, server: &Server, directory: &Path, lines: &[Value]) {
    let read = |file: &str| fs::read_to_string(directory.join(file)).unwrap_or_default();
    assert_eq!(read(crate::script::COMPLAINTS), "", "{name}");
    let expect = &scenario["expect"];
    let attempts: Vec<u64> =
        read(crate::script::ATTEMPTS).lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(serde_json::json!(attempts), expect["attempts"], "{name}: attempts");
    assert_eq!(counted(directory, "executions."), expect["executions"], "{name}: executions");
    if let Some(expected) = expect.get("reconciled") {
        assert_eq!(counted(directory, "reconciled."), *expected, "{name}: reconciled");
    }
    for reason in awaited(scenario) {
        assert!(lines.iter().any(|line| line["verdict"] == *reason), "{name}: {reason} in {lines:?}");
    }
    for look in expect["server"].as_array().unwrap() {
        let (status, body) = call(server, "GET", look["get"].as_str().unwrap(), None);
        assert_eq!(status, look["status"].as_u64().unwrap_or(200), "{name}: {look}");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert!(matches(&look["has"], &body), "{name}: {} is not in {body:#}", look["has"]);
    }
}

/// How many lines commands have left in the files of this kind, by scope.
fn counted(directory: &Path, kind: &str) -> Value {
    let mut counts = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        if let Some(scope) = entry.file_name().to_str().and_then(|name| name.strip_prefix(kind)) {
            counts.insert(scope.to_owned(), fs::read_to_string(entry.path()).unwrap().lines().count());
        }
    }
    serde_json::json!(counts)
}

/// The reasons of signals that the handler waits for.
fn awaited(scenario: &Value) -> Vec<&str> {
    let lists = scenario["handler"].as_object().unwrap().values().filter_map(Value::as_array).flatten();
    lists.filter_map(|action| action.get("await_signal")?.get("reason")?.as_str()).collect()
}

fn matches(shape: &Value, found: &Value) -> bool {
    if let Some(start) = shape.get("$starts").and_then(Value::as_str) {
        return found.as_str().is_some_and(|text| text.starts_with(start));
    }
    if shape.get("$any").is_some() {
        return !found.is_null();
    }
    match (shape, found) {
        (Value::Object(shape), Value::Object(found)) => {
            shape.iter().all(|(name, part)| found.get(name).is_some_and(|found| matches(part, found)))
        }
        (Value::Array(shape), Value::Array(found)) => {
            shape.len() == found.len() && shape.iter().zip(found).all(|(shape, found)| matches(shape, found))
        }
        _ => shape == found,
    }
}

#[track_caller]
fn ask(server: &Server, method: &str, path: &str, body: &Value) {
    let (status, answer) = call(server, method, path, Some(&body.to_string()));
    assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
}

fn call(server: &Server, method: &str, path: &str, body: Option<&str>) -> (u64, String) {
    let mut socket = TcpStream::connect(server.address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = body.unwrap_or_default();
    let head =
        format!("{method} {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-type: application/json");
    socket.write_all(format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}
