//! A log taken into PostgreSQL or NATS and back by the real binary: everything goes on as if nothing had happened.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use driftq_testbed::{Nats, Postgres};
use serde_json::{Value, json};

use crate::backup::{filler, kill_when, produce, server, spawned, text};
use crate::command::run;
use crate::compat::Client;
use crate::postgres_log::check;
use crate::support::Server;

static DATABASE: LazyLock<Postgres> = LazyLock::new(|| Postgres::start().unwrap());
static STREAMS: LazyLock<Nats> = LazyLock::new(|| Nats::start().unwrap());

fn on_database(schema: &str) -> Server {
    let nowhere = Path::new("/nonexistent/driftq-data");
    Server::start(nowhere, &["--log", DATABASE.url(), "--log-schema", schema, "--in-flight-max", "100000"])
}

fn migrate(from: &str, to: &str, schema: &str) -> Value {
    run(&["migrate", "--from", from, "--to", to, "--log-schema", schema, "-o", "json"]).ok().json()
}

fn token(item: &Value) -> String {
    item["lease"]["token"].as_str().unwrap().to_owned()
}

/// What was under way before, and must be answered the same after.
struct Witness {
    finished: Vec<String>,
    held: Vec<String>,
    effect: String,
    told: Vec<Value>,
}

/// What a server tells about what it holds, apart from times that pass.
fn told(server: &Server) -> Vec<Value> {
    [
        &["topic", "describe", "t"][..],
        &["effect", "get", "pay", "7"],
        &["effect", "get", "pay", "8"],
        &["run", "list"],
    ]
    .iter()
    .map(|words| server.run(&[words, &["-o", "json"][..]].concat()).ok().json())
    .collect()
}

impl Witness {
    fn make(server: &Server) -> Self {
        server.run(&["topic", "create", "t", "--partitions", "3", "--max-in-flight", "1000"]).ok();
        let values: String = (0..200).map(|n| format!("{n}\n")).collect();
        server.run_piped(&["produce", "t", "--run-id", "run-1"], &values).ok();
        let taken = server.run(&["lease", "take", "t", "g", "--max", "20", "--lease", "1h"]).ok().lines();
        let tokens: Vec<String> = taken.iter().map(token).collect();
        assert_eq!(tokens.len(), 20);
        let (finished, held) = (tokens[..10].to_vec(), tokens[10..].to_vec());
        for token in &finished {
            server.run(&["lease", "ack", token]).ok();
        }
        let begun = server.run(&["effect", "begin", "pay", "7", "-o", "json"]).ok().json();
        let done = token(&begun);
        server.run(&["effect", "finish", &done, "--status", "succeeded"]).ok();
        let begun = server.run(&["effect", "begin", "pay", "8", "--lease", "1h", "-o", "json"]).ok().json();
        Self { finished, held, effect: token(&begun), told: told(server) }
    }

    /// The same is told, finished deliveries are still finished, and held ones still held.
    fn check(&mut self, server: &Server) {
        assert_eq!(told(server), self.told);
        for token in &self.finished {
            let again = server.run(&["lease", "ack", token, "-o", "json"]).ok().json();
            assert_eq!(again[0]["status"], "ok", "what was acked stays so");
        }
        assert_eq!(
            server.run(&["effect", "begin", "pay", "7", "-o", "json"]).code(12).json()["decision"],
            "replay"
        );
        server.run(&["effect", "begin", "pay", "8"]).code(13);
        server.run(&["effect", "renew", &self.effect, "--lease", "1h"]).ok();
        // A worker goes on: with what it held, and with what comes next.
        let held = self.held.pop().unwrap();
        server.run(&["lease", "ack", &held]).ok();
        self.finished.push(held);
        let next = server.run(&["lease", "take", "t", "g", "--max", "1", "--lease", "1h"]).ok().lines();
        let next = token(&next[0]);
        assert!(!self.finished.contains(&next) && !self.held.contains(&next));
        server.run(&["lease", "ack", &next]).ok();
        self.finished.push(next);
        server.run(&["produce", "t", "later"]).ok();
        self.told = told(server);
    }
}

