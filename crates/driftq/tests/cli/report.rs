//! `driftq report` and `driftq check` against servers in trouble, on the real binary.

use std::time::{Duration, Instant};

use crate::command::{run, run_with};
use crate::desk::server;
use crate::support::Server;
use serde_json::Value;

/// The findings that are not ok, as (verdict, what).
fn troubles(report: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let findings = report["findings"].as_array().unwrap().iter();
    let bad = findings.filter(|finding| finding["verdict"] != "ok");
    bad.map(|finding| (text(&finding["verdict"]), text(&finding["what"]))).collect()
}

/// A server with a dead letter, an effect that nobody knows of, a group that nobody reads for, and a pause.
fn troubled() -> (tempfile::TempDir, Server) {
    let (data, server) = server();
    server.run(&["topic", "create", "orders", "--partitions", "1"]).ok();
    server.run(&["topic", "create", "mails"]).ok();
    server.run(&["produce", "orders", "dies"]).ok();
    let taken = server.run(&["lease", "take", "orders", "billing", "-o", "ndjson"]).ok();
    server.run_piped(&["lease", "nack", "-", "--dead", "--error", "no account"], &taken.stdout).ok();
    server.run(&["produce", "orders", "waits"]).ok();
    server.run(&["produce", "mails", "x"]).ok();
    let taken = server.run(&["lease", "take", "mails", "sender", "-o", "ndjson"]).ok();
    server.run_piped(&["lease", "release", "-"], &taken.stdout).ok();
    server.run(&["topic", "pause", "mails"]).ok();
    server.run(&["effect", "begin", "charge", "order-1", "--lease", "1ms"]).ok();
    let deadline = Instant::now() + Duration::from_secs(20);
    while server.run(&["dlq", "list", "-o", "ndjson"]).ok().stdout.is_empty()
        || server.run(&["effect", "list", "--state", "unknown", "-o", "ndjson"]).ok().stdout.is_empty()
        // Whoever asked a moment ago still counts as a reader.
        || server.run(&["group", "describe", "orders", "billing", "-o", "json"]).ok().json()["readers"] != 0
    {
        assert!(Instant::now() < deadline, "waited too long");
        std::thread::sleep(Duration::from_millis(10));
    }
    (data, server)
}

#[test]
fn a_new_server_needs_nothing() {
    let (_data, server) = server();
    let ran = server.run(&["report"]).ok();
    assert!(ran.stdout.ends_with("\nok    nothing to do\n"), "{}", ran.stdout);
    let report = server.run(&["report", "-o", "json"]).ok().json();
    assert_eq!((&report["verdict"], troubles(&report).len()), (&"ok".into(), 0));
    let check = server.run(&["check"]).ok().stdout;
    assert!(check.starts_with("DRIFTQ OK - 0 group(s) of 0 topic(s)"), "{check}");
}

#[test]
fn troubles_are_found_with_a_next_step_that_works() {
    let (_data, server) = troubled();
    let report = server.run(&["report", "-o", "json"]).code(1).json();
    let found = troubles(&report);
    for (verdict, what) in [
        ("act", "1 dead letter of orders"),
        ("act", "1 effect whose outcome is unknown"),
        ("look", "no worker reads for group billing of orders, and 1 message waits"),
        ("look", "topic mails is paused, and 1 message waits"),
    ] {
        assert!(found.contains(&(verdict.to_owned(), what.to_owned())), "{what}: {found:?}");
    }
    assert_eq!((&report["act"], &report["look"]), (&2.into(), &2.into()));
    // What is to be pasted is a command that this binary takes.
    for next in report["findings"].as_array().unwrap().iter().filter_map(|finding| finding["next"].as_str()) {
        let words: Vec<&str> = next.split(' ').skip(1).collect();
        server.run(&words).ok();
    }
    let again = server.run(&["report", "--server", &server.url()]).code(1).stdout;
    assert!(again.contains(&format!("$ driftq dlq list orders --server {}\n", server.url())), "{again}");
    assert!(!again.contains("is paused"), "the command lifted the pause: {again}");
    // How many groups nobody reads depends on how long ago their readers were seen.
    assert!(again.contains("\nact   do something about 2 things"), "{again}");
}

#[test]
fn messages_that_fail_and_partitions_that_fill_are_found() {
    let (_data, server) = server();
    server.run(&["topic", "create", "orders", "--partition-messages-max", "2"]).ok();
    server.run(&["produce", "orders", "poison"]).ok();
    for delay in ["0ms", "0ms", "0ms", "0ms", "1h"] {
        let taken = server.run(&["lease", "take", "orders", "billing", "--wait", "20s", "-o", "ndjson"]).ok();
        let nack = ["lease", "nack", "-", "--delay", delay, "--error", "no account"];
        server.run_piped(&nack, &taken.stdout).ok();
    }
    server.run(&["produce", "orders", "more"]).ok();
    let report = server.run(&["report", "-o", "json"]).code(1).json();
    let found = troubles(&report);
    for what in [
        "message 0/0 of orders has failed 5 times for billing",
        "partition 0 of orders is 100 % full: 2 of 2 messages",
    ] {
        assert!(found.iter().any(|(_, found)| found == what), "{what}: {found:?}");
    }
    let next =
        |next: &str| report["findings"].as_array().unwrap().iter().any(|finding| finding["next"] == next);
    assert!(next("driftq message get orders 0 0"), "{report}");
    assert!(next("driftq topic set orders partition_messages_max=4"), "{report}");
    let cause = report["findings"].to_string();
    assert!(cause.contains("last error: no account"), "{cause}");
}

