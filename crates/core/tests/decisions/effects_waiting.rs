//! Askers that wait for whoever runs the effect they want.

use crate::support::ledger::{
    TTL_MS, eager, finishing, rejected, repeatable, resolving, tied, waiting, wish,
};
use crate::support::orders::EXTEND;
use crate::support::{Draft, LEASE_MS, Rig};
use driftq_core::ledger::Status;
use driftq_core::{
    Answer, BeginEffect, Commit, Delivery, EffectAnswer, EffectFact, EffectInput, EffectLease, Input, Reject,
    Settings, Ticket, Verdict,
};

const WAIT_MS: u64 = 30_000;

/// An effect that somebody runs, and `count` who wait for it.
fn crowd(ask: &BeginEffect, count: usize) -> (Rig, EffectLease, Vec<Ticket>) {
    let mut rig = Rig::new(Settings::default());
    let lease = rig.executes(ask.clone());
    let tickets = (0..count).map(|_| rig.ask_begin(waiting(ask.clone(), WAIT_MS))).collect();
    assert_eq!(rig.tally().effects.waiting, count as u64);
    (rig, lease, tickets)
}

/// What each of them was told so far; whoever was not is told later.
fn told(rig: &mut Rig, tickets: &[Ticket]) -> Vec<Option<Answer>> {
    tickets.iter().map(|ticket| rig.answer(*ticket)).collect()
}

fn words(answers: &[Option<Answer>]) -> Vec<&'static str> {
    let word = |answer: &Option<Answer>| match answer {
        None => "-",
        Some(Answer::Effect(EffectAnswer::Execute(_))) => "execute",
        Some(Answer::Effect(EffectAnswer::Replay(_))) => "replay",
        Some(Answer::Effect(EffectAnswer::Running { .. })) => "running",
        Some(Answer::Effect(EffectAnswer::Retryable { .. })) => "retryable",
        Some(Answer::Effect(EffectAnswer::Unknown(_))) => "unknown",
        Some(Answer::Rejected(_)) => "rejected",
        Some(_) => "something else",
    };
    answers.iter().map(word).collect()
}

#[test]
fn everybody_who_waits_hears_the_outcome_once_it_is_durable() {
    type End = fn(&mut Rig, EffectLease);
    let ends: [(&str, End); 2] = [
        ("finish", |rig, lease| {
            let finish = finishing(lease.receipt, Status::Succeeded, "done");
            rig.ask(|ticket| Input::Effect(EffectInput::Finish { ticket, finish }));
        }),
        ("commit", |rig, lease| {
            let finishes = vec![finishing(lease.receipt, Status::Succeeded, "done")];
            rig.ask_commit(Commit { finishes, ..Commit::default() });
        }),
    ];
    for (name, end) in ends {
        let (mut rig, lease, tickets) = crowd(&wish("k"), 3);
        assert_eq!(words(&told(&mut rig, &tickets)), ["-", "-", "-"], "{name}");
        end(&mut rig, lease);
        rig.write();
        assert_eq!(words(&told(&mut rig, &tickets)), ["-", "-", "-"], "{name}: not before the disk has it");
        rig.sync();
        for answer in told(&mut rig, &tickets) {
            let Some(Answer::Effect(EffectAnswer::Replay(view))) = answer else { panic!("{answer:?}") };
            assert_eq!(rig.outcome(&view), "done");
        }
        assert_eq!(rig.tally().effects.waiting, 0);
        rig.advance(WAIT_MS);
        assert_eq!(words(&told(&mut rig, &tickets)), ["-", "-", "-"], "{name}: nobody is told twice");
    }
}

#[test]
fn when_the_lease_lapses_exactly_one_of_them_takes_over() {
    let (mut rig, old, tickets) = crowd(&repeatable("k"), 3);
    let mark = rig.write();
    rig.advance_unsynced(LEASE_MS);
    rig.write();
    assert_eq!(words(&told(&mut rig, &tickets)), ["-", "-", "-"], "a lease waits for the disk, too");
    rig.sync();
    let answers = told(&mut rig, &tickets);
    assert_eq!(words(&answers), ["execute", "-", "-"], "the first in line");
    let Some(Answer::Effect(EffectAnswer::Execute(lease))) = answers[0] else { panic!() };
    assert_eq!((lease.receipt.epoch, lease.attempt, lease.expires), (2, 2, rig.now.after_ms(LEASE_MS)));
    assert!(matches!(rig.effect_facts_since(mark)[..], [EffectFact::Taken { number: 1, .. }]));
    assert_eq!(rig.finish(old, Status::Succeeded, "x"), rejected(Reject::EffectStale(Some(2))));
    rig.advance(LEASE_MS);
    rig.sync();
    let answers = told(&mut rig, &tickets);
    assert_eq!(words(&answers), ["-", "execute", "-"], "and then the next one");
    let Some(Answer::Effect(EffectAnswer::Execute(lease))) = answers[1] else { panic!() };
    rig.finish(lease, Status::FailedFinal, "no");
    assert_eq!(words(&told(&mut rig, &tickets)), ["-", "-", "replay"]);
}