fn stop(server: Server) {
    server.signal("TERM");
    assert!(server.wait().success());
}

#[test]
fn into_postgres_and_back_everything_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let (data, back) = (home.path().join("data"), home.path().join("back"));
    let first = server(&data);
    let mut witness = Witness::make(&first);
    let refused = run(&["migrate", "--from", text(&data), "--to", DATABASE.url(), "--log-schema", "round"]);
    let refused = refused.code(8);
    assert!(refused.stderr.contains("stop the server first"), "{}", refused.stderr);
    stop(first);
    let there = migrate(text(&data), DATABASE.url(), "round");
    let second = on_database("round");
    witness.check(&second);
    // Not stopped: whoever takes the log away is its holder, and this server steps down.
    let returned = migrate(DATABASE.url(), text(&back), "round");
    assert!(returned["batches"].as_u64() > there["batches"].as_u64(), "{there} {returned}");
    let late =
        Client::connect(second.address).post_json("/v1/produce", &json!({"topic": "t", "value": "late"}));
    assert_eq!(late.status, 503, "{}", late.text());
    witness.check(&server(&back));
    let again =
        run(&["migrate", "--from", text(&data), "--to", DATABASE.url(), "--log-schema", "round"]).code(1);
    assert!(again.stderr.contains("there is a log in the schema round already"), "{}", again.stderr);
    let again =
        run(&["migrate", "--from", DATABASE.url(), "--to", text(&back), "--log-schema", "round"]).code(1);
    assert!(again.stderr.contains("is not empty"), "{}", again.stderr);
}

/// A log that begins with a snapshot and holds no batch behind it, as after a graceful stop.
#[test]
fn a_log_without_a_batch_after_its_snapshot_can_be_moved() {
    let home = tempfile::tempdir().unwrap();
    let (data, back) = (home.path().join("data"), home.path().join("back"));
    let first = server(&data);
    Client::connect(first.address).post_json("/v1/topics", &json!({"name": "t"}));
    stop(first);
    // Nothing happens but starts and stops, each of which writes a little.
    for _ in 0..3 {
        stop(server(&data));
    }
    migrate(text(&data), DATABASE.url(), "quiet");
    migrate(DATABASE.url(), text(&back), "quiet");
    assert!(produce(server(&back).address, "t", "one"));
}

#[test]
fn a_migration_that_was_killed_is_completed_by_the_same_command() {
    let home = tempfile::tempdir().unwrap();
    let (data, back) = (home.path().join("data"), home.path().join("back"));
    let first = server(&data);
    Client::connect(first.address).post_json("/v1/topics", &json!({"name": "t"}));
    let values: BTreeSet<String> = (0..400).map(|n| format!("{n}-{}", filler(60_000))).collect();
    for value in &values {
        assert!(produce(first.address, "t", value));
    }
    // Not stopped gracefully: what a crash leaves is moved as well.
    first.kill();
    let there = ["migrate", "--from", text(&data), "--to", DATABASE.url(), "--log-schema", "half"];
    let rows = || DATABASE.psql("SELECT count(*) > 10 FROM half.batch").is_ok_and(|answer| answer == "t");
    kill_when(spawned(&there), "rows are put", rows);
    let refused = run(&["serve", "--listen", "127.0.0.1:0", "--log", DATABASE.url(), "--log-schema", "half"]);
    let refused = refused.code(1);
    assert!(refused.stderr.contains("not whole yet"), "{}", refused.stderr);
    let moved = migrate(text(&data), DATABASE.url(), "half");
    assert!(moved["batches_resumed"].as_u64().unwrap() > 10, "{moved}");

    let home_again = ["migrate", "--from", DATABASE.url(), "--to", text(&back), "--log-schema", "half"];
    let unfinished = home.path().join("back.migrating");
    let segments = || std::fs::read_dir(&unfinished).is_ok_and(|entries| entries.count() > 3);
    kill_when(spawned(&home_again), "segments are made", segments);
    assert!(!back.exists(), "it has its name when it is whole");
    let returned = migrate(DATABASE.url(), text(&back), "half");
    assert!(returned["batches_resumed"].as_u64().unwrap() > 0, "{returned}");
    assert_eq!(returned["digest"], moved["digest"]);
    check(on_database("half").address, 0, &values);
    check(server(&back).address, 0, &values);
}

