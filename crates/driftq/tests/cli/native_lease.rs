//! Leases and groups of the native API with the command line alone, on the real binary.

use std::time::{Duration, Instant};

use crate::command::run;
use crate::desk::{says, server};
use crate::support::Server;
use serde_json::{Value, json};

fn take(server: &Server, flags: &[&str]) -> Vec<Value> {
    server.run(&[&["lease", "take", "t", "g"][..], flags].concat()).ok().lines()
}

fn token(item: &Value) -> String {
    item["lease"]["token"].as_str().unwrap().to_owned()
}

#[test]
fn what_is_taken_is_settled_by_token() {
    let (_data, server) = server();
    server.run(&["topic", "create", "t", "--max-in-flight", "100"]).ok();
    server.run_piped(&["produce", "t"], "1\n2\n3\n4\n5\n").ok();
    let taken = server.run(&["lease", "take", "t", "g", "--max", "3", "--lease", "1m"]).ok();
    let items = taken.lines();
    assert_eq!(items.len(), 3);
    assert_eq!((&items[0]["value"], &items[0]["lease"]["attempt"]), (&json!("1"), &json!(1)));

    let extended =
        server.run(&["lease", "extend", &token(&items[0]), "--lease", "2h", "-o", "json"]).ok().json();
    assert_eq!(extended[0]["status"], "ok");
    assert!(extended[0]["expires_at"].as_str() > items[0]["lease"]["expires_at"].as_str());

    // What `take` printed goes straight back in.
    let acked = server.run_piped(&["lease", "ack", "-", "-o", "ndjson"], &taken.stdout).ok().lines();
    assert_eq!(acked.iter().filter(|row| row["status"] == "ok").count(), 3);
    server.run_piped(&["lease", "ack", "-"], &taken.stdout).ok();

    let items = take(&server, &[]);
    server.run(&["lease", "release", &token(&items[0])]).ok();
    let again = take(&server, &[]);
    assert_eq!((&again[0]["value"], &again[0]["lease"]["attempt"]), (&json!("4"), &json!(1)), "not used up");
    server.run(&["lease", "nack", &token(&again[0]), "--delay", "0", "--error", "not today"]).ok();
    let retried = take(&server, &["--max", "2", "--wait", "5s"]);
    let retried = retried.iter().find(|item| item["value"] == "4").unwrap();
    assert_eq!((&retried["lease"]["attempt"], &retried["last_error"]), (&json!(2), &json!("not today")));
}

#[test]
fn stale_and_unknown_tokens_change_nothing_and_say_so() {
    let (_data, server) = server();
    server.run(&["topic", "create", "t"]).ok();
    server.run(&["produce", "t", "v"]).ok();
    let first = token(&take(&server, &["--lease", "50ms"])[0]);
    let second = token(&take(&server, &["--wait", "10s"])[0]);
    for settle in ["ack", "nack", "extend", "release"] {
        says(server.run(&["lease", settle, &first]), 5, "STALE_LEASE");
        says(server.run(&["lease", settle, "nonsense"]), 4, "LEASE_UNKNOWN");
    }
    let ran = server.run(&["lease", "ack", "nonsense", &first, &second, "-o", "json"]).code(5);
    let statuses: Vec<_> = ran.json().as_array().unwrap().iter().map(|row| row["status"].clone()).collect();
    assert_eq!(statuses, ["unknown", "stale", "ok"]);
    assert!(ran.stderr.contains("2 of 3 leases were not accepted: 1 stale, 1 unknown"), "{}", ran.stderr);
    let lag = server.run(&["group", "describe", "t", "g", "-o", "json"]).ok().json()["lag"].clone();
    assert_eq!(lag, 0, "the good one was acked");
    says(run(&["lease", "ack"]), 2, "TOKEN");
    says(run(&["lease", "nack", "x", "--dead", "--delay", "1s"]), 2, "--delay");
    says(server.run_piped(&["lease", "ack", "-"], "{\"topic\":\"t\"}\n"), 2, "line 1");
}

