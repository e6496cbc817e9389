//! Configuration and help, on the real binary.

use std::fs;

use crate::command::{Ran, run, run_with};
use serde_json::Value;

fn value<'a>(report: &'a Value, name: &str) -> (&'a str, &'a str) {
    let found = report["values"].as_array().unwrap().iter().find(|value| value["name"] == name).unwrap();
    (found["value"].as_str().unwrap(), found["origin"].as_str().unwrap())
}

#[test]
fn later_words_win_and_each_value_knows_who_said_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("driftq.toml");
    fs::write(
        &file,
        "in_flight_max = 5\ntopics_max = 50\ndata = \"/srv/file\"\npartition_bytes_max = \"2MiB\"\n",
    )
    .unwrap();
    let variables = [
        ("DRIFTQ_IN_FLIGHT_MAX", "6"),
        ("DRIFTQ_DATA", "/srv/env"),
        ("DRIFTQ_CONFIG", file.to_str().unwrap()),
    ];
    let ran = run_with(
        &variables,
        &["config", "check", "--in-flight-max", "7", "--profile", "v1-dev", "-o", "json"],
    )
    .ok();
    let report = ran.json();
    for (name, expected) in [
        ("in_flight_max", ("7", "flag")),
        ("data", ("/srv/env", "env")),
        ("topics_max", ("50", "file")),
        ("partition_bytes_max", ("2MiB", "file")),
        ("partition_messages_max", ("2", "profile")),
        ("listen", ("127.0.0.1:8080", "default")),
    ] {
        assert_eq!(value(&report, name), expected, "{name}");
    }
    assert_eq!(report["valid"], true);
}

#[test]
fn unknown_and_wrong_values_are_refused_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bad.toml");
    fs::write(&file, "listen = \"127.0.0.1:0\"\nlisten_on = 5\n\n[broker]\nx = 1\n").unwrap();
    let path = file.to_str().unwrap();
    let data = dir.path().join("data");
    let refuses = |ran: Ran, texts: &[&str]| {
        let ran = ran.code(9);
        for text in texts {
            assert!(ran.stderr.contains(text), "no `{text}` in {}", ran.stderr);
        }
    };
    refuses(
        run(&["config", "check", "--config", path]),
        &["bad.toml:2: unknown key `listen_on`", "bad.toml:4"],
    );
    refuses(run(&["serve", "--config", path, "--data", data.to_str().unwrap()]), &["bad.toml:2"]);
    assert!(!data.exists(), "nothing is made from a configuration that is refused");
    refuses(run(&["serve", "--in-flight-max", "0", "--commit", "never"]), &["--in-flight-max", "--commit"]);
    refuses(
        run_with(&[("DRIFTQ_RETENTION_MS", "soon")], &["config", "check"]),
        &["DRIFTQ_RETENTION_MS", "30s"],
    );
    refuses(run(&["config", "check", "--config", "/no/such/file"]), &["/no/such/file", "cannot be read"]);
    // What the engine would refuse is refused here, by the name that the user gave.
    for size in ["5", "4097", "2GiB"] {
        refuses(run(&["config", "check", "--segment-bytes", size]), &["--segment-bytes"]);
    }
    refuses(run(&["config", "check", "--message-bytes-max", "41MiB"]), &["--message-bytes-max", "40MiB"]);
    refuses(run(&["config", "check", "--log-level", "inof"]), &["--log-level", "inof"]);
    for level in ["debug", "OFF", "warn,driftq_engine=debug", "driftq_server::http=trace"] {
        run(&["config", "check", "--log-level", level]).ok();
    }
}

#[test]
fn a_misspelt_variable_is_noticed() {
    let ran = run_with(&[("DRIFTQ_INFLIGHT_MAX", "6")], &["config", "check"]).ok();
    assert!(ran.stderr.contains("DRIFTQ_INFLIGHT_MAX is set but nothing reads it"), "{}", ran.stderr);
}

#[test]
fn every_command_explains_itself() {
    for command in [
        &["serve"][..],
        &["topic", "create"],
        &["topic", "describe"],
        &["produce"],
        &["consume"],
        &["ack"],
        &["nack"],
        &["group", "list"],
        &["group", "describe"],
        &["wal", "inspect"],
        &["wal", "repair"],
        &["bench"],
        &["config", "check"],
        &["completions"],
    ] {
        let ran = run(&[command, &["--help"]].concat()).ok();
        assert!(ran.stdout.contains("Examples:"), "{command:?} has no example");
    }
    let help = run(&["--help"]).ok().stdout;
    assert!(help.contains("Exit codes:") && help.contains("A first tour"), "{help}");
}

#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]).ok().stdout;
        assert!(script.contains("consume") && script.contains("lease-ms"), "{shell}");
    }
}