#[test]
fn when_nobody_may_repeat_it_everybody_learns_that() {
    let capped = BeginEffect { attempts_max: Some(1), ..repeatable("k") };
    for ask in [wish("k"), capped] {
        let (mut rig, _, tickets) = crowd(&ask, 3);
        rig.advance(LEASE_MS);
        rig.sync();
        for answer in told(&mut rig, &tickets) {
            let Some(Answer::Effect(EffectAnswer::Unknown(view))) = answer else { panic!("{answer:?}") };
            assert_eq!((view.status, view.ended), (Status::Unknown, Some(rig.now)));
        }
    }
}

#[test]
fn what_failed_for_now_is_told_or_taken_as_each_of_them_wishes() {
    let (mut rig, lease, tickets) = crowd(&repeatable("k"), 2);
    let brave = [0, 1].map(|_| rig.ask_begin(waiting(eager(repeatable("k")), WAIT_MS)));
    let timid = rig.ask_begin(waiting(repeatable("k"), WAIT_MS));
    rig.finish(lease, Status::FailedRetryable, "busy");
    let all = [&tickets[..], &brave, &[timid]].concat();
    assert_eq!(words(&told(&mut rig, &all)), ["retryable", "retryable", "execute", "-", "-"]);
    // With a cap that is reached, nobody takes it.
    let (mut rig, lease, _) = crowd(&BeginEffect { attempts_max: Some(1), ..repeatable("k") }, 0);
    let brave = [0, 1].map(|_| rig.ask_begin(waiting(eager(repeatable("k")), WAIT_MS)));
    rig.finish(lease, Status::FailedRetryable, "busy");
    let answers = told(&mut rig, &brave);
    for answer in answers {
        assert!(matches!(answer, Some(Answer::Effect(EffectAnswer::Retryable { left: Some(0), .. }))));
    }
}

#[test]
fn a_wait_ends_at_its_time_and_at_no_other() {
    for longer in [false, true] {
        let lease_ms = if longer { WAIT_MS + 5 } else { WAIT_MS };
        let ask = BeginEffect { lease_ms: Some(lease_ms), ..repeatable("k") };
        let (mut rig, _, tickets) = crowd(&ask, 2);
        rig.advance(WAIT_MS - 1);
        assert_eq!(words(&told(&mut rig, &tickets)), ["-", "-"]);
        rig.advance(1);
        if longer {
            let running = EffectAnswer::Running { epoch: 1, attempt: 1, retry_after_ms: 5 };
            let expected = Some(Answer::Effect(running));
            assert_eq!(
                told(&mut rig, &tickets),
                [expected.clone(), expected],
                "at once: it rests on nothing"
            );
        } else {
            rig.sync();
            assert_eq!(words(&told(&mut rig, &tickets)), ["execute", "running"], "the lapse comes first");
        }
        assert_eq!(rig.tally().effects.waiting, 0);
    }
}

#[test]
fn whoever_does_not_wait_any_longer_gets_nothing() {
    let (mut rig, _, tickets) = crowd(&repeatable("k"), 3);
    rig.tell(Input::Forsake { ticket: tickets[0] });
    rig.tell(Input::Forsake { ticket: tickets[2] });
    rig.tell(Input::Forsake { ticket: tickets[2] });
    rig.tell(Input::Forsake { ticket: Ticket(999) });
    assert_eq!(rig.tally().effects.waiting, 1);
    rig.advance(LEASE_MS);
    rig.sync();
    assert_eq!(words(&told(&mut rig, &tickets)), ["-", "execute", "-"]);
    rig.advance(WAIT_MS);
    assert_eq!(words(&told(&mut rig, &tickets)), ["-", "-", "-"]);
}

#[test]
fn waiting_is_limited_per_effect_and_over_all() {
    let (mut rig, _, _) = crowd(&repeatable("k"), 1000);
    let one_more = rig.ask_begin(waiting(repeatable("k"), WAIT_MS));
    let running = EffectAnswer::Running { epoch: 1, attempt: 1, retry_after_ms: LEASE_MS };
    assert_eq!(rig.answer(one_more), Some(Answer::Effect(running)));
    rig.executes(repeatable("l"));
    let elsewhere = rig.ask_begin(waiting(repeatable("l"), WAIT_MS));
    assert_eq!(rig.answer(elsewhere), None, "every effect has its own line");

    let mut rig = Rig::new(Settings { consumers_max: 1, ..Settings::default() });
    rig.executes(repeatable("k"));
    let first = rig.ask_begin(waiting(repeatable("k"), WAIT_MS));
    let second = rig.ask_begin(waiting(repeatable("k"), WAIT_MS));
    assert!(matches!(rig.answer(second), Some(Answer::Rejected(Reject::Limit(_)))));
    rig.tell(Input::Forsake { ticket: first });
    let third = rig.ask_begin(waiting(repeatable("k"), WAIT_MS));
    assert_eq!(rig.answer(third), None);
}