#[test]
fn waiting_ends_with_a_message_or_with_the_time() {
    let (_data, server) = server();
    server.run(&["topic", "create", "t"]).ok();
    let started = Instant::now();
    assert_eq!(take(&server, &["--wait", "300ms"]).len(), 0);
    assert!(started.elapsed() >= Duration::from_millis(300));
    assert_eq!(server.run(&["lease", "take", "t", "g", "-o", "table"]).ok().stdout, "nothing to borrow\n");
    assert_eq!(server.run(&["lease", "take", "t", "g", "-o", "json"]).ok().json(), json!([]));

    server.run(&["produce", "t", "soon", "--delay", "400ms"]).ok();
    let items = take(&server, &["--wait", "30s"]);
    assert_eq!(items[0]["value"], "soon");

    server.run_piped(&["produce", "t"], "a\nb\n").ok();
    let once = take(&server, &["--max", "1", "--request-id", "call-7"]);
    let twice = take(&server, &["--max", "1", "--request-id", "call-7"]);
    assert_eq!(token(&once[0]), token(&twice[0]), "the same call has the same answer");
    assert_ne!(token(&take(&server, &["--max", "1"])[0]), token(&once[0]));
    says(server.run(&["lease", "take", "missing", "g"]), 4, "driftq topic create");
    says(server.run(&["lease", "take", "t", "g", "--max", "0"]), 2, "--max");
}

#[test]
fn groups_are_moved_paused_and_forgotten() {
    let (_data, server) = server();
    server.run(&["topic", "create", "t", "--max-in-flight", "100"]).ok();
    server.run_piped(&["produce", "t"], "a\nb\nc\n").ok();
    // What every group is through with is dropped: another one keeps the messages.
    let kept = server.run(&["lease", "take", "t", "keeper"]).ok();
    server.run_piped(&["lease", "release", "-"], &kept.stdout).ok();
    let taken = server.run(&["lease", "take", "t", "g", "--max", "3", "--owner", "w1"]).ok();
    server.run_piped(&["lease", "ack", "-"], &taken.stdout).ok();
    assert_eq!(take(&server, &[]).len(), 0);

    let seek = |to: &str| server.run(&["group", "seek", "t", "g", to, "-o", "json"]);
    let sought = seek("1").ok().json();
    assert_eq!(sought["partitions"][0], json!({"partition": 0, "next_offset": 1, "lag": 2}));
    assert_eq!(seek("latest").ok().json()["partitions"][0]["lag"], 0);
    assert_eq!(seek("2000-01-01T00:00:00Z").ok().json()["partitions"][0]["lag"], 3);
    assert_eq!(seek("earliest").ok().json()["partitions"][0]["lag"], 3);
    says(seek("soon"), 2, "earliest, latest");
    says(server.run(&["group", "seek", "t", "nobody", "latest"]), 4, "driftq group list");
    says(server.run(&["group", "seek", "t", "g", "latest", "--partition", "9"]), 4, "partition");

    assert!(server.run(&["group", "pause", "t", "g", "-o", "json"]).ok().json()["paused_at"].is_string());
    assert_eq!(take(&server, &[]).len(), 0, "paused");
    let listed = server.run(&["group", "list", "t"]).ok().stdout;
    let row = listed.lines().find(|row| row.starts_with("t      g ")).unwrap_or_default();
    assert!(row.ends_with("yes"), "{listed}");
    let described = server.run(&["group", "describe", "t", "g"]).ok().stdout;
    assert!(described.contains("gets nothing since"), "{described}");
    assert_eq!(server.run(&["group", "resume", "t", "g"]).ok().stdout, "group g of t is not paused\n");
    assert_eq!(take(&server, &[]).len(), 1, "from the beginning again");

    says(server.run(&["group", "delete", "t", "g"]), 2, "--yes");
    server.run(&["group", "delete", "t", "g", "--yes"]).ok();
    says(server.run(&["group", "describe", "t", "g"]), 4, "GROUP_UNKNOWN");
    says(server.run(&["group", "delete", "t", "g", "--yes"]), 4, "GROUP_UNKNOWN");
}

#[test]
fn a_group_can_be_read_through_both_apis() {
    let (_data, server) = server();
    server.run(&["topic", "create", "t", "--max-in-flight", "100"]).ok();
    server.run_piped(&["produce", "t"], "a\nb\n").ok();
    let native = take(&server, &[]);
    assert_eq!(native[0]["value"], "a");
    let stream = ["consume", "t", "--group", "g", "--ack", "--timeout", "500ms"];
    let streamed = server.run(&stream).ok().lines();
    assert_eq!(streamed.iter().map(|item| item["value"].clone()).collect::<Vec<_>>(), ["b"]);
    server.run(&["lease", "ack", &token(&native[0])]).ok();
    assert_eq!(server.run(&["group", "list", "t", "-o", "json"]).ok().json()[0]["lag"], 0);
}
