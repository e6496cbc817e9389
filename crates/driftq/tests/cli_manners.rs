//! What people and terminals see: names that were meant, colour, signs of life, man pages.
#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that is not as it should be")]

#[path = "support/command.rs"]
mod command;
mod support;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use command::{Ran, run, run_with};
use support::{COLOUR_VARIABLES, Server};

fn server() -> (tempfile::TempDir, Server) {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(&data.path().join("data"), &["--ephemeral"]);
    (data, server)
}

#[track_caller]
fn says(ran: Ran, code: i32, text: &str) {
    let ran = ran.code(code);
    assert!(ran.stderr.contains(text), "{}", ran.stderr);
}

#[test]
fn names_that_were_meant_are_named() {
    let (_data, server) = server();
    server.run(&["topic", "create", "orders"]).ok();
    server.run(&["topic", "create", "invoices"]).ok();
    server.run(&["produce", "orders", "x"]).ok();
    let taken = server.run(&["lease", "take", "orders", "billing", "-o", "ndjson"]).ok();
    let topic = "did you mean `orders`?";
    for arguments in [
        &["topic", "describe", "order"][..],
        &["produce", "ordres", "x"],
        &["consume", "order", "--group", "g", "--max", "1"],
        &["lease", "take", "order", "g"],
        &["group", "list", "order"],
        &["group", "describe", "order", "billing"],
        &["message", "list", "order"],
        &["dlq", "list", "order"],
        &["commit", "--produce", "order=x"],
        &["router", "test", "order"],
    ] {
        says(server.run(arguments), 4, topic);
    }
    let group = "did you mean `billing`? All names: `driftq group list orders`";
    for arguments in [
        &["group", "describe", "orders", "biling"][..],
        &["group", "pause", "orders", "billin"],
        &["group", "seek", "orders", "bililng", "latest"],
        &["group", "delete", "orders", "biling", "--yes"],
    ] {
        says(server.run(arguments), 4, group);
    }
    says(server.run(&["group", "describe", "orders", "mail"]), 4, "driftq group list");
    says(server.run(&["topic", "set", "orders", "retenton=7d"]), 2, "did you mean `retention`?");
    // Only one of the two topics has dead letters.
    server.run_piped(&["lease", "nack", "-", "--dead"], &taken.stdout).ok();
    server.run(&["topic", "create", "order2"]).ok();
    says(server.run(&["dlq", "redrive", "order2", "--all"]), 4, "has no dead letters");
    let deadline = Instant::now() + Duration::from_secs(20);
    while server.run(&["dlq", "list", "-o", "ndjson"]).ok().stdout.is_empty() {
        assert!(Instant::now() < deadline, "waited too long");
        std::thread::sleep(Duration::from_millis(10));
    }
    says(server.run(&["dlq", "redrive", "order2", "--all"]), 4, topic);
    says(server.run(&["dlq", "redrive", "dlq.orders", "--all"]), 4, topic);
    says(server.run(&["dlq", "list", "dlq.orders"]), 0, "`driftq dlq list orders`");
    let target = server.run(&["dlq", "redrive", "orders", "--all", "--target", "invoises"]);
    says(target, 4, "did you mean `invoices`?");
    says(run(&["topc", "list"]), 2, "topic");
    says(run(&["topic", "lst"]), 2, "list");
    says(run(&["topic", "create", "x", "--partitons", "3"]), 2, "--partitions");
    says(run(&["man", "topic", "craete"]), 2, "did you mean `driftq topic create`?");
}

#[test]
fn datasets_and_versions_that_were_meant_are_named() {
    let (_data, server) = server();
    server.run(&["topic", "create", "orders"]).ok();
    server.run(&["produce", "orders", "x"]).ok();
    let token =
        server.run(&["lease", "take", "orders", "g", "-o", "ndjson"]).ok().lines()[0]["lease"]["token"]
            .clone();
    let output = "sales/v2030/p=s3://lake/a@sha256:9f";
    server.run(&["commit", "--ack", token.as_str().unwrap(), "--replace-output", output]).ok();
    for arguments in [
        &["output", "list", "sale"][..],
        &["output", "cutover", "salse", "v2030"],
        &["output", "rollback", "sales2"],
    ] {
        says(server.run(arguments), 4, "did you mean `sales`?");
    }
    for arguments in [
        &["output", "list", "sales", "v2031"][..],
        &["output", "cutover", "sales", "v203"],
        &["output", "delete", "sales", "v2003", "--yes"],
    ] {
        says(server.run(arguments), 4, "did you mean version `v2030`?");
    }
}

