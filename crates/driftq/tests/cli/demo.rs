//! `driftq demo`: it kills what it says, counts what happened, and leaves nothing behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::command::Ran;
use crate::support::driftq;

/// Nothing here takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A demo that keeps its things in this directory.
fn demo(place: &Path, arguments: &[&str]) -> Command {
    let mut command = driftq();
    command.arg("demo").args(arguments).env("TMPDIR", place).stdin(Stdio::null());
    command
}

/// Processes that this demo has started and that are still there.
fn parts(demo: u32) -> Vec<String> {
    let mark = format!("--parent\0{demo}\0");
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.contains(&mark)).collect()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A demo in full swing: somebody has been killed.
fn start(place: &Path) -> (Child, u32) {
    let mut command = demo(place, &["--kills", "20"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("SIGKILL naive")), "nobody was killed");
    // Nobody reads on; it must not stop for that.
    std::thread::spawn(move || lines.for_each(drop));
    let id = child.id();
    // The one that was killed is gone, and another one comes in its place.
    wait_until("a server and workers", || parts(id).len() > 1);
    (child, id)
}

fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

#[test]
fn every_order_is_charged_once_with_driftq() {
    let place = tempfile::tempdir().unwrap();
    let arguments = ["--kills", "6", "--messages", "8", "--seed", "1", "-o", "json"];
    let ran = Ran::from(demo(place.path(), &arguments).output().unwrap()).ok();
    assert!(ran.stderr.is_empty(), "{}", ran.stderr);
    let report = ran.json();
    for (crew, field, expected) in [
        ("driftq", "messages", 8),
        ("driftq", "charges", 8),
        ("driftq", "duplicates", 0),
        ("driftq", "lost", 0),
        ("driftq", "crashes", 6),
        ("naive", "crashes", 6),
        ("naive", "lost", 0),
    ] {
        assert_eq!(report[crew][field], expected, "{crew} {field} in {report:#}");
    }
    // With this seed most of the naive crew's kills are after a charge; each of them is a second one.
    let killed_at = &report["naive"]["killed_at"];
    let after = killed_at["after_charge"].as_u64().unwrap() + killed_at["before_ack"].as_u64().unwrap();
    assert!(after > 0 && report["naive"]["duplicates"] == after, "{report:#}");
    assert_eq!(report["naive"]["attempts"], 8 + 6);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn what_is_kept_can_be_looked_at() {
    let place = tempfile::tempdir().unwrap();
    let arguments = ["--kills", "1", "--messages", "2", "--seed", "1", "--keep"];
    let ran = Ran::from(demo(place.path(), &arguments).output().unwrap()).ok();
    let again = "driftq demo --seed 1 --kills 1 --messages 2";
    assert!(ran.stdout.contains("duplicates") && ran.stdout.contains(again), "{}", ran.stdout);
    let is_wide = |line: &str| line.chars().count() > 80;
    assert!(
        !ran.stdout.lines().chain(ran.stderr.lines().take(6)).any(is_wide),
        "{}{}",
        ran.stderr,
        ran.stdout
    );
    let kept = fs::read_dir(place.path()).unwrap().next().unwrap().unwrap().path();
    assert!(ran.stderr.contains(kept.to_str().unwrap()), "{}", ran.stderr);
    let books = fs::read_to_string(kept.join("charges.ndjson")).unwrap();
    assert_eq!(books.lines().filter(|line| line.contains("\"driftq\"")).count(), 2, "{books}");
    let server = crate::support::Server::start(&kept.join("data"), &["--segment-bytes=1MiB"]);
    let effects = server.run(&["effect", "list", "-o", "json"]).ok().json();
    let states: Vec<_> = effects.as_array().unwrap().iter().map(|effect| &effect["state"]).collect();
    assert_eq!(states, ["succeeded", "succeeded"], "{effects:#}");
}

#[test]
fn no_webhook_is_lost_and_no_repeat_is_silent() {
    let place = tempfile::tempdir().unwrap();
    let arguments =
        ["--scenario", "webhook", "--kills", "2", "--messages", "6", "--seed", "3", "--keep", "-o", "json"];
    let ran = Ran::from(demo(place.path(), &arguments).output().unwrap()).ok();
    let report = ran.json();
    for (field, expected) in
        [("deliveries", 6), ("crashes", 2), ("lost", 0), ("signatures_wrong", 0), ("kills_asked", 2)]
    {
        assert_eq!(report[field], expected, "{field} in {report:#}");
    }
    assert_eq!(report["repeats"], report["repeats_on_record"], "{report:#}");
    // Each kill has a delivery in its hands that comes again.
    assert!(report["repeats"].as_u64().unwrap() >= 2, "{report:#}");
    assert_eq!(report["signatures_verified"], report["sends"], "{report:#}");
    let kept = fs::read_dir(place.path()).unwrap().next().unwrap().unwrap().path();
    let arrivals = fs::read_to_string(kept.join("received.ndjson")).unwrap();
    assert_eq!(arrivals.lines().count() as u64, report["sends"].as_u64().unwrap(), "{arrivals}");
    let kills = arrivals.lines().filter(|line| line.contains("\"kills\"")).count();
    assert!(kills >= 2, "{arrivals}");
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let place = tempfile::tempdir().unwrap();
    let (mut child, id) = start(place.path());
    signal("-INT", id);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    wait_until("processes are left", || parts(id).is_empty());
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "the directory is left");
}

#[test]
fn the_processes_die_with_the_demo() {
    let place = tempfile::tempdir().unwrap();
    let (mut child, id) = start(place.path());
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("processes are left", || parts(id).is_empty());
    // Nobody was there to remove the directory. The next one does, and leaves alone what is not the demo's.
    fs::create_dir(place.path().join("driftq-demo-of-somebody")).unwrap();
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
    demo(place.path(), &["--kills", "0", "--messages", "1"]).output().unwrap();
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

#[test]
fn more_kills_than_there_are_orders_for_are_refused() {
    for scenario in ["charges", "webhook"] {
        let ran = ["demo", "--scenario", scenario, "--kills", "4", "--messages", "1"];
        let ran = crate::command::run(&ran).code(2);
        assert!(ran.stderr.contains("--messages"), "{}", ran.stderr);
    }
}
