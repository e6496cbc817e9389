//! The decisions of a worker, one by one.

use std::time::Duration;

use driftq_api::v2::{Settled, SettledStatus};
use tokio::time::Instant;

use super::book::{Ask, Book, Bounds, Id};
use super::verdict::{Kind, Verdict};
use crate::signal::Reason;

const LEASE: Duration = Duration::from_secs(30);
const BACK: Verdict = Verdict::Release { delay: None };

fn book(concurrency: usize, capacity: usize, batches: &[usize]) -> Book<&'static str> {
    Book::new(Bounds { concurrency, capacity, batches: batches.to_vec() })
}

/// Borrows one message, and gives its name and the end of its lease.
fn borrow(book: &mut Book<&'static str>, lane: usize, name: &'static str, now: Instant) -> Id {
    book.borrowed(lane, format!("token-{name}"), name, now + LEASE)
}

fn started(book: &mut Book<&'static str>) -> Vec<&'static str> {
    let start = book.start();
    start.into_iter().flat_map(|start| start.deliveries).map(|(_, name)| name).collect()
}

fn tokens(book: &mut Book<&'static str>) -> Vec<String> {
    book.heartbeat().into_iter().map(|beat| beat.token).collect()
}

#[test]
fn it_asks_for_what_it_has_room_for() {
    let now = Instant::now();
    let mut book = book(2, 4, &[1]);
    assert_eq!(book.ask(0), Ask { count: 4, waits: true }, "alone, it may wait with all of it");
    book.answered(0, 3);
    let first = borrow(&mut book, 0, "a", now);
    borrow(&mut book, 0, "b", now);
    borrow(&mut book, 0, "c", now);
    assert_eq!(book.ask(0).count, 1, "three of four places are taken");
    book.answered(0, 1);
    borrow(&mut book, 0, "d", now);
    assert_eq!(book.ask(0).count, 0);
    assert_eq!(started(&mut book), ["a"]);
    book.ended(vec![(first, Verdict::Ack)]);
    assert_eq!(book.ask(0).count, 0, "what is not settled still takes a place");
    let batch = book.settle(Kind::Ack).unwrap();
    book.settled(Kind::Ack, batch.leases.into_iter().map(|(id, ..)| id));
    assert_eq!((book.ask(0).count, book.settled_count()), (1, 1));
}

#[test]
fn a_busy_topic_has_the_room_that_idle_ones_do_not_need() {
    let now = Instant::now();
    let mut book = book(10, 20, &[1, 1, 4, 1]);
    let waiting = |count| Ask { count, waits: true };
    let asked: Vec<Ask> = (0..4).map(|lane| book.ask(lane)).collect();
    assert_eq!(asked, [1, 1, 4, 1].map(waiting), "a call's worth each, for as long as there is nothing");
    book.answered(0, 1);
    borrow(&mut book, 0, "a0", now);
    let most = 20 - (1 + 4 + 1);
    assert_eq!(book.ask(0), Ask { count: most - 1, waits: false }, "all but what the others keep");
    book.answered(0, most - 1);
    for _ in 1..most {
        borrow(&mut book, 0, "a", now);
    }
    assert_eq!(book.ask(0).count, 0);
    // A second topic has work: it gets half, as soon as the first has less.
    book.answered(1, 1);
    borrow(&mut book, 1, "b0", now);
    let half = (20 - (4 + 1)) / 2;
    assert_eq!((book.share(0), book.share(1)), (0, half - 1));
    assert_eq!(book.ask(1).count, 0, "until then there is no room");
}

#[test]
fn lanes_share_the_room_and_take_turns() {
    let now = Instant::now();
    let mut book = book(1, 4, &[1, 1]);
    book.answered(0, 1);
    book.answered(1, 1);
    assert_eq!((book.ask(0).count, book.ask(1).count), (2, 2));
    book.answered(0, 2);
    book.answered(1, 1);
    for name in ["a1", "a2"] {
        borrow(&mut book, 0, name, now);
    }
    let b = borrow(&mut book, 1, "b1", now);
    assert_eq!(started(&mut book), ["a1"]);
    assert!(book.start().is_none(), "one call at a time");
    book.ended(vec![(0, Verdict::Ack)]);
    assert_eq!(started(&mut book), ["b1"]);
    book.ended(vec![(b, Verdict::Ack)]);
    assert_eq!(started(&mut book), ["a2"]);
    let mut narrow = self::book(1, 1, &[1, 1]);
    assert_eq!((narrow.ask(0).count, narrow.ask(1).count), (1, 1), "every topic gets a place");
}

#[test]
fn a_batch_is_what_is_there_at_once() {
    let now = Instant::now();
    let mut book = book(1, 10, &[3]);
    let ids: Vec<Id> = ["a", "b", "c", "d"].map(|name| borrow(&mut book, 0, name, now)).to_vec();
    assert_eq!(started(&mut book), ["a", "b", "c"]);
    assert!(book.start().is_none());
    book.ended(ids[..3].iter().map(|id| (*id, Verdict::Ack)).collect());
    assert_eq!(started(&mut book), ["d"], "no message waits for a full batch");
}

#[test]
fn settlements_that_come_while_a_call_is_under_way_go_together_in_the_next() {
    let now = Instant::now();
    let mut book = book(4, 8, &[1]);
    for name in ["a", "b", "c", "d"] {
        borrow(&mut book, 0, name, now);
        book.start();
    }
    book.ended(vec![(0, Verdict::Ack)]);
    assert_eq!(book.settle(Kind::Ack).unwrap().leases.len(), 1);
    book.ended(vec![(1, Verdict::Ack)]);
    book.ended(vec![(2, Verdict::retry("no"))]);
    book.ended(vec![(3, Verdict::Ack)]);
    assert!(book.settle(Kind::Ack).is_none(), "one call of a kind at a time");
    assert_eq!(book.settle(Kind::Nack).unwrap().leases.len(), 1, "but each kind has its own");
    book.settled(Kind::Ack, [0]);
    let together = book.settle(Kind::Ack).unwrap();
    assert_eq!(
        together.leases.iter().map(|(_, token, _)| &**token).collect::<Vec<_>>(),
        ["token-b", "token-d"]
    );
}

#[test]
fn a_heartbeat_is_for_what_runs_and_what_waits() {
    let now = Instant::now();
    let mut book = book(2, 8, &[1]);
    for name in ["a", "b", "c"] {
        borrow(&mut book, 0, name, now);
    }
    book.start();
    book.start();
    book.ended(vec![(0, Verdict::retry("no"))]);
    assert_eq!(tokens(&mut book), ["token-b", "token-c"], "what is being settled must not be brought back");
    let ok = Settled::new(SettledStatus::Ok);
    let told = book.extended([(1, ok), (2, ok)], now + LEASE / 3, LEASE);
    assert!(told.is_empty());
    assert!(book.lapsed(now + LEASE).is_empty(), "they were extended");
    assert_eq!(book.lapsed(now + LEASE * 2), [("b", Reason::LeaseLost)], "what waited is simply dropped");
}

#[test]
fn what_is_lost_is_told_once_and_what_it_returns_is_dropped() {
    let now = Instant::now();
    let mut book = book(1, 8, &[1]);
    borrow(&mut book, 0, "a", now);
    borrow(&mut book, 0, "b", now);
    book.start();
    let stale = Settled::new(SettledStatus::Stale);
    assert_eq!(book.extended([(0, stale), (1, stale)], now, LEASE), [("a", Reason::LeaseLost)]);
    assert!(tokens(&mut book).is_empty() && book.lapsed(now + LEASE).is_empty());
    book.ended(vec![(0, Verdict::Ack)]);
    for kind in super::verdict::KINDS {
        assert!(book.settle(kind).is_none(), "{kind:?}");
    }
    assert!(book.len() == 0);
    assert!(book.start().is_none(), "what was lost while it waited does not begin");
}

#[test]
fn what_was_cancelled_is_told_and_given_back() {
    let now = Instant::now();
    let mut book = book(1, 8, &[1]);
    borrow(&mut book, 0, "a", now);
    book.start();
    let cancelled = Settled { cancelled: true, ..Settled::new(SettledStatus::Ok) };
    assert_eq!(book.extended([(0, cancelled)], now, LEASE), [("a", Reason::Cancelled)]);
    book.ended(vec![(0, Verdict::Ack)]);
    assert!(book.settle(Kind::Ack).is_none());
    assert_eq!(book.settle(Kind::Release).unwrap().leases, [(0, "token-a".to_owned(), BACK)]);
}

#[test]
fn what_was_committed_is_not_settled_again() {
    let mut book = book(1, 8, &[1]);
    borrow(&mut book, 0, "a", Instant::now());
    book.start();
    book.ended(vec![(0, Verdict::Done)]);
    assert!(book.len() == 0 && book.settle(Kind::Ack).is_none());
    assert_eq!(book.settled_count(), 1);
}

#[test]
fn a_drain_gives_back_what_was_not_begun_and_lets_the_rest_end() {
    let now = Instant::now();
    let mut book = book(1, 8, &[1]);
    borrow(&mut book, 0, "a", now);
    borrow(&mut book, 0, "b", now);
    book.start();
    book.drain();
    assert!(book.start().is_none());
    assert_eq!(book.settle(Kind::Release).unwrap().leases, [(1, "token-b".to_owned(), BACK)]);
    assert_eq!(book.running().copied().collect::<Vec<_>>(), ["a"]);
    book.settled(Kind::Release, [1]);
    book.ended(vec![(0, Verdict::Ack)]);
    assert_eq!(book.settle(Kind::Ack).unwrap().leases.len(), 1);
    book.settled(Kind::Ack, [0]);
    assert!(book.len() == 0);
}

#[test]
fn a_settling_call_is_bounded_in_count_and_bytes() {
    let now = Instant::now();
    let mut book = book(3000, 3000, &[1]);
    let reason = "x".repeat(4096);
    let end = |book: &mut Book<&'static str>, count: usize, verdict: &Verdict| {
        for _ in 0..count {
            let id = borrow(book, 0, "a", now);
            book.start();
            book.ended(vec![(id, verdict.clone())]);
        }
    };
    end(&mut book, 1001, &Verdict::Ack);
    assert_eq!(book.settle(Kind::Ack).unwrap().leases.len(), 1000);
    end(&mut book, 300, &Verdict::retry(&reason));
    assert_eq!(book.settle(Kind::Nack).unwrap().leases.len(), 256, "a MiB of reasons");
}

