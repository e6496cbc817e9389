//! Whom a commit across shards asks what, and what follows from the answers.

use crate::support::Draft;
use crate::support::ledger::{finishing, named};
use driftq_core::ledger::Status;
use driftq_core::{
    Across, Commit, CommitPart, Committed, EffectReceipt, Expected, GroupId, Next, Question, Receipt, Reject,
    Reply, ShardId, Token, TopicId,
};

const HOME: ShardId = ShardId(0);
const THERE: ShardId = ShardId(2);

fn lease(shard: ShardId) -> EffectReceipt {
    EffectReceipt { number: 7, epoch: 3 }.sent_from(shard)
}

/// Ends an effect of each of these shards, and raises an entity, which lives in the first shard.
fn resting_on(effects: &[ShardId]) -> Commit {
    let finishes = effects.iter().map(|shard| finishing(lease(*shard), Status::Succeeded, "paid")).collect();
    let expect = vec![Expected { entity: "order".into(), version: 0 }];
    named("c", Commit { finishes, expect, ..Commit::default() })
}

fn said(ends: bool) -> Reply {
    Reply::Commit(Ok(Committed { ends, ..Committed::default() }))
}

fn known() -> Reply {
    Reply::Commit(Ok(Committed { already: true, ..Committed::default() }))
}

fn refused(part: CommitPart, reject: Reject) -> Reply {
    Reply::Commit(Err((part, reject)))
}

fn spent() -> Next {
    Next::Done(Err((CommitPart::Effect(0), Reject::EffectStale(Some(3)))))
}

/// The shards that are asked next, and whether they are to do it.
fn asked(next: &Next) -> Vec<(ShardId, bool)> {
    let Next::Ask(questions) = next else { panic!("over: {next:?}") };
    questions.iter().map(|(shard, question)| (*shard, matches!(question, Question::Do(_)))).collect()
}

/// A commit that has asked every shard whether it could do its part: the deciding one first.
fn checking(commit: Commit, shards: &[ShardId]) -> Across {
    let mut across = Across::new(commit).expect("it can be cut");
    let checks: Vec<_> = shards.iter().map(|shard| (*shard, false)).collect();
    assert_eq!(asked(&across.next(Vec::new())), checks);
    across
}

#[test]
fn effects_end_before_the_deciding_shard_does_its_part() {
    let mut across = checking(resting_on(&[THERE]), &[HOME, THERE]);
    assert_eq!(asked(&across.next(vec![said(false), said(true)])), [(THERE, true)]);
    assert_eq!(asked(&across.next(vec![said(true)])), [(HOME, true)]);
    assert!(matches!(across.next(vec![said(false)]), Next::Done(Ok(_))));
}

#[test]
fn a_spent_lease_does_nothing_more_unless_the_commit_itself_has_spent_it() {
    let mut across = checking(resting_on(&[THERE]), &[HOME, THERE]);
    assert_eq!(across.next(vec![said(false), said(false)]), spent());
    // A commit that got no further than this is asked for again, under its name.
    let mut across = checking(resting_on(&[THERE]), &[HOME, THERE]);
    assert_eq!(asked(&across.next(vec![said(false), known()])), [(THERE, true)]);
    assert_eq!(asked(&across.next(vec![known()])), [(HOME, true)]);
    // One effect that ends is enough, wherever it is.
    let mut across = checking(resting_on(&[HOME, THERE]), &[HOME, THERE]);
    assert_eq!(asked(&across.next(vec![said(true), said(false)])), [(THERE, true)]);
}

#[test]
fn of_two_commits_in_the_name_of_one_lease_the_later_one_is_refused() {
    let mut across = checking(resting_on(&[THERE]), &[HOME, THERE]);
    across.next(vec![said(false), said(true)]);
    assert_eq!(across.next(vec![said(false)]), spent());
    // With an effect of its own left to end, the deciding shard looks whether that one still does.
    let mut across = checking(resting_on(&[HOME, THERE]), &[HOME, THERE]);
    across.next(vec![said(true), said(true)]);
    let Next::Ask(questions) = across.next(vec![said(false)]) else { panic!("over") };
    let [(HOME, Question::Do(own))] = &questions[..] else { panic!("{questions:?}") };
    assert_eq!(own.vouched, None);
}

#[test]
fn the_refusal_is_told_that_one_shard_would_have_come_upon_first() {
    let (entity, sealed) = (Reject::EntityDiffers { place: 0, version: 9 }, Reject::VersionSealed);
    let effect = (CommitPart::Effect(0), Reject::EffectUnknown);
    for (own, other, told) in [
        (refused(CommitPart::Expect(0), entity), said(true), (CommitPart::Expect(0), entity)),
        (refused(CommitPart::Expect(0), entity), refused(effect.0, effect.1), effect),
        (refused(CommitPart::Output(0), sealed), refused(effect.0, effect.1), effect),
    ] {
        let mut across = checking(resting_on(&[THERE]), &[HOME, THERE]);
        assert_eq!(across.next(vec![own, other]), Next::Done(Err(told)));
    }
    // A shard that refuses has looked at its effects.
    let mut across = checking(resting_on(&[HOME, THERE]), &[HOME, THERE]);
    let full = (CommitPart::Whole, Reject::DiskFull);
    assert_eq!(across.next(vec![refused(full.0, full.1), said(false)]), Next::Done(Err(full)));
}

#[test]
fn a_delivery_vouches_for_an_effect_that_has_ended_in_just_this_way() {
    let topic = TopicId::new(THERE, 0).expect("there can be such a topic");
    let token = Token { epoch: 1, n: 1 };
    let receipt = Receipt { topic, group: GroupId(0), partition: 0, offset: 0, token };
    let finishes = vec![finishing(lease(HOME), Status::Succeeded, "paid")];
    let commit = Commit { acks: vec![receipt], finishes, ..resting_on(&[]) };
    let mut across = checking(commit, &[THERE, HOME]);
    assert_eq!(asked(&across.next(vec![said(false), said(false)])), [(HOME, true)]);
    assert_eq!(asked(&across.next(vec![said(false)])), [(THERE, true)]);
}

#[test]
fn a_shard_that_is_left_out_is_a_fault_and_no_success() {
    let message = Draft::to(TopicId::new(THERE, 0).expect("there can be such a topic")).message();
    let commit = Commit { messages: vec![message], ..resting_on(&[HOME]) };
    for answers in [vec![], vec![said(true)]] {
        let mut across = checking(commit.clone(), &[HOME, THERE]);
        assert!(matches!(across.next(answers), Next::Done(Err((CommitPart::Whole, Reject::Invalid(_))))));
    }
}
