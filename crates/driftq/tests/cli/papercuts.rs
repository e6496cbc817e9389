//! What the command line must say instead of doing something else in silence.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::command::run_with;
use crate::desk::{says, server, server_with};
use crate::support::{Server, driftq};
use serde_json::json;

/// After this a command hangs.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_duration_without_a_unit_is_refused() {
    // Nobody listens there, so that whoever asks ends with 3.
    let here = [("DRIFTQ_SERVER", "http://127.0.0.1:1")];
    for arguments in [
        &["produce", "t", "x", "--delay", "5"][..],
        &["produce", "t", "x", "--patience", "5"],
        &["work", "t", "-g", "g", "--exec", "true", "--lease", "5"],
        &["work", "t", "-g", "g", "--exec", "true", "--timeout", "5"],
        &["work", "t", "-g", "g", "--exec", "true", "--drain-timeout", "5"],
        &["consume", "t", "-g", "g", "--timeout", "5"],
        &["lease", "take", "t", "g", "--wait", "5"],
        &["lease", "take", "t", "g", "--lease", "5"],
        &["lease", "extend", "token", "--lease", "5"],
        &["lease", "nack", "token", "--delay", "5"],
        &["lease", "release", "token", "--delay", "5"],
        &["topic", "create", "t", "--retention", "5"],
        &["topic", "create", "t", "--keep", "5"],
        &["topic", "create", "t", "--lease", "5"],
        &["topic", "create", "t", "--retry-backoff", "5"],
        &["topic", "create", "t", "--retry-max-backoff", "5"],
        &["topic", "set", "t", "lease=5"],
        &["topic", "set", "t", "retry_backoff=5"],
        &["effect", "begin", "s", "k", "--wait", "5"],
        &["effect", "begin", "s", "k", "--ttl", "5"],
        &["effect", "run", "--key", "k", "--wait", "5", "--", "true"],
        &["effect", "run", "--key", "k", "--lease", "5", "--", "true"],
        &["effect", "renew", "token", "--lease", "5"],
    ] {
        let refused = run_with(&here, arguments).code(2);
        assert!(
            refused.stderr.contains("5s") && refused.stderr.contains("5ms"),
            "{arguments:?}: {}",
            refused.stderr
        );
    }
    // The name says what a bare number is.
    says(run_with(&here, &["topic", "set", "t", "lease_ms=5"]), 3, "127.0.0.1:1");
    says(run_with(&here, &["lease", "take", "t", "g", "--wait", "0"]), 3, "127.0.0.1:1");
}

#[test]
fn a_user_in_the_url_is_refused() {
    for arguments in [&["topic", "list"][..], &["work", "t", "-g", "g", "--exec", "true"]] {
        let refused = run_with(&[("DRIFTQ_SERVER", "http://me:secret@127.0.0.1:1")], arguments).code(2);
        assert!(refused.stderr.contains("user") && !refused.stderr.contains("secret"), "{}", refused.stderr);
    }
}

#[test]
fn control_characters_are_shown_as_what_they_are() {
    let (_data, server) = server();
    server.run(&["topic", "create", "t"]).ok();
    server.run(&["produce", "t", "a\u{1b}[2J\u{7}b", "--key", "k\u{1b}"]).ok();
    let listed = server.run(&["message", "list", "t"]).ok().stdout;
    assert!(listed.contains(r"a\u001b[2J\u0007b") && listed.contains(r"k\u001b"), "{listed}");
    assert!(!listed.contains('\u{1b}') && !listed.contains('\u{fffd}'), "{listed}");
}

#[test]
fn a_full_topic_names_who_holds_it_back() {
    let (_data, server) = server();
    server.run(&["topic", "create", "t", "--partition-messages-max", "2"]).ok();
    let fill = |text: &str| {
        let refused = server.run(&["produce", "t", "x", "--patience", "0"]);
        assert_ne!(refused.code, 0);
        assert!(refused.stderr.contains(text), "{}", refused.stderr);
    };
    server.run_piped(&["produce", "t"], "a\nb\n").ok();
    fill("no group reads the topic");
    server.run(&["lease", "take", "t", "slow", "--max", "1", "--lease", "1m"]).ok();
    let taken = server.run(&["lease", "take", "t", "quick", "-o", "ndjson"]).ok().lines();
    server.run(&["lease", "ack", taken[0]["lease"]["token"].as_str().unwrap()]).ok();
    fill(r#"group "slow" holds it back: it is 2 message(s) behind"#);
    server.run(&["group", "pause", "t", "slow"]).ok();
    fill("its deliveries are paused");
}

/// How the worker ended; it must, although nothing in its group is done.
fn work(server: &Server, exec: &str) -> (Option<i32>, String) {
    let mut command = driftq();
    command.args(["work", "t", "-g", "g", "--exec", exec, "--until-idle"]).env("DRIFTQ_SERVER", server.url());
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("{exec}: the worker does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_command_that_is_not_there_ends_the_worker() {
    let (_data, server) = server_with(&["--ephemeral"]);
    let prompt = ["--retry-backoff", "1ms", "--retry-max-backoff", "1ms"];
    server.run(&[&["topic", "create", "t"][..], &prompt].concat()).ok();
    server.run(&["produce", "t", "x"]).ok();
    // Before anything is borrowed, where that can be known; with the first message else.
    for (exec, word) in
        [("no-such-program-here --flag", "no-such-program-here"), ("A=1 no-such-program-here", "not found")]
    {
        let (code, said) = work(&server, exec);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("cannot be run") && said.contains(word), "{said}");
    }
    let group = server.run(&["group", "describe", "t", "g", "-o", "json"]).ok().json();
    assert_eq!((&group["lag"], &group["in_flight"]), (&json!(1), &json!(0)), "it is given back");
    // It lost no attempt; and what ran once is not ended by one that it does not find later.
    let (code, said) = work(&server, "test \"$DRIFTQ_ATTEMPT\" = 1 || exit 65");
    assert_eq!(code, Some(0), "{said}");
    server.run_piped(&["produce", "t"], "x\ny\n").ok();
    let (code, said) =
        work(&server, "read v; test $v = x || test $DRIFTQ_ATTEMPT = 2 || no-such-program-here");
    assert_eq!(code, Some(0), "{said}");
}