/// The oldest message is the first that the group has not acked, wherever in the partition that is.
#[test]
fn what_is_acked_waits_no_more() {
    let (_data, server) = server();
    server.run(&["topic", "create", "orders", "--max-in-flight", "10"]).ok();
    server.run(&["produce", "orders", "first"]).ok();
    // Another group keeps what this one acks from being dropped.
    server.run(&["lease", "take", "orders", "mail"]).ok();
    let oldest = |most: &str| {
        let threshold = format!("orders/billing={most}");
        server.run(&["check", "--oldest-warn", &threshold, "-o", "json"]).json()
    };
    let age = |judgement: &Value| {
        let figures = judgement["figures"].as_array().unwrap().iter();
        figures
            .filter(|figure| figure["label"] == "oldest orders/billing")
            .map(|figure| figure["value"].as_u64().unwrap())
            .sum::<u64>()
    };
    let first = server.run(&["lease", "take", "orders", "billing", "-o", "ndjson"]).ok();
    let begun = Instant::now();
    while age(&oldest("1h")) < 300 {
        assert!(begun.elapsed() < Duration::from_secs(20), "it grows older");
    }
    let before_second = Instant::now();
    server.run(&["produce", "orders", "second"]).ok();
    server.run_piped(&["lease", "ack", "-"], &first.stdout).ok();
    let waited = age(&oldest("1h"));
    let most = before_second.elapsed().as_millis();
    assert!(u128::from(waited) <= most + 20, "only the second waits, for {most} ms at most: {waited}");
    let second = server.run(&["lease", "take", "orders", "billing", "-o", "ndjson"]).ok();
    server.run_piped(&["lease", "ack", "-"], &second.stdout).ok();
    assert_eq!((&oldest("0ms")["state"], age(&oldest("0ms"))), (&"OK".into(), 0), "nothing waits");
}

#[test]
fn a_server_in_memory_is_worth_a_look() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(&data.path().join("data"), &["--ephemeral"]);
    let ran = server.run(&["report"]).ok();
    assert!(ran.stdout.contains("look  nothing is on disk"), "{}", ran.stdout);
    assert!(ran.stdout.ends_with("nothing needs action; look at 1 thing\n"), "{}", ran.stdout);
}

#[test]
fn a_report_without_a_server_is_no_report() {
    let ran = run(&["report", "--server", "http://127.0.0.1:9"]).code(3);
    assert!(ran.stdout.is_empty() && ran.stderr.contains("no server answers"), "{}", ran.stderr);
}

#[test]
fn a_monitor_gets_its_codes() {
    let (_data, server) = troubled();
    for (flags, code, text) in [
        (&[][..], 0, "OK - 2 group(s) of 3 topic(s)"),
        (&["--lag-warn", "1"], 0, "OK"),
        (&["--lag-warn", "0"], 1, "WARNING - "),
        (&["--lag-warn", "0", "--lag-crit", "0"], 2, "CRITICAL - "),
        (&["--lag-warn", "0", "--lag-warn", "orders=1", "--lag-warn", "mails/sender=1"], 0, "OK"),
        (&["--lag-crit", "orders/billing=0"], 2, "CRITICAL - orders/billing: lag 1, more than 0"),
        (&["--dead-warn", "0"], 1, "WARNING - orders: 1 dead letter(s), more than 0"),
        (&["--dead-crit", "orders=0"], 2, "CRITICAL"),
        (&["--unknown-crit", "0"], 2, "CRITICAL - effects: 1 unknown"),
        (&["--oldest-warn", "0ms"], 1, "oldest waits"),
        (&["--oldest-crit", "1h"], 0, "OK"),
        (&["--lag-warn", "orders/biling=5"], 3, "UNKNOWN - `orders/biling`"),
    ] {
        let ran = server.run(&[&["check"][..], flags].concat()).code(code);
        assert!(ran.stdout.starts_with("DRIFTQ ") && ran.stdout.contains(text), "{flags:?}: {}", ran.stdout);
        assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.stdout);
        assert!(ran.stdout.contains(" | 'lag'="), "{}", ran.stdout);
    }
    let json = server.run(&["check", "--dead-warn", "0", "-o", "json"]).code(1).json();
    assert_eq!((&json["state"], json["problems"].as_array().unwrap().len()), (&"WARNING".into(), 1));
}

#[test]
fn a_monitor_is_never_misled_by_our_own_mistakes() {
    let down = run(&["check", "--server", "http://127.0.0.1:9"]).code(2);
    assert!(down.stdout.starts_with("DRIFTQ CRITICAL - no server answers"), "{}", down.stdout);
    for arguments in [
        &["check", "--lag-warm", "5"][..],
        &["check", "--lag-warn", "many"],
        &["--server", "http://a:1", "check", "extra"],
        &["-o", "json", "check", "--timeout"],
        &["check", "--server", "ftp://a"],
        &["check", "--context", "nothing"],
    ] {
        let ran = run(arguments).code(3);
        assert!(ran.stdout.starts_with("DRIFTQ UNKNOWN - "), "{arguments:?}: {}", ran.stdout);
    }
    run(&["check", "--help"]).ok();
    run(&["topic", "list", "check", "--bad"]).code(2);
    // Somebody who takes connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let ran = run_with(&[("DRIFTQ_SERVER", &url)], &["check", "--timeout", "200ms"]).code(2);
    assert!(ran.stdout.contains("did not answer everything within 200 ms"), "{}", ran.stdout);
}