#[test]
fn a_token_that_begins_with_a_hyphen_is_a_token() {
    let (_data, server) = server();
    for word in ["ack", "nack", "extend", "release"] {
        let ran = server.run(&["lease", word, "-AbC_dEf-0123456789-AbC_dEf-0123456789"]);
        assert!(ran.code == 4 || ran.code == 5, "{word}: {} {}", ran.code, ran.stderr);
        assert!(!ran.stderr.contains("unexpected argument"), "{}", ran.stderr);
    }
}

/// Runs a command with a terminal for stdout and stderr; none if this machine cannot.
fn on_a_terminal(variables: &[(&str, &str)], line: &str) -> Option<String> {
    let binary = env!("CARGO_BIN_EXE_driftq");
    let mut command = Command::new("script");
    command.args(["-qec", &format!("{binary} {line}"), "/dev/null"]).stdin(std::process::Stdio::null());
    for name in COLOUR_VARIABLES.iter().chain(&["DRIFTQ_CONTEXT"]) {
        command.env_remove(name);
    }
    command.env("TERM", "xterm-256color").env("DRIFTQ_CONTEXTS", "/nonexistent");
    let output = command.envs(variables.iter().copied()).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn colour_is_for_terminals() {
    let (_data, server) = server();
    let url = server.url();
    server.run(&["topic", "create", "orders"]).ok();
    server.run(&["lease", "take", "orders", "billing"]).ok();
    let here = ("DRIFTQ_SERVER", &*url);
    const ESCAPE: char = '\u{1b}';
    // Pipes: none, unless it is asked for; JSON: never.
    for arguments in [&["group", "list"][..], &["report"], &["topic", "describe", "nothing"], &["--help"]] {
        let ran = run_with(&[here], arguments);
        assert!(!ran.stdout.contains(ESCAPE) && !ran.stderr.contains(ESCAPE), "{arguments:?}");
        let ran = run_with(&[here, ("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], arguments);
        assert!(!ran.stdout.contains(ESCAPE) && !ran.stderr.contains(ESCAPE), "{arguments:?}");
        let ran = run_with(&[here, ("CLICOLOR_FORCE", "1")], arguments);
        assert!(ran.stdout.contains(ESCAPE) || ran.stderr.contains(ESCAPE), "{arguments:?}: {}", ran.stdout);
    }
    let json = run_with(&[here, ("CLICOLOR_FORCE", "1")], &["report", "-o", "json"]);
    assert!(!json.stdout.contains(ESCAPE));

    let Some(coloured) = on_a_terminal(&[here], "group list") else {
        eprintln!("skipped: there is no `script` to make a terminal with");
        return;
    };
    assert!(coloured.contains("\u{1b}[1mTOPIC"), "{coloured:?}");
    for variables in [&[here, ("NO_COLOR", "1")][..], &[here, ("TERM", "dumb")]] {
        let plain = on_a_terminal(variables, "group list").unwrap();
        assert!(plain.contains("TOPIC") && !plain.contains(ESCAPE), "{plain:?}");
    }
    let json = on_a_terminal(&[here], "group list -o json").unwrap();
    assert!(json.starts_with('[') && !json.contains(ESCAPE), "{json:?}");
    let error = on_a_terminal(&[here], "topic describe nothing").unwrap();
    assert!(error.contains("\u{1b}[1m\u{1b}[31merror:"), "{error:?}");
}

#[test]
fn every_command_has_a_man_page_that_renders() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    let written = run(&["man", "--dir", pages.to_str().unwrap(), "-o", "json"]).ok().json();
    let names: Vec<_> =
        written["pages"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let commands = run(&["reference", "cli", "-o", "json"]).ok().json();
    let commands = commands.as_array().unwrap();
    assert_eq!(names.len(), commands.len());
    assert!(names.len() > 60, "{}", names.len());
    for command in commands {
        let name = format!("{}.1", command["name"].as_str().unwrap().replace(' ', "-"));
        assert!(names.contains(&&*name), "{name}");
        let text = std::fs::read_to_string(pages.join(&name)).unwrap();
        assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{name}");
    }
    let one = run(&["man", "topic", "create"]).ok().stdout;
    assert!(one.contains("driftq\\-topic\\-create") || one.contains("driftq-topic-create"), "{one}");
    renders(&pages);
}

fn renders(pages: &Path) {
    let files: Vec<_> = std::fs::read_dir(pages).unwrap().map(|entry| entry.unwrap().path()).collect();
    let Ok(output) = Command::new("groff").args(["-man", "-Tutf8", "-ww"]).args(&files).output() else {
        eprintln!("skipped: there is no groff to render with");
        return;
    };
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && complaints.is_empty(), "{complaints}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("driftq topic create orders"));
}
