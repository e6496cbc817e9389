//! What holds for messages and topics that say nothing.

use crate::support::orders::{nack, spotted};
use crate::support::{Draft, Rig};
use driftq_core::{Answer, Jitter, Reject, RetryPolicy, Settings, Start, TopicId, TopicSettings};

fn policy(max_attempts: u32) -> RetryPolicy {
    RetryPolicy { max_attempts, backoff_ms: 10, max_backoff_ms: 20, jitter: Jitter::Full }
}

/// Fails a message until it dies, at most so often; says how often that was.
fn attempts(rig: &mut Rig, topic: TopicId, most: u32) -> Option<u32> {
    for attempt in 1..=most {
        rig.advance(10 * 60 * 1000);
        let held = rig.lease(topic, 1);
        rig.settle(held.first()?, nack("no"));
        if rig.fetches().len() == 1 {
            return Some(attempt);
        }
    }
    None
}

fn in_force(rig: &mut Rig, topic: TopicId, offset: u64) -> Option<RetryPolicy> {
    rig.message_described(spotted(topic, offset)).expect("it is kept").found.retry
}

#[test]
fn a_message_without_a_policy_ends_over_v2_and_never_over_v1() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    rig.subscribe(topic, "g", "o", 0);
    rig.produce(&Draft::to(topic).native());
    assert_eq!(in_force(&mut rig, topic, 0), Some(Settings::default().retry));
    assert_eq!(attempts(&mut rig, topic, 30), Some(20));
    let old = rig.topic("u", 1);
    rig.subscribe(old, "g", "o", 0);
    rig.produce(&Draft::to(old));
    assert_eq!(in_force(&mut rig, old, 0), None);
    assert_eq!(attempts(&mut rig, old, 100), None);
}

#[test]
fn the_message_decides_then_the_topic_then_the_server() {
    let server = Settings { retry: policy(4), ..Settings::default() };
    for (own, of_topic, expected) in
        [(Some(policy(2)), Some(policy(3)), 2), (None, Some(policy(3)), 3), (None, None, 4)]
    {
        let mut rig = Rig::new(server.clone());
        let topic = rig.topic_with("t", 1, TopicSettings { retry: of_topic, ..TopicSettings::default() });
        rig.subscribe(topic, "g", "o", 0);
        rig.produce(&Draft { retry: own, ..Draft::to(topic).native() });
        assert_eq!(in_force(&mut rig, topic, 0), Some(policy(expected)));
        assert_eq!(attempts(&mut rig, topic, 9), Some(expected));
    }
}

#[test]
fn a_server_can_say_for_ever_and_a_message_keeps_what_it_was_stored_with() {
    let mut rig = Rig::new(Settings { retry: policy(3), ..Settings::default() });
    let topic = rig.topic("t", 1);
    rig.produce(&Draft::to(topic).native());
    rig.settings.retry = RetryPolicy::default();
    rig.crash();
    rig.produce(&Draft::to(topic).native());
    assert_eq!((in_force(&mut rig, topic, 0), in_force(&mut rig, topic, 1)), (Some(policy(3)), None));
}

#[test]
fn what_would_be_dropped_before_it_is_due_is_refused() {
    let mut rig = Rig::new(Settings::default());
    let topic =
        rig.topic_with("t", 1, TopicSettings { retention_ms: Some(1000), ..TopicSettings::default() });
    let after = |rig: &Rig, ms| [Start::After(ms), Start::At(rig.now.after_ms(ms))];
    for start in after(&rig, 1000) {
        match rig.try_produce(&Draft { start, ..Draft::to(topic) }) {
            Answer::Rejected(Reject::Invalid(why)) => assert!(why.contains("retention_ms"), "{why}"),
            other => panic!("{start:?}: {other:?}"),
        }
    }
    for start in after(&rig, 999) {
        rig.produce(&Draft { start, ..Draft::to(topic) });
    }
    rig.subscribe(topic, "g", "o", 9);
    rig.advance(999);
    assert_eq!(rig.offsets(), [0, 1]);
}
