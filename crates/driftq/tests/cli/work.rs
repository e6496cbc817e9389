//! `driftq work`: a worker whose handler is a command.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use crate::command::Ran;
use crate::support::{Server, driftq};
use serde_json::{Value, json};

/// Nothing here takes longer.
const PATIENCE: Duration = Duration::from_secs(30);

struct World {
    server: Server,
    directory: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(directory.path(), &["--ephemeral"]);
        let prompt = ["--retry-max-attempts", "5", "--retry-backoff", "1ms", "--retry-max-backoff", "1ms"];
        server.run(&[&["topic", "create", "orders"][..], &prompt].concat()).ok();
        Self { server, directory }
    }

    fn produce(&self, values: &[&str]) {
        self.server.run_piped(&["produce", "orders"], &(values.join("\n") + "\n")).ok();
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, script: &str, flags: &[&str]) -> Command {
        let mut command = driftq();
        command.args(["work", "orders", "-g", "billing", "--exec", script]).args(flags);
        command.current_dir(self.directory.path()).env("DRIFTQ_SERVER", self.server.url());
        command.env("DQ", env!("CARGO_BIN_EXE_driftq")).stdin(Stdio::null());
        command
    }

    fn work(&self, script: &str, flags: &[&str]) -> Ran {
        self.command(script, flags).output().unwrap().into()
    }

    fn start(&self, script: &str, flags: &[&str]) -> Running {
        Running(self.command(script, flags).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn group(&self) -> Value {
        self.server.run(&["group", "describe", "orders", "billing", "-o", "json"]).ok().json()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }
}

/// A worker under way. Dropping it kills it.
struct Running(Child);

impl Running {
    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.0.id().to_string()]).status().unwrap().success());
    }

    fn end(mut self) -> Option<i32> {
        wait_until("the worker does not end", || self.0.try_wait().unwrap().is_some());
        self.0.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for(path: &Path) {
    wait_until(&path.display().to_string(), || path.exists());
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn exit_codes_decide() {
    let world = World::new();
    world.produce(&["ok", "retry", "dead", "snooze", "odd"]);
    let script = r#"
        read value; echo "$value $DRIFTQ_ATTEMPT" >> calls
        case "$value $(grep -c "^$value " calls)" in
            "retry 1") echo limit >&2; exit 75;;
            "dead 1") echo noise >&2; echo no such order >&2; exit 65;;
            "snooze 1") echo 10ms > "$DRIFTQ_DELAY"; exit 79;;
            "odd 1") echo boom >&2; exit 3;;
        esac"#;
    let ran = world.work(script, &["--until-idle", "-o", "ndjson"]).ok();
    let mut lines: Vec<(u64, u64, String, String)> = Vec::new();
    for line in ran.lines() {
        let text = |name: &str| line[name].as_str().unwrap().to_owned();
        lines.push((
            line["offset"].as_u64().unwrap(),
            line["attempt"].as_u64().unwrap(),
            text("verdict"),
            text("reason"),
        ));
    }
    lines.sort();
    let line = |offset, attempt, verdict: &str, reason: &str| {
        (offset, attempt, verdict.to_owned(), reason.to_owned())
    };
    let mut expected = vec![
        line(0, 1, "done", ""),
        line(1, 1, "retry", "limit"),
        line(1, 2, "done", ""),
        line(2, 1, "dead", "no such order"),
        line(3, 1, "done", ""),
        line(3, 1, "snooze", ""),
        line(4, 1, "failed", "exit 3: boom"),
        line(4, 2, "done", ""),
    ];
    expected.sort();
    assert_eq!(lines, expected, "{}", ran.stderr);
    let letters = world.server.run(&["dlq", "list", "orders", "-o", "json"]).ok().json();
    assert_eq!(letters[0]["envelope"]["dead_letter"]["last_error"], "no such order", "{letters:#}");
    assert_eq!(world.group()["lag"], 0);
}

