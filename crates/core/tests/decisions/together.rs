//! Several effects, or several commits, in one input: one answer, when all of it is durable.

use crate::support::ledger::{finishing, named, repeatable, requesting, tied, waiting, wish};
use crate::support::{Draft, Rig};
use driftq_core::ledger::Status;
use driftq_core::{
    Answer, BeginEffect, COMMIT_PARTS_PER_CALL_MAX, COMMITS_PER_CALL_MAX, Commit, CommitInput, CommitPart,
    Committed, EFFECTS_PER_CALL_MAX, EffectAnswer, EffectInput, Input, Reject, Settings,
};

fn rig() -> Rig {
    Rig::new(Settings::default())
}

fn begin_all(rig: &mut Rig, asks: Vec<BeginEffect>) -> Vec<Result<EffectAnswer, Reject>> {
    match rig.ask_durably(|ticket| Input::Effect(EffectInput::BeginMany { ticket, asks })) {
        Answer::Effects(answers) => answers,
        other => panic!("not effects: {other:?}"),
    }
}

fn commit_all(rig: &mut Rig, commits: Vec<Commit>) -> Vec<Result<Committed, (CommitPart, Reject)>> {
    match rig.ask_durably(|ticket| Input::Commit(CommitInput::Many { ticket, commits })) {
        Answer::CommittedMany(results) => results,
        other => panic!("not commits: {other:?}"),
    }
}

#[test]
fn effects_are_begun_in_one_batch_and_answered_together() {
    let mut rig = rig();
    rig.sync();
    let mark = rig.write();
    let asks = (0..50).map(|number| wish(&format!("k{number}"))).collect();
    let ticket = rig.ask(|ticket| Input::Effect(EffectInput::BeginMany { ticket, asks }));
    assert!(rig.is_urgent());
    assert_eq!((rig.write(), rig.answer(ticket)), (mark + 1, None), "one batch, and nothing before its sync");
    rig.sync();
    let Some(Answer::Effects(answers)) = rig.answer(ticket) else { panic!("no answer") };
    let numbers = answers.iter().map(|answer| match answer {
        Ok(EffectAnswer::Execute(lease)) => lease.receipt.number,
        other => panic!("not to be executed: {other:?}"),
    });
    assert_eq!(numbers.collect::<Vec<_>>(), (1..=50).collect::<Vec<_>>());
}

#[test]
fn each_effect_has_the_answer_that_it_would_have_alone() {
    let mut rig = rig();
    let done = rig.executes(wish("done"));
    rig.finish(done, Status::Succeeded, "x");
    rig.executes(requesting(wish("other"), "a"));
    rig.executes(wish("busy"));
    let asks = vec![
        wish("done"),
        requesting(wish("other"), "b"),
        // Nobody waits in company.
        waiting(wish("busy"), 5_000),
        wish("new"),
        wish("new"),
        BeginEffect { lease_ms: Some(0), ..wish("odd") },
    ];
    let answers = begin_all(&mut rig, asks);
    assert!(matches!(&answers[0], Ok(EffectAnswer::Replay(_))), "{answers:?}");
    assert_eq!(answers[1], Err(Reject::KeyReused));
    assert!(matches!(&answers[2], Ok(EffectAnswer::Running { epoch: 1, .. })), "{answers:?}");
    assert!(matches!(&answers[3], Ok(EffectAnswer::Execute(_))), "{answers:?}");
    assert!(matches!(&answers[4], Ok(EffectAnswer::Running { .. })), "the first of the call has it");
    assert!(matches!(&answers[5], Err(Reject::Invalid(_))), "{answers:?}");
}

#[test]
fn commits_are_done_each_for_itself_and_answered_together() {
    let mut rig = rig();
    let topic = rig.topic("t", 1);
    rig.produce_to(topic, &[0, 0, 0]);
    let held = rig.lease(topic, 3);
    let effects = [0, 1].map(|place| rig.executes(tied(repeatable(&format!("k{place}")), &held[place])));
    let one = |place: usize| {
        named(
            &format!("c{place}"),
            Commit {
                acks: vec![held[place].receipt],
                finishes: vec![finishing(effects[place % 2].receipt, Status::Succeeded, "done")],
                messages: vec![Draft::to(topic).message()],
                ..Commit::default()
            },
        )
    };
    rig.sync();
    let mark = rig.write();
    let commits = vec![one(0), Commit { acks: vec![held[0].receipt], ..Commit::default() }, one(1)];
    let ticket = rig.ask(|ticket| Input::Commit(CommitInput::Many { ticket, commits: commits.clone() }));
    assert_eq!((rig.write(), rig.answer(ticket)), (mark + 1, None), "one batch, and nothing before its sync");
    rig.sync();
    let Some(Answer::CommittedMany(results)) = rig.answer(ticket) else { panic!("no answer") };
    let offsets = |result: &Result<Committed, _>| result.as_ref().map(|done| done.stored[0].offset).ok();
    assert_eq!((offsets(&results[0]), offsets(&results[2])), (Some(3), Some(4)));
    let spent = (CommitPart::Ack(0), Reject::LeaseStale(None));
    assert_eq!(results[1], Err(spent), "what the first of the call acked is not there for the second");
    assert_eq!((rig.status("k0"), rig.status("k1")), (Status::Succeeded, Status::Succeeded));
    assert_eq!(rig.lag(topic, "g"), 3, "one is left, two are new");
    let again = commit_all(&mut rig, commits);
    assert_eq!(again[0].as_ref().map(|done| done.already), Ok(true));
    assert_eq!(again[1], Err(spent));
}

#[test]
fn a_call_has_a_bound() {
    let mut rig = rig();
    let asks = vec![wish("k"); EFFECTS_PER_CALL_MAX + 1];
    let answer = rig.ask_durably(|ticket| Input::Effect(EffectInput::BeginMany { ticket, asks }));
    assert!(matches!(answer, Answer::Rejected(Reject::Invalid(_))), "{answer:?}");
    assert_eq!(rig.effect("k"), None);
    let commits = vec![Commit::default(); COMMITS_PER_CALL_MAX + 1];
    let answer = rig.ask_durably(|ticket| Input::Commit(CommitInput::Many { ticket, commits }));
    assert!(matches!(answer, Answer::Rejected(Reject::Invalid(_))), "{answer:?}");
    let topic = rig.topic("t", 1);
    let many =
        Commit { messages: vec![Draft::to(topic).message(); COMMIT_PARTS_PER_CALL_MAX], ..Commit::default() };
    let commits = vec![many, Commit { messages: vec![Draft::to(topic).message()], ..Commit::default() }];
    let answer = rig.ask_durably(|ticket| Input::Commit(CommitInput::Many { ticket, commits }));
    assert!(matches!(answer, Answer::Rejected(Reject::Invalid(_))), "{answer:?}");
    assert_eq!(rig.shard.state().messages(), 0);
}
