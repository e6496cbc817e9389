//! What people and terminals see: names that were meant, colour, signs of life, man pages.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::command::{Ran, run, run_with};
use crate::desk::{says, server};
use crate::stranger::stranger;
use crate::support::COLOUR_VARIABLES;
use serde_json::Value;

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
    for variables in
        [&[here, ("NO_COLOR", "1")][..], &[here, ("TERM", "dumb")], &[here, ("TERM", "dumb"), ("CI", "1")]]
    {
        let plain = on_a_terminal(variables, "group list").unwrap();
        assert!(plain.contains("TOPIC") && !plain.contains(ESCAPE), "{plain:?}");
        // What clap prints, too.
        for line in ["--help", "topic lst"] {
            let plain = on_a_terminal(variables, line).unwrap();
            assert!(plain.contains("Usage:") && !plain.contains(ESCAPE), "{line}: {plain:?}");
        }
    }
    let json = on_a_terminal(&[here], "group list -o json").unwrap();
    assert!(json.starts_with('[') && !json.contains(ESCAPE), "{json:?}");
    let error = on_a_terminal(&[here], "topic describe nothing").unwrap();
    assert!(error.contains("\u{1b}[1m\u{1b}[31merror:"), "{error:?}");
}

#[test]
fn a_stranger_is_told_from_a_server() {
    const PAGE: &str = "<!DOCTYPE html>\n<html><body>no such page</body></html>\n";
    let text = "is no DriftQ server";
    for status in ["404 Not Found", "501 Unsupported", "200 OK"] {
        let url = format!("http://{}", stranger(status, "text/html; charset=utf-8", PAGE));
        let here = [("DRIFTQ_SERVER", &*url)];
        for arguments in [
            &["topic", "list"][..],
            &["report"],
            &["produce", "t", "x"],
            &["effect", "run", "--key", "k", "--", "true"],
            &["consume", "t", "-g", "g"],
            &["ack", "t", "0", "0", "-g", "g"],
            &["work", "t", "-g", "g", "--exec", "true"],
            &["ledger", "stats"],
        ] {
            let ran = run_with(&here, arguments);
            let said = ran.stderr.clone();
            says(ran, 1, text);
            assert!(!said.contains('<') && said.contains("driftq context show"), "{arguments:?}: {said}");
        }
        let checked = run_with(&here, &["check"]).code(3);
        assert_eq!(checked.stdout.lines().count(), 1, "{}", checked.stdout);
        assert!(
            checked.stdout.starts_with("DRIFTQ UNKNOWN - ") && checked.stdout.contains(text),
            "{}",
            checked.stdout
        );
    }
    // A proxy in front of a server that is away is another matter.
    let url = format!("http://{}", stranger("502 Bad Gateway", "text/html", PAGE));
    says(run_with(&[("DRIFTQ_SERVER", &url)], &["topic", "list"]), 3, "HTTP 502");
    assert!(run_with(&[("DRIFTQ_SERVER", &url)], &["check"]).code(2).stdout.starts_with("DRIFTQ CRITICAL"));
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_asked() {
    // Nobody listens there, so that whoever asks ends with 3.
    let here = [("DRIFTQ_SERVER", "http://127.0.0.1:1")];
    for (arguments, text) in [
        (&["work", "t", "-g", "g", "--exec", ""][..], "there is no command in it"),
        (&["work", "t", "-g", "g", "--exec", " "], "there is no command in it"),
        (&["consume", "t", "-g", "g", "--exec", ""], "there is no command in it"),
        (&["effect", "run", "--key", "k", "--reconcile", "", "--", "true"], "there is no command in it"),
        (&["work", "t", "-g", "", "--exec", "true"], "must not be empty"),
        (&["work", "", "-g", "g", "--exec", "true"], "must not be empty"),
        (&["topic", "create", ""], "must not be empty"),
        (&["topic", "describe", ""], "must not be empty"),
        (&["produce", "", "x"], "must not be empty"),
        (&["lease", "take", "t", ""], "must not be empty"),
        (&["ack", "t", "0", "0", "-g", ""], "must not be empty"),
        (&["group", "list", ""], "must not be empty"),
        (&["effect", "begin", "", "k"], "must not be empty"),
        (&["work", "t", "-g", "g", "--exec", "true", "--lease", "0s"], "no time at all"),
        (&["work", "t", "-g", "g", "--exec", "true", "--timeout", "0s"], "no time at all"),
        (&["consume", "t", "-g", "g", "--lease-ms", "0"], "no time at all"),
        (&["lease", "take", "t", "g", "--lease", "0"], "no time at all"),
        (&["effect", "run", "--key", "k", "--lease", "0s", "--", "true"], "no time at all"),
        (&["effect", "begin", "s", "k", "--lease", "0s"], "no time at all"),
        (&["topic", "create", "t", "--lease", "0s"], "no time at all"),
    ] {
        says(run_with(&here, arguments), 2, text);
    }
    let checked = run_with(&here, &["check", "--timeout", "0s"]).code(3);
    assert!(checked.stdout.contains("no time at all"), "{}", checked.stdout);
}

#[test]
fn options_that_would_not_be_heard_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data").display().to_string();
    for line in [
        &["demo", "--server", "http://127.0.0.1:1"][..],
        &["--context", "staging", "demo"],
        &["dev", "--server", "http://127.0.0.1:1", "--data", &data],
        &["dev", "-o", "json", "--data", &data],
        &["serve", "-o", "json", "--data", &data],
        &["serve", "--server", "http://127.0.0.1:1", "--data", &data],
        &["bench", "--server", "http://127.0.0.1:1"],
        &["wal", "inspect", "--data", &data, "--context", "a"],
        &["config", "check", "--server", "http://127.0.0.1:1"],
        &["completions", "bash", "-o", "json"],
        &["completions", "bash", "--server", "http://127.0.0.1:1"],
        &["context", "list", "--server", "http://127.0.0.1:1"],
        &["context", "use", "a", "--context", "b"],
        &["context", "show", "a", "--server", "http://127.0.0.1:1"],
        &["effect", "run", "-o", "json", "--key", "k", "--", "true"],
        &["consume", "t", "-g", "g", "--exec", "true", "-o", "json"],
        &["ledger", "stats", "--store", "http://127.0.0.1:1", "--server", "http://127.0.0.1:1"],
    ] {
        says(run(line), 2, "means nothing to `driftq ");
    }
    assert!(!place.path().join("data").exists(), "nothing was started");
    // What is set for other commands is in nobody's way.
    run_with(&[("DRIFTQ_SERVER", "http://127.0.0.1:1")], &["completions", "bash"]).ok();
    let help = run(&["demo", "--help"]).ok().stdout;
    assert!(!help.contains("--server") && help.contains("--output"), "{help}");
}

