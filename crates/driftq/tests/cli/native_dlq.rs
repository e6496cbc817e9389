//! Dead letters, jobs and the router with the command line alone, on the real binary.

use std::time::{Duration, Instant};

use crate::command::run;
use crate::desk::{says, server_with};
use crate::support::Server;
use serde_json::{Value, json};

/// A server with a topic whose messages `values` are all dead.
fn cemetery(values: &[&str]) -> (tempfile::TempDir, Server) {
    let (data, server) = server_with(&[]);
    server.run(&["topic", "create", "orders", "--max-in-flight", "1000"]).ok();
    for value in values {
        let flags = ["--key", value, "--run-id", "r", "--label", "team=risk"];
        server.run(&[&["produce", "orders", value][..], &flags].concat()).ok();
    }
    let taken = server.run(&["lease", "take", "orders", "billing", "--max", "1000", "--owner", "w1"]).ok();
    server.run_piped(&["lease", "nack", "-", "--dead", "--error", "no account"], &taken.stdout).ok();
    // A letter is buried a moment after the nack is answered.
    let deadline = Instant::now() + Duration::from_secs(20);
    while letters(&server, &[]).len() < values.len() {
        assert!(Instant::now() < deadline, "waited too long");
        std::thread::sleep(Duration::from_millis(10));
    }
    (data, server)
}

fn letters(server: &Server, filter: &[&str]) -> Vec<Value> {
    server.run(&[&["dlq", "list", "orders", "-o", "ndjson"][..], filter].concat()).ok().lines()
}

