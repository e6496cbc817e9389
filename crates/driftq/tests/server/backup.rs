//! Backups of a server at work, by the real binary: taken under load, killed, repeated, brought back elsewhere.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use driftq_testbed::Seaweed;
use serde_json::{Value, json};

use crate::command::{run, run_with};
use crate::compat::Client;
use crate::postgres_log::{check, post};
use crate::support::{Server, driftq};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Small segments and frequent snapshots: files come and go while they are copied.
pub(crate) fn server(data: &Path) -> Server {
    let options =
        ["--segment-bytes", "64KiB", "--snapshot-every-bytes", "256KiB", "--in-flight-max", "100000"];
    Server::start(data, &options)
}

pub(crate) fn produce(address: SocketAddr, topic: &str, value: &str) -> bool {
    let reply = post(address, &json!({"topic": topic, "value": value}).to_string());
    reply.is_ok_and(|reply| reply.split(' ').nth(1) == Some("200"))
}

/// Text of about this many bytes.
pub(crate) fn filler(bytes: usize) -> String {
    "x".repeat(bytes)
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn backup(place: &Path, id: &str, data: &Path) -> Value {
    run(&["backup", text(place), "--id", id, "--data", text(data), "-o", "json"]).ok().json()
}

fn restore(place: &Path, id: &str, data: &Path) -> Value {
    run(&["restore", text(place), "--id", id, "--data", text(data), "-o", "json"]).ok().json()
}

/// Messages come, and others are acked, so that segments are made, given up and used again all the time.
struct Load<'a> {
    address: SocketAddr,
    over: &'a AtomicBool,
    taken: &'a Mutex<BTreeSet<String>>,
}

impl Load<'_> {
    fn produce(&self, name: usize) {
        for n in 0.. {
            if self.over.load(Ordering::Acquire) {
                return;
            }
            let value = format!("{name}-{n}-{}", filler(200));
            if produce(self.address, "t", &value) {
                self.taken.lock().unwrap().insert(value);
            }
        }
    }

    fn churn(&self) {
        let mut client = Client::connect(self.address);
        let kind = [("content-type", "application/x-ndjson")];
        while !self.over.load(Ordering::Acquire) {
            let lines: String = (0..20).map(|_| format!("{}\n", json!({"value": filler(2_000)}))).collect();
            let reply = client.call("POST", "/v2/topics/churn/messages", &kind, Some(lines.as_bytes()));
            assert!(reply.status < 300, "{}", reply.text());
            let lease = client.post_json(
                "/v2/topics/churn/groups/g/lease",
                &json!({"owner": "churn", "max": 20, "lease_ms": 60_000}),
            );
            assert_eq!(lease.status, 200, "{}", lease.text());
            let body = lease.json();
            let items = body["messages"].as_array().unwrap();
            let tokens: Vec<Value> =
                items.iter().map(|item| json!({"token": item["lease"]["token"]})).collect();
            client.post_json("/v2/leases/ack", &json!({"leases": tokens}));
        }
    }
}

#[test]
fn a_backup_under_load_has_everything_that_was_acknowledged_before_it() {
    let home = tempfile::tempdir().unwrap();
    let (data, place) = (home.path().join("data"), home.path().join("backups"));
    let first = server(&data);
    let mut client = Client::connect(first.address);
    for topic in ["t", "churn"] {
        client.post_json("/v1/topics", &json!({"name": topic}));
    }
    let (over, taken) = (AtomicBool::new(false), Mutex::new(BTreeSet::new()));
    let load = Load { address: first.address, over: &over, taken: &taken };
    let known = || taken.lock().unwrap().clone();
    let expected: Vec<BTreeSet<String>> = std::thread::scope(|scope| {
        let _over = OnDrop(&over);
        let load = &load;
        for name in 0..2 {
            scope.spawn(move || load.produce(name));
        }
        scope.spawn(|| load.churn());
        let mut expected = Vec::new();
        for round in 0..3 {
            let deadline = Instant::now() + PATIENCE;
            while known().len() < (round + 1) * 300 {
                assert!(Instant::now() < deadline, "the producers go on");
            }
            expected.push(known());
            let kept = backup(&place, &format!("b{round}"), &data);
            assert_eq!(kept["result"], "kept");
            assert!(known().len() > expected[round].len(), "it was taken while messages came");
        }
        expected
    });
    drop(first);
    for (round, expected) in expected.iter().enumerate() {
        let elsewhere = home.path().join(format!("restored-{round}"));
        let restored = restore(&place, &format!("b{round}"), &elsewhere);
        assert!(restored["messages"].as_u64().unwrap() >= expected.len() as u64, "{restored}");
        check(server(&elsewhere).address, 0, expected);
    }
}

/// Segments are given up and used again while they are copied: a copy that was left behind begins again, and says so to
/// nobody.
#[test]
fn a_backup_that_the_log_outruns_is_whole() {
    let home = tempfile::tempdir().unwrap();
    let (data, place) = (home.path().join("data"), home.path().join("backups"));
    let first = server(&data);
    Client::connect(first.address).post_json("/v1/topics", &json!({"name": "churn"}));
    let (over, taken) = (AtomicBool::new(false), Mutex::default());
    let load = Load { address: first.address, over: &over, taken: &taken };
    let ids: Vec<String> = (0..20).map(|round| format!("b{round}")).collect();
    std::thread::scope(|scope| {
        let _over = OnDrop(&over);
        for _ in 0..3 {
            scope.spawn(|| load.churn());
        }
        for id in &ids {
            assert_eq!(backup(&place, id, &data)["result"], "kept", "{id}");
        }
    });
    for id in &ids {
        restore(&place, id, &home.path().join(id));
    }
}