#[test]
fn the_command_knows_its_message() {
    let world = World::new();
    let flags = ["--key", "user:1", "--run-id", "run-7", "--step-id", "charge", "--label", "kind=a b"];
    let more = ["--tenant-id", "acme", "--idempotency-key", "i-1"];
    world.server.run(&[&["produce", "orders", "five"][..], &flags, &more].concat()).ok();
    let script = r#"cat > value; env | grep -E '^(DRIFTQ_|TRACEPARENT)' | sort > variables; echo on stdout"#;
    let ran = world.work(script, &["--once"]).ok();
    assert_eq!(ran.stdout, "on stdout\n");
    assert!(ran.stderr.contains("orders 0/0 done") && ran.stderr.contains("1 done"), "{}", ran.stderr);
    assert_eq!(world.read("value"), "five");
    let variables = world.read("variables");
    for line in [
        "DRIFTQ_ATTEMPT=1",
        "DRIFTQ_GROUP=billing",
        "DRIFTQ_IDEMPOTENCY_KEY=i-1",
        "DRIFTQ_MESSAGE_KEY=user:1",
        "DRIFTQ_LABELS={\"kind\":\"a b\"}",
        "DRIFTQ_OFFSET=0",
        "DRIFTQ_PARTITION=0",
        "DRIFTQ_RUN_ID=run-7",
        "DRIFTQ_STEP_ID=charge",
        "DRIFTQ_TENANT_ID=acme",
        "DRIFTQ_TOPIC=orders",
        &format!("DRIFTQ_SERVER={}", world.server.url()),
    ] {
        assert!(variables.lines().any(|found| found == line), "no {line} in {variables}");
    }
    for begin in ["DRIFTQ_LEASE_TOKEN=", "DRIFTQ_OWNER=work-", "TRACEPARENT=00-"] {
        assert!(variables.lines().any(|line| line.starts_with(begin) && line.len() > begin.len()), "{begin}");
    }
}

#[test]
fn once_is_once() {
    let world = World::new();
    world.produce(&["a", "b", "c"]);
    for (left, code) in [(2, "exit 0"), (2, "exit 75")] {
        world.work(code, &["--once"]).ok();
        let group = world.group();
        assert_eq!((&group["lag"], &group["in_flight"]), (&json!(left), &json!(0)), "{code}: {group:#}");
    }
}

#[test]
fn what_is_handed_in_goes_out_with_the_ack() {
    let world = World::new();
    world.server.run(&["topic", "create", "receipts"]).ok();
    world.produce(&["order"]);
    let script = r#"
        echo '{"topic":"receipts","message":{"value":"'$DRIFTQ_ATTEMPT'","priority":3}}' >> "$DRIFTQ_FOLLOW_UPS"
        case $DRIFTQ_ATTEMPT in
            1) exit 1;;
            2) echo 'no json' >> "$DRIFTQ_FOLLOW_UPS";;
            3) echo '{"topic":"nowhere","message":{"value":"v"}}' >> "$DRIFTQ_FOLLOW_UPS";;
        esac"#;
    let ran = world.work(script, &["--until-idle", "-o", "ndjson"]).ok();
    let reasons: Vec<_> =
        ran.lines().iter().map(|line| line["reason"].as_str().unwrap().to_owned()).collect();
    assert!(reasons[1].starts_with("DRIFTQ_FOLLOW_UPS, line 2: "), "{reasons:?}");
    let messages = world.server.run(&["message", "list", "receipts", "-o", "json"]).ok().json();
    let values: Vec<_> = messages.as_array().unwrap().iter().map(|message| &message["value"]).collect();
    assert_eq!(values, ["4"], "all or nothing: {messages:#}");
    assert_eq!(messages[0]["priority"], 3);
}