#[test]
fn dead_letters_are_found_and_tell_their_story() {
    let (_data, server) = cemetery(&["a", "b"]);
    let topics = server.run(&["dlq", "list", "-o", "json"]).ok().json();
    assert_eq!((&topics[0]["name"], &topics[0]["letters"]), (&json!("orders"), &json!(2)));
    let found = letters(&server, &[]);
    assert_eq!(found.len(), 2);
    let table = server.run(&["dlq", "list", "orders"]).ok().stdout;
    assert!(table.contains("no account"), "{table}");
    let (partition, offset) = (found[0]["partition"].to_string(), found[0]["offset"].to_string());
    let text = server.run(&["dlq", "get", "orders", &partition, &offset]).ok().stdout;
    for words in
        ["came from    orders 0/0", "given up by  billing", "last error   no account", "ATTEMPT  OWNER", "w1"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let reason = found[0]["envelope"]["dead_letter"]["reason"].as_str().unwrap().to_owned();
    for filter in [
        &["--key", "a"][..],
        &["--key", "a", "--group", "billing", "--run", "r", "--label", "team=risk", "--reason", &reason],
        &["--limit", "1"],
    ] {
        assert_eq!(letters(&server, filter).len(), 1, "{filter:?}");
    }
    assert_eq!(letters(&server, &["--after", "2000-01-01T00:00:00Z", "--all"]).len(), 2);
    assert_eq!(letters(&server, &["--before", "2000-01-01T00:00:00Z"]).len(), 0);
    assert_eq!(letters(&server, &["--group", "mail"]).len(), 0);

    server.run(&["topic", "create", "clean"]).ok();
    assert_eq!(server.run(&["dlq", "list", "clean"]).ok().stdout, "no dead letter fits\n");
    says(server.run(&["dlq", "redrive", "clean", "--all"]), 4, "has no dead letters");
    says(server.run(&["dlq", "list", "order"]), 4, "did you mean `orders`?");
    says(server.run(&["dlq", "list", "--key", "a"]), 2, "need a topic");
    says(server.run(&["dlq", "get", "orders", "0", "99"]), 4, "MESSAGE_UNKNOWN");
    says(server.run(&["dlq", "list", "orders", "--before", "monday"]), 2, "RFC 3339");
}

#[test]
fn dead_letters_go_back_one_some_or_all() {
    let (_data, server) = cemetery(&["a", "b", "c", "d"]);
    let redrive =
        |flags: &[&str]| server.run(&[&["dlq", "redrive", "orders", "-o", "json"][..], flags].concat());
    let dry = redrive(&["--all", "--dry-run"]).ok().json();
    assert_eq!((&dry["state"], &dry["matched"], &dry["dry_run"]), (&json!("done"), &json!(4), &json!(true)));
    assert_eq!(letters(&server, &[]).len(), 4, "only counted");

    let first = &letters(&server, &[])[0];
    let place = format!("{}:{}", first["partition"], first["offset"]);
    assert_eq!(redrive(&["--letter", &place]).ok().json()["done"], 1);
    assert_eq!(redrive(&["--key", "b"]).ok().json()["done"], 1);
    let back = server.run(&["lease", "take", "orders", "billing", "--max", "10"]).ok();
    let mut values: Vec<_> =
        back.lines().iter().map(|item| item["value"].as_str().unwrap().to_owned()).collect();
    values.sort_unstable();
    assert_eq!(values, ["a", "b"]);
    assert_eq!(back.lines()[0]["lease"]["attempt"], 1, "nothing is used up");
    server.run_piped(&["lease", "ack", "-"], &back.stdout).ok();

    server.run(&["topic", "create", "repaired"]).ok();
    let elsewhere = server.run(&["dlq", "redrive", "orders", "--all", "--target", "repaired"]).ok().stdout;
    assert!(elsewhere.contains("2 of 2 dead letter(s) sent back"), "{elsewhere}");
    assert_eq!(server.run(&["message", "list", "repaired", "-o", "ndjson"]).ok().lines().len(), 2);
    assert_eq!(letters(&server, &[]).len(), 0);

    says(redrive(&[]), 2, "--letter PARTITION:OFFSET");
    says(redrive(&["--all", "--key", "a"]), 2, "exclude each other");
    says(redrive(&["--letter", "12"]), 2, "0:12");
    says(run(&["dlq", "redrive", "orders", "--all", "--rate", "fast"]), 2, "--rate");
}

#[test]
fn purging_is_confirmed() {
    let (_data, server) = cemetery(&["a", "b"]);
    says(server.run(&["dlq", "purge", "orders", "--all"]), 2, "--yes");
    let dry = server.run(&["dlq", "purge", "orders", "--all", "--dry-run"]).ok().stdout;
    assert!(dry.contains("2 dead letter(s) would be thrown away"), "{dry}");
    assert_eq!(letters(&server, &[]).len(), 2);
    server.run(&["dlq", "purge", "orders", "--key", "a", "--yes"]).ok();
    let left = letters(&server, &[]);
    assert_eq!((left.len(), &left[0]["key"]), (1, &json!("b")));
    server.run(&["dlq", "purge", "orders", "--all", "--yes"]).ok();
    assert_eq!(server.run(&["dlq", "list"]).ok().stdout, "no topic has dead letters\n");
}

#[test]
fn jobs_are_watched_and_stopped() {
    let (_data, server) = cemetery(&["a", "b", "c", "d", "e", "f"]);
    assert!(server.run(&["job", "list"]).ok().stdout.contains("driftq dlq redrive"));
    let slow = ["dlq", "redrive", "orders", "--all", "--rate", "1", "--no-wait", "-o", "json"];
    let job = server.run(&slow).ok().json();
    let id = job["id"].as_str().unwrap().to_owned();
    assert_eq!((&job["state"], &job["kind"]), (&json!("running"), &json!("redrive")));
    assert_eq!(server.run(&["job", "list", "-o", "json"]).ok().json()[0]["id"], json!(id));
    assert!(server.run(&["job", "get", &id]).ok().stdout.contains("redrive of orders"));
    server.run(&["job", "cancel", &id]).ok();
    says(server.run(&["job", "wait", &id]), 1, "was cancelled");
    assert_eq!(server.run(&["job", "get", &id, "-o", "json"]).ok().json()["state"], "cancelled");
    assert!(letters(&server, &[]).len() >= 4, "the rest stays where it is");

    let purge = ["dlq", "purge", "orders", "--all", "--yes", "--no-wait", "-o", "json"];
    let id = server.run(&purge).ok().json()["id"].as_str().unwrap().to_owned();
    assert_eq!(server.run(&["job", "wait", &id, "-o", "json"]).ok().json()["state"], "done");
    says(server.run(&["job", "get", "4711"]), 4, "driftq job list");
    says(server.run(&["job", "wait", "nonsense"]), 4, "JOB_UNKNOWN");
}

#[test]
fn without_a_router_nothing_is_asked() {
    let (_data, server) = cemetery(&[]);
    let status = server.run(&["router", "status", "-o", "json"]).ok().json();
    assert_eq!((&status["kind"], &status["asked"]), (&json!("none"), &json!(0)));
    assert!(server.run(&["router", "status"]).ok().stdout.contains("no router is configured"));
    let test = ["router", "test", "orders", "--key", "k", "--value", "v", "--label", "a=b"];
    let tested = server.run(&[&test[..], &["-o", "json"]].concat()).ok().json();
    assert_eq!((&tested["outcome"], &tested["topic"]), (&json!("not_asked"), &json!("orders")));
    assert!(server.run(&test).ok().stdout.contains("would go to  orders partition 0"));
    says(server.run(&["router", "test", "order"]), 4, "did you mean `orders`?");
}

const RULES: &str = r#"
[[rule]]
name = "good customers"
when.key_regex = "^vip:"
then.label = "vip"
then.target_topic = "fast"
then.meta = { who = "${key}" }

[[rule]]
name = "lost"
when.key = "lost"
then.label = "lost"
then.target_topic = "nowhere"
"#;

#[test]
fn the_router_is_asked_and_nothing_is_stored() {
    let directory = tempfile::tempdir().unwrap();
    let rules = directory.path().join("rules.toml");
    std::fs::write(&rules, RULES).unwrap();
    let (_data, server) = server_with(&["--router-rules", rules.to_str().unwrap()]);
    server.run(&["topic", "create", "orders"]).ok();
    server.run(&["topic", "create", "fast"]).ok();
    let test =
        |key: &str, format: &str| server.run(&["router", "test", "orders", "--key", key, "-o", format]).ok();
    let tested = test("vip:7", "json").json();
    assert_eq!((&tested["outcome"], &tested["topic"]), (&json!("answered"), &json!("fast")));
    assert_eq!(tested["decision"]["meta"], json!({"who": "vip:7"}));
    let text = test("vip:7", "table").stdout;
    for words in ["label         vip", "target topic  fast", "who=vip:7", "would go to   fast partition 0"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(test("other", "json").json()["topic"], "orders", "no opinion");
    let lost = test("lost", "json").json();
    assert_eq!((&lost["outcome"], &lost["topic"]), (&json!("failed"), &json!("orders")));
    let text = test("lost", "table").stdout;
    assert!(text.contains("nowhere"), "it says why: {text}");
    let status = server.run(&["router", "status"]).ok().stdout;
    assert!(status.contains("the server's own rules") && status.contains("closed"), "{status}");
    assert_eq!(server.run(&["message", "list", "fast", "-o", "ndjson"]).ok().stdout, "");

    let routed = server.run(&["produce", "orders", "v", "--key", "vip:1", "-o", "json"]).ok().json();
    assert_eq!(routed["message"]["topic"], "fast", "and a producer is told where it went");
    let text = server.run(&["message", "get", "fast", "0", "0"]).ok().stdout;
    assert!(text.contains("routing   vip who=vip:1"), "{text}");
}