/// Ends the load also when an assertion fails.
struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Kills a command once something is so.
pub(crate) fn kill_when(mut child: Child, what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was killed");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

pub(crate) fn spawned(arguments: &[&str]) -> Child {
    let mut command = driftq();
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn count(folder: &Path, ending: &str) -> usize {
    let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().ends_with(ending)).count()
}

#[test]
fn half_a_backup_never_looks_whole_and_is_completed_by_the_same_command() {
    let home = tempfile::tempdir().unwrap();
    let (data, place) = (home.path().join("data"), home.path().join("backups"));
    let first = server(&data);
    Client::connect(first.address).post_json("/v1/topics", &json!({"name": "t"}));
    let values: BTreeSet<String> = (0..120).map(|n| format!("{n}-{}", filler(50_000))).collect();
    for value in &values {
        assert!(produce(first.address, "t", value));
    }
    let arguments = ["backup", text(&place), "--id", "one", "--data", text(&data)];
    kill_when(spawned(&arguments), "a part is written", || count(&place.join("one"), ".part") > 1);
    assert!(!place.join("one/manifest.json").exists(), "it was killed in the middle");
    let elsewhere = home.path().join("elsewhere");
    let named = ["restore", text(&place), "--id", "one", "--data", text(&elsewhere)];
    let refused = run(&named).code(4);
    assert!(refused.stderr.contains("no whole backup"), "{}", refused.stderr);
    let kept = backup(&place, "one", &data);
    assert!(kept["parts_reused"].as_u64().unwrap() > 1, "{kept}");
    assert_eq!(backup(&place, "one", &data)["result"], "kept before");
    drop(first);

    let unfinished = || {
        let entries = fs::read_dir(home.path()).unwrap().flatten().map(|entry| entry.path());
        entries
            .filter(|path| path.to_string_lossy().contains(".restoring-"))
            .any(|path| count(&path, ".log") > 1)
    };
    kill_when(spawned(&named), "a file is restored", unfinished);
    assert!(!elsewhere.exists(), "it has its name when it is whole");
    restore(&place, "one", &elsewhere);
    let refused = run(&named).code(5);
    assert!(refused.stderr.contains("not empty"), "{}", refused.stderr);
    check(server(&elsewhere).address, 0, &values);
}

#[test]
fn what_was_changed_in_a_backup_is_not_restored() {
    let home = tempfile::tempdir().unwrap();
    let (data, place, back) =
        (home.path().join("data"), home.path().join("backups"), home.path().join("back"));
    let first = server(&data);
    Client::connect(first.address).post_json("/v1/topics", &json!({"name": "t"}));
    assert!(produce(first.address, "t", "one"));
    drop(first);
    backup(&place, "one", &data);
    let part = fs::read_dir(place.join("one")).unwrap().flatten().map(|entry| entry.path());
    let part = part.filter(|path| path.extension().is_some_and(|ending| ending == "part")).last().unwrap();
    let mut bytes = fs::read(&part).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&part, bytes).unwrap();
    let refused = run(&["restore", text(&place), "--id", "one", "--data", text(&back)]).code(1);
    assert!(refused.stderr.contains("is damaged; use another backup"), "{}", refused.stderr);
    assert!(!back.exists());
    for id in ["", ".hidden", "a/b", "../a"] {
        run(&["backup", text(&place), "--id", id, "--data", text(&data)]).code(2);
    }
    let nowhere = home.path().join("nowhere");
    let refused = run(&["backup", text(&place), "--id", "two", "--data", text(&nowhere)]).code(1);
    assert!(refused.stderr.contains("there is no directory"), "{}", refused.stderr);
}

#[test]
fn an_object_store_keeps_a_backup() {
    let weed = match Seaweed::program() {
        Ok(_) => Seaweed::start("backups").unwrap(),
        Err(why) => {
            println!("skipped: {why}");
            return;
        }
    };
    let home = tempfile::tempdir().unwrap();
    let (data, back) = (home.path().join("data"), home.path().join("back"));
    let first = server(&data);
    Client::connect(first.address).post_json("/v1/topics", &json!({"name": "t"}));
    assert!(produce(first.address, "t", "one"));
    let endpoint = weed.endpoint();
    let keys = [("AWS_ACCESS_KEY_ID", "any"), ("AWS_SECRET_ACCESS_KEY", "any"), ("AWS_REGION", "us-east-1")];
    let named = ["s3://backups/driftq", "--id", "one", "--endpoint", &endpoint, "--data"];
    run_with(&keys, &[&["backup"], &named[..], &[text(&data)]].concat()).ok();
    run_with(&keys, &[&["restore"], &named[..], &[text(&back)]].concat()).ok();
    check(server(&back).address, 0, &BTreeSet::from(["one".to_owned()]));
}
