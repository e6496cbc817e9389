//! Effects that stand alone: what is decided, what is written, and when the answer leaves.

use crate::support::ledger::{
    TTL_MS, blob, eager, finishing, rejected, repeatable, requesting, resolving, wish,
};
use crate::support::{LEASE_MS, Rig};
use driftq_core::ledger::{OnLapse, Status};
use driftq_core::{
    Answer, BeginEffect, EffectAnswer, EffectFact, EffectInput, EffectLease, EffectReceipt, Input, Overload,
    Reject, Settings, Time, Urge,
};

fn rig() -> Rig {
    Rig::new(Settings::default())
}

fn lease(number: u64, epoch: u32, attempt: u32, expires: Time) -> EffectLease {
    EffectLease { receipt: EffectReceipt { number, epoch }, attempt, expires }
}

fn ended(already: bool, epoch: u32, attempt: u32, expires: Time) -> Answer {
    Answer::EffectEnded { already, epoch, attempt, expires }
}

/// Asks, and sees that the answer comes with the sync and not before.
fn held(rig: &mut Rig, input: impl Fn(driftq_core::Ticket) -> Input) -> Answer {
    rig.sync();
    let ticket = rig.ask(input);
    assert!(rig.is_urgent(), "somebody waits for the sync");
    rig.write();
    assert_eq!(rig.answer(ticket), None, "it left before it was durable");
    rig.sync();
    rig.answer(ticket).expect("it leaves once it is durable")
}

#[test]
fn every_answer_that_rests_on_a_fact_waits_for_the_disk() {
    let mut rig = rig();
    let begin = |ticket| Input::Effect(EffectInput::Begin { ticket, ask: Box::new(wish("k")) });
    let expires = rig.now.after_ms(LEASE_MS);
    let first = lease(1, 1, 1, expires);
    assert_eq!(held(&mut rig, begin), Answer::Effect(EffectAnswer::Execute(first)));
    let receipt = first.receipt;
    let renewed = held(&mut rig, |ticket| {
        Input::Effect(EffectInput::Renew { ticket, receipt, lease_ms: Some(LEASE_MS + 9) })
    });
    let expires = rig.now.after_ms(LEASE_MS + 9);
    assert_eq!(renewed, Answer::EffectRenewed { epoch: 1, attempt: 1, expires });
    // The replay must not overtake the ending that it tells.
    let finish = finishing(receipt, Status::Succeeded, "done");
    let finisher = rig.ask(|ticket| Input::Effect(EffectInput::Finish { ticket, finish }));
    let replayer = rig.ask(begin);
    rig.write();
    assert_eq!((rig.answer(finisher), rig.answer(replayer)), (None, None));
    rig.sync();
    let remembered = rig.now.after_ms(TTL_MS);
    assert_eq!(rig.answer(finisher), Some(ended(false, 1, 1, remembered)));
    let Some(Answer::Effect(EffectAnswer::Replay(view))) = rig.answer(replayer) else { panic!("no replay") };
    assert_eq!((rig.outcome(&view), view.expires), ("done".to_owned(), Some(remembered)));
    rig.executes(wish("u"));
    rig.advance(LEASE_MS);
    let resolve = resolving("u", Status::FailedFinal, "no");
    let resolved =
        held(&mut rig, |ticket| Input::Effect(EffectInput::Resolve { ticket, resolve: resolve.clone() }));
    assert_eq!(resolved, ended(false, 2, 1, rig.now.after_ms(TTL_MS)));
}

#[test]
fn what_was_not_durable_never_happened_and_what_was_is_kept() {
    for percent in [0, 100] {
        let mut rig = rig();
        rig.snapshot_percent = percent;
        rig.ask_begin(wish("lost"));
        rig.crash();
        assert_eq!(rig.effect("lost"), None);
        let kept = rig.executes(wish("kept"));
        rig.crash();
        assert_eq!(
            rig.begin(wish("kept")),
            EffectAnswer::Running { epoch: 1, attempt: 1, retry_after_ms: LEASE_MS },
            "a restart voids no lease of an effect"
        );
        let finish = finishing(kept.receipt, Status::Succeeded, "x");
        rig.ask(|ticket| Input::Effect(EffectInput::Finish { ticket, finish: finish.clone() }));
        rig.crash();
        assert_eq!(rig.status("kept"), Status::InProgress, "an ending that was lost is not one");
        assert_eq!(rig.try_finish(finish.clone()), ended(false, 1, 1, rig.now.after_ms(TTL_MS)));
        rig.crash();
        assert_eq!(rig.try_finish(finish), ended(true, 1, 1, rig.now.after_ms(TTL_MS)));
        let EffectAnswer::Replay(view) = rig.begin(wish("kept")) else { panic!("no replay") };
        assert_eq!(rig.outcome(&view), "x");
    }
}

