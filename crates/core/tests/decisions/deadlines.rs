//! Messages that nobody is to begin any more.

use crate::support::deeds::at;
use crate::support::orders::{EXTEND, nack, nack_after, offsets, request, spotted};
use crate::support::{Draft, LEASE_MS, Rig, START};
use driftq_core::{
    Answer, LeaseRequest, Outcome, Reject, SeekTo, Settings, Start, Time, TopicId, TopicSettings, Verdict,
    Wait,
};

const DEADLINE: Time = Time(START.0 + 500);

fn rig() -> (Rig, TopicId) {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    rig.subscribe(topic, "g", "o", 0);
    (rig, topic)
}

/// Buries everything that is to be, and says for whom and why.
fn buried(rig: &mut Rig) -> Vec<(u64, String, u32, &'static str)> {
    let mut seen = Vec::new();
    for burial in rig.fetches() {
        let group = burial.group.to_string();
        seen.push((burial.receipt.offset, group, burial.attempts, burial.reason.name()));
        rig.bury(&burial);
    }
    rig.sync();
    seen
}

fn late(offset: u64, group: &str, attempts: u32) -> (u64, String, u32, &'static str) {
    (offset, group.to_owned(), attempts, "deadline_passed")
}

#[test]
fn a_message_that_nobody_took_in_time_becomes_a_dead_letter_without_a_reader() {
    let (mut rig, topic) = rig();
    rig.subscribe(topic, "h", "o", 0);
    rig.produce(&Draft::to(topic).until(DEADLINE));
    rig.produce(&Draft::to(topic));
    rig.advance(499);
    assert_eq!(buried(&mut rig), []);
    rig.advance(1);
    assert_eq!(rig.standing(topic, 0, "g").wait, Wait::Dying);
    assert_eq!(buried(&mut rig), [late(0, "g", 0), late(0, "h", 0)]);
    assert_eq!((rig.lag(topic, "g"), rig.lag(topic, "h")), (1, 1));
    assert_eq!(rig.lease_offsets(topic, 9), [1]);
}

#[test]
fn it_is_never_delivered_late_and_survives_a_restart() {
    let (mut rig, topic) = rig();
    rig.produce(&Draft::to(topic).until(DEADLINE));
    rig.crash();
    rig.advance(500);
    assert_eq!(rig.lease_offsets(topic, 9), []);
    assert_eq!(rig.fetches().len(), 1);
    rig.crash();
    assert_eq!(rig.lease_offsets(topic, 9), [], "also not before the first tick");
    rig.advance(0);
    assert_eq!(buried(&mut rig), [late(0, "g", 0)]);
    assert_eq!(rig.lag(topic, "g"), 0);
}

#[test]
fn over_v1_a_deadline_says_nothing_once_the_message_is_stored() {
    let (mut rig, topic) = rig();
    rig.produce(&Draft { native: false, ..Draft::to(topic).until(DEADLINE) });
    rig.advance(500);
    assert_eq!((buried(&mut rig), rig.lease_offsets(topic, 9)), (vec![], vec![0]));
    let refused = rig.try_produce(&Draft { native: false, ..Draft::to(topic).until(DEADLINE) });
    assert_eq!(refused, Answer::Rejected(Reject::DeadlineExceeded), "as ever");
}

#[test]
fn who_holds_it_is_left_alone() {
    let (mut rig, topic) = rig();
    rig.produce(&Draft::to(topic).until(DEADLINE));
    let held = rig.lease(topic, 1);
    rig.advance(600);
    assert!(matches!(rig.settle(&held[0], EXTEND), Outcome::Extended { .. }));
    rig.advance(LEASE_MS - 1);
    assert_eq!(buried(&mut rig), []);
    assert_eq!(rig.ack_token(&held[0]), Outcome::Ok);
    assert_eq!((rig.lag(topic, "g"), buried(&mut rig)), (0, vec![]));
}

#[test]
fn what_comes_back_after_its_time_is_given_up() {
    let release = |delay_ms| Verdict::Release { delay_ms };
    for (verdict, attempts) in [
        (Some(nack("no")), 1),
        (Some(nack_after(9999)), 1),
        (Some(release(0)), 0),
        (Some(release(9999)), 0),
        (None, 1),
    ] {
        let (mut rig, topic) = rig();
        rig.produce(&Draft::to(topic).until(DEADLINE));
        let held = rig.lease(topic, 1);
        rig.advance(600);
        match verdict.clone() {
            // A failure after the deadline is the last one; what is only given back has not failed.
            Some(verdict) => {
                let is_nack = matches!(verdict, Verdict::Nack { .. });
                let expected = if is_nack { Outcome::Buried } else { Outcome::Ok };
                assert_eq!(rig.settle(&held[0], verdict), expected);
            }
            None => rig.advance(LEASE_MS),
        }
        assert_eq!(buried(&mut rig), [late(0, "g", attempts)], "{verdict:?}");
        assert_eq!(rig.lag(topic, "g"), 0);
    }
}