/// What is said where there is none.
const NO_SCHEMA: &str = "driftq_log";

/// Fills a data directory of three shards: topics in each of them, and enough messages for a kill to come in between.
fn fill_shards(data: &Path) -> BTreeSet<String> {
    let options = ["--segment-bytes", "64KiB", "--shards", "3", "--in-flight-max", "100000"];
    let first = Server::start(data, &options);
    let mut client = Client::connect(first.address);
    client.post_json("/v1/topics", &json!({"name": "t"}));
    let values: BTreeSet<String> = (0..60).map(|n| format!("{n}-{}", filler(60_000))).collect();
    for topic in (0..12).map(|n| format!("t{n}")) {
        client.post_json("/v1/topics", &json!({"name": topic}));
        for value in &values {
            assert!(produce(first.address, &topic, value));
        }
    }
    for value in &values {
        assert!(produce(first.address, "t", value));
    }
    first.kill();
    values
}

/// Killed while the second shard is filled: what was taken of the first is kept, and nothing counts before all of it.
fn is_completed(data: &Path, place: &str, schema: &str, has_some: impl Fn() -> bool) -> Value {
    let there = ["migrate", "--from", text(data), "--to", place, "--log-schema", schema];
    kill_when(spawned(&there), "some of the second shard is there", has_some);
    let served = ["serve", "--listen", "127.0.0.1:0", "--log", place, "--log-schema", schema];
    let refused = run(&served).code(1);
    assert!(refused.stderr.contains("not whole yet"), "{}", refused.stderr);
    assert!(refused.stderr.contains("run the same `driftq migrate` again"), "{}", refused.stderr);
    let moved = migrate(text(data), place, schema);
    let shards = moved["shards"].as_array().unwrap();
    assert_eq!(shards.len(), 3, "{moved}");
    assert_eq!(shards[0]["batches_resumed"], shards[0]["batches"], "{moved}");
    assert!(shards[1]["batches_resumed"].as_u64() > Some(0), "{moved}");
    moved
}

#[test]
fn several_shards_that_were_killed_on_their_way_are_completed_by_the_same_command() {
    let home = tempfile::tempdir().unwrap();
    let (data, back) = (home.path().join("data"), home.path().join("back"));
    let values = fill_shards(&data);
    let rows = || {
        let some = DATABASE.psql("SELECT count(*) > 10 FROM shards.batch WHERE shard = 1");
        some.is_ok_and(|answer| answer == "t")
    };
    let moved = is_completed(&data, DATABASE.url(), "shards", rows);
    let mut served = vec![on_database("shards")];
    if Nats::program().inspect_err(|why| println!("skipped: {why}")).is_ok() {
        let url = STREAMS.url("shards");
        let some = || STREAMS.messages("shards_shard1").is_ok_and(|count| count > 20);
        let streamed = is_completed(&data, &url, NO_SCHEMA, some);
        assert_eq!(streamed["digest"], moved["digest"]);
        // Not stopped: whoever takes the log away is its holder, and this server steps down.
        let second = Server::start(Path::new("/nonexistent/driftq-data"), &["--log", &url]);
        migrate(&url, text(&back), NO_SCHEMA);
        let late =
            Client::connect(second.address).post_json("/v1/produce", &json!({"topic": "t", "value": "late"}));
        assert_eq!(late.status, 503, "{}", late.text());
        served.push(server(&back));
    }
    for server in served {
        let topics = server.run(&["topic", "list", "-o", "json"]).ok().json();
        assert!(topics.to_string().contains("t11"), "{topics}");
        check(server.address, 0, &values);
    }
}
