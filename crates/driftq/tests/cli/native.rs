//! Topics and messages of the native API with the command line alone, on the real binary.

use crate::desk::{says, server};
use serde_json::json;

#[test]
fn topics_are_created_with_settings_and_again_without_harm() {
    let (_data, server) = server();
    let create = ["topic", "create", "orders", "--partitions", "2", "-o", "json"];
    let with = |flags: &[&str]| server.run(&[&create[..], flags].concat());
    let flags = ["--ordering", "key", "--max-in-flight", "7", "--lease", "5s", "--retention", "2d"];
    let created = with(&flags).ok().json();
    assert_eq!((&created["created"], &created["partitions"]), (&json!(true), &json!(2)));
    assert_eq!(
        (&created["settings"]["ordering"], &created["settings"]["lease_ms"]),
        (&json!("key"), &json!(5000))
    );
    assert_eq!(with(&flags).ok().json()["created"], false, "the same again confirms");
    // Scripts create topics at every start: a topic that is there is good enough if it has what was asked for.
    assert_eq!(with(&[]).ok().json(), json!({"status": "exists", "name": "orders", "partitions": 2}));
    let plain = server.run(&["topic", "create", "orders"]).ok().stdout;
    assert_eq!(plain, "topic orders exists already, with 2 partition(s)\n");
    let same = server.run(&["topic", "create", "orders", "--partitions", "2"]).ok().stdout;
    assert_eq!(same, "topic orders exists already, as asked for, with 2 partition(s)\n");
    let other = server.run(&["topic", "create", "orders", "--partitions", "9"]);
    says(other, 5, "the topic exists with partitions 2, not 9");
    let other = server.run(&["topic", "create", "orders", "--partitions", "9", "-o", "json"]).code(5);
    assert!(other.stdout.is_empty() && other.stderr.contains("SETTINGS_DIFFER"), "{}", other.stderr);
    assert!(other.stderr.contains("choose another name"), "what to do next: {}", other.stderr);
    says(with(&["--max-in-flight", "8"]), 5, "driftq topic set");
    says(with(&["--ordering", "random"]), 2, "fifo");
    says(with(&["--retry-share", "0"]), 4, "retry_share_percent");
    let policy = ["--retry-max-attempts", "5", "--retry-backoff", "1s", "--retry-jitter", "none"];
    let arguments = [&["topic", "create", "retried", "-o", "json"][..], &policy].concat();
    let expected = json!({"max_attempts": 5, "backoff_ms": 1000, "jitter": "none"});
    assert_eq!(server.run(&arguments).ok().json()["settings"]["retry_policy"], expected);
}

#[test]
fn settings_change_and_say_what_they_were() {
    let (_data, server) = server();
    server.run(&["topic", "create", "t"]).ok();
    let set = |settings: &[&str]| server.run(&[&["topic", "set", "t", "-o", "json"][..], settings].concat());
    let changed = set(&["retention=7d", "retry_share=30"]).ok().json();
    let expected = json!([
        {"setting": "retention_ms", "before": null, "after": 604_800_000},
        {"setting": "retry_share_percent", "before": 20, "after": 30},
    ]);
    assert_eq!(changed["changed"], expected);
    let table = server.run(&["topic", "set", "t", "retention=default"]).ok().stdout;
    assert_eq!(table, "SETTING       BEFORE  NOW\nretention_ms  7d      no limit\n");
    assert_eq!(set(&["retention=default"]).ok().json()["changed"], json!([]));

    set(&["retry_max_attempts=5", "retry_backoff=1s"]).ok();
    set(&["retry_jitter=none"]).ok();
    let described = server.run(&["topic", "describe", "t", "-o", "json"]).ok().json();
    let policy = &described["settings"]["retry_policy"];
    assert_eq!(
        (&policy["max_attempts"], &policy["jitter"]),
        (&json!(5), &json!("none")),
        "parts keep each other"
    );
    let text = server.run(&["topic", "describe", "t"]).ok().stdout;
    assert!(text.contains("retry_policy *"), "what was asked for is marked: {text}");

    says(set(&["colour=red"]), 2, "no such setting");
    says(set(&["partitions=3"]), 2, "cannot be changed");
    says(set(&["lease=0"]), 4, "lease_ms");
    says(server.run(&["topic", "set", "tt", "lease=1s"]), 4, "did you mean `t`?");
}