#[test]
fn what_waits_for_its_next_attempt_is_given_up_at_its_time() {
    let (mut rig, topic) = rig();
    rig.produce(&Draft::to(topic).until(DEADLINE));
    let held = rig.lease(topic, 1);
    rig.settle(&held[0], nack_after(10_000));
    rig.advance(499);
    assert_eq!(buried(&mut rig), []);
    rig.advance(1);
    assert_eq!(buried(&mut rig), [late(0, "g", 1)]);
    rig.advance(20_000);
    assert_eq!((rig.lease_offsets(topic, 9), rig.fetches()), (vec![], vec![]));
}

#[test]
fn the_last_attempt_is_the_reason_if_both_hold() {
    let (mut rig, topic) = rig();
    rig.produce(&Draft::to(topic).until(DEADLINE).attempts(1));
    let held = rig.lease(topic, 1);
    rig.advance(600);
    rig.settle(&held[0], nack("no"));
    assert_eq!(buried(&mut rig), [(0, "g".to_owned(), 1, "max_attempts_reached")]);
}

#[test]
fn a_payload_that_cannot_be_read_is_asked_for_again() {
    let (mut rig, topic) = rig();
    rig.produce(&Draft::to(topic).until(DEADLINE));
    rig.advance(500);
    let first = rig.fetches().remove(0);
    rig.tell(driftq_core::Input::FetchFailed { receipt: first.receipt });
    rig.advance(1000);
    assert_eq!(buried(&mut rig), [late(0, "g", 0)]);
}

#[test]
fn what_waits_for_a_first_group_is_given_up_by_it() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    rig.produce(&Draft::to(topic).until(DEADLINE));
    rig.advance(600);
    rig.subscribe(topic, "g", "o", 0);
    rig.advance(0);
    assert_eq!(buried(&mut rig), [late(0, "g", 0)]);
}

#[test]
fn the_next_of_its_key_goes_on_and_a_scheduled_one_leaves_the_schedule() {
    let mut rig = Rig::new(Settings::default());
    let topic =
        rig.topic_with("t", 1, TopicSettings { order: driftq_core::Order::Key, ..TopicSettings::default() });
    rig.subscribe(topic, "g", "o", 0);
    let key = driftq_core::KeyHash(7);
    rig.produce(&Draft { key, ..Draft::to(topic).until(DEADLINE) });
    rig.produce(&Draft { key, ..Draft::to(topic) });
    rig.produce(&Draft { start: Start::After(5000), ..Draft::to(topic).until(DEADLINE) });
    assert_eq!(rig.topic_described(topic).scheduled, 1);
    rig.advance(500);
    assert_eq!(buried(&mut rig), [late(0, "g", 0), late(2, "g", 0)]);
    assert_eq!((rig.topic_described(topic).scheduled, rig.lease_offsets(topic, 9)), (0, vec![1]));
}

#[test]
fn of_one_identity_the_running_one_decides() {
    let mut rig = Rig::new(Settings { idempotency_ttl_ms: 100, ..Settings::default() });
    let topic = rig.topic("t", 1);
    rig.produce(&Draft::to(topic).keyed("k"));
    let held = rig.lease(topic, 1);
    rig.advance(150);
    let second = Draft::to(topic).keyed("k").until(DEADLINE);
    assert_eq!(rig.produce(&second), 1, "the first one's key is not remembered any more");
    rig.advance(450);
    assert_eq!(buried(&mut rig), []);
    assert_eq!(rig.ack_token(&held[0]), Outcome::Ok);
    assert_eq!((rig.lease_offsets(topic, 9), rig.lag(topic, "g"), buried(&mut rig)), (vec![], 0, vec![]));
}

#[test]
fn a_late_group_passes_over_history_that_was_of_use_in_its_time() {
    let mut rig = Rig::new(Settings::default());
    let own = TopicSettings { keep_ms: Some(60_000), ..TopicSettings::default() };
    let topic = rig.topic_with("t", 1, own);
    rig.subscribe(topic, "g", "o", 0);
    rig.produce(&Draft::to(topic).until(DEADLINE));
    rig.produce(&Draft::to(topic));
    for delivery in rig.lease(topic, 9) {
        rig.ack_token(&delivery);
    }
    rig.advance(600);
    let late = rig.lease_as(LeaseRequest { group: "late".into(), ..request(topic, 9) });
    assert_eq!((offsets(&late), buried(&mut rig), rig.lag(topic, "late")), (vec![1], vec![], 1));
    rig.seek(topic, "g", None, SeekTo::Earliest);
    rig.advance(0);
    assert_eq!((rig.lag(topic, "g"), buried(&mut rig)), (1, vec![]));
    assert!(rig.message_described(spotted(topic, 0)).is_some(), "it is still there to be looked at");
}

#[test]
fn dead_letters_have_no_deadline() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("dlq.t", 1);
    rig.produce(&Draft::to(topic).until(DEADLINE));
    rig.advance(600);
    rig.subscribe(topic, "g", "o", 0);
    assert_eq!((rig.lease_offsets(topic, 9), buried(&mut rig)), (vec![0], vec![]));
    assert_eq!(rig.ack(&at(topic, 0), "o"), Answer::Settled);
}