/// Every place of the table, and what somebody who comes then is told and what is written.
#[test]
fn every_decision_writes_what_it_says() {
    let mut rig = rig();
    let mark = rig.write();
    let start = rig.now;
    let first = rig.executes(repeatable("k"));
    assert!(matches!(rig.effect_facts_since(mark)[..], [EffectFact::Begun(begun)]
        if begun.number == 1 && begun.lent.epoch == 1 && begun.lent.attempt == 1
            && begun.lent.until == start.after_ms(LEASE_MS) && begun.lent.ttl_ms == TTL_MS));

    let mark = rig.write();
    rig.advance(LEASE_MS - 1);
    assert_eq!(
        rig.begin(repeatable("k")),
        EffectAnswer::Running { epoch: 1, attempt: 1, retry_after_ms: 1 },
        "until the very last moment"
    );
    assert_eq!(rig.effect_facts_since(mark), [], "that somebody runs it changes nothing");
    rig.advance(1);
    assert_eq!(rig.effect_facts_since(mark), [], "and neither does the lapse of what may run again");
    let second = rig.executes(BeginEffect { lease_ms: Some(7), attempts_max: Some(3), ..repeatable("k") });
    assert_eq!(second, lease(1, 2, 2, rig.now.after_ms(7)));
    assert!(matches!(rig.effect_facts_since(mark)[..], [EffectFact::Taken { number: 1, lent }]
        if lent.epoch == 2 && lent.attempt == 2 && lent.attempts_max == Some(3)));

    let mark = rig.write();
    assert_eq!(rig.finish(first, Status::Succeeded, "late"), rejected(Reject::EffectStale(Some(2))));
    assert_eq!(rig.renew(first.receipt, None), rejected(Reject::EffectStale(Some(2))));
    assert_eq!(rig.effect_facts_since(mark), [], "the old holder has no say");
    assert_eq!(
        rig.finish(second, Status::FailedRetryable, "busy"),
        ended(false, 2, 2, rig.now.after_ms(TTL_MS))
    );
    let EffectAnswer::Retryable { view, left } = rig.begin(repeatable("k")) else { panic!("not told") };
    assert_eq!((view.status, left, rig.outcome(&view)), (Status::FailedRetryable, Some(1), "busy".into()));
    let third = rig.executes(eager(repeatable("k")));
    assert_eq!((third.receipt.epoch, third.attempt), (3, 3));
    let view = rig.effect("k").expect("known");
    assert_eq!((view.status, view.ended, view.begun), (Status::InProgress, None, rig.now), "it runs again");
    rig.finish(third, Status::FailedRetryable, "busy again");
    let EffectAnswer::Retryable { left, .. } = rig.begin(eager(repeatable("k"))) else { panic!("not told") };
    assert_eq!(left, Some(0));
    let again = BeginEffect { urge: Urge::Reacquire, ..repeatable("k") };
    assert_eq!(rig.try_begin(again.clone()), rejected(Reject::AttemptsExhausted));
    let more = BeginEffect { attempts_max: Some(4), ..again };
    let fourth = rig.executes(more);
    assert_eq!((fourth.receipt.epoch, fourth.attempt), (4, 4), "a greater cap is taken over");
    rig.finish(fourth, Status::FailedFinal, "never");
    for ask in [repeatable("k"), eager(repeatable("k"))] {
        let EffectAnswer::Replay(view) = rig.begin(ask) else { panic!("no replay") };
        assert_eq!((view.status, view.epoch, view.attempts), (Status::FailedFinal, 4, 4));
    }
}

