//! A message that waits for an effect: nobody's failure, and due as soon as the effect is over or free.

use crate::support::ledger::{effect_identity, repeatable, resolving, tied, wish};
use crate::support::orders::nack;
use crate::support::{LEASE_MS, Rig};
use driftq_core::ledger::Status;
use driftq_core::{
    Delivery, DeliveryFact, EffectInput, EffectLease, Fact, Input, OrderInput, Outcome, RetryPolicy,
    Settings, TopicId, TopicSettings, Verdict, Wait,
};

const DELAY_MS: u64 = 300_000;

fn awaiting(key: &str) -> Verdict {
    Verdict::Await { effect: effect_identity(key), delay_ms: Some(DELAY_MS) }
}

/// A topic whose messages have this many attempts, with one message in it.
fn rig(max_attempts: u32) -> (Rig, TopicId) {
    let mut rig = Rig::new(Settings::default());
    let retry = Some(RetryPolicy { max_attempts, ..RetryPolicy::default() });
    let topic = rig.topic_with("t", 1, TopicSettings { retry, ..TopicSettings::default() });
    rig.produce_to(topic, &[0]);
    (rig, topic)
}

fn taken(rig: &mut Rig, topic: TopicId) -> Delivery {
    rig.lease(topic, 1).remove(0)
}

fn release(rig: &mut Rig, lease: EffectLease, uncertain: bool) {
    let receipt = lease.receipt;
    rig.ask_durably(|ticket| Input::Effect(EffectInput::Release { ticket, receipt, uncertain }));
}

#[test]
fn fifty_rounds_of_waiting_burn_no_attempt_and_the_resolution_brings_it_at_once() {
    let (mut rig, topic) = rig(3);
    let lapsing = rig.executes(wish("k"));
    release(&mut rig, lapsing, true);
    for _ in 0..50 {
        let held = taken(&mut rig, topic);
        assert_eq!((held.attempt, &*held.last_error), (1, ""));
        assert_eq!(rig.settle(&held, awaiting("k")), Outcome::Ok);
        let standing = rig.standing(topic, 0, "g");
        assert_eq!((standing.wait, standing.attempts), (Wait::Effect, 0));
        assert_eq!(standing.until, Some(rig.now.after_ms(DELAY_MS)));
        rig.advance(DELAY_MS - 1);
        assert_eq!(rig.lease_offsets(topic, 1), []);
        rig.advance(1);
    }
    let held = taken(&mut rig, topic);
    rig.settle(&held, awaiting("k"));
    rig.advance(10);
    assert_eq!(rig.lease_offsets(topic, 1), []);
    rig.resolve(resolving("k", Status::Succeeded, "found"));
    rig.advance(0);
    let last = taken(&mut rig, topic);
    assert_eq!(last.attempt, 1, "fifty-one times later it is still the first");
    assert_eq!(rig.ack_token(&last), Outcome::Ok);
    assert_eq!(rig.lag(topic, "g"), 0, "and no dead letter");
    assert!(rig.shard.state().topics().all(|topic| &*topic.name != "dlq.t"));
}

#[test]
fn every_way_in_which_an_effect_frees_what_waits_for_it() {
    type Way = fn(&mut Rig, EffectLease);
    let ways: [(&str, Way); 6] = [
        ("finished", |rig, lease| drop(rig.finish(lease, Status::Succeeded, "x"))),
        ("failed for now", |rig, lease| drop(rig.finish(lease, Status::FailedRetryable, "x"))),
        ("failed for good", |rig, lease| drop(rig.finish(lease, Status::FailedFinal, "x"))),
        ("released", |rig, lease| release(rig, lease, false)),
        ("lapsed, and may be repeated", |rig, _| rig.advance(LEASE_MS)),
        ("finished by a commit", |rig, lease| {
            let finish = crate::support::ledger::finishing(lease.receipt, Status::Succeeded, "x");
            rig.commit(driftq_core::Commit { finishes: vec![finish], ..driftq_core::Commit::default() });
        }),
    ];
    for (name, free) in ways {
        let (mut rig, topic) = rig(1);
        let lease = rig.executes(repeatable("k"));
        let held = taken(&mut rig, topic);
        assert_eq!(rig.settle(&held, awaiting("k")), Outcome::Ok);
        rig.advance(0);
        assert_eq!(rig.lease_offsets(topic, 1), [], "{name}: too early");
        free(&mut rig, lease);
        rig.advance(0);
        assert_eq!(taken(&mut rig, topic).attempt, 1, "{name}");
    }
}

#[test]
fn it_goes_on_waiting_while_nobody_knows_or_somebody_runs_it_again() {
    let (mut rig, topic) = rig(1);
    let lease = rig.executes(wish("k"));
    let held = taken(&mut rig, topic);
    rig.settle(&held, awaiting("k"));
    rig.advance(LEASE_MS);
    assert_eq!(rig.status("k"), Status::Unknown);
    assert_eq!(rig.lease_offsets(topic, 1), [], "a lapse that nobody may repeat is not an end");
    rig.finish(lease, Status::FailedRetryable, "no");
    // The wake-up and whoever asks first come together.
    let again = rig.executes(crate::support::ledger::eager(wish("k")));
    rig.advance(0);
    let early = rig.lease_offsets(topic, 1);
    assert!(early.is_empty() || early == [0], "{early:?}");
    rig.finish(again, Status::Succeeded, "x");
    rig.advance(DELAY_MS);
    assert_eq!(rig.lag(topic, "g"), 1);
}