#[test]
fn nobody_waits_for_what_does_not_run() {
    let (mut rig, lease, _) = crowd(&wish("k"), 0);
    rig.finish(lease, Status::Succeeded, "x");
    assert!(matches!(rig.begin(waiting(wish("k"), WAIT_MS)), EffectAnswer::Replay(_)));
    assert_eq!(rig.executes(waiting(wish("new"), WAIT_MS)).attempt, 1);
    assert_eq!(rig.tally().effects.waiting, 0);
}

#[test]
fn a_wait_ends_with_the_run_of_the_broker_and_leaves_nothing_behind() {
    let (mut rig, lease, tickets) = crowd(&repeatable("k"), 2);
    rig.crash();
    assert_eq!(rig.tally().effects.waiting, 0);
    rig.finish(lease, Status::Succeeded, "x");
    rig.advance(WAIT_MS);
    assert_eq!(words(&told(&mut rig, &tickets)), ["-", "-"]);
}

#[test]
fn a_full_disk_gives_no_lease_to_those_who_wait() {
    let (mut rig, _, tickets) = crowd(&repeatable("k"), 2);
    rig.tell(Input::Space { roomy: false });
    rig.advance(LEASE_MS);
    let full = Some(rejected(Reject::DiskFull));
    assert_eq!(told(&mut rig, &tickets), [full.clone(), full]);
    rig.tell(Input::Space { roomy: true });
    assert_eq!(rig.executes(repeatable("k")).attempt, 2);
}

fn with_delivery() -> (Rig, driftq_core::TopicId, Delivery) {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    rig.produce(&Draft::to(topic));
    let delivery = rig.lease(topic, 1).remove(0);
    (rig, topic, delivery)
}

#[test]
fn whoever_lost_its_delivery_while_it_waited_is_passed_over() {
    let (mut rig, _, delivery) = with_delivery();
    rig.executes(repeatable("k"));
    let stale = rig.ask_begin(tied(waiting(repeatable("k"), WAIT_MS), &delivery));
    let free = rig.ask_begin(waiting(repeatable("k"), WAIT_MS));
    rig.settle(&delivery, Verdict::Release { delay_ms: 0 });
    rig.advance(LEASE_MS);
    rig.sync();
    assert_eq!(rig.answer(stale), Some(rejected(Reject::LeaseStale(None))));
    assert!(matches!(rig.answer(free), Some(Answer::Effect(EffectAnswer::Execute(_)))));
}

/// The record of an effect that heartbeats kept alive is past its time at the very moment of its lapse.
#[test]
fn exactly_one_takes_over_also_if_the_time_of_the_record_is_over() {
    let (mut rig, _, delivery) = with_delivery();
    let ask = BeginEffect { lease_ms: Some(10), ttl_ms: Some(10), ..repeatable("k") };
    let old = rig.executes(tied(ask.clone(), &delivery));
    for _ in 0..3 {
        rig.advance(LEASE_MS - 1);
        rig.settle(&delivery, EXTEND);
    }
    let tickets = [0, 1, 2].map(|_| rig.ask_begin(waiting(ask.clone(), WAIT_MS)));
    rig.settle(&delivery, Verdict::Release { delay_ms: 0 });
    rig.advance(LEASE_MS);
    rig.sync();
    let leases: Vec<_> = told(&mut rig, &tickets)
        .into_iter()
        .filter_map(|answer| match answer {
            Some(Answer::Effect(EffectAnswer::Execute(lease))) => Some(lease.receipt),
            _ => None,
        })
        .collect();
    assert!(!leases.contains(&old.receipt), "somebody else's lease was handed out");
    let mut distinct = leases.clone();
    distinct.dedup();
    assert_eq!(distinct, leases, "two run it under one lease");
    assert!(!leases.is_empty());
}

/// The same by a clock that jumps: the tick comes later than the record's time.
#[test]
fn a_late_tick_hands_out_no_lease_twice() {
    let ask = BeginEffect { ttl_ms: Some(1), ..repeatable("k") };
    let (mut rig, old, tickets) = crowd(&ask, 3);
    rig.now = rig.now.after_ms(LEASE_MS * 5);
    rig.tell(Input::Tick);
    rig.sync();
    let answers = told(&mut rig, &tickets);
    assert_eq!(words(&answers), ["execute", "-", "-"]);
    let Some(Answer::Effect(EffectAnswer::Execute(new))) = answers[0] else { panic!() };
    assert_ne!(new.receipt, old.receipt);
    rig.advance(TTL_MS);
}

#[test]
fn those_who_wait_for_what_was_fenced_off_hear_what_a_person_found_out() {
    let (mut rig, _, delivery) = with_delivery();
    let ask = BeginEffect { lease_ms: Some(20_000), ..wish("k") };
    rig.executes(tied(ask.clone(), &delivery));
    let waiter = rig.ask_begin(waiting(ask, WAIT_MS));
    rig.settle(&delivery, Verdict::Release { delay_ms: 0 });
    assert_eq!(rig.answer(waiter), None);
    rig.resolve(resolving("k", Status::Succeeded, "found"));
    let Some(Answer::Effect(EffectAnswer::Replay(view))) = rig.answer(waiter) else { panic!("not told") };
    assert_eq!(rig.outcome(&view), "found");
}
