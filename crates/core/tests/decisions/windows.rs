//! How many deliveries may be on loan at once: by topic, by kind of reader, and what makes room again.

use crate::support::deeds::at;
use crate::support::orders::{patient, spotted};
use crate::support::{Draft, LEASE_MS, Rig};
use driftq_core::{Input, Settings, Style, TopicPatch, TopicSettings, Verdict};

fn rig() -> Rig {
    Rig::new(Settings { in_flight_max: 2, lease_in_flight_max: 5, ..Settings::default() })
}

fn windowed(in_flight_max: u32) -> TopicSettings {
    TopicSettings { in_flight_max: Some(in_flight_max), ..TopicSettings::default() }
}

#[test]
fn without_a_word_of_the_topic_each_kind_of_reader_has_its_own_window() {
    let cases = [
        (Style::Pushed, None, 2),
        (Style::Borrowed, None, 5),
        (Style::Pushed, Some(3), 3),
        (Style::Borrowed, Some(3), 3),
    ];
    for (style, in_flight_max, expected) in cases {
        let mut rig = rig();
        let topic = rig.topic_with("t", 1, TopicSettings { in_flight_max, ..TopicSettings::default() });
        rig.produce_to(topic, &[0; 8]);
        let mut subscription = rig.subscription(topic, "g", "o", 99);
        subscription.style = style;
        rig.ask_durably(|ticket| Input::Subscribe { ticket, subscription });
        assert_eq!(rig.offsets().len(), expected, "{style:?} {in_flight_max:?}");
    }
    for (in_flight_max, expected) in [(None, 5), (Some(3), 3)] {
        let mut rig = rig();
        let topic = rig.topic_with("t", 1, TopicSettings { in_flight_max, ..TopicSettings::default() });
        rig.produce_to(topic, &[0; 8]);
        assert_eq!(rig.lease(topic, 8).len(), expected, "leases {in_flight_max:?}");
        assert_eq!(rig.lease(topic, 8).len(), 0);
    }
}

#[test]
fn a_window_is_of_one_partition() {
    let mut rig = rig();
    let topic = rig.topic_with("t", 3, windowed(1));
    rig.produce_to(topic, &[0, 0, 1, 1, 2]);
    assert_eq!(rig.lease(topic, 9).len(), 3);
}

/// One group, read by name and by token at once, in a topic that sets a window: each sees the other's deliveries in it.
#[test]
fn a_window_of_the_topic_is_shared_by_both_kinds_of_readers() {
    let mut rig = rig();
    let topic = rig.topic_with("t", 1, windowed(4));
    rig.produce_to(topic, &[0; 9]);
    let leased = rig.lease(topic, 3);
    rig.subscribe(topic, "g", "pushed", 99);
    let pushed = rig.deliveries();
    assert_eq!(pushed.len(), 1, "four may be on loan, and three are");
    assert_eq!(rig.lease(topic, 9), []);
    assert_eq!(rig.ack_token(&leased[0]), driftq_core::Outcome::Ok);
    assert_eq!(rig.offsets(), [4]);
    // What was pushed can be acked by its token, and what was leased by the name of its owner.
    assert_eq!(rig.ack_token(&pushed[0].1), driftq_core::Outcome::Ok);
    assert_eq!(rig.ack(&at(topic, 1), "o"), driftq_core::Answer::Settled);
    assert_eq!(rig.offsets(), [5, 6]);
    assert_eq!(rig.in_flight(topic), 4);
}

/// What holders of tokens have does not fill the small window of readers by name, in this run and in the next.
#[test]
fn what_is_lent_by_token_leaves_room_for_readers_by_name() {
    for snapshot_percent in [0, 50, 100] {
        let mut rig = rig();
        rig.snapshot_percent = snapshot_percent;
        let topic = rig.topic("t", 1);
        rig.produce_to(topic, &[0; 12]);
        let leased = rig.lease(topic, 4);
        assert_eq!(leased.len(), 4);
        rig.sync();
        rig.crash();
        rig.subscribe(topic, "g", "pushed", 99);
        assert_eq!(rig.offsets().len(), 2, "after a restart, {snapshot_percent}");
    }
    let mut rig = rig();
    let topic = rig.topic("t", 1);
    rig.produce_to(topic, &[0; 12]);
    let leased = rig.lease(topic, 4);
    rig.subscribe(topic, "g", "pushed", 99);
    assert_eq!(rig.offsets(), [4, 5], "four are on loan by token, and none by name");
    assert_eq!(rig.lease(topic, 9), [], "what is on loan by name counts for holders of tokens");
    rig.ack_token(&leased[0]);
    assert_eq!(rig.offsets(), [], "its own two are still on loan");
    rig.ack(&at(topic, 4), "pushed");
    assert_eq!(rig.offsets(), [6]);
}

