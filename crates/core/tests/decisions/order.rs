//! Which message goes first: priorities, offsets, and the share of retries.

use crate::support::orders::{nack, nack_after};
use crate::support::{Draft, LEASE_MS, Rig};
use driftq_core::{Order, Outcome, Settings, TopicId, TopicPatch, TopicSettings, Verdict};

fn rig(settings: TopicSettings) -> (Rig, TopicId) {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic_with("t", 1, settings);
    rig.lease(topic, 1);
    (rig, topic)
}

fn ordered(order: Order) -> (Rig, TopicId) {
    rig(TopicSettings { order, ..TopicSettings::default() })
}

fn prioritized(rig: &mut Rig, topic: TopicId, priorities: &[u8]) {
    for &priority in priorities {
        rig.produce(&Draft { priority, ..Draft::to(topic) });
    }
}

#[test]
fn the_highest_priority_goes_first_and_the_oldest_of_each() {
    let (mut rig, topic) = ordered(Order::Priority);
    prioritized(&mut rig, topic, &[0, 9, 1, 0, 9, 5]);
    assert_eq!(rig.lease_offsets(topic, 2), [1, 4]);
    prioritized(&mut rig, topic, &[9, 0]);
    assert_eq!(rig.lease_offsets(topic, 9), [6, 5, 2, 0, 3, 7]);
}

#[test]
fn where_order_is_by_offset_priorities_are_kept_and_change_nothing() {
    for order in [Order::Fifo, Order::Key] {
        let (mut rig, topic) = ordered(order);
        prioritized(&mut rig, topic, &[0, 9, 1]);
        let leased = rig.lease(topic, 9);
        assert_eq!(crate::support::orders::offsets(&leased), [0, 1, 2], "{order:?}");
        assert_eq!(leased[1].priority, 9);
        rig.crash();
        assert_eq!(rig.lease_offsets(topic, 9), [0, 1, 2], "{order:?} after a restart");
    }
}

#[test]
fn priorities_survive_a_restart_and_a_change_of_the_order() {
    let (mut rig, topic) = ordered(Order::Priority);
    prioritized(&mut rig, topic, &[0, 9, 1, 5]);
    rig.crash();
    assert_eq!(rig.lease_offsets(topic, 1), [1]);
    rig.configure(topic, TopicPatch { order: Some(Order::Fifo), ..TopicPatch::default() });
    assert_eq!(rig.lease_offsets(topic, 1), [0]);
    rig.configure(topic, TopicPatch { order: Some(Order::Priority), ..TopicPatch::default() });
    assert_eq!(rig.lease_offsets(topic, 9), [3, 2]);
}

/// What is given back unused has not failed: it is fresh in its old place.
#[test]
fn what_did_not_fail_goes_back_to_its_place() {
    let (mut rig, topic) = ordered(Order::Priority);
    prioritized(&mut rig, topic, &[0, 5, 0, 5]);
    let leased = rig.lease(topic, 2);
    rig.settle(&leased[1], Verdict::Release { delay_ms: 0 });
    rig.settle(&leased[0], Verdict::Release { delay_ms: 0 });
    assert_eq!(rig.lease_offsets(topic, 3), [1, 3, 0]);
}

/// Makes `count` messages fail once and stand ready again.
fn fail(rig: &mut Rig, topic: TopicId, count: u32) {
    let leased = rig.lease(topic, count);
    assert_eq!(leased.len(), count as usize);
    for delivery in &leased {
        assert_eq!(rig.settle(delivery, nack_after(10)), Outcome::Ok);
    }
    rig.advance(10);
}

/// Which of the next `count` deliveries are retries.
fn retries(rig: &mut Rig, topic: TopicId, count: u32) -> Vec<bool> {
    rig.lease(topic, count).iter().map(|delivery| delivery.attempt > 1).collect()
}

#[test]
fn while_both_stand_ready_retries_get_their_share_and_the_first_turn() {
    for (share, of_a_hundred) in [(None, 20), (Some(1), 1), (Some(50), 50), (Some(100), 100), (Some(33), 33)]
    {
        let (mut rig, topic) = rig(TopicSettings { retry_share: share, ..TopicSettings::default() });
        rig.produce_to(topic, &[0; 150]);
        fail(&mut rig, topic, 150);
        rig.produce_to(topic, &[0; 150]);
        let turns = retries(&mut rig, topic, 100);
        assert_eq!(turns.iter().filter(|retry| **retry).count(), of_a_hundred, "{share:?}");
        assert!(turns[0], "{share:?}: the first turn is the retry's");
        // Spread out, not bunched: no stretch without a retry is longer than it must be.
        let longest = turns.split(|retry| *retry).map(<[bool]>::len).max().unwrap_or(0);
        assert!(longest <= (100 / of_a_hundred), "{share:?}: {longest}");
    }
}

#[test]
fn when_only_one_kind_stands_ready_it_gets_everything() {
    let (mut rig, topic) = rig(TopicSettings { retry_share: Some(1), ..TopicSettings::default() });
    rig.produce_to(topic, &[0; 30]);
    fail(&mut rig, topic, 30);
    assert_eq!(retries(&mut rig, topic, 30), [true; 30]);
    rig.produce_to(topic, &[0; 30]);
    assert_eq!(retries(&mut rig, topic, 30), [false; 30]);
}