#[test]
fn sigterm_drains() {
    let world = World::new();
    world.produce(&["a", "b"]);
    let running = world.start("touch begun; while [ ! -e go ]; do sleep 0.01; done", &[]);
    wait_for(&world.file("begun"));
    running.signal("-TERM");
    // What waited in the worker is given back before what runs has ended.
    wait_until("the second message is given back", || world.group()["in_flight"] == 1);
    fs::write(world.file("go"), "").unwrap();
    assert_eq!(running.end(), Some(0));
    let group = world.group();
    assert_eq!((&group["lag"], &group["in_flight"]), (&json!(1), &json!(0)), "{group:#}");
    let next = world.server.run(&["lease", "take", "orders", "billing", "-o", "json"]).ok().json();
    assert_eq!((&next[0]["value"], &next[0]["lease"]["attempt"]), (&json!("b"), &json!(1)), "not used up");
}

#[test]
fn a_second_signal_ends_everything_at_once() {
    let world = World::new();
    world.produce(&["a"]);
    let script = "trap '' TERM; echo $$ > pid; touch begun; while :; do sleep 0.01; done";
    let running = world.start(script, &[]);
    wait_for(&world.file("begun"));
    running.signal("-INT");
    std::thread::sleep(Duration::from_millis(200));
    running.signal("-TERM");
    assert_eq!(running.end(), Some(143));
    let process = PathBuf::from("/proc").join(world.read("pid").trim());
    wait_until("the command is still there", || !process.exists());
}

#[test]
fn a_command_that_does_not_listen_is_killed() {
    let world = World::new();
    world.produce(&["a"]);
    let script =
        r#"echo x >> calls; [ "$DRIFTQ_ATTEMPT" = 2 ] && exit 0; trap '' TERM; while :; do sleep 0.01; done"#;
    let ran = world.work(script, &["--timeout", "100ms", "--until-idle", "-o", "ndjson"]).ok();
    let verdicts: Vec<_> =
        ran.lines().iter().map(|line| line["verdict"].as_str().unwrap().to_owned()).collect();
    assert_eq!(verdicts, ["TimedOut", "done"], "{}", ran.stderr);
}

#[test]
fn a_command_that_takes_too_long_is_told_first() {
    let world = World::new();
    world.produce(&["a"]);
    // On a slow machine the time may be up before there is a trap; then the next attempt is told.
    let script = r#"
        [ -e told ] && exit 0
        trap 'echo told > told; exit 1' TERM; while :; do sleep 0.01; done"#;
    world.work(script, &["--timeout", "100ms", "--until-idle"]).ok();
    assert_eq!(world.read("told"), "told\n", "by SIGTERM, and not only killed");
}

#[test]
fn an_effect_in_a_command_belongs_to_the_message() {
    let world = World::new();
    world.server.run(&["produce", "orders", "v", "--run-id", "run-7", "--step-id", "charge"]).ok();
    let script = r#"
        "$DQ" effect run --scope charge --key order-1 -- sh -c 'echo x >> charges; echo ch_1' > id || exit
        [ "$DRIFTQ_ATTEMPT" = 1 ] && exit 1; exit 0"#;
    world.work(script, &["--until-idle"]).ok();
    assert_eq!((world.read("charges").as_str(), world.read("id").as_str()), ("x\n", "ch_1\n"));
    let effect = world.server.run(&["effect", "get", "charge", "order-1", "-o", "json"]).ok().json();
    assert_eq!((&effect["run_id"], &effect["step_id"]), (&json!("run-7"), &json!("charge")));
    assert_eq!(effect["message"]["topic"], "orders");
}

#[test]
fn a_message_waits_for_an_effect_that_nobody_knows_the_end_of() {
    let world = World::new();
    world.produce(&["v"]);
    let begun = world.server.run(&["effect", "begin", "charge", "order-1", "-o", "json"]).ok().json();
    let token = begun["lease"]["token"].as_str().unwrap();
    world.server.run(&["effect", "release", "--uncertain", token]).ok();
    let script = r#"
        echo "$DRIFTQ_ATTEMPT" >> attempts
        "$DQ" effect run --scope charge --key order-1 -- echo again"#;
    let worker = world.start(script, &["--until-idle"]);
    wait_until("it does not wait for the effect", || {
        let message = world.server.run(&["message", "get", "orders", "0", "0", "-o", "json"]).ok().json();
        message["groups"][0]["state"] == "effect"
    });
    let resolution = ["--status", "succeeded", "--by", "ann", "--why", "the provider lists it"];
    world.server.run(&[&["effect", "resolve", "charge", "order-1"][..], &resolution].concat()).ok();
    assert_eq!(worker.end(), Some(0), "it came long before its five minutes were over");
    assert_eq!(world.read("attempts"), "1\n1\n", "and lost no attempt");
}