#[test]
fn what_waits_is_told_apart_from_what_is_begun() {
    let now = Instant::now();
    let mut book = book(1, 3, &[1]);
    let ids = ["a", "b", "c"].map(|name| borrow(&mut book, 0, name, now));
    assert_eq!(started(&mut book), ["a"]);
    assert_eq!(book.begun(), [], "nothing was said of it before it began");
    let said = |book: &mut Book<&'static str>| -> Vec<(Id, bool)> {
        book.heartbeat().into_iter().map(|beat| (beat.id, beat.is_begun)).collect()
    };
    assert_eq!(said(&mut book), [(ids[0], true), (ids[1], false), (ids[2], false)]);
    book.ended(vec![(ids[0], Verdict::Ack)]);
    assert_eq!(started(&mut book), ["b"]);
    let begun: Vec<Id> = book.begun().into_iter().map(|beat| beat.id).collect();
    assert_eq!(begun, [ids[1]], "the server takes it for one that waits");
    assert_eq!(book.begun(), [], "once is enough");
    assert_eq!(said(&mut book), [(ids[1], true), (ids[2], false)]);
    book.ended(vec![(ids[1], Verdict::Ack)]);
    assert_eq!(started(&mut book), ["c"]);
    book.ended(vec![(ids[2], Verdict::Ack)]);
    assert_eq!(book.begun(), [], "it has ended, and its ack says more");
}
