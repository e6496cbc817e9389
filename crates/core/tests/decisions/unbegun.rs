//! What a worker borrowed ahead of time and dies with.

use crate::support::orders::nack;
use crate::support::{Draft, LEASE_MS, Rig};
use driftq_core::{Delivery, Outcome, Settings, TopicId, Verdict};

fn beat(rig: &mut Rig, delivery: &Delivery, begun: bool) {
    let outcome = rig.settle(delivery, Verdict::Extend { lease_ms: Some(LEASE_MS), begun });
    assert!(matches!(outcome, Outcome::Extended { .. }), "{outcome:?}");
}

fn rig() -> (Rig, TopicId) {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    (rig, topic)
}

/// Lends the message, says so or so about it, and lets the lease lapse; gives the attempt.
fn lapse(rig: &mut Rig, topic: TopicId, said: &[bool]) -> u32 {
    let held = rig.lease(topic, 1).remove(0);
    for begun in said {
        beat(rig, &held, *begun);
    }
    rig.advance(LEASE_MS + 1000);
    held.attempt
}

#[test]
fn what_was_not_begun_loses_no_attempt() {
    let (mut rig, topic) = rig();
    rig.produce(&Draft::to(topic).attempts(2));
    assert_eq!(lapse(&mut rig, topic, &[false]), 1);
    assert_eq!(lapse(&mut rig, topic, &[true, false]), 1);
    assert_eq!(lapse(&mut rig, topic, &[false, true]), 1, "and this one it had begun");
    assert_eq!(lapse(&mut rig, topic, &[]), 2);
    assert_eq!(rig.fetches().len(), 1, "without a word it counts as ever");
}

#[test]
fn a_message_is_spared_three_times_and_no_more() {
    let (mut rig, topic) = rig();
    rig.produce(&Draft::to(topic).attempts(2));
    let attempts: Vec<u32> = (0..5).map(|_| lapse(&mut rig, topic, &[false])).collect();
    assert_eq!((attempts, rig.fetches().len()), (vec![1, 1, 1, 1, 2], 1));
}

#[test]
fn the_word_is_of_one_delivery_only() {
    let (mut rig, topic) = rig();
    rig.produce(&Draft::to(topic));
    let held = rig.lease(topic, 1).remove(0);
    beat(&mut rig, &held, false);
    rig.settle(&held, nack("no"));
    rig.advance(1000);
    assert_eq!(lapse(&mut rig, topic, &[]), 2);
    assert_eq!(lapse(&mut rig, topic, &[]), 3);
}

#[test]
fn who_comes_too_late_finds_it_given_back() {
    let (mut rig, topic) = rig();
    rig.produce(&Draft::to(topic));
    let held = rig.lease(topic, 1).remove(0);
    beat(&mut rig, &held, false);
    rig.advance(LEASE_MS);
    assert!(matches!(rig.ack_token(&held), Outcome::Stale { .. }));
    assert_eq!(rig.lease(topic, 1)[0].attempt, 1);
}