#[test]
fn programs_get_errors_as_json() {
    let (_data, server) = server();
    server.run(&["topic", "create", "orders"]).ok();
    let error = |ran: Ran| -> Value {
        assert!(ran.stdout.is_empty(), "{}", ran.stdout);
        let line = ran.stderr.lines().last().unwrap_or_default();
        let error: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{}", ran.stderr));
        assert_eq!(error["exit_code"], ran.code);
        error
    };
    let refused = error(server.run(&["topic", "describe", "ordres", "-o", "json"]).code(4));
    assert_eq!((&refused["code"], &refused["status"]), (&"TOPIC_UNKNOWN".into(), &404.into()));
    assert!(refused["message"].as_str().unwrap().contains("topic `ordres` does not exist"), "{refused}");
    assert!(refused["help"].as_str().unwrap().contains("did you mean `orders`?"), "{refused}");
    assert!(!refused["request_id"].as_str().unwrap().is_empty(), "{refused}");
    for arguments in [
        &["produce", "ordres", "x", "-o", "json"][..],
        &["lease", "take", "ordres", "g", "-o", "ndjson"],
        &["work", "ordres", "-g", "g", "--exec", "true", "-o", "ndjson"],
    ] {
        let refused = error(server.run(arguments).code(4));
        assert_eq!(refused["code"], "TOPIC_UNKNOWN", "{refused}");
        assert!(refused["message"].as_str().unwrap().contains("`ordres`"), "{refused}");
    }
    let usage = error(run(&["topc", "list", "-o", "json"]).code(2));
    assert_eq!(usage["code"], "USAGE");
    assert!(usage["help"].as_str().unwrap().contains("topic"), "{usage}");
    let away = error(run(&["topic", "list", "-o", "ndjson", "--server", "http://127.0.0.1:1"]).code(3));
    assert_eq!((&away["code"], &away["status"]), (&"UNREACHABLE".into(), &Value::Null));
    // People get text, and only the error.
    let ran = server.run(&["work", "ordres", "-g", "g", "--exec", "true"]).code(4);
    assert!(ran.stderr.starts_with("error: ") && !ran.stderr.contains("no message came"), "{}", ran.stderr);
    assert!(run(&["--help"]).ok().stdout.contains("request_id"), "help says so");
}

/// Whoever follows the tour in the help arrives.
#[test]
fn the_tour_leads_to_its_end() {
    let (_data, server) = server();
    let help = run(&["-h"]).ok().stdout;
    let tour: Vec<&str> = help
        .lines()
        .skip_while(|line| !line.starts_with("A first tour"))
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .collect();
    assert!(tour.len() > 10, "{help}");
    let binaries = Path::new(env!("CARGO_BIN_EXE_driftq")).parent().unwrap().display();
    let path = format!("{binaries}:{}", std::env::var("PATH").unwrap());
    for line in tour {
        // These two take terminals of their own.
        if ["driftq demo", "driftq dev"].contains(&line.split('#').next().unwrap().trim()) {
            continue;
        }
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).env("PATH", &path).env("DRIFTQ_SERVER", server.url());
        shell.env("DRIFTQ_CONTEXTS", "/nonexistent/contexts.toml").stdin(std::process::Stdio::null());
        let ran = Ran::from(shell.output().unwrap());
        assert_eq!(ran.code, 0, "{line}\n{}\n{}", ran.stdout, ran.stderr);
    }
    let other =
        server.run(&["topic", "create", "parcels", "--partitions", "5", "--ordering", "fifo"]).code(5);
    assert!(other.stderr.contains("the topic exists with partitions 3, not 5"), "{}", other.stderr);
    let other = server.run(&["topic", "create", "parcels", "--partitions", "3", "--lease", "5s"]).code(5);
    assert!(other.stderr.contains("lease_ms 30s, not 5s"), "{}", other.stderr);
}