#[test]
fn a_paused_topic_lends_nothing_and_a_deleted_one_is_gone() {
    let (_data, server) = server();
    server.run(&["topic", "create", "orders"]).ok();
    server.run(&["produce", "orders", "v"]).ok();
    assert!(server.run(&["topic", "pause", "orders", "-o", "json"]).ok().json()["paused_at"].is_string());
    let text = server.run(&["topic", "describe", "orders"]).ok().stdout;
    assert!(text.contains("nothing is lent since"), "{text}");
    assert_eq!(server.run(&["lease", "take", "orders", "g"]).ok().stdout, "");
    let why = server.run(&["message", "get", "orders", "0", "0", "-o", "json"]).ok().json();
    assert_eq!(why["groups"][0]["state"], "paused");
    assert_eq!(server.run(&["topic", "resume", "orders"]).ok().stdout, "topic orders is not paused\n");
    assert_eq!(server.run(&["lease", "take", "orders", "g"]).ok().lines().len(), 1);

    says(server.run(&["topic", "delete", "orders"]), 2, "--yes");
    assert_eq!(server.run(&["topic", "list"]).ok().stdout, "orders\n", "nobody confirmed it");
    server.run(&["topic", "delete", "orders", "--yes"]).ok();
    says(server.run(&["topic", "delete", "orders", "--yes"]), 4, "TOPIC_UNKNOWN");
    says(server.run(&["topic", "pause", "orders"]), 4, "TOPIC_UNKNOWN");
}

#[test]
fn messages_carry_everything_that_flags_say() {
    let (_data, server) = server();
    server.run(&["topic", "create", "t"]).ok();
    let flags =
        ["--key", "k", "--priority", "9", "--delay", "1h", "--label", "team=risk", "--label", "a=b=c"];
    let hash = ["--idempotency-key", "i", "--request-hash", "h1"];
    let produce =
        |more: &[&str]| server.run(&[&["produce", "t", "v", "-o", "json"][..], &flags, more].concat());
    let produced = produce(&hash).ok().json();
    let place = json!({"topic": "t", "partition": 0, "offset": 0, "duplicate": false});
    assert_eq!(produced["message"], place);
    let again = produce(&hash).ok().json();
    assert_eq!((&again["duplicates"], &again["message"]["offset"]), (&json!(1), &json!(0)));
    says(produce(&["--idempotency-key", "i", "--request-hash", "h2"]), 4, "KEY_REUSED");

    let message = server.run(&["message", "get", "t", "0", "0", "-o", "json"]).ok().json();
    assert_eq!(
        (&message["key"], &message["value"], &message["priority"]),
        (&json!("k"), &json!("v"), &json!(9))
    );
    assert_eq!(message["envelope"]["labels"], json!({"team": "risk", "a": "b=c"}));
    assert!(message["deliver_at"].is_string());
    let scheduled = server.run(&["topic", "describe", "t", "-o", "json"]).ok().json()["scheduled"].clone();
    assert_eq!(scheduled, 1);

    server.run(&["produce", "t", "/wA=", "--base64"]).ok();
    server.run(&["produce", "t", "future", "--at", "2100-01-01T00:00:00Z"]).ok();
    let messages = server.run(&["message", "list", "t", "-o", "ndjson"]).ok().lines();
    assert_eq!((&messages[1]["value_b64"], &messages[1]["priority"]), (&json!("/wA="), &json!(0)));
    assert_eq!(messages[2]["deliver_at"], "2100-01-01T00:00:00Z");

    says(server.run(&["produce", "t", "v", "--priority", "10"]), 2, "--priority");
    says(server.run(&["produce", "t", "v", "--delay", "soon"]), 2, "500ms");
    says(server.run(&["produce", "t", "v", "--delay", "1s", "--at", "2100-01-01T00:00:00Z"]), 2, "--at");
    says(server.run(&["produce", "t", "v", "--at", "tomorrow"]), 2, "2030-01-31T12:00:00Z");
    says(server.run(&["produce", "t", "v", "--label", "team"]), 2, "NAME=VALUE");
    says(server.run(&["produce", "t", "???", "--base64"]), 4, "must be base64");
}

