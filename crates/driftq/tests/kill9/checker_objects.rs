//! The checker sees what it must see: each bad history here breaks one promise, and it objects to that one.

use std::time::Duration;

use super::checker::{Expectation, Violation, check};
use super::history::{Address, Event, Work};

const LEASE: Duration = Duration::from_secs(2);

fn address(offset: u64) -> Address {
    Address { topic: "t".to_owned(), partition: 0, offset }
}

fn work(offset: u64) -> Work {
    Work { group: "g".to_owned(), address: address(offset) }
}

fn produced(value: &str) -> Event {
    Event::Produced { producer: 1, topic: "t".to_owned(), value: value.to_owned(), confirmed: true }
}

fn delivered(life: u32, offset: u64, attempt: u32, value: &str) -> Event {
    delivered_with(life, offset, attempt, value, "")
}

fn delivered_with(life: u32, offset: u64, attempt: u32, value: &str, last_error: &str) -> Event {
    let (value, last_error) = (value.to_owned(), last_error.to_owned());
    Event::Delivered { life, stream: u64::from(life), work: work(offset), attempt, value, last_error }
}

fn acked(life: u32, offset: u64, confirmed: bool) -> Event {
    Event::Acked { life, work: work(offset), attempt: 1, confirmed }
}

fn acked_attempt(attempt: u32) -> Event {
    Event::Acked { life: 1, work: work(0), attempt, confirmed: true }
}

fn nacked(life: u32, offset: u64, attempt: u32, confirmed: bool) -> Event {
    Event::Nacked { life, work: work(offset), attempt, reason: format!("r{attempt}"), confirmed }
}

fn buried(letter: u64, offset: u64, attempts: u32) -> Event {
    Event::Buried { letter: address(letter), work: work(offset), attempts, value: "a".to_owned() }
}

/// As if every event was noticed a lease after the one before it.
fn judge(events: &[Event]) -> Vec<Violation> {
    judge_at(LEASE, events)
}

fn judge_at(pause: Duration, events: &[Event]) -> Vec<Violation> {
    let expectation = Expectation {
        groups: vec![("t".to_owned(), "g".to_owned())],
        lapsing_groups: vec!["short".to_owned()],
        lease: LEASE,
        attempts_max: 3,
    };
    let mut all = events.to_vec();
    all.push(Event::Drained);
    let times: Vec<Duration> = (0..).map(|n| pause * n).take(all.len()).collect();
    check(&all, &times, &expectation)
}

#[test]
fn a_good_history_passes() {
    let events = [
        Event::TopicConfirmed { topic: "t".to_owned(), partitions: 1 },
        produced("a"),
        produced("b"),
        delivered(1, 0, 1, "a"),
        delivered(1, 1, 1, "b"),
        acked(1, 1, true),
        nacked(1, 0, 1, true),
        Event::TopicsListed { topics: vec![("t".to_owned(), 1)] },
        delivered_with(2, 0, 2, "a", "r1"),
        acked(2, 0, false),
        delivered_with(3, 0, 2, "a", "r1"),
        acked(3, 0, true),
    ];
    assert_eq!(judge(&events), []);
}

#[test]
fn a_history_without_an_end_proves_nothing() {
    assert_eq!(check(&[], &[], &Expectation::default()), [Violation::NeverDrained]);
}

#[test]
fn a_lost_message_is_seen() {
    let events = [produced("a"), produced("b"), delivered(1, 1, 1, "b")];
    assert_eq!(judge(&events), [Violation::Lost { group: "g".to_owned(), value: "a".to_owned() }]);
    assert_eq!(judge(&[produced("a"), buried(0, 7, 3)]), []);
    let unanswered =
        Event::Produced { producer: 1, topic: "t".to_owned(), value: "a".to_owned(), confirmed: false };
    assert_eq!(judge(&[unanswered]), []);
}

#[test]
fn a_message_stored_twice_is_seen() {
    let events = [produced("a"), delivered(1, 0, 1, "a"), delivered(1, 5, 1, "a")];
    let expected = Violation::StoredTwice { value: "a".to_owned(), first: address(0), second: address(5) };
    assert_eq!(judge(&events), [expected]);
}

#[test]
fn messages_that_overtake_each_other_on_the_way_in_are_seen() {
    let events = [produced("a"), produced("b"), delivered(1, 0, 1, "b"), delivered(1, 1, 1, "a")];
    let expected = Violation::ProducedOutOfOrder { producer: 1, earlier: address(1), later: address(0) };
    assert_eq!(judge(&events), [expected]);
}

#[test]
fn messages_that_overtake_each_other_on_the_way_out_are_seen() {
    let events = [delivered(1, 1, 1, "b"), delivered(1, 0, 1, "a")];
    let expected = Violation::DeliveredOutOfOrder { stream: 1, earlier: 1, later: work(0) };
    assert_eq!(judge(&events), [expected]);
}

#[test]
fn a_failed_message_may_come_late() {
    let events = [
        delivered(1, 0, 1, "a"),
        nacked(1, 0, 1, true),
        delivered(2, 1, 1, "b"),
        delivered_with(2, 0, 2, "a", "r1"),
    ];
    assert_eq!(judge(&events), []);
}