#[test]
fn what_cannot_work_says_so_at_once() {
    let world = World::new();
    let unknown = world.server.run(&["work", "nothing", "-g", "g", "--exec", "true"]).code(4);
    assert!(unknown.stderr.contains("driftq topic create"), "{}", unknown.stderr);
    assert!(unknown.stderr.contains("topic `nothing` does not exist"), "{}", unknown.stderr);
    let array = world.server.run(&["work", "orders", "-g", "g", "--exec", "true", "-o", "json"]).code(2);
    assert!(array.stderr.contains("ndjson"), "{}", array.stderr);
}

/// What a worker says on stderr, line by line, while it runs.
fn listen(command: &mut Command) -> (Running, Lines<BufReader<ChildStderr>>) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    (Running(child), lines)
}

/// A command that runs until the file `go` is there.
const UNTIL_GO: &str = "touch begun; while [ ! -e go ]; do sleep 0.02; done";

#[test]
fn a_server_that_goes_away_and_comes_back_is_told_once_each() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let server = Server::start(&data, &["--segment-bytes=1MiB"]);
    let listen_at = format!("--listen={}", server.address);
    server.run(&["topic", "create", "orders"]).ok();
    let mut command = driftq();
    command.args(["work", "orders", "-g", "billing", "--exec", "true"]).env("DRIFTQ_SERVER", server.url());
    server.run(&["produce", "orders", "x"]).ok();
    let (worker, mut lines) = listen(&mut command);
    assert!(lines.next().unwrap().unwrap().contains("done"));
    server.kill();
    let away = lines.next().unwrap().unwrap();
    assert!(away.starts_with("warning: the server at http://") && away.contains(" is away"), "{away}");
    let server = Server::start(&data, &["--segment-bytes=1MiB", &listen_at]);
    let back = lines.next().unwrap().unwrap();
    assert!(back.contains("the server is back"), "{back}");
    server.run(&["produce", "orders", "y"]).ok();
    assert!(lines.next().unwrap().unwrap().contains("done"), "and it goes on");
    worker.signal("-TERM");
    assert_eq!(worker.end(), Some(0));
}

#[test]
fn what_the_server_did_not_hear_is_not_done() {
    let world = World::new();
    world.produce(&["x"]);
    let (worker, lines) = listen(&mut world.command(UNTIL_GO, &[]));
    wait_for(&world.file("begun"));
    world.server.signal("KILL");
    fs::write(world.file("go"), "").unwrap();
    let mut said = String::new();
    let mut is_told = false;
    for line in lines {
        said += &format!("{}\n", line.unwrap());
        if !is_told && said.contains(" done in ") && said.contains(" is away") {
            is_told = true;
            worker.signal("-TERM");
        }
    }
    assert_eq!(worker.end(), Some(3), "{said}");
    assert!(said.contains("error: the server could not be told what became of 1 message(s)"), "{said}");
}

#[test]
fn what_a_killed_worker_left_is_removed_by_the_next_one() {
    let world = World::new();
    let place = tempfile::tempdir().unwrap();
    world.produce(&["x"]);
    let mut command = world.command(UNTIL_GO, &[]);
    let (worker, _lines) = listen(command.env("TMPDIR", place.path()));
    wait_for(&world.file("begun"));
    worker.signal("-KILL");
    worker.end();
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nobody was there to remove it");
    fs::write(world.file("go"), "").unwrap();
    let mut next = driftq();
    next.args(["work", "orders", "-g", "next", "--exec", "true", "--until-idle"]);
    next.env("DRIFTQ_SERVER", world.server.url()).env("TMPDIR", place.path());
    assert_eq!(next.output().unwrap().status.code(), Some(0));
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}
