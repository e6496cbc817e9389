//! The log in JetStream: the suite, two servers, a server that is killed, large batches, and what is refused.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use driftq_core::ShardId;
use driftq_engine::cluster::Seat;
use driftq_engine::log::{Append as _, Archive as _, Log, NatsLog, NatsPlace};
use driftq_engine::{StartError, Storage};
use driftq_testbed::Nats;

use super::conformance::{self, append, check_all, replayed};
use super::{SEGMENT_BYTES, run_all_claimed, take_over};
use crate::common::until;

/// How often a server is killed under appends.
const KILLS: usize = 5;
/// Messages that are on their way to the server at a time when it is kept busy.
const FLOOD: usize = 64;
/// Rounds in one of which a server is deposed in the middle of a batch.
const ROUNDS: usize = 30;

static SERVER: LazyLock<Nats> = LazyLock::new(|| Nats::start().unwrap());

/// Whether there is a program to test with; if not, the reason is told.
fn is_there() -> bool {
    Nats::program().inspect_err(|why| println!("skipped: {why}")).is_ok()
}

fn place(server: &Nats) -> NatsPlace {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    NatsPlace { url: server.url(&format!("log_{number}")), cluster: "main".into() }
}

fn log(place: &NatsPlace) -> NatsLog {
    NatsLog::new(place.clone(), ShardId(0), SEGMENT_BYTES).unwrap()
}

fn conforms(server: &Nats) {
    run_all_claimed(|| place(server), log);
}

#[test]
fn the_log_in_jetstream_is_a_log() {
    if is_there() {
        conforms(&SERVER);
    }
}

/// The server is killed in the middle of appends, over and over: every batch is there once, in order.
#[test]
fn no_batch_is_lost_or_doubled_when_the_server_is_killed() {
    if !is_there() {
        return;
    }
    let server = Nats::start().unwrap();
    let log = log(&place(&server));
    let mut opened = log.open().unwrap();
    let over = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            for _ in 0..KILLS {
                server.kill(0).unwrap();
                server.restart(0).unwrap();
            }
            over.store(true, Ordering::Release);
        });
        let mut written = Vec::new();
        while !over.load(Ordering::Acquire) && !killer.is_finished() {
            let from = written.len();
            written.extend(append(&mut opened, from..from + 20));
        }
        written
    });
    check_all(&opened.archive, opened.start, &written);
    drop(opened);
    let opened = log.open().unwrap();
    check_all(&opened.archive, opened.start, &written);
}

/// A server knows that nobody else has the seat only if it has renewed it. If the seat has changed since it looked, it
/// has not, whoever it was: here it is its own old words, that come late.
#[tokio::test(flavor = "multi_thread")]
async fn a_seat_is_sure_only_if_it_was_renewed() {
    if !is_there() {
        return;
    }
    let (place, url) = (place(&SERVER), "http://127.0.0.1:1");
    let (address, stream) = place.url["nats://".len()..].split_once('/').unwrap();
    let subject = format!("driftq.{}.cluster.seat", stream.split('?').next().unwrap());
    let storage = Storage::Nats(place.clone());
    let seat = tokio::task::spawn_blocking(move || Seat::keep(&storage, url).unwrap()).await.unwrap();
    until("it has the seat", async || seat.is_sure()).await;
    let flooding = Arc::new(());
    let (is_wanted, address) = (Arc::downgrade(&flooding), address.to_owned());
    let flooder = std::thread::spawn(move || flood(&address, &subject, url, &is_wanted));
    until("it is not sure any more", async || !seat.is_sure()).await;
    drop(flooding);
    flooder.join().unwrap();
    until("it has renewed the seat", async || seat.is_sure()).await;
}

/// Says again and again who has the seat, each time before the server has answered all that was said before.
fn flood(address: &str, subject: &str, url: &str, is_wanted: &Weak<()>) {
    let mut connection = TcpStream::connect(address).unwrap();
    let mut answers = BufReader::new(connection.try_clone().unwrap()).lines();
    let what = format!("{{\"url\":\"{url}\"}}");
    let said = format!("PUB {subject} answers {}\r\n{what}\r\n", what.len()).repeat(FLOOD);
    let connect = "CONNECT {\"verbose\":false}\r\nSUB answers 1\r\n";
    connection.write_all(format!("{connect}{said}").as_bytes()).unwrap();
    while is_wanted.strong_count() > 0 {
        connection.write_all(said.as_bytes()).unwrap();
        let answered =
            answers.by_ref().filter(|line| line.as_ref().is_ok_and(|line| line.starts_with("MSG ")));
        assert_eq!(answered.take(FLOOD).count(), FLOOD);
    }
}