#[test]
fn another_request_under_the_same_key_is_refused_in_every_state() {
    let mut rig = rig();
    let ask = |request| requesting(repeatable("k"), request);
    let conflict = |rig: &mut Rig, place: &str| {
        let before = rig.snapshot();
        assert_eq!(rig.try_begin(ask("b")), rejected(Reject::KeyReused), "{place}");
        assert!(rig.snapshot() == before, "{place}");
    };
    let lease = rig.executes(ask("a"));
    conflict(&mut rig, "live");
    rig.advance(LEASE_MS);
    conflict(&mut rig, "lapsed");
    let retried = rig.executes(repeatable("k"));
    assert_eq!(retried.receipt.epoch, lease.receipt.epoch + 1, "not given agrees with everything");
    rig.finish(retried, Status::FailedRetryable, "x");
    conflict(&mut rig, "failed");
    let last = rig.executes(eager(ask("a")));
    rig.finish(last, Status::Succeeded, "x");
    conflict(&mut rig, "final");
    rig.advance(TTL_MS);
    assert_eq!(rig.executes(ask("b")).attempt, 1, "what is forgotten does not count");
    rig.executes(requesting(wish("u"), "a"));
    rig.advance(LEASE_MS);
    assert_eq!(rig.try_begin(requesting(wish("u"), "b")), rejected(Reject::KeyReused), "unknown");
}

#[test]
fn the_same_call_again_gets_the_same_lease_and_no_other_call_does() {
    let mut rig = rig();
    let call = |caller| BeginEffect { caller, ..repeatable("k") };
    let first = rig.executes(call(7));
    let mark = rig.write();
    rig.crash();
    rig.advance(10);
    assert_eq!(rig.executes(call(7)), first);
    assert!(rig.effect_facts_since(mark).is_empty(), "asking again changes nothing");
    for other in [0, 8] {
        assert!(matches!(rig.begin(call(other)), EffectAnswer::Running { .. }), "{other}");
    }
    rig.advance(LEASE_MS);
    let taken = rig.executes(call(8));
    assert_eq!(taken.receipt.epoch, 2);
    assert!(matches!(rig.begin(call(7)), EffectAnswer::Running { .. }), "it was taken over");
    assert_eq!(rig.executes(call(8)), taken);
    // A call without a name is nobody's, also if nobody has the lease.
    let unnamed = rig.executes(wish("unnamed"));
    assert!(matches!(rig.begin(wish("unnamed")), EffectAnswer::Running { .. }), "{unnamed:?}");
}

#[test]
fn the_answer_to_the_same_call_waits_for_the_disk_too() {
    let mut rig = rig();
    let call = BeginEffect { caller: 7, ..wish("k") };
    let tickets = [0, 1].map(|_| rig.ask_begin(call.clone()));
    rig.write();
    assert_eq!(tickets.map(|ticket| rig.answer(ticket)), [None, None]);
    rig.sync();
    let [first, second] = tickets.map(|ticket| rig.answer(ticket).expect("durable"));
    assert_eq!(first, second);
}

#[test]
fn a_result_is_told_once_and_may_be_repeated_but_not_changed() {
    for status in [Status::Succeeded, Status::FailedFinal, Status::FailedRetryable] {
        let mut rig = rig();
        let lease = rig.executes(wish("k"));
        let remembered = rig.now.after_ms(TTL_MS);
        assert_eq!(rig.finish(lease, status, "x"), ended(false, 1, 1, remembered));
        rig.advance(10);
        let before = rig.snapshot();
        assert_eq!(rig.finish(lease, status, "x"), ended(true, 1, 1, remembered), "{status:?}");
        let stale = rejected(Reject::EffectDiffers);
        assert_eq!(rig.finish(lease, status, "y"), stale, "another text");
        for other in Status::ALL.into_iter().filter(|other| *other != status) {
            let told = rig.finish(lease, other, "x");
            let open = matches!(other, Status::InProgress | Status::Unknown);
            assert_eq!(matches!(told, Answer::Rejected(Reject::Invalid(_))), open, "{other:?}");
            assert!(open || told == stale, "{told:?}");
        }
        assert_eq!(rig.renew(lease.receipt, None), stale, "what is over has no lease");
        assert!(rig.snapshot() == before);
    }
}

#[test]
fn leases_of_nobody_are_stale() {
    let mut rig = rig();
    let lease = rig.executes(wish("k"));
    let cases = [
        (EffectReceipt { number: 9, ..lease.receipt }, None),
        (EffectReceipt { number: 0, ..lease.receipt }, None),
        (EffectReceipt { epoch: 2, ..lease.receipt }, Some(1)),
        (EffectReceipt { epoch: 0, ..lease.receipt }, Some(1)),
    ];
    let before = rig.snapshot();
    for (receipt, epoch) in cases {
        let stale = rejected(Reject::EffectStale(epoch));
        assert_eq!(rig.try_finish(finishing(receipt, Status::Succeeded, "x")), stale, "{receipt:?}");
        assert_eq!(rig.renew(receipt, None), stale, "{receipt:?}");
    }
    assert!(rig.snapshot() == before);
}

