//! The real binary with its log in PostgreSQL, when the database fails over; and what is said of standbys before.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use driftq_testbed::Postgres;
use serde_json::json;

use crate::compat::Client;
use crate::postgres_log::{check, post};
use crate::support::{Server, driftq};

const PRODUCERS: usize = 4;
/// What each producer must get answered before and after.
const ANSWERS: usize = 60;
/// A fail-over that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(60);

fn server(url: &str) -> Server {
    let nowhere = Path::new("/nonexistent/driftq-data");
    Server::start(nowhere, &["--log", url, "--in-flight-max", "20000"])
}

/// Produces until it is told to stop, each value once; what was acknowledged. Tells when it has had [`ANSWERS`] more.
fn produce(address: SocketAddr, name: usize, over: &AtomicBool, had: &SyncSender<usize>) -> BTreeSet<String> {
    let mut taken = BTreeSet::new();
    for n in 0.. {
        if over.load(Ordering::Acquire) {
            break;
        }
        let value = format!("{name}-{n}");
        let Ok(reply) = post(address, &json!({"topic": "t", "value": value}).to_string()) else { continue };
        match reply.split(' ').nth(1) {
            Some("200") => taken.insert(value),
            // Not taken, or not known to be.
            Some("503" | "429") | None => continue,
            Some(_) => panic!("{reply}"),
        };
        if taken.len() % ANSWERS == 0 {
            // Nobody listens any more at the end.
            let _ = had.try_send(name);
        }
    }
    taken
}

fn all_had(had: &Receiver<usize>) {
    let mut waiting: BTreeSet<usize> = (0..PRODUCERS).collect();
    while !waiting.is_empty() {
        waiting.remove(&had.recv_timeout(PATIENCE).expect("the producers go on"));
    }
}

/// Producers are at work while what holds the log fails over; the same server goes on, and whatever it answered is there.
pub(crate) fn survives_fail_over(url: &str, fail_over: impl FnOnce()) {
    let first = server(url);
    assert_eq!(Client::connect(first.address).post_json("/v1/topics", &json!({"name": "t"})).status, 201);
    let (address, over) = (first.address, AtomicBool::new(false));
    let (tell, had) = sync_channel(PRODUCERS * 100);
    let expected: BTreeSet<String> = thread::scope(|scope| {
        let (over, tell) = (&over, &tell);
        let producers: Vec<_> =
            (0..PRODUCERS).map(|name| scope.spawn(move || produce(address, name, over, tell))).collect();
        all_had(&had);
        fail_over();
        // What was told before says nothing about now.
        while had.try_recv().is_ok() {}
        all_had(&had);
        over.store(true, Ordering::Release);
        producers.into_iter().flat_map(|producer| producer.join().unwrap()).collect()
    });
    assert!(expected.len() >= 2 * ANSWERS * PRODUCERS);
    check(first.address, 0, &expected);
    first.kill();
    // And by one that has nothing in memory.
    check(server(url).address, 1, &expected);
}

/// The primary is gone with its machine, and the synchronous standby takes over: the URL names both.
#[test]
fn nothing_acknowledged_is_lost_when_a_synchronous_standby_takes_over() {
    let primary = Postgres::start().unwrap();
    let standby = primary.synchronous_standby().unwrap();
    survives_fail_over(&primary.url_with(&standby), || {
        primary.kill().unwrap();
        standby.promote().unwrap();
    });
}

/// The first line of a server's log that has these words.
fn said(server: &mut Server, words: &str) -> String {
    let log = BufReader::new(server.take_log());
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        log.lines().map(|line| line.expect("the log is text")).try_for_each(|line| tell.send(line))
    });
    let mut heard = Vec::new();
    loop {
        let line = told.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no {words:?} in {heard:?}"));
        if line.contains(words) {
            return line;
        }
        heard.push(line);
    }
}

#[test]
fn a_start_says_what_a_fail_over_may_lose() {
    let primary = Postgres::start().unwrap();
    let _standby = primary.standby().unwrap();
    let start = |url: &str| {
        let mut command = driftq();
        command.stderr(Stdio::piped());
        Server::start_by(command, Path::new("/nonexistent/driftq-data"), &["--log", url])
    };
    let mut server = start(primary.url());
    let line = said(&mut server, "asynchronous");
    assert!(line.contains("WARN") && line.contains("may lack what was answered last"), "{line}");
    assert!(line.contains("synchronous_standby_names"), "{line}");
}
