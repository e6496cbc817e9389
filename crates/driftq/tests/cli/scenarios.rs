//! The scenarios that all SDKs run, from the command line: `driftq work` with a shell script that uses `driftq effect
//! run`, exit codes and the files that it may write.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use driftq_client::wire::TopicSpec;
use driftq_client::{Client, Error};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::secured::{ALL_BUT_ADMIN, Secured};
use crate::support::{Server, driftq};

/// Scenarios at a time: most of them wait.
const AT_ONCE: usize = 8;
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

/// How the server is reached.
#[derive(Clone, Copy, Debug)]
enum Mode {
    /// By anybody, in the clear.
    Open,
    /// With TLS, and with a key that allows what scenarios need.
    Secured,
}

/// A server, and the way to it for commands and for the runner.
enum Place {
    Open { server: Server, _directory: tempfile::TempDir },
    Secured { secured: Secured, key: String, key_file: PathBuf },
}

impl Place {
    fn start(mode: Mode) -> Self {
        match mode {
            Mode::Open => {
                let directory = tempfile::tempdir().unwrap();
                let server = Server::start(&directory.path().join("data"), &["--ephemeral"]);
                Self::Open { server, _directory: directory }
            }
            Mode::Secured => {
                let secured = Secured::start();
                let (_, key, key_file) = secured.key("worker", ALL_BUT_ADMIN);
                Self::Secured { secured, key, key_file }
            }
        }
    }

    /// What commands read from their environment.
    fn variables(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Open { server, .. } => vec![("DRIFTQ_SERVER", server.url())],
            Self::Secured { secured, key_file, .. } => vec![
                ("DRIFTQ_SERVER", secured.server.url()),
                ("DRIFTQ_CA_FILE", secured.authority().display().to_string()),
                ("DRIFTQ_KEY_FILE", key_file.display().to_string()),
            ],
        }
    }

    fn client(&self) -> Client {
        let builder = match self {
            Self::Open { server, .. } => Client::builder().url(server.url()),
            Self::Secured { secured, key, .. } => secured.client(key),
        };
        builder.build().unwrap()
    }
}

#[test]
fn the_command_line_does_what_the_sdks_do() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    files.retain(|path| path.file_name().is_some_and(|name| name != "digests.json"));
    files.sort();
    assert!(files.len() > 15, "where are the scenarios?");
    let runs: Vec<(&PathBuf, Mode)> =
        files.iter().flat_map(|file| [(file, Mode::Open), (file, Mode::Secured)]).collect();
    let next = AtomicUsize::new(0);
    let ran = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((file, mode)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let scenario: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
                    ran.fetch_add(usize::from(run(&scenario, *mode)), Ordering::Relaxed);
                }
            });
        }
    });
    assert!(ran.into_inner() >= runs.len() - 2 * SKIPPED_MAX, "too many were skipped");
}

/// Runs it; false if it was skipped.
fn run(scenario: &Value, mode: Mode) -> bool {
    let name = &*format!("{}, {mode:?}", scenario["name"].as_str().unwrap());
    let needs = scenario["needs"].as_array().unwrap();
    if let Some((need, why)) = CANNOT.iter().find(|(need, _)| needs.iter().any(|needed| needed == need)) {
        println!("skipped: {name} needs {need}: {why}");
        return false;
    }
    let directory = tempfile::tempdir().unwrap();
    let place = Place::start(mode);
    let (client, runtime) = (place.client(), runtime());
    runtime.block_on(async {
        for (topic, settings) in scenario["topics"].as_object().unwrap() {
            let spec: TopicSpec = serde_json::from_value(settings.clone()).unwrap();
            client.create_topic(topic, &spec).await.unwrap();
        }
        for sent in scenario["produce"].as_array().unwrap() {
            let path = format!("/v2/topics/{}/messages", sent["topic"].as_str().unwrap());
            let _: Value = client.post(&path, &sent["message"]).await.unwrap();
        }
    });
    let script = directory.path().join("handler.sh");
    fs::write(&script, crate::script::handler(scenario)).unwrap();
    let lines = work(name, scenario, &place, directory.path());
    check(name, scenario, directory.path(), &lines);
    runtime.block_on(look(name, scenario, &client));
    true
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Runs the worker until the group has nothing left; its lines.
fn work(name: &str, scenario: &Value, place: &Place, directory: &Path) -> Vec<Value> {
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
    command.current_dir(directory).envs(place.variables());
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

fn check(name: &str, scenario: &Value, directory: &Path, lines: &[Value]) {
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
}

/// Asks the server what must be true in the end.
async fn look(name: &str, scenario: &Value, client: &Client) {
    for look in scenario["expect"]["server"].as_array().unwrap() {
        let (status, body) = match client.get::<Value>(look["get"].as_str().unwrap()).await {
            Ok(body) => (200, body),
            Err(Error::Refused(refusal)) => (u64::from(refusal.status), Value::Null),
            Err(error) => panic!("{name}: {error}"),
        };
        assert_eq!(status, look["status"].as_u64().unwrap_or(200), "{name}: {look}");
        if let Some(shape) = look.get("has") {
            assert!(matches(shape, &body), "{name}: {shape} is not in {body:#}");
        }
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