#[test]
fn an_acked_message_that_comes_back_is_seen() {
    for (life, attempt) in [(1, 2), (2, 2)] {
        let events = [delivered(1, 0, 1, "a"), acked(1, 0, true), delivered(life, 0, attempt, "a")];
        assert_eq!(judge(&events), [Violation::AckedComesBack { work: work(0), life, acked_in: 1 }]);
    }
    // Sent in the life before, and read late.
    assert_eq!(judge(&[delivered(2, 0, 2, "a"), acked(2, 0, true), delivered(1, 0, 1, "a")]), []);
    assert_eq!(judge(&[delivered(1, 0, 1, "a"), acked(1, 0, false), delivered(2, 0, 2, "a")]), []);
}

/// The machine stood still until leases were over, with lines unread in sockets.
#[test]
fn a_line_that_lay_unread_is_no_delivery_after_the_ack() {
    let comes_back = |attempt: u32, last_error: &str| {
        [delivered(1, 0, 1, "a"), acked(1, 0, true), delivered_with(1, 0, attempt, "a", last_error)]
    };
    let seen = [Violation::AckedComesBack { work: work(0), life: 1, acked_in: 1 }];
    assert_eq!(judge_at(LEASE / 10, &comes_back(2, "ack_timeout")), []);
    // A lease that lapses although its message was acked does so a lease later.
    assert_eq!(judge_at(LEASE, &comes_back(2, "ack_timeout")), seen);
    assert_eq!(judge_at(LEASE / 10, &comes_back(2, "")), seen);
    let other_reader = [delivered(1, 0, 2, "a"), acked_attempt(2), delivered(1, 0, 1, "a")];
    assert_eq!(judge(&other_reader), []);
}

#[test]
fn a_lapsing_group_may_read_a_late_copy_in_the_same_life_only() {
    let mut late = work(0);
    late.group = "short".to_owned();
    let seen = |life: u32, attempt: u32| Event::Delivered {
        life,
        stream: u64::from(life),
        work: late.clone(),
        attempt,
        value: "a".to_owned(),
        last_error: String::new(),
    };
    let ack = Event::Acked { life: 1, work: late.clone(), attempt: 1, confirmed: true };
    assert_eq!(judge(&[seen(1, 1), ack.clone(), seen(1, 2)]), []);
    assert_eq!(
        judge(&[seen(1, 1), ack, seen(2, 2)]),
        [Violation::AckedComesBack { work: late.clone(), life: 2, acked_in: 1 }]
    );
}

#[test]
fn attempts_that_repeat_or_fall_are_seen() {
    let twice = [delivered(1, 0, 1, "a"), delivered(1, 0, 1, "a")];
    assert_eq!(judge(&twice), [Violation::AttemptTwice { work: work(0), life: 1, attempt: 1 }]);
    let fallen = [delivered(1, 0, 3, "a"), nacked(1, 0, 3, true), delivered_with(2, 0, 3, "a", "r3")];
    assert_eq!(judge(&fallen), [Violation::AttemptTooLow { work: work(0), attempt: 3, nacked: 3 }]);
    // Nothing durable followed the delivery: a crash may forget it.
    assert_eq!(judge(&[delivered(1, 0, 1, "a"), delivered(2, 0, 1, "a")]), []);
}

#[test]
fn a_forgotten_reason_is_seen() {
    let events = [delivered(1, 0, 1, "a"), nacked(1, 0, 1, true), delivered(2, 0, 2, "a")];
    let expected =
        Violation::LastErrorLost { work: work(0), expected: "r1".to_owned(), found: String::new() };
    assert_eq!(judge(&events), [expected]);
    let swapped = [nacked(1, 0, 2, true), nacked(1, 0, 1, true), delivered_with(2, 0, 3, "a", "r2")];
    assert_eq!(judge(&swapped), [], "written down by two readers in the wrong order");
    let unsure = [delivered(1, 0, 1, "a"), nacked(1, 0, 1, false), delivered(2, 0, 2, "a")];
    assert_eq!(judge(&unsure), []);
}

#[test]
fn dead_letters_that_multiply_or_come_too_early_are_seen() {
    assert_eq!(judge(&[buried(0, 7, 2)]), [Violation::BuriedTooEarly { work: work(7), attempts: 2 }]);
    assert_eq!(judge(&[buried(0, 7, 3), buried(0, 7, 3)]), [], "read twice is not stored twice");
    assert_eq!(judge(&[buried(0, 7, 3), buried(1, 7, 3)]), [Violation::BuriedTwice { work: work(7) }]);
}

#[test]
fn topics_that_vanish_or_shrink_are_seen() {
    let confirmed = Event::TopicConfirmed { topic: "t".to_owned(), partitions: 3 };
    for (listed, found) in [(vec![], None), (vec![("t".to_owned(), 1)], Some(1))] {
        let events = [confirmed.clone(), Event::TopicsListed { topics: listed }];
        assert_eq!(judge(&events), [Violation::TopicChanged { topic: "t".to_owned(), expected: 3, found }]);
    }
}