/// Due retries go by priority where priorities count, then by when they became due, then by offset.
#[test]
fn retries_go_by_priority_then_by_due_time_then_by_offset() {
    for (order, first) in [(Order::Priority, [1, 2, 3, 0]), (Order::Fifo, [1, 2, 3, 0])] {
        let (mut rig, topic) = ordered(order);
        prioritized(&mut rig, topic, &[0; 4]);
        let leased = rig.lease(topic, 4);
        for (delivery, delay_ms) in leased.iter().zip([30, 10, 10, 20]) {
            rig.settle(delivery, nack_after(delay_ms));
        }
        rig.advance(30);
        assert_eq!(rig.lease_offsets(topic, 9), first, "{order:?}");
    }
    for (order, first) in [(Order::Priority, [1, 2, 0]), (Order::Fifo, [0, 1, 2])] {
        let (mut rig, topic) = ordered(order);
        prioritized(&mut rig, topic, &[0, 9, 5]);
        fail(&mut rig, topic, 3);
        assert_eq!(rig.lease_offsets(topic, 9), first, "{order:?}");
    }
}

/// A worker that hangs, one message at a time: once all are retries, each waits for as many deliveries as there are
/// messages, and for no more.
#[test]
fn a_hanging_worker_tries_every_message_in_turn() {
    const MESSAGES: usize = 12;
    for restarts in [false, true] {
        let (mut rig, topic) = rig(TopicSettings::default());
        rig.produce_to(topic, &[0; MESSAGES]);
        let mut last = [0; MESSAGES];
        for round in 1..MESSAGES * 8 {
            let hung = rig.lease(topic, 1).remove(0);
            last[hung.receipt.offset as usize] = round;
            let longest = last.iter().map(|tried| round - tried).max().unwrap_or(0);
            // While there are fresh messages, retries have one turn of five.
            assert!(longest <= if last.contains(&0) { MESSAGES * 2 } else { MESSAGES }, "{round}: {last:?}");
            rig.advance(LEASE_MS);
            if restarts && round % 5 == 0 {
                rig.sync();
                rig.crash();
            }
        }
        assert!(!last.contains(&0), "every message had its turn: {last:?}");
    }
}

/// A queue full of messages that always fail: what is new goes through, at its pace.
#[test]
fn a_storm_of_poison_starves_nobody() {
    let (mut rig, topic) = rig(TopicSettings::default());
    rig.produce_to(topic, &[0; 50]);
    let mut done = 0;
    for round in 0..200 {
        rig.produce_to(topic, &[0; 4]);
        for delivery in rig.lease(topic, 5) {
            let poison = delivery.receipt.offset < 50;
            let verdict = if poison { nack_after(0) } else { Verdict::Ack };
            done += u32::from(!poison);
            rig.settle(&delivery, verdict);
        }
        rig.advance(0);
        assert!(done + 60 >= (round + 1) * 4, "round {round}: only {done} are done");
    }
    assert!(done >= 740, "{done} of 800");
}

/// More fresh work than can be done, for ever: what failed once is tried again, soon.
#[test]
fn a_flood_of_fresh_messages_starves_no_retry() {
    let (mut rig, topic) = rig(TopicSettings::default());
    rig.produce_to(topic, &[0; 40]);
    fail(&mut rig, topic, 40);
    let mut waited = 0;
    while rig.group_described(topic, "g").is_some_and(|group| group.partitions[0].retrying > 0) {
        prioritized(&mut rig, topic, &[9; 10]);
        for delivery in rig.lease(topic, 5) {
            rig.ack_token(&delivery);
        }
        waited += 1;
        assert!(waited <= 40, "one of five is a retry");
    }
    assert_eq!(waited, 40);
}

#[test]
fn a_lapse_is_a_retry() {
    let (mut rig, topic) = rig(TopicSettings { retry_share: Some(1), ..TopicSettings::default() });
    rig.produce_to(topic, &[0; 2]);
    rig.lease(topic, 2);
    rig.produce_to(topic, &[0; 3]);
    rig.advance(LEASE_MS);
    assert_eq!(retries(&mut rig, topic, 5), [true, false, false, false, true]);
}

/// The caveats that come with order by offset, each as it is.
#[test]
fn order_is_by_offset_as_long_as_nothing_fails() {
    let (mut rig, topic) = rig(TopicSettings::default());
    rig.produce_to(topic, &[0; 3]);
    let (one, two) = (rig.lease(topic, 1).remove(0), rig.lease(topic, 1).remove(0));
    assert_eq!((one.receipt.offset, two.receipt.offset), (0, 1), "two workers, each in turn");
    assert_eq!(rig.ack_token(&two), Outcome::Ok, "the second may be done before the first");
    rig.settle(&one, nack("no"));
    assert_eq!(rig.lease_offsets(topic, 1), [2], "a retry is looked at again once its time has come");
    rig.advance(0);
    assert_eq!(rig.lease_offsets(topic, 1), [0]);
}
