//! An operator does not want to wait for the next attempt of a message.

use crate::support::orders::{nack_after, nack_dead, spotted};
use crate::support::{LEASE_MS, Rig};
use driftq_core::{
    Answer, Input, OrderInput, Outcome, Reject, RetryPolicy, Settings, TopicId, TopicSettings, Verdict, Wait,
};

/// A topic whose messages have three attempts, with one message in it.
fn rig() -> (Rig, TopicId) {
    let mut rig = Rig::new(Settings::default());
    let retry = Some(RetryPolicy { max_attempts: 3, ..RetryPolicy::default() });
    let topic = rig.topic_with("t", 1, TopicSettings { retry, ..TopicSettings::default() });
    rig.produce_to(topic, &[0]);
    (rig, topic)
}

fn retry(rig: &mut Rig, topic: TopicId, offset: u64) -> Answer {
    let message = spotted(topic, offset);
    rig.ask_durably(|ticket| Input::Order(OrderInput::Retry { ticket, message }))
}

fn of(groups: &[&str]) -> Answer {
    Answer::Hurried { groups: groups.iter().map(|group| (*group).into()).collect() }
}

#[test]
fn a_failed_message_comes_at_once_and_the_attempt_counts() {
    let (mut rig, topic) = rig();
    let held = rig.lease(topic, 1).remove(0);
    rig.settle(&held, nack_after(60_000));
    assert_eq!(rig.lease_offsets(topic, 1), []);
    assert_eq!(retry(&mut rig, topic, 0), of(&["g"]));
    let again = rig.lease(topic, 1).remove(0);
    assert_eq!((again.attempt, &*again.last_error), (2, "later"));
    assert_eq!(rig.settle(&again, Verdict::Ack), Outcome::Ok);
    rig.advance(60_000);
    assert_eq!(rig.lease_offsets(topic, 1), [], "the time that it was to wait brings nothing");
}

#[test]
fn what_a_worker_put_off_comes_at_once_too() {
    let (mut rig, topic) = rig();
    let held = rig.lease(topic, 1).remove(0);
    rig.settle(&held, Verdict::Release { delay_ms: 60_000 });
    assert_eq!(retry(&mut rig, topic, 0), of(&["g"]));
    assert_eq!(rig.lease(topic, 1).remove(0).attempt, 1);
}

#[test]
fn a_crash_does_not_make_it_wait_again() {
    let (mut rig, topic) = rig();
    let held = rig.lease(topic, 1).remove(0);
    rig.settle(&held, nack_after(60_000));
    assert_eq!(retry(&mut rig, topic, 0), of(&["g"]));
    rig.crash();
    let standing = rig.standing(topic, 0, "g");
    assert_eq!((standing.wait, standing.history.len()), (Wait::Ready, 1));
    assert_eq!(rig.lease_offsets(topic, 1), [0]);
}

#[test]
fn whatever_does_not_wait_for_an_attempt_stays_as_it_is() {
    let (mut rig, topic) = rig();
    assert_eq!(retry(&mut rig, topic, 0), of(&[]), "no group has had it");
    let held = rig.lease(topic, 1).remove(0);
    assert_eq!(retry(&mut rig, topic, 0), of(&[]), "a worker holds it");
    assert_eq!(rig.standing(topic, 0, "g").until, Some(rig.now.after_ms(LEASE_MS)));
    rig.settle(&held, nack_dead("poison"));
    assert_eq!(retry(&mut rig, topic, 7), Answer::Rejected(Reject::MessageUnknown));
}

#[test]
fn asking_again_changes_nothing() {
    let (mut rig, topic) = rig();
    let held = rig.lease(topic, 1).remove(0);
    rig.settle(&held, nack_after(60_000));
    assert_eq!(retry(&mut rig, topic, 0), of(&["g"]));
    assert_eq!(retry(&mut rig, topic, 0), of(&[]));
    assert_eq!(rig.lease_offsets(topic, 2), [0], "once, and not twice");
}
