//! Messages there and back with the command line alone, on the real binary.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::command::{Ran, run, run_with};
use crate::support::{Server, driftq};
use serde_json::json;

fn server() -> (tempfile::TempDir, Server) {
    server_with(&[])
}

fn server_with(flags: &[&str]) -> (tempfile::TempDir, Server) {
    let data = tempfile::tempdir().unwrap();
    let mut all = vec!["--segment-bytes=1MiB"];
    all.extend(flags);
    let server = Server::start(&data.path().join("data"), &all);
    (data, server)
}

#[test]
fn a_message_travels_from_the_shell_to_the_shell() {
    let (_data, server) = server();
    let created = server.run(&["topic", "create", "orders", "--partitions", "3", "-o", "json"]).ok();
    assert_eq!(created.json(), json!({"status": "created", "name": "orders", "partitions": 3}));
    // Again, with another count: nothing changes, and the real count is told.
    let again = server.run(&["topic", "create", "orders", "-p", "5"]).code(5);
    assert!(again.stderr.contains("partitions 3, not 5"), "{}", again.stderr);
    assert_eq!(server.run(&["topic", "list"]).ok().stdout, "orders\n");

    server.run(&["produce", "orders", "charge 5", "--key", "user:1", "--run-id", "r1"]).ok();
    let received = server.run(&["consume", "orders", "--group", "billing", "--max", "1"]).ok();
    let items = received.lines();
    assert_eq!(items[0]["value"], "charge 5");
    assert_eq!(items[0]["key"], "user:1");
    assert_eq!(items[0]["envelope"]["run_id"], "r1");
    let (partition, offset) = (items[0]["partition"].to_string(), items[0]["offset"].to_string());

    let described = server.run(&["group", "describe", "orders", "billing", "-o", "json"]).ok().json();
    assert_eq!((&described["lag"], &described["in_flight"]), (&json!(1), &json!(1)));
    let acked = server.run(&["ack", "orders", &partition, &offset, "--group", "billing"]).ok();
    assert_eq!(acked.stdout, "");
    // The same ack again is no error: the work is done.
    let again = ["ack", "orders", &partition, &offset, "--group", "billing", "-o", "json"];
    assert_eq!(server.run(&again).ok().json()["group"], "billing");
    let described = server.run(&["group", "describe", "orders", "billing", "-o", "json"]).ok().json();
    assert_eq!((&described["lag"], &described["in_flight"]), (&json!(0), &json!(0)));
    let topic = server.run(&["topic", "describe", "orders"]).ok().stdout;
    assert!(topic.contains("groups        billing"), "{topic}");
    let groups = server.run(&["group", "list", "-o", "ndjson"]).ok().lines();
    assert_eq!((&groups[0]["topic"], &groups[0]["name"]), (&json!("orders"), &json!("billing")));
}

#[test]
fn lines_of_stdin_are_messages_and_keys_make_them_safe_to_repeat() {
    let (_data, server) = server_with(&["--in-flight-max", "100"]);
    server.run(&["topic", "create", "t"]).ok();
    let import =
        |input| server.run_piped(&["produce", "t", "--idempotency-key", "import", "-o", "json"], input);
    let summary = import("one\n\ntwo\nthree").ok().json();
    assert_eq!((&summary["produced"], &summary["empty_lines_skipped"]), (&json!(3), &json!(1)));
    import("one\n\ntwo\nthree\n").ok();
    let values = consume_all(&server, "t", "g");
    assert_eq!(values, ["one", "two", "three"], "in order, and stored once");

    let keyed = "user:1\tcharge\nuser:2\trefund\n";
    server.run_piped(&["produce", "t", "--key-separator", "\\t", "--concurrency", "4"], keyed).ok();
    let items = server.run(&["consume", "t", "-g", "g", "--ack", "--timeout", "300ms"]).ok().lines();
    let mut keys: Vec<&str> = items.iter().map(|item| item["key"].as_str().unwrap()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["user:1", "user:2"]);
    let bad = server.run_piped(&["produce", "t", "--key-separator", "="], "a=1\nnone\n").code(4);
    assert!(bad.stderr.contains("line 2"), "{}", bad.stderr);
}

