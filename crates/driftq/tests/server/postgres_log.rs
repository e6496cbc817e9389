//! The real binary with its log in PostgreSQL: killed, restarted, taken over.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use driftq_testbed::Postgres;
use serde_json::json;

use crate::command::run;
use crate::compat::{Client, Stream};
use crate::support::Server;

static DATABASE: LazyLock<Postgres> = LazyLock::new(|| Postgres::start().unwrap());

fn server(schema: &str) -> Server {
    let nowhere = Path::new("/nonexistent/driftq-data");
    Server::start(nowhere, &["--log", DATABASE.url(), "--log-schema", schema, "--in-flight-max", "2000"])
}

/// Produces until something ends it; the values that were acknowledged.
fn produce(address: SocketAddr, name: usize, count: usize, each: impl Fn(usize)) -> BTreeSet<String> {
    let mut taken = BTreeSet::new();
    for n in 0..count {
        let value = format!("{name}-{n}");
        // A server that is killed answers with half a reply, or none.
        let Ok(reply) = post(address, &json!({"topic": "t", "value": value}).to_string()) else { break };
        match reply.split(' ').nth(1) {
            Some("200") => {}
            Some("503") | None => break,
            Some(_) => panic!("{reply}"),
        }
        taken.insert(value);
        each(taken.len());
    }
    taken
}

pub(crate) fn post(address: SocketAddr, body: &str) -> std::io::Result<String> {
    call(address, "POST", "/v1/produce", body)
}

/// One call on a connection of its own; the whole reply, or what came of it.
pub(crate) fn call(address: SocketAddr, method: &str, path: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    Ok(reply)
}

/// Reads until everything that is expected was there. By a group of its own: leases outlive a server, and what one
/// check was lent another would wait for.
pub(crate) fn check(address: SocketAddr, group: usize, expected: &BTreeSet<String>) {
    let mut stream = Stream::open(address, &format!("topic=t&group=g{group}&owner=me&lease_ms=60000"));
    let mut missing = expected.clone();
    while !missing.is_empty() {
        missing.remove(stream.item()["value"].as_str().unwrap());
    }
}

/// What was acknowledged survives `kill -9`, wherever the log is.
pub(crate) fn survives_kill_9(server: impl Fn() -> Server) {
    let mut expected = BTreeSet::new();
    for round in 0..3 {
        let server = server();
        let mut client = Client::connect(server.address);
        client.post_json("/v1/topics", &json!({"name": "t"}));
        check(server.address, round, &expected);
        let address = server.address;
        // Killed by its own producer while the others are in the middle of their requests.
        let (ready, killed) = std::sync::mpsc::channel();
        let producers: Vec<_> = (0..4)
            .map(|name| {
                let ready = ready.clone();
                std::thread::spawn(move || {
                    produce(address, round * 10 + name, usize::MAX, |taken| {
                        if taken == 100 {
                            ready.send(()).unwrap();
                        }
                    })
                })
            })
            .collect();
        for _ in 0..4 {
            killed.recv().unwrap();
        }
        server.kill();
        for producer in producers {
            expected.extend(producer.join().unwrap());
        }
    }
    let server = server();
    check(server.address, 9, &expected);
}

/// A second server takes over while producers are at work with the first, which takes nothing more.
pub(crate) fn is_taken_over(server: impl Fn() -> Server) {
    let first = server();
    let mut client = Client::connect(first.address);
    assert_eq!(client.post_json("/v1/topics", &json!({"name": "t"})).status, 201);
    let address = first.address;
    let producers: Vec<_> =
        (0..4).map(|name| std::thread::spawn(move || produce(address, name, usize::MAX, |_| {}))).collect();
    let second = server();
    let mut expected: BTreeSet<String> =
        producers.into_iter().flat_map(|producer| producer.join().unwrap()).collect();
    expected.extend(produce(second.address, 9, 20, |_| {}));
    let reply =
        Client::connect(first.address).post_json("/v1/produce", &json!({"topic": "t", "value": "late"}));
    assert_eq!(reply.status, 503);
    assert!(reply.text().contains("taken over"), "{}", reply.text());
    let health = Client::connect(first.address).get("/v2/readyz");
    assert_eq!(health.status, 503, "{}", health.text());
    check(second.address, 0, &expected);
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    survives_kill_9(|| {
        let server = server("killed");
        assert!(server.banner.contains("PostgreSQL, schema killed"), "{}", server.banner);
        server
    });
}