/// A batch larger than a message may be comes back whole, wherever reading begins.
#[test]
fn a_large_batch_is_whole_again() {
    if !is_there() {
        return;
    }
    let log = log(&place(&SERVER));
    let mut opened = log.open().unwrap();
    let large: Vec<u8> = (0..5_u32 << 19).map(|n| (n / 3) as u8).collect();
    let mut ends = vec![opened.start];
    for body in [&b"before"[..], &large, b"after"] {
        ends.push(opened.writer.append(body).unwrap());
    }
    drop(opened);
    let opened = log.open().unwrap();
    assert_eq!((opened.end, opened.torn.as_deref()), (ends[3], None));
    let all = replayed(&opened.archive, opened.start, opened.end);
    assert_eq!(all.iter().map(|(_, body)| body.len()).collect::<Vec<_>>(), [6, large.len(), 5]);
    assert!(all[1].1 == large);
    assert_eq!(replayed(&opened.archive, ends[2], opened.end).len(), 1);
    let read = opened.archive.read_at(all[1].0, u32::try_from(large.len()).unwrap()).unwrap();
    assert!(read == large);
    let middle = opened.archive.replay(ends[1], opened.end, &mut |_, _| ControlFlow::Break(()));
    assert_eq!(middle, Ok(()));
}

/// A server is deposed in the middle of a batch that takes many messages: the batch never happened.
#[test]
fn a_batch_that_was_left_unfinished_never_happened() {
    if !is_there() {
        return;
    }
    let place = place(&SERVER);
    let large = vec![7; 24 << 20];
    let mut expected = Vec::new();
    let is_torn = (0..ROUNDS).any(|round| {
        let (one, other) = (log(&place), log(&place));
        let mut first = one.open().unwrap();
        first.writer.append(&conformance::body(round)).unwrap();
        expected.push(conformance::body(round));
        let second = std::thread::scope(|scope| {
            let appending = scope.spawn(|| first.writer.append(&large));
            let second = other.open().unwrap();
            expected.extend(appending.join().unwrap().is_ok().then(|| large.clone()));
            second
        });
        let told = replayed(&second.archive, second.start, second.end);
        assert!(told.iter().map(|(_, body)| body).eq(&expected), "in round {round}");
        second.torn.is_some_and(|torn| torn.contains("of an unfinished batch"))
    });
    assert!(is_torn, "no server was deposed in the middle of a batch");
    let opened = log(&place).open().unwrap();
    let told = replayed(&opened.archive, opened.start, opened.end);
    assert!(told.iter().map(|(_, body)| body).eq(&expected));
}

fn refusal(place: NatsPlace) -> (String, String) {
    let opened = NatsLog::new(place, ShardId(0), SEGMENT_BYTES).and_then(|log| log.open().map(drop));
    match opened {
        Err(StartError::Database { what, help }) => (what, help),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_be_used_is_refused_with_the_next_step() {
    if !is_there() {
        return;
    }
    let first = place(&SERVER);
    log(&first).open().map(drop).unwrap();
    let (what, help) = refusal(NatsPlace { cluster: "other".into(), ..first.clone() });
    assert!(
        what.contains("belongs to the cluster \"main\"") && help.contains("another stream"),
        "{what} {help}"
    );
    let at = |url: &str| NatsPlace { url: url.to_owned(), ..first.clone() };
    let (what, help) = refusal(at("nats://127.0.0.1:1/q?sync=trusted"));
    assert!(what.contains("cannot be reached") && help.contains("host and port"), "{what} {help}");
    let (what, help) = refusal(at("nats://127.0.0.1:1"));
    assert!(what.contains("name of a stream") && help.contains("nats://host:4222/NAME"), "{what} {help}");
    let unproven = first.url.split('?').next().unwrap();
    let (what, help) = refusal(at(unproven));
    assert!(what.contains("is not known") && help.contains("monitor=http://"), "{what} {help}");
    log(&at(&format!("{unproven}?sync=trusted"))).open().map(drop).unwrap();
    let careless = Nats::start_with(1, "").unwrap();
    let (what, help) = refusal(place(&careless));
    assert!(what.contains("before it has synced") && help.contains("sync_interval: always"), "{what} {help}");
    // Proof of another server is none.
    let (_, monitor) = first.url.split_once('?').unwrap();
    let servers = place(&careless).url;
    let (what, _) = refusal(at(&format!("{}?{monitor}", servers.split('?').next().unwrap())));
    assert!(what.contains("is not known"), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_takes_over_and_the_first_steps_down() {
    if is_there() {
        let place = tokio::task::spawn_blocking(|| place(&SERVER)).await.unwrap();
        take_over::a_second_server_takes_over_and_the_first_steps_down(Storage::Nats(place)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_shards_are_kept_and_taken_over() {
    if is_there() {
        let place = tokio::task::spawn_blocking(|| place(&SERVER)).await.unwrap();
        take_over::several_shards_are_kept_and_taken_over(Storage::Nats(place)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_small_batches_are_folded_as_many_bytes_are() {
    if is_there() {
        take_over::many_small_batches_are_folded_as_many_bytes_are(Storage::Nats(place(&SERVER))).await;
    }
}

#[test]
fn servers_may_begin_at_once() {
    if is_there() {
        take_over::servers_may_begin_at_once(|| Storage::Nats(place(&SERVER)));
    }
}