#[test]
fn whoever_runs_it_again_before_the_wake_up_is_waited_for_too() {
    for ends in [true, false] {
        let (mut rig, topic) = rig(1);
        let lease = rig.executes(BeginLong::wish("k"));
        let held = taken(&mut rig, topic);
        rig.settle(&held, awaiting("k"));
        rig.finish(lease, Status::FailedRetryable, "no");
        let again = rig.executes(crate::support::ledger::eager(BeginLong::wish("k")));
        rig.advance(0);
        assert_eq!(rig.lease_offsets(topic, 1), []);
        if ends {
            rig.finish(again, Status::Succeeded, "x");
            rig.advance(0);
        } else {
            rig.advance(DELAY_MS);
        }
        assert_eq!(rig.lease_offsets(topic, 1), [0], "the effect ended: {ends}");
    }
}

#[test]
fn a_restart_keeps_what_it_waits_for() {
    for percent in [0, 100] {
        let (mut rig, topic) = rig(1);
        rig.snapshot_percent = percent;
        let lease = rig.executes(wish("k"));
        let held = taken(&mut rig, topic);
        rig.settle(&held, awaiting("k"));
        rig.crash();
        assert_eq!(rig.standing(topic, 0, "g").wait, Wait::Effect);
        assert_eq!(rig.lease_offsets(topic, 1), []);
        rig.finish(lease, Status::Succeeded, "x");
        rig.advance(0);
        assert_eq!(taken(&mut rig, topic).attempt, 1);
    }
    // And what ended shortly before it.
    let (mut rig, topic) = rig(1);
    let lease = rig.executes(wish("k"));
    let held = taken(&mut rig, topic);
    rig.settle(&held, awaiting("k"));
    rig.finish(lease, Status::Succeeded, "x");
    rig.crash();
    assert_eq!(taken(&mut rig, topic).attempt, 1);
}

#[test]
fn an_effect_that_is_free_is_not_waited_for() {
    for known in [false, true] {
        let (mut rig, topic) = rig(1);
        if known {
            let lease = rig.executes(wish("k"));
            rig.finish(lease, Status::Succeeded, "x");
        }
        let held = taken(&mut rig, topic);
        assert_eq!(rig.settle(&held, awaiting("k")), Outcome::Ok);
        assert_eq!(rig.lease_offsets(topic, 1), [], "but nobody spins");
        rig.advance(100);
        assert_eq!(taken(&mut rig, topic).attempt, 1);
    }
}

#[test]
fn without_a_delay_it_waits_for_the_effect_alone() {
    let (mut rig, topic) = rig(1);
    let lease = rig.executes(repeatable("k"));
    let held = taken(&mut rig, topic);
    rig.settle(&held, Verdict::Await { effect: effect_identity("k"), delay_ms: None });
    rig.advance(LEASE_MS / 2);
    rig.renew(lease.receipt, None);
    rig.advance(LEASE_MS / 2);
    assert_eq!(rig.lease_offsets(topic, 1), []);
    rig.finish(lease, Status::Succeeded, "x");
    rig.advance(0);
    assert_eq!(rig.lease_offsets(topic, 1), [0]);
}

#[test]
fn its_own_effect_is_given_up_with_its_delivery() {
    let (mut rig, topic) = rig(1);
    let held = taken(&mut rig, topic);
    rig.executes(tied(repeatable("k"), &held));
    rig.settle(&held, awaiting("k"));
    rig.advance(100);
    assert_eq!(rig.lease_offsets(topic, 1), [0], "nobody runs it any more, and it may be repeated");
}

#[test]
fn whoever_put_it_off_has_no_say_any_more_and_the_fact_says_for_what() {
    let (mut rig, topic) = rig(3);
    rig.executes(wish("k"));
    let held = taken(&mut rig, topic);
    let mark = rig.write();
    rig.settle(&held, awaiting("k"));
    let facts = rig.facts_since(mark);
    assert!(
        matches!(facts[..], [Fact::Delivery(_, DeliveryFact::SnoozedFor { effect: 1, .. })]),
        "{facts:?}"
    );
    for verdict in [Verdict::Ack, nack("no"), awaiting("k")] {
        assert_eq!(rig.settle(&held, verdict), Outcome::Stale { attempt: Some(0) });
    }
}

#[test]
fn a_group_that_is_gone_waits_for_nothing() {
    let (mut rig, topic) = rig(1);
    let lease = rig.executes(BeginLong::wish("k"));
    let held = taken(&mut rig, topic);
    rig.settle(&held, awaiting("k"));
    rig.ask_durably(|ticket| Input::Order(OrderInput::DeleteGroup { ticket, topic, group: "g".into() }));
    rig.finish(lease, Status::Succeeded, "x");
    rig.advance(1);
    let again = rig.lease(topic, 1);
    assert_eq!(again[0].attempt, 1, "nothing of it is left: the next group gets the message like any other");
}

/// An effect whose lease outlives the test.
struct BeginLong;

impl BeginLong {
    fn wish(key: &str) -> driftq_core::BeginEffect {
        driftq_core::BeginEffect { lease_ms: Some(500_000), ..wish(key) }
    }
}
