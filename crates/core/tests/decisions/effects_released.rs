//! Leases of effects that are given up: nothing was sent, or nobody knows.

use crate::support::ledger::{eager, rejected, repeatable, resolving, tied, waiting, wish};
use crate::support::orders::nack;
use crate::support::{LEASE_MS, Rig};
use driftq_core::ledger::{OnLapse, Status};
use driftq_core::{
    Answer, BeginEffect, EffectAnswer, EffectFact, EffectInput, EffectLease, EffectReceipt, Input, Reject,
    Settings, Urge,
};

fn rig() -> Rig {
    Rig::new(Settings::default())
}

fn release(rig: &mut Rig, receipt: EffectReceipt, uncertain: bool) -> Answer {
    rig.ask_durably(|ticket| Input::Effect(EffectInput::Release { ticket, receipt, uncertain }))
}

const RELEASED: Answer = Answer::EffectReleased { already: false };
const AGAIN: Answer = Answer::EffectReleased { already: true };

fn counted(lease: EffectLease) -> (u32, u32) {
    (lease.receipt.epoch, lease.attempt)
}

#[test]
fn the_next_one_has_it_at_once_and_the_attempt_does_not_count() {
    for (ask, urge) in
        [(wish("k"), Urge::Begin), (wish("k"), Urge::Reacquire), (repeatable("k"), Urge::Begin)]
    {
        let mut rig = rig();
        let ask = BeginEffect { attempts_max: Some(1), ..ask };
        let first = rig.executes(ask.clone());
        let mark = rig.write();
        assert_eq!(release(&mut rig, first.receipt, false), RELEASED);
        assert!(matches!(
            rig.effect_facts_since(mark)[..],
            [EffectFact::Released { number: 1, epoch: 2, .. }]
        ));
        assert_eq!(release(&mut rig, first.receipt, false), AGAIN);
        let view = rig.effect("k").expect("it is known");
        assert_eq!(
            (view.status, view.live, view.released, view.attempts),
            (Status::InProgress, false, true, 0)
        );
        rig.crash();
        assert_eq!(release(&mut rig, first.receipt, false), AGAIN, "it is remembered");
        let second = rig.executes(BeginEffect { urge, ..ask });
        assert_eq!(counted(second), (3, 1), "the cap of one is not used up");
        let stale = rejected(Reject::EffectStale(Some(3)));
        assert_eq!(release(&mut rig, first.receipt, false), stale, "somebody else has it now");
        assert_eq!(rig.finish(first, Status::Succeeded, "late"), stale);
        rig.finish(second, Status::Succeeded, "done");
        assert_eq!(release(&mut rig, second.receipt, false), rejected(Reject::EffectDiffers));
    }
}

#[test]
fn whoever_gave_it_up_has_no_say_any_more() {
    let mut rig = rig();
    let held = rig.executes(wish("k"));
    release(&mut rig, held.receipt, false);
    assert_eq!(rig.finish(held, Status::Succeeded, "x"), rejected(Reject::EffectStale(Some(2))));
    assert_eq!(rig.renew(held.receipt, None), rejected(Reject::EffectStale(Some(2))));
    let never = EffectReceipt { number: 9, epoch: 1 };
    assert_eq!(release(&mut rig, never, false), rejected(Reject::EffectStale(None)));
}

#[test]
fn one_who_waits_has_it_at_once() {
    for patient in [wish("k"), eager(wish("k")), repeatable("k")] {
        let mut rig = rig();
        let held = rig.executes(wish("k"));
        let waiter = rig.ask_begin(waiting(patient, 30_000));
        rig.sync();
        assert_eq!(rig.answer(waiter), None);
        release(&mut rig, held.receipt, false);
        let Some(Answer::Effect(EffectAnswer::Execute(lease))) = rig.answer(waiter) else {
            panic!("not told")
        };
        assert_eq!(counted(lease), (3, 1));
    }
}

#[test]
fn it_does_not_turn_unknown_and_is_forgotten_in_time() {
    let mut rig = rig();
    let held = rig.executes(BeginEffect { ttl_ms: Some(5_000), ..wish("k") });
    release(&mut rig, held.receipt, false);
    rig.advance(LEASE_MS);
    let stands = rig.effect("k").map(|view| (view.status, view.released));
    assert!(LEASE_MS >= 5_000 || stands == Some((Status::InProgress, true)), "{stands:?}");
    rig.advance(5_000 + 20_000);
    assert_eq!(rig.effect("k"), None);
    assert_eq!(counted(rig.executes(wish("k"))), (1, 1), "as if it had never been");
}

