//! A commit whose delivery lives in another shard: it is checked there, and vouched for here.

use crate::support::Rig;
use crate::support::ledger::{appended, finishing, named, output, wish};
use crate::support::post::Pair;
use driftq_core::ledger::Status;
use driftq_core::{
    Answer, Commit, CommitInput, CommitPart, Committed, Input, NewOutput, OutputAuthor, OutputDone, Reject,
    RequestHash, Settings, TopicId, Vouched,
};

fn pair() -> Pair {
    Pair::new(&Settings::default())
}

fn committed(answer: Option<Answer>) -> Committed {
    match answer {
        Some(Answer::Committed(done)) => done,
        other => panic!("not committed: {other:?}"),
    }
}

#[test]
fn a_commit_can_be_checked_without_being_done() {
    let mut pair = pair();
    let near = pair.near;
    pair.here.produce_to(near, &[0]);
    let held = pair.here.lease(near, 1).remove(0);
    let commit = named("c", Commit { acks: vec![held.receipt], ..pair.mixed() });
    pair.here.sync();
    let before = (pair.here.shard.state().encode(), pair.here.log.batches.len());
    let check = |rig: &mut Rig, commit: &Commit| {
        let commit = Box::new(commit.clone());
        let ticket = rig.ask(|ticket| Input::Commit(CommitInput::Check { ticket, commit }));
        rig.answer(ticket).expect("it is answered at once")
    };
    assert_eq!(check(&mut pair.here, &commit), Answer::Committed(Committed::default()));
    let mut stale = commit.clone();
    stale.acks[0].token.n += 9;
    let refused = Answer::CommitRefused(CommitPart::Ack(0), Reject::LeaseStale(Some(1)));
    assert_eq!(check(&mut pair.here, &stale), refused);
    pair.here.sync();
    assert!(
        (pair.here.shard.state().encode(), pair.here.log.batches.len()) == before,
        "it changed something"
    );
    assert_eq!(pair.posts(), []);
    let ticket = pair.here.ask_commit(commit.clone());
    pair.here.sync();
    pair.deliver();
    let done = committed(pair.here.answer(ticket));
    // Its delivery is settled by now, by itself.
    assert_eq!(check(&mut pair.here, &commit), Answer::Committed(Committed { already: true, ..done }));
    let other = Commit { request: RequestHash(5), ..commit };
    let done = Commit { request: RequestHash(4), ..named("d", Commit::default()) };
    pair.here.commit(done.clone());
    let reused = Answer::CommitRefused(CommitPart::Whole, Reject::KeyReused);
    assert_eq!(check(&mut pair.here, &Commit { name: done.name, ..other }), reused);
}

/// A delivery of the first shard, in its nth attempt.
fn author(attempt: u32) -> OutputAuthor {
    OutputAuthor { topic: TopicId(0), partition: 0, offset: 4, attempt }
}

fn vouched(attempt: u32, outputs: Vec<NewOutput>) -> Commit {
    Commit { vouched: Some(Vouched::Delivery(author(attempt))), outputs, ..Commit::default() }
}

#[test]
fn outputs_are_moved_by_a_delivery_for_which_another_shard_vouches() {
    let mut rig = pair().there;
    let move_to = |place: &str| vec![output("v1", "p", place)];
    let bare = Commit { outputs: move_to("a"), ..Commit::default() };
    assert!(matches!(rig.refused(bare), (CommitPart::Whole, Reject::Invalid(_))));
    let at = |rig: &mut Rig| rig.outputs("v1").expect("it is there").outputs[0].location.to_string();
    assert_eq!(rig.commit(vouched(1, move_to("a"))).outputs, [OutputDone::Replaced]);
    rig.commit(vouched(1, move_to("b")));
    assert_eq!(at(&mut rig), "b", "the same attempt may move it again");
    rig.commit(vouched(3, move_to("c")));
    rig.crash();
    let late = vec![output("v1", "q", "x"), output("v1", "p", "late")];
    assert_eq!(rig.refused(vouched(2, late)), (CommitPart::Output(1), Reject::LeaseStale(Some(3))));
    assert_eq!(at(&mut rig), "c");
    let other = OutputAuthor { offset: 5, ..author(1) };
    rig.commit(Commit { vouched: Some(Vouched::Delivery(other)), ..vouched(1, move_to("d")) });
    assert_eq!(at(&mut rig), "d", "another message is another matter");
    // What is added is added once, whoever comes first.
    let added = || vec![appended("v1", "list", "k", "x")];
    assert_eq!(rig.commit(vouched(3, added())).outputs, [OutputDone::Appended]);
    assert_eq!(rig.commit(vouched(2, added())).outputs, [OutputDone::Duplicate]);
}

#[test]
fn a_delivery_of_the_shard_itself_counts_before_one_that_is_vouched_for() {
    let mut pair = pair();
    let near = pair.near;
    pair.here.produce_to(near, &[0]);
    let held = pair.here.lease(near, 1).remove(0);
    let fenced = Commit { fences: vec![held.receipt], ..vouched(9, vec![output("v1", "p", "a")]) };
    pair.here.commit(fenced);
    let by = pair.here.outputs("v1").expect("it is there").outputs[0].by.clone();
    assert_eq!(by, Some(("here".into(), 0, 0, 1)));
}

#[test]
fn an_effect_that_has_ended_does_not_stop_a_commit_that_is_vouched_for() {
    let mut rig = pair().there;
    let lease = rig.executes(wish("k"));
    let finishes = vec![finishing(lease.receipt, Status::Succeeded, "done")];
    rig.commit(Commit { finishes: finishes.clone(), ..Commit::default() });
    let outputs = || vec![output("v1", "p", "a")];
    let spent = Commit { finishes: finishes.clone(), outputs: outputs(), ..Commit::default() };
    assert!(matches!(rig.refused(spent), (CommitPart::Effect(0), Reject::EffectStale(_))));
    rig.commit(Commit { finishes, ..vouched(1, outputs()) });
    assert!(rig.outputs("v1").is_some());
}

#[test]
fn an_effect_that_another_shard_has_ended_moves_outputs_in_nobodys_name() {
    let mut rig = pair().there;
    let moved = |location| vec![output("v1", "p", location)];
    rig.commit(Commit { vouched: Some(Vouched::Effect), outputs: moved("a"), ..Commit::default() });
    rig.commit(vouched(1, moved("b")));
    // It is no attempt that another one could have overtaken.
    let by_effect = Commit { vouched: Some(Vouched::Effect), outputs: moved("c"), ..Commit::default() };
    assert_eq!(rig.commit(by_effect).outputs, [OutputDone::Replaced]);
    let nobody = Commit { outputs: moved("d"), ..Commit::default() };
    assert!(matches!(rig.refused(nobody), (CommitPart::Whole, Reject::Invalid(_))));
}