#[test]
fn lines_of_json_are_messages() {
    let (_data, server) = server();
    server.run(&["topic", "create", "t"]).ok();
    let lines = r#"{"value": "one", "priority": 3}

{"key": "k", "value_b64": "/w==", "envelope": {"run_id": "own"}}
"#;
    let flags = ["produce", "t", "--ndjson", "--run-id", "all", "--idempotency-key", "import", "-o", "json"];
    let summary = server.run_piped(&flags, lines).ok().json();
    assert_eq!((&summary["produced"], &summary["empty_lines_skipped"]), (&json!(2), &json!(1)));
    assert_eq!(server.run_piped(&flags, lines).ok().json()["duplicates"], 2, "stored once");
    let messages = server.run(&["message", "list", "t", "-o", "ndjson"]).ok().lines();
    assert_eq!(messages.len(), 2);
    assert_eq!((&messages[0]["envelope"]["run_id"], &messages[0]["priority"]), (&json!("all"), &json!(3)));
    assert_eq!(messages[1]["envelope"], json!({"run_id": "own", "idempotency_key": "import:3"}));

    let bad = "{\"value\": \"fine\"}\n{\"value\": \"v\", \"colour\": 1}\n{\"value\": \"after\"}\n";
    let ran = server.run_piped(&["produce", "t", "--ndjson"], bad).code(4);
    assert!(ran.stderr.contains("line 2: colour: unknown field"), "{}", ran.stderr);
    assert!(ran.stderr.contains("1 message(s) were produced before the failure"), "{}", ran.stderr);

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("many.txt");
    let many: String = (0..3000).map(|number| format!("{number}\n")).collect();
    std::fs::write(&file, many).unwrap();
    let summary = server.run(&["produce", "t", "--file", file.to_str().unwrap(), "-o", "json"]).ok().json();
    assert_eq!(summary["produced"], 3000);
    says(server.run(&["produce", "t", "--file", "/nowhere/at-all"]), 2, "/nowhere/at-all");
    let long = "k".repeat(5000);
    let ran =
        server.run_piped(&["produce", "t", "--key-separator", "="], &format!("a=1\n{long}=2\n")).code(4);
    assert!(ran.stderr.contains("line 2"), "the server refuses the call, the line is named: {}", ran.stderr);
}

#[test]
fn messages_are_found_by_what_they_are() {
    let (_data, server) = server();
    server.run(&["topic", "create", "orders", "--partitions", "2"]).ok();
    let many: String = (0..2500).map(|number| format!("{number}\n")).collect();
    server.run_piped(&["produce", "orders"], &many).ok();
    let flags = ["--key", "user:1", "--run-id", "r", "--tenant-id", "acme", "--label", "team=risk"];
    server.run(&[&["produce", "orders", "found", "--idempotency-key", "i"][..], &flags].concat()).ok();
    let found = |filter: &[&str]| {
        let ran = server.run(&[&["message", "list", "orders", "-o", "ndjson"][..], filter].concat());
        ran.ok().lines().len()
    };
    for filter in [
        &["--key", "user:1"][..],
        &["--run", "r"],
        &["--run-id", "r"],
        &["--tenant", "acme"],
        &["--label", "team=risk"],
        &["--idempotency-key", "i", "--tenant", "acme"],
        &["--key", "user:1", "--label", "team=risk"],
        &["--from", "2500"],
    ] {
        assert_eq!(found(filter), 1, "{filter:?}");
    }
    assert_eq!(found(&["--label", "team=sales"]), 0);
    assert_eq!(found(&["--all"]), 2501, "over many pages");
    assert_eq!(found(&["--limit", "1200"]), 1200);
    let both = found(&["--all", "--partition", "0"]) + found(&["--all", "--partition", "1"]);
    assert_eq!(both, 2501);
    let array = server.run(&["message", "list", "orders", "--limit", "1001", "-o", "json"]).ok().json();
    assert_eq!(array.as_array().unwrap().len(), 1001);
    assert_eq!(server.run(&["message", "list", "orders", "--key", "x", "-o", "json"]).ok().json(), json!([]));
    let table = server.run(&["message", "list", "orders", "--key", "user:1"]).ok().stdout;
    assert!(table.starts_with("PARTITION  OFFSET"), "{table}");
    says(server.run(&["message", "list", "order"]), 4, "did you mean `orders`?");
    says(server.run(&["message", "list", "orders", "--state", "bored"]), 2, "backoff");
}