#[test]
fn wishes_that_make_no_sense_are_refused() {
    let mut rig = Rig::new(Settings { lease_ms_max: 5000, ..Settings::default() });
    let ten_years = 3660 * 24 * 60 * 60 * 1000;
    let cases = [
        BeginEffect { lease_ms: Some(0), ..wish("k") },
        BeginEffect { lease_ms: Some(5001), ..wish("k") },
        BeginEffect { ttl_ms: Some(0), ..wish("k") },
        BeginEffect { ttl_ms: Some(ten_years + 1), ..wish("k") },
        BeginEffect { attempts_max: Some(0), ..wish("k") },
        BeginEffect { wait_ms: 60_001, ..wish("k") },
    ];
    let before = rig.snapshot();
    for ask in cases {
        let told = rig.try_begin(ask.clone());
        assert!(matches!(told, Answer::Rejected(Reject::Invalid(_))), "{ask:?} {told:?}");
    }
    let unknown = BeginEffect { urge: Urge::Reacquire, ..wish("k") };
    assert_eq!(rig.try_begin(unknown), rejected(Reject::EffectUnknown));
    assert!(rig.snapshot() == before);
    let most = BeginEffect { lease_ms: Some(5000), ttl_ms: Some(ten_years), wait_ms: 60_000, ..wish("k") };
    let lease = rig.executes(most);
    for lease_ms in [0, 5001] {
        let told = rig.renew(lease.receipt, Some(lease_ms));
        assert!(matches!(told, Answer::Rejected(Reject::Invalid(_))), "{told:?}");
    }
}

#[test]
fn who_does_not_say_gets_what_the_shard_says() {
    let settings = Settings { effect_lease_ms_default: 77, effect_ttl_ms_default: 88, ..Settings::default() };
    let mut rig = Rig::new(settings);
    let silent = BeginEffect { lease_ms: None, ttl_ms: None, ..wish("k") };
    assert_eq!(OnLapse::default(), OnLapse::Hold, "nothing is repeated blindly");
    let lease = rig.executes(silent);
    assert_eq!(lease.expires, rig.now.after_ms(77));
    rig.advance(10);
    let until = rig.now.after_ms(77);
    let renewed = Answer::EffectRenewed { epoch: 1, attempt: 1, expires: until };
    assert_eq!(rig.renew(lease.receipt, None), renewed);
    assert_eq!(rig.finish(lease, Status::Succeeded, "x"), ended(false, 1, 1, rig.now.after_ms(88)));
}

#[test]
fn the_ledger_has_limits_and_a_full_disk_takes_endings_only() {
    let limits = Settings { effects_max: 2, effect_result_bytes_max: 5000, ..Settings::default() };
    let mut rig = Rig::new(limits);
    let [one, two] = ["one", "two"].map(|key| rig.executes(repeatable(key)));
    let full = rejected(Reject::Overloaded(Overload::EffectRecords));
    assert_eq!(rig.try_begin(repeatable("three")), full);
    assert!(matches!(rig.begin(repeatable("one")), EffectAnswer::Running { .. }), "what is known is told");
    let sized = |lease: EffectLease, bytes: usize| driftq_core::FinishEffect {
        ending: blob(&vec![b'x'; bytes]),
        ..finishing(lease.receipt, Status::Succeeded, "")
    };
    assert_eq!(rig.try_finish(sized(one, 5001)), rejected(Reject::ResultTooLarge));
    rig.tell(Input::Space { roomy: false });
    assert_eq!(rig.try_finish(sized(one, 4097)), rejected(Reject::DiskFull));
    assert_eq!(rig.try_finish(sized(one, 4096)), ended(false, 1, 1, rig.now.after_ms(TTL_MS)));
    assert!(matches!(rig.renew(two.receipt, Some(LEASE_MS)), Answer::EffectRenewed { .. }));
    rig.advance(LEASE_MS);
    for (ask, told) in
        [(repeatable("two"), rejected(Reject::DiskFull)), (repeatable("new"), rejected(Reject::DiskFull))]
    {
        let before = rig.snapshot();
        assert_eq!(rig.try_begin(ask), told);
        assert!(rig.snapshot() == before);
    }
    assert!(matches!(rig.begin(repeatable("one")), EffectAnswer::Replay(_)), "replays go on");
    rig.tell(Input::Space { roomy: true });
    assert_eq!(rig.executes(repeatable("two")).attempt, 2);
}
