//! Real servers are started, crashed, copied and gone in the end.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use driftq_testbed::{PgBouncer, Postgres, Redis, SHARED_VARIABLE};

/// Longest that something may take that happens by itself. A server that has lost its folder ends within a minute, too:
/// that is not what is waited for here.
const PATIENCE: Duration = Duration::from_secs(10);

fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "{what} did not happen within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_was_committed_survives_a_crash() {
    let postgres = Postgres::start().expect("PostgreSQL starts");
    assert_eq!(postgres.psql("SHOW fsync").expect("it answers"), "on");
    postgres.psql("CREATE TABLE t (n int); INSERT INTO t VALUES (1), (2)").expect("it takes writes");
    postgres.crash().expect("it runs, so it can crash");
    assert!(!postgres.is_running());
    let error = postgres.psql("SELECT 1").expect_err("nobody listens");
    assert!(error.to_string().contains("onnection"), "{error}");
    assert!(postgres.crash().is_err(), "what does not run cannot crash");

    postgres.restart().expect("it recovers");
    assert!(postgres.is_running());
    assert_eq!(postgres.psql("SELECT n FROM t ORDER BY n").expect("it answers"), "1\n2");
    postgres.stop().expect("it runs, so it can be stopped");
    postgres.restart().expect("it starts again");
    postgres.psql("CREATE DATABASE other").expect("it takes writes");
    assert!(postgres.url_for("other").ends_with("/other"));
}

#[test]
fn two_servers_have_nothing_in_common_and_are_gone_afterwards() {
    let one = Postgres::builder().setting("max_connections", "17").start().expect("PostgreSQL starts");
    let other = Postgres::start().expect("PostgreSQL starts");
    assert_ne!(one.url(), other.url());
    assert_eq!(one.psql("SHOW max_connections").expect("it answers"), "17");
    one.psql("CREATE TABLE mine (n int)").expect("it takes writes");
    let error = other.psql("SELECT * FROM mine").expect_err("the other has no such table");
    assert!(error.to_string().contains("mine"), "{error}");

    let folder = one.folder().expect("it is our own");
    let url = one.url().to_owned();
    drop(one);
    assert!(!folder.exists(), "the folder stays behind");
    assert!(other.psql("SELECT 1").is_ok(), "the other one was stopped too");
    assert!(other.folder().is_ok_and(|folder| folder.exists()));
    assert!(!listens(&url), "a server stays behind");
}

fn listens(url: &str) -> bool {
    let place = url.split(['@', '/']).find(|part| part.starts_with("127.0.0.1:")).expect("it has a place");
    std::net::TcpStream::connect(place).is_ok()
}

#[test]
fn a_wrong_setting_is_reported_with_the_log() {
    let error = Postgres::builder().setting("no_such_setting", "1").start().expect_err("it refuses this");
    assert!(format!("{error:#}").contains("no_such_setting"), "{error:#}");
}

#[test]
fn a_standby_follows_and_refuses_writes() {
    let postgres = Postgres::start().expect("PostgreSQL starts");
    postgres.psql("CREATE TABLE t (n int); INSERT INTO t VALUES (1)").expect("it takes writes");
    let standby = postgres.standby().expect("a copy starts");
    assert_eq!(standby.psql("SELECT n FROM t").expect("it answers"), "1");
    let error = standby.psql("INSERT INTO t VALUES (2)").expect_err("it is read-only");
    assert!(error.to_string().contains("read-only"), "{error}");
    postgres.psql("INSERT INTO t VALUES (2)").expect("it takes writes");
    eventually("replication", || standby.psql("SELECT count(*) FROM t").is_ok_and(|count| count == "2"));
}

#[test]
fn a_server_ends_with_the_process_that_started_it() {
    let mut testbed = Command::new(env!("CARGO_BIN_EXE_driftq-testbed"))
        .args(["serve", "--durable"])
        .env_remove(SHARED_VARIABLE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut url = String::new();
    let output = testbed.stdout.take().expect("it has an output");
    BufReader::new(output).read_line(&mut url).expect("it prints its URL");
    let url = url.trim();
    assert_eq!(psql(url, "SHOW fsync"), "on");
    testbed.kill().expect("it runs");
    testbed.wait().expect("it was our child");
    eventually("the end of the server", || !listens(url));
}

#[test]
fn a_command_gets_the_url_and_its_exit_code_comes_back() {
    let run = |script: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_driftq-testbed"));
        command.args(["run", "--", "sh", "-c", script]).env_remove(SHARED_VARIABLE);
        command.output().expect("the program starts")
    };
    let output = run("psql -X -A -t -d \"$DRIFTQ_TEST_POSTGRES\" -c 'SHOW data_directory'; exit 7");
    assert_eq!(output.status.code(), Some(7));
    let folder = String::from_utf8(output.stdout).expect("it is text");
    let folder = Path::new(folder.trim());
    assert!(folder.is_absolute() && !folder.exists(), "{} stays behind", folder.display());
}

#[test]
fn a_pooler_hands_out_connections() {
    let postgres = Postgres::shared().expect("PostgreSQL starts");
    let pooler = PgBouncer::start(&postgres).expect("PgBouncer starts");
    let answer = psql(pooler.url(), "SELECT 41 + 1");
    assert_eq!(answer, "42");
    pooler.kill().expect("it runs");
    eventually("the end of the pooler", || !listens(pooler.url()));
    assert!(postgres.is_running());
}

fn psql(url: &str, sql: &str) -> String {
    let output =
        Command::new("psql").args(["-X", "-A", "-t", "-d", url, "-c", sql]).output().expect("psql starts");
    String::from_utf8(output.stdout).expect("it is text").trim().to_owned()
}

#[test]
fn a_cache_starts_and_dies() {
    let redis = Redis::start().expect("Redis starts");
    let url = redis.url();
    assert!(listens(&url.replace("redis://", "redis://@")), "no server at {url}");
    redis.kill().expect("it runs");
    assert!(!listens(&url.replace("redis://", "redis://@")), "a server stays behind");
}