#[test]
fn after_a_lapse_its_holder_may_still_say_that_nothing_was_sent() {
    let mut rig = rig();
    let held = rig.executes(wish("k"));
    rig.advance(LEASE_MS);
    assert_eq!(rig.status("k"), Status::Unknown);
    assert_eq!(release(&mut rig, held.receipt, true), RELEASED);
    assert_eq!(rig.status("k"), Status::Unknown, "that nobody knows frees nothing");
    assert_eq!(release(&mut rig, held.receipt, false), RELEASED);
    assert_eq!(counted(rig.executes(wish("k"))), (3, 1));
}

#[test]
fn a_delivery_that_went_on_fences_it() {
    let mut rig = rig();
    let topic = rig.topic("t", 1);
    rig.produce_to(topic, &[0]);
    let delivery = rig.lease(topic, 1).remove(0);
    let held = rig.executes(tied(wish("k"), &delivery));
    rig.settle(&delivery, nack("no"));
    rig.advance(0);
    rig.lease(topic, 1);
    assert_eq!(release(&mut rig, held.receipt, false), rejected(Reject::EffectFenced));
}

#[test]
fn what_may_have_happened_is_unknown_at_once() {
    let mut rig = rig();
    let held = rig.executes(wish("k"));
    let waiter = rig.ask_begin(waiting(wish("k"), 30_000));
    assert_eq!(release(&mut rig, held.receipt, true), RELEASED);
    assert!(matches!(rig.answer(waiter), Some(Answer::Effect(EffectAnswer::Unknown(_)))), "it is told so");
    assert_eq!(rig.status("k"), Status::Unknown);
    rig.resolve(resolving("k", Status::Succeeded, "found"));
    assert!(matches!(rig.begin(wish("k")), EffectAnswer::Replay(_)));
    // What may be repeated is simply free.
    let held = rig.executes(repeatable("r"));
    assert_eq!(release(&mut rig, held.receipt, true), RELEASED);
    rig.executes(repeatable("r"));
}

#[test]
fn one_asker_s_cap_is_nobody_else_s() {
    let mut rig = rig();
    rig.executes(repeatable("k"));
    rig.advance(LEASE_MS);
    let mark = rig.write();
    let own = BeginEffect { attempts_max: Some(1), ..repeatable("k") };
    assert_eq!(rig.try_begin(own.clone()), rejected(Reject::AttemptsExhausted));
    assert_eq!(rig.effect_facts_since(mark), [], "nothing changes");
    let view = rig.effect("k").expect("it is known");
    assert_eq!((view.status, view.on_lapse), (Status::InProgress, OnLapse::Retry));
    let second = rig.executes(repeatable("k"));
    assert_eq!(counted(second), (2, 2), "for the others it is what it was");
    // The same for one who waits: the lapse leaves it to those who may have it.
    let capped = rig.ask_begin(waiting(own, 60_000));
    let other = rig.ask_begin(waiting(repeatable("k"), 60_000));
    rig.advance(LEASE_MS);
    rig.sync();
    assert_eq!(rig.answer(capped), Some(rejected(Reject::AttemptsExhausted)));
    assert!(matches!(rig.answer(other), Some(Answer::Effect(EffectAnswer::Execute(_)))));
}

#[test]
fn a_record_knows_the_delivery_that_it_was_begun_for() {
    let mut rig = rig();
    let topic = rig.topic("t", 1);
    rig.produce_to(topic, &[0]);
    for attempt in 1..=3 {
        let delivery = rig.lease(topic, 1).remove(0);
        assert_eq!(delivery.attempt, attempt);
        rig.executes(tied(repeatable("k"), &delivery));
        assert_eq!(rig.effect("k").map(|view| view.delivery), Some(attempt));
        rig.settle(&delivery, nack("no"));
        rig.advance(60_000);
    }
    rig.crash();
    assert_eq!(rig.effect("k").map(|view| view.delivery), Some(3));
}