/// Whatever ends a delivery makes room for the next one, at once.
#[test]
fn every_end_of_a_delivery_makes_room() {
    type End = fn(&mut Rig, &driftq_core::Delivery);
    let ends: [(&str, End); 9] = [
        ("ack", |rig, held| {
            rig.ack_token(held);
        }),
        ("nack", |rig, held| {
            rig.settle(held, crate::support::orders::nack_after(60_000));
        }),
        ("nacked dead", |rig, held| {
            rig.settle(held, crate::support::orders::nack_dead("no"));
        }),
        ("lapse", |rig, _| rig.advance(LEASE_MS)),
        ("removal", |rig, held| {
            rig.remove(vec![spotted(held.receipt.topic, held.receipt.offset)]);
        }),
        ("ack after cancellation", |rig, held| {
            rig.cancel(spotted(held.receipt.topic, held.receipt.offset));
            rig.ack_token(held);
        }),
        ("nack after cancellation", |rig, held| {
            rig.cancel(spotted(held.receipt.topic, held.receipt.offset));
            rig.settle(held, crate::support::orders::nack("no"));
        }),
        ("release after cancellation", |rig, held| {
            rig.cancel(spotted(held.receipt.topic, held.receipt.offset));
            rig.settle(held, Verdict::Release { delay_ms: 0 });
        }),
        ("lapse after cancellation", |rig, held| {
            rig.cancel(spotted(held.receipt.topic, held.receipt.offset));
            rig.advance(LEASE_MS);
        }),
    ];
    for (name, end) in ends {
        let mut rig = rig();
        let topic = rig.topic_with("t", 1, windowed(1));
        rig.produce(&Draft {
            retry: Some(driftq_core::RetryPolicy { backoff_ms: 60_000, ..Default::default() }),
            ..Draft::to(topic)
        });
        rig.produce(&Draft::to(topic));
        let held = rig.lease(topic, 1).remove(0);
        let waiter = rig.ask_lease(patient(topic, 1, 30_000));
        assert_eq!(rig.leased(waiter), None, "{name}: the window is full");
        end(&mut rig, &held);
        let next = rig.leased(waiter);
        assert_eq!(next.map(|next| crate::support::orders::offsets(&next)), Some(vec![1]), "{name}");
    }
}

#[test]
fn a_wider_window_counts_at_once_and_a_narrower_one_takes_nothing_back() {
    let mut rig = rig();
    let topic = rig.topic_with("t", 1, windowed(1));
    rig.produce_to(topic, &[0; 4]);
    rig.borrow(topic, "o", 99);
    assert_eq!(rig.offsets(), [0]);
    rig.configure(topic, TopicPatch { in_flight_max: Some(Some(3)), ..TopicPatch::default() });
    assert_eq!(rig.offsets(), [1, 2]);
    rig.configure(topic, TopicPatch { in_flight_max: Some(Some(1)), ..TopicPatch::default() });
    assert_eq!(rig.in_flight(topic), 3);
    rig.ack(&at(topic, 0), "o");
    rig.ack(&at(topic, 1), "o");
    assert_eq!(rig.offsets(), []);
    rig.ack(&at(topic, 2), "o");
    assert_eq!(rig.offsets(), [3]);
}

/// A partition that was too full for one reader is looked at again as soon as another one can take something.
#[test]
fn credit_that_comes_back_is_good_for_every_partition() {
    let mut rig = rig();
    let topic = rig.topic("t", 2);
    let borrower = rig.borrow(topic, "b", 1);
    rig.produce(&Draft::to(topic).partition(1));
    let held = rig.deliveries().remove(0).1;
    rig.subscribe(topic, "g", "p", 99);
    rig.produce_to(topic, &[0; 4]);
    assert_eq!(rig.offsets(), [1, 2], "the pushed window is full, and the borrower has no credit");
    rig.ack_token(&held);
    let next = rig.deliveries();
    assert_eq!(next.len(), 1, "its credit is back");
    assert_eq!((next[0].0, next[0].1.receipt.offset), (borrower, 3));
    rig.tell(Input::Credit { consumer: borrower, count: 1 });
    assert_eq!(rig.offsets(), [4], "and so is more of it");
}
