//! A delivery that is put off: later, and nobody's failure.

use crate::support::orders::{nack, spotted};
use crate::support::{LEASE_MS, Rig};
use driftq_core::{Outcome, RetryPolicy, Settings, TopicId, TopicSettings, Verdict, Wait};

const SNOOZE: Verdict = Verdict::Release { delay_ms: 5_000 };

/// A topic whose messages have this many attempts, with one message in it.
fn rig(max_attempts: u32) -> (Rig, TopicId) {
    let mut rig = Rig::new(Settings::default());
    let retry = Some(RetryPolicy { max_attempts, ..RetryPolicy::default() });
    let topic = rig.topic_with("t", 1, TopicSettings { retry, ..TopicSettings::default() });
    rig.produce_to(topic, &[0]);
    (rig, topic)
}

#[test]
fn it_comes_when_its_time_is_over_and_the_attempt_does_not_count() {
    let (mut rig, topic) = rig(1);
    for _ in 0..3 {
        let held = rig.lease(topic, 1).remove(0);
        assert_eq!((held.attempt, &*held.last_error), (1, ""));
        assert_eq!(rig.settle(&held, SNOOZE), Outcome::Ok);
        let standing = rig.standing(topic, 0, "g");
        assert_eq!((standing.wait, standing.attempts), (Wait::Backoff, 0));
        assert_eq!(standing.until, Some(rig.now.after_ms(5_000)));
        rig.advance(4_999);
        assert_eq!(rig.lease_offsets(topic, 1), []);
        rig.advance(1);
    }
    let last = rig.lease(topic, 1).remove(0);
    assert_eq!(rig.ack_token(&last), Outcome::Ok);
    assert_eq!(rig.lag(topic, "g"), 0);
}

#[test]
fn what_failed_before_stays_known() {
    let (mut rig, topic) = rig(3);
    let first = rig.lease(topic, 1).remove(0);
    rig.settle(&first, nack("why"));
    rig.advance(0);
    let second = rig.lease(topic, 1).remove(0);
    rig.settle(&second, SNOOZE);
    rig.advance(5_000);
    let again = rig.lease(topic, 1).remove(0);
    assert_eq!((again.attempt, &*again.last_error), (2, "why"));
    assert_eq!(rig.standing(topic, 0, "g").history.len(), 1, "only the failure");
}

#[test]
fn whoever_put_it_off_has_no_say_any_more() {
    let (mut rig, topic) = rig(3);
    let held = rig.lease(topic, 1).remove(0);
    rig.settle(&held, SNOOZE);
    for verdict in [Verdict::Ack, nack("no"), Verdict::Extend { lease_ms: None, begun: true }, SNOOZE] {
        assert_eq!(rig.settle(&held, verdict), Outcome::Stale { attempt: Some(0) });
    }
    rig.advance(5_000);
    assert_eq!(rig.lease_offsets(topic, 1), [0]);
}

#[test]
fn a_restart_neither_forgets_nor_hurries_it() {
    let (mut rig, topic) = rig(1);
    let held = rig.lease(topic, 1).remove(0);
    rig.settle(&held, SNOOZE);
    rig.crash();
    rig.advance(4_000);
    rig.crash();
    assert_eq!(rig.lease_offsets(topic, 1), []);
    rig.advance(1_000);
    let again = rig.lease(topic, 1).remove(0);
    assert_eq!((again.receipt.offset, again.attempt), (0, 1));
}

#[test]
fn a_holder_that_was_too_slow_may_still_put_it_off() {
    let (mut rig, topic) = rig(2);
    let held = rig.lease(topic, 1).remove(0);
    rig.advance(LEASE_MS);
    assert_eq!(rig.settle(&held, SNOOZE), Outcome::Ok);
    assert_eq!(rig.lease_offsets(topic, 1), [], "the retry that the lapse had scheduled is off");
    rig.advance(5_000);
    assert_eq!(rig.lease(topic, 1).remove(0).attempt, 1);
}

#[test]
fn a_cancelled_message_does_not_come_back() {
    let (mut rig, topic) = rig(2);
    let held = rig.lease(topic, 1).remove(0);
    rig.cancel(spotted(topic, 0));
    assert_eq!(rig.settle(&held, SNOOZE), Outcome::Ok);
    rig.advance(5_000);
    assert_eq!((rig.lease_offsets(topic, 1), rig.lag(topic, "g")), (vec![], 0));
}