fn consume_all(server: &Server, topic: &str, group: &str) -> Vec<String> {
    let ran = server.run(&["consume", topic, "--group", group, "--ack", "--timeout", "300ms"]).ok();
    ran.lines().iter().map(|item| item["value"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn streams_are_printed_in_every_shape() {
    let (_data, server) = server();
    server.run(&["topic", "create", "t"]).ok();
    server.run(&["produce", "t", "a\u{1b}b"]).ok();
    let consume = |group: &str, format: &str| {
        server.run(&["consume", "t", "-g", group, "--timeout", "200ms", "--max", "1", "-o", format]).ok()
    };
    assert_eq!(consume("g1", "json").json()[0]["offset"], 0);
    assert_eq!(consume("g2", "ndjson").lines().len(), 1);
    let table = consume("g3", "table").stdout;
    assert!(table.starts_with("PARTITION"), "{table}");
    assert!(!table.contains('\u{1b}'), "a message must not drive the terminal: {table}");
    let none = server.run(&["consume", "t", "-g", "g1", "--timeout", "100ms", "-o", "json"]).ok();
    assert_eq!(none.json(), json!([]), "it is on loan already");
}

#[test]
fn the_exit_code_of_a_command_decides() {
    let (_data, server) = server_with(&["--in-flight-max", "100"]);
    server.run(&["topic", "create", "t"]).ok();
    for code in ["0", "75", "65", "3"] {
        server
            .run(&[
                "produce",
                "t",
                code,
                "--key",
                "k",
                "--run-id",
                "r",
                "--max-attempts",
                "9",
                "--backoff-ms",
                "60000",
            ])
            .ok();
    }
    // What it gets: the value on stdin, the rest in variables.
    let script = r#"read code; echo "$DRIFTQ_TOPIC $DRIFTQ_GROUP $DRIFTQ_MESSAGE_KEY $DRIFTQ_ATTEMPT $DRIFTQ_RUN_ID $code"; echo "said $code" >&2; exit $code"#;
    let arguments = ["consume", "t", "-g", "g", "--exec", script, "--concurrency", "2", "--max", "4"];
    let ran = server.run(&arguments).ok();
    let mut lines: Vec<&str> = ran.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["t g k 1 r 0", "t g k 1 r 3", "t g k 1 r 65", "t g k 1 r 75"]);
    assert!(ran.stderr.contains("4 received, 1 acked, 3 nacked"), "{}", ran.stderr);
    let group = server.run(&["group", "describe", "t", "g", "-o", "json"]).ok().json();
    assert_eq!((&group["lag"], &group["retrying"]), (&json!(3), &json!(3)));
}

#[test]
fn reasons_reach_the_next_reader_and_the_dead_letter() {
    let (_data, server) = server();
    server.run(&["topic", "create", "t"]).ok();
    server.run(&["produce", "t", "poison", "--max-attempts", "2", "--backoff-ms", "1"]).ok();
    let fail = "echo broken >&2; exit 65";
    server.run(&["consume", "t", "-g", "g", "--exec", fail, "--max", "2", "--timeout", "5s"]).ok();
    let letters =
        server.run(&["consume", "dlq.t", "-g", "look", "--max", "1", "--timeout", "5s"]).ok().lines();
    let letter = &letters[0]["envelope"]["dlq"];
    assert_eq!(letter["last_error"], "dead letter requested (exit 65): broken");
    assert_eq!(letter["attempts"], 2);

    server.run(&["produce", "t", "again"]).ok();
    let item = &server.run(&["consume", "t", "-g", "g", "--max", "1", "--timeout", "5s"]).ok().lines()[0];
    let offset = item["offset"].to_string();
    server.run(&["nack", "t", "0", &offset, "-g", "g", "--reason", "not today"]).ok();
    let item = &server.run(&["consume", "t", "-g", "g", "--max", "1", "--timeout", "5s"]).ok().lines()[0];
    assert_eq!((&item["last_error"], &item["attempts"]), (&json!("not today"), &json!(2)));
}

#[test]
fn failures_have_their_codes_and_say_what_to_do() {
    let says = |ran: Ran, code: i32, text: &str| {
        let ran = ran.code(code);
        assert!(ran.stderr.contains(text), "{}", ran.stderr);
    };
    says(run(&["produce", "t", "v", "--no-such-flag"]), 2, "--no-such-flag");
    says(run(&["topic", "list", "--server", "nonsense"]), 2, "http://");
    // A port that was just free: nobody listens there.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}");
    says(run_with(&[("DRIFTQ_SERVER", &url)], &["topic", "list"]), 3, "driftq serve");
    says(run_with(&[("DRIFTQ_SERVER", &url)], &["consume", "t", "-g", "g"]), 3, "driftq serve");
    says(
        run_with(&[("DRIFTQ_SERVER", &url)], &["produce", "t", "v", "--patience", "200ms"]),
        3,
        "driftq serve",
    );

    let (_data, server) = server_with(&["--profile", "v1-dev"]);
    says(server.run(&["produce", "missing", "v"]), 4, "driftq topic create");
    says(server.run(&["topic", "describe", "missing"]), 4, "driftq topic");
    server.run(&["topic", "create", "t"]).ok();
    says(server.run(&["group", "describe", "t", "missing"]), 4, "driftq group list");
    says(server.run(&["produce", "t", "v", "--deadline", "2001-01-01T00:00:00Z"]), 4, "deadline");
    server.run(&["produce", "t", "v"]).ok();
    says(server.run(&["ack", "t", "0", "0", "-g", "g"]), 5, "consume it first");
    server.run(&["consume", "t", "-g", "g", "--max", "1", "--owner", "somebody"]).ok();
    says(server.run(&["ack", "t", "0", "0", "-g", "g", "--owner", "else"]), 5, "--owner");
    says(server.run(&["nack", "t", "0", "0", "-g", "g", "--owner", "else"]), 5, "--owner");
    server.run(&["produce", "t", "v"]).ok();
    says(server.run(&["produce", "t", "v", "--patience", "100ms"]), 6, "overload");
    let partial = server.run_piped(&["produce", "t", "--patience", "100ms"], "a\nb\n").code(6);
    assert!(partial.stderr.contains("0 message(s) were produced before the failure"), "{}", partial.stderr);
}

#[test]
fn consume_goes_on_after_a_restart_of_the_server() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("data");
    let server = Server::start(&path, &["--segment-bytes=1MiB"]);
    let listen = server.address.to_string();
    server.run(&["topic", "create", "t"]).ok();
    server.run(&["produce", "t", "before"]).ok();
    let url = server.url();
    let consumer = std::thread::spawn(move || {
        let arguments = ["consume", "t", "-g", "g", "--ack", "--max", "2", "--timeout", "20s"];
        run_with(&[("DRIFTQ_SERVER", &url)], &arguments)
    });
    wait_for(|| server.run(&["group", "list", "t", "-o", "json"]).ok().json()[0]["lag"] == 0);
    server.kill();
    let server = Server::start(&path, &["--segment-bytes=1MiB", &format!("--listen={listen}")]);
    server.run(&["produce", "t", "after"]).ok();
    let ran = consumer.join().unwrap().ok();
    let values: Vec<_> = ran.lines().iter().map(|item| item["value"].clone()).collect();
    assert_eq!(values, [json!("before"), json!("after")]);
}

#[test]
fn a_reader_that_ends_keeps_nobody_waiting() {
    let (_data, server) = server();
    server.run(&["topic", "create", "t"]).ok();
    server.run_piped(&["produce", "t"], "1\n2\n3\n4\n5\n6\n7\n8\n9\n").ok();
    // The server sends two messages ahead of the acks. The lease is longer than the test may take.
    let mut values = Vec::new();
    for _ in 0..3 {
        let arguments =
            ["consume", "t", "-g", "g", "--ack", "--max", "3", "--lease-ms", "10m", "--timeout", "10s"];
        let items = server.run(&arguments).ok().lines();
        assert_eq!(items.len(), 3);
        values.extend(items.iter().map(|item| item["value"].as_str().unwrap().to_owned()));
    }
    values.sort_unstable();
    assert_eq!(values, ["1", "2", "3", "4", "5", "6", "7", "8", "9"]);
}

/// What a reader did not show has lost nothing: no attempt, and no place.
#[test]
fn no_more_is_borrowed_than_is_shown() {
    let (_data, server) = server_with(&["--in-flight-max", "100"]);
    let in_flight =
        || server.run(&["group", "describe", "t", "g", "-o", "json"]).ok().json()["in_flight"].clone();
    server.run(&["topic", "create", "t", "--retry-max-attempts", "1"]).ok();
    server.run_piped(&["produce", "t"], "1\n2\n3\n4\n5\n").ok();
    for expected in ["1", "2"] {
        let items =
            server.run(&["consume", "t", "-g", "g", "--ack", "--max", "1", "--timeout", "10s"]).ok().lines();
        assert_eq!((&items[0]["value"], &items[0]["attempts"]), (&json!(expected), &json!(1)));
        assert_eq!(in_flight(), 0);
    }
    let exec = ["consume", "t", "-g", "g", "--exec", "cat", "--concurrency=8", "--max=1", "--timeout=10s"];
    assert_eq!(server.run(&exec).ok().stdout, "3");
    // A reader that is told to end lets its command end, and has nothing else.
    let (mut child, _) = start_exec(&server, "echo begun; sleep 1");
    assert_eq!(in_flight(), 1, "one command, one message");
    ctrl_c(&child);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(in_flight(), 0);
    let items =
        server.run(&["consume", "t", "-g", "g", "--ack", "--max", "1", "--timeout", "10s"]).ok().lines();
    assert_eq!((&items[0]["value"], &items[0]["attempts"]), (&json!("5"), &json!(1)));
    assert!(server.run(&["dlq", "list", "-o", "ndjson"]).ok().stdout.is_empty(), "nobody gave anything up");
}

#[test]
fn a_reader_that_waits_ends_at_once_and_leaves_nothing() {
    let (_data, server) = server();
    server.run(&["topic", "create", "t"]).ok();
    let mut reader = driftq();
    reader.args(["consume", "t", "-g", "g", "--lease-ms", "10m"]).env("DRIFTQ_SERVER", server.url());
    let child = reader.process_group(0).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(|| !server.run(&["group", "list", "t", "-o", "ndjson"]).ok().stdout.is_empty());
    ctrl_c(&child);
    let ended = Ran::from(child.wait_with_output().unwrap()).ok();
    assert_eq!(ended.stderr, "0 received, 0 acked\n");
    server.run(&["produce", "t", "v"]).ok();
    let items = server.run(&["lease", "take", "t", "g", "--wait", "10s"]).ok().lines();
    assert_eq!(items[0]["lease"]["attempt"], 1, "nobody has it, and nobody had it");
}

/// Whoever only looks has a bounded number of messages on loan, and goes on when they are acked elsewhere.
#[test]
fn a_reader_that_settles_nothing_takes_no_more_than_it_may() {
    let (_data, server) = server();
    server.run(&["topic", "create", "t"]).ok();
    let lines: String = (0..150).map(|number| format!("{number}\n")).collect();
    server.run_piped(&["produce", "t"], &lines).ok();
    let ran = server.run(&["consume", "t", "-g", "g", "--timeout", "1s"]).ok();
    assert_eq!(ran.lines().len(), 100);
    let mut looker = driftq();
    looker
        .args(["consume", "t", "-g", "look", "-o", "ndjson", "--timeout", "20s"])
        .env("DRIFTQ_SERVER", server.url());
    let mut child = looker.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut printed = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..100 {
        printed.next().unwrap().unwrap();
    }
    server.run(&["ack", "t", "0", "0", "-g", "look"]).ok();
    assert!(printed.next().unwrap().unwrap().contains(r#""offset":100"#));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// `consume --exec` in a process group of its own, as a shell starts it, and what it printed first: the command runs.
fn start_exec(server: &Server, command: &str) -> (Child, String) {
    let mut consume = driftq();
    consume.args(["consume", "t", "-g", "g", "--exec", command]).env("DRIFTQ_SERVER", server.url());
    let mut child = consume.process_group(0).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim().to_owned())
}

/// Ctrl-C in a terminal: everything in the foreground gets it.
fn ctrl_c(child: &Child) {
    let group = format!("-{}", child.id());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
}

#[test]
fn ctrl_c_lets_commands_end_and_a_second_one_does_not() {
    let (_data, server) = server();
    server.run(&["topic", "create", "t"]).ok();
    server.run(&["produce", "t", "v"]).ok();
    let lag = || server.run(&["group", "describe", "t", "g", "-o", "json"]).ok().json()["lag"].clone();
    let (mut child, _) = start_exec(&server, "echo begun; sleep 1");
    ctrl_c(&child);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(lag(), 0, "the command ended by itself and its message is acked");

    server.run(&["produce", "t", "v"]).ok();
    let (mut child, command) = start_exec(&server, "sleep 600 & echo $!; wait");
    ctrl_c(&child);
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(child.try_wait().unwrap().is_none(), "the command still runs");
    ctrl_c(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(lag(), 1);
    let stat = format!("/proc/{command}/stat");
    // Gone, or dead and waiting for somebody to collect it.
    wait_for(|| std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z ")));
}

fn wait_for(mut condition: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !condition() {
        assert!(std::time::Instant::now() < deadline, "waited too long");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