#[test]
fn a_message_says_why_it_waits_and_can_be_cancelled() {
    let (_data, server) = server();
    server.run(&["topic", "create", "t", "--retry-backoff", "10m", "--retry-jitter", "none"]).ok();
    server.run(&["produce", "t", "v"]).ok();
    let get = |offset: &str| server.run(&["message", "get", "t", "0", offset]).ok().stdout;
    assert!(get("0").contains("no group reads this topic yet"), "{}", get("0"));
    let taken = server.run(&["lease", "take", "t", "g", "--owner", "worker-1"]).ok().lines();
    let token = taken[0]["lease"]["token"].as_str().unwrap();
    assert!(get("0").contains("on loan to worker-1; since"), "{}", get("0"));
    server.run(&["lease", "nack", token, "--error", "card declined"]).ok();
    let text = get("0");
    for words in
        ["it failed and waits for its next attempt", "(in 9m 5", "card declined", "attempts of g", "worker-1"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let state = |state: &str| {
        server.run(&["message", "list", "t", "--state", state, "-o", "ndjson"]).ok().lines().len()
    };
    assert_eq!((state("backoff"), state("ready")), (1, 0));

    server.run(&["produce", "t", "stop me"]).ok();
    let taken = server.run(&["lease", "take", "t", "g"]).ok().lines();
    let token = taken[0]["lease"]["token"].as_str().unwrap();
    let cancelled = server.run(&["message", "cancel", "t", "0", "1"]).ok().stdout;
    assert!(cancelled.contains("told at the next heartbeat: g"), "{cancelled}");
    server.run(&["message", "cancel", "t", "0", "1"]).ok();
    assert_eq!(server.run(&["lease", "extend", token, "-o", "json"]).ok().json()[0]["cancelled"], true);
    says(server.run(&["message", "cancel", "t", "0", "99"]), 4, "driftq message list");
    says(server.run(&["message", "get", "t", "7", "0"]), 4, "MESSAGE_UNKNOWN");
}

#[test]
fn a_topic_keeps_what_is_done_and_says_so() {
    let (_data, server) = server();
    server.run(&["topic", "create", "t", "--keep", "1h"]).ok();
    server.run(&["produce", "t", "first"]).ok();
    server.run(&["consume", "t", "--group", "early", "--max", "1", "--ack"]).ok();
    let described = server.run(&["topic", "describe", "t", "-o", "json"]).ok().json();
    assert_eq!(described["settings"]["keep_ms"], 3_600_000);
    let partition = &described["partitions"][0];
    assert_eq!((&partition["messages"], &partition["kept_messages"]), (&json!(0), &json!(1)));
    let text = server.run(&["topic", "describe", "t"]).ok().stdout;
    assert!(text.contains("keep_ms *") && text.contains("KEPT"), "{text}");
    let text = server.run(&["message", "get", "t", "0", "0"]).ok().stdout;
    assert!(text.contains("every group is done with it") && text.contains("20 attempts"), "{text}");
    let report = server.run(&["report"]).stdout;
    assert!(report.contains("history is kept: 1 message"), "{report}");
    let late = server.run(&["lease", "take", "t", "late", "-o", "json"]).ok().stdout;
    assert!(late.contains("first"), "{late}");
    let table = server.run(&["topic", "set", "t", "keep=default"]).ok().stdout;
    assert_eq!(table, "SETTING  BEFORE  NOW\nkeep_ms  1h      not set\n");
}