#[test]
fn a_second_server_takes_over_and_the_first_takes_nothing_more() {
    is_taken_over(|| server("shared"));
}

/// Servers that share a log share a clock: what is due is due by the database's, which is half a minute ahead here, and
/// not by the machine's.
#[test]
fn a_server_goes_by_the_clock_of_the_database() {
    let url = DATABASE.with_clock_ahead(30).unwrap();
    let server = Server::start(Path::new("/nonexistent/driftq-data"), &["--log", &url]);
    let mut client = Client::connect(server.address);
    assert_eq!(client.post_json("/v1/topics", &json!({"name": "t"})).status, 201);
    let times =
        "SELECT to_char((now() + interval 'MANY s') AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')";
    for (value, seconds) in [("due", "20"), ("not due", "300")] {
        let at = DATABASE.psql(&times.replace("MANY", seconds)).unwrap();
        let taken = client.post_json("/v2/topics/t/messages", &json!({"value": value, "deliver_at": at}));
        assert!(taken.status < 300, "{}", taken.text());
    }
    let lease = json!({"owner": "me", "max": 10, "lease_ms": 60_000, "wait_ms": 5_000});
    let lent = client.post_json("/v2/topics/t/groups/g/lease", &lease).json();
    let lent: Vec<_> = lent["messages"].as_array().unwrap().iter().map(|lent| &lent["value"]).collect();
    assert_eq!(lent, ["due"]);
}

/// Nobody writes anything: the first server finds out by itself, within a few seconds, and lets its readers go.
#[test]
fn an_idle_server_notices_that_it_was_deposed() {
    let first = server("idle");
    let mut client = Client::connect(first.address);
    assert_eq!(client.post_json("/v1/topics", &json!({"name": "t"})).status, 201);
    assert_eq!(client.get("/v2/readyz").status, 200);
    let _second = server("idle");
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let health = Client::connect(first.address).get("/v2/readyz");
        if health.status == 503 {
            assert!(health.text().contains("taken over"), "{}", health.text());
            break;
        }
        assert!(Instant::now() < deadline, "it still says that it serves");
    }
}

#[test]
fn a_database_that_cannot_be_used_is_named_with_the_next_step() {
    let refused =
        run(&["serve", "--listen", "127.0.0.1:0", "--log", "postgres://me:s3cret@127.0.0.1:1/q"]).code(1);
    assert!(
        refused.stderr.contains("cannot be reached") && !refused.stderr.contains("s3cret"),
        "{}",
        refused.stderr
    );
    let refused = run(&["serve", "--listen", "127.0.0.1:0", "--log", "mysql://127.0.0.1"]);
    assert!(refused.stderr.contains("postgres://user@host/database"), "{}", refused.stderr);
    let shown = run(&["config", "check", "--log", "postgres://me:s3cret@db/q"]).ok();
    assert!(shown.stdout.contains("me:***@db") && !shown.stdout.contains("s3cret"), "{}", shown.stdout);
    let refused = run(&["serve", "--listen", "127.0.0.1:0", "--log", "postgres://?sslmode=sometimes"]);
    assert!(
        refused.code != 0 && refused.stderr.contains("postgres://user@host/database"),
        "{}",
        refused.stderr
    );
    DATABASE.psql("CREATE USER poor").unwrap();
    let poor = DATABASE.url().replace("driftq@", "poor@");
    let refused = run(&["serve", "--listen", "127.0.0.1:0", "--log", &poor]).code(1);
    assert!(refused.stderr.contains("permission denied"), "{}", refused.stderr);
    assert!(refused.stderr.contains("GRANT CREATE ON DATABASE"), "{}", refused.stderr);
    drop(server("named"));
    // The tables are there, and belong to somebody else.
    let refused = run(&["serve", "--listen", "127.0.0.1:0", "--log", &poor, "--log-schema", "named"]).code(1);
    assert!(refused.stderr.contains("permission denied"), "{}", refused.stderr);
    let argument = ["--log", DATABASE.url(), "--log-schema", "named", "--log-cluster", "other"];
    let refused = run(&[&["serve", "--listen", "127.0.0.1:0"], &argument[..]].concat()).code(1);
    assert!(refused.stderr.contains("belongs to the cluster \"main\""), "{}", refused.stderr);
}
