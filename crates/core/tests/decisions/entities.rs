//! Entities: compared and raised in the decision that lets somebody through, and never because of anybody else.

use crate::support::Rig;
use crate::support::ledger::{eager, finishing, named, rejected, repeatable, tied, waiting, wish};
use crate::support::{Draft, LEASE_MS};
use driftq_core::ledger::Status;
use driftq_core::{
    Abroad, Answer, BeginEffect, Commit, CommitPart, Description, EffectAnswer, EffectInput, EntityFact,
    EntityList, EntityView, Expected, Fact, Input, Named, OrderInput, Query, Reject, RequestHash, Settings,
};

fn rig() -> Rig {
    Rig::new(Settings::default())
}

fn expecting(entities: &[(&str, u64)]) -> Vec<Expected> {
    let expected = |(entity, version): &(&str, u64)| Expected { entity: (*entity).into(), version: *version };
    entities.iter().map(expected).collect()
}

fn on(entities: &[(&str, u64)], ask: BeginEffect) -> BeginEffect {
    BeginEffect { whose: "t".into(), expect: expecting(entities), ..ask }
}

fn only(entities: &[(&str, u64)]) -> Commit {
    Commit { tenant: "t".into(), expect: expecting(entities), ..Commit::default() }
}

fn differs(place: u8, version: u64) -> Reject {
    Reject::EntityDiffers { place, version }
}

impl Rig {
    /// The version that an entity has, once it is durable.
    fn version(&mut self, entity: &str) -> u64 {
        let query = Query::Entity(Named::of("t", entity));
        match self.ask_durably(|ticket| Input::Describe { ticket, query }) {
            Answer::Described(Description::Entity(view)) => view.version,
            other => panic!("not an entity: {other:?}"),
        }
    }

    fn forget(&mut self, tenant: &str, entity: &str) -> Answer {
        let entity = Named::of(tenant, entity);
        self.ask_durably(|ticket| Input::Order(OrderInput::ForgetEntity { ticket, entity }))
    }

    /// A begin that must change nothing, and why it did not.
    fn turned_away(&mut self, ask: BeginEffect) -> Reject {
        self.sync();
        let before = self.snapshot();
        let ticket = self.ask_begin(ask);
        assert!(self.snapshot() == before, "a refusal changed something");
        match self.answer(ticket) {
            Some(Answer::Rejected(reject)) => reject,
            other => panic!("not refused at once: {other:?}"),
        }
    }
}

#[test]
fn a_begin_goes_through_once_for_each_version() {
    let mut rig = rig();
    let mark = rig.write();
    rig.executes(on(&[("e", 0), ("f", 0)], wish("a")));
    let facts = rig.facts_since(mark);
    let [Fact::Effect(_), Fact::Entity(EntityFact::Raised { tenant: "t", effect: 1, .. })] = facts[..] else {
        panic!("one batch, one line: {facts:?}")
    };
    assert_eq!((rig.version("e"), rig.version("f"), rig.version("g")), (1, 1, 0));
    assert_eq!(
        rig.turned_away(on(&[("g", 0), ("e", 0)], wish("b"))),
        differs(1, 1),
        "the first that differs"
    );
    assert_eq!((rig.effect("b"), rig.version("g")), (None, 0), "nothing of it was done");
    rig.executes(on(&[("e", 1)], wish("b")));
    assert_eq!((rig.version("e"), rig.version("f")), (2, 1));
    // What belongs to another tenant has another version.
    rig.executes(BeginEffect { whose: "u".into(), ..on(&[("e", 0)], wish("c")) });
    assert_eq!(rig.version("e"), 2);
}

#[test]
fn several_begins_in_one_call_meet_one_another() {
    let mut rig = rig();
    let asks = ["a", "b", "c"].map(|key| on(&[("e", u64::from(key == "c"))], wish(key))).to_vec();
    let Answer::Effects(answers) =
        rig.ask_durably(|ticket| Input::Effect(EffectInput::BeginMany { ticket, asks }))
    else {
        panic!("no answers")
    };
    assert!(matches!(answers[0], Ok(EffectAnswer::Execute(_))), "{answers:?}");
    assert_eq!(answers[1], Err(differs(0, 1)));
    assert!(matches!(answers[2], Ok(EffectAnswer::Execute(_))), "{answers:?}");
    assert_eq!(rig.version("e"), 2);
}

/// Only who is let through raises: an answer from memory compares nothing.
#[test]
fn what_is_answered_from_memory_compares_and_raises_nothing() {
    let mut rig = rig();
    let first = on(&[("e", 0)], BeginEffect { caller: 7, ..wish("k") });
    let lease = rig.executes(first.clone());
    assert_eq!(rig.executes(first.clone()), lease, "the same call has the same lease");
    assert!(matches!(rig.begin(on(&[("e", 0)], wish("k"))), EffectAnswer::Running { .. }));
    rig.finish(lease, Status::Succeeded, "done");
    assert!(matches!(rig.begin(first), EffectAnswer::Replay(_)));
    assert!(matches!(rig.begin(on(&[("e", 99)], wish("k"))), EffectAnswer::Replay(_)));
    assert_eq!(rig.version("e"), 1);
    let failed = rig.executes(on(&[("e", 1)], wish("r")));
    rig.finish(failed, Status::FailedRetryable, "no");
    assert!(matches!(rig.begin(on(&[("e", 9)], wish("r"))), EffectAnswer::Retryable { .. }));
    assert_eq!(rig.version("e"), 2);
}

/// A record raises once: whoever takes it on goes on with what was let through, whatever has happened to the entity.
#[test]
fn a_record_that_has_raised_does_not_compare_again() {
    for percent in [0, 100] {
        let mut rig = rig();
        rig.snapshot_percent = percent;
        let lapses = on(&[("e", 0)], repeatable("k"));
        rig.executes(lapses.clone());
        rig.advance(LEASE_MS);
        rig.crash();
        let second = rig.executes(lapses.clone());
        assert_eq!((second.attempt, rig.version("e")), (2, 1), "a lapse does not make it a new one");
        rig.finish(second, Status::FailedRetryable, "no");
        rig.executes(on(&[("e", 1)], wish("another")));
        let third = rig.executes(eager(lapses.clone()));
        assert_eq!((third.attempt, rig.version("e")), (3, 2));
        let receipt = third.receipt;
        rig.ask_durably(|ticket| Input::Effect(EffectInput::Release { ticket, receipt, uncertain: false }));
        let fourth = rig.executes(lapses);
        assert_eq!((fourth.attempt, rig.version("e")), (3, 2), "what was given up is taken on like a lapse");
    }
}

/// A record that was begun without a condition meets the first one that somebody brings along.
#[test]
fn a_record_that_has_not_raised_compares_when_it_is_taken_over() {
    let mut rig = rig();
    rig.executes(repeatable("k"));
    rig.commit(only(&[("e", 0)]));
    rig.advance(LEASE_MS);
    assert_eq!(rig.turned_away(on(&[("e", 0)], repeatable("k"))), differs(0, 1));
    rig.executes(on(&[("e", 1)], repeatable("k")));
    rig.advance(LEASE_MS);
    rig.executes(on(&[("e", 1)], repeatable("k")));
    assert_eq!(rig.version("e"), 2, "and from then on it has raised");
}

#[test]
fn a_new_record_under_an_old_name_compares_again() {
    let mut rig = rig();
    let brief = BeginEffect { ttl_ms: Some(5), ..on(&[("e", 0)], wish("k")) };
    let lease = rig.executes(brief.clone());
    rig.finish(lease, Status::Succeeded, "done");
    rig.advance(6);
    assert_eq!(rig.turned_away(brief), differs(0, 1));
    rig.executes(on(&[("e", 1)], wish("k")));
    assert_eq!(rig.version("e"), 2);
}

/// Those who wait are compared when their turn comes, not when they come.
#[test]
fn who_waits_is_compared_when_the_lease_comes_to_it() {
    let mut rig = rig();
    rig.executes(repeatable("k"));
    let stale = rig.ask_begin(waiting(on(&[("e", 0)], repeatable("k")), 50_000));
    let fresh = rig.ask_begin(waiting(on(&[("e", 1)], repeatable("k")), 50_000));
    rig.commit(only(&[("e", 0)]));
    rig.advance(LEASE_MS);
    assert_eq!(rig.answer(stale), Some(rejected(differs(0, 1))));
    assert!(matches!(rig.answer(fresh), Some(Answer::Effect(EffectAnswer::Execute(_)))));
    assert_eq!(rig.version("e"), 2);
}

#[test]
fn a_refusal_that_tells_a_version_waits_for_the_disk() {
    let mut rig = rig();
    rig.sync();
    let first = rig.ask_begin(on(&[("e", 0)], wish("a")));
    let second = rig.ask_begin(on(&[("e", 0)], wish("b")));
    let third = rig.ask_commit(only(&[("e", 0)]));
    rig.write();
    assert_eq!((rig.answer(first), rig.answer(second), rig.answer(third)), (None, None, None));
    rig.crash();
    assert_eq!(rig.version("e"), 0, "nobody was told otherwise");
    rig.executes(on(&[("e", 0)], wish("b")));
    rig.sync();
    let told = rig.ask_begin(on(&[("e", 0)], wish("a")));
    assert_eq!(rig.answer(told), Some(rejected(differs(0, 1))));
}

#[test]
fn a_commit_raises_with_the_rest_of_it_or_not_at_all() {
    let mut rig = rig();
    let topic = rig.topic("t", 1);
    rig.produce_to(topic, &[0, 0]);
    let deliveries = rig.lease(topic, 2);
    let acking = |place: usize, entities: &[(&str, u64)]| Commit {
        acks: vec![deliveries[place].receipt],
        messages: vec![Draft::to(topic).message()],
        ..only(entities)
    };
    let done = rig.commit(acking(0, &[("e", 0), ("f", 0)]));
    assert_eq!((done.stored.len(), rig.version("e"), rig.version("f")), (1, 1, 1));
    assert_eq!(rig.refused(acking(1, &[("e", 1), ("f", 0)])), (CommitPart::Expect(1), differs(1, 1)));
    let stale = acking(0, &[("e", 1), ("f", 1)]);
    assert_eq!(rig.refused(stale), (CommitPart::Ack(0), Reject::LeaseStale(None)));
    let mut full = acking(1, &[("e", 1)]);
    full.messages[0].partition = 9;
    assert!(matches!(rig.refused(full), (CommitPart::Produce(0), _)));
    assert_eq!((rig.version("e"), rig.version("f")), (1, 1), "a part that is stale raises nothing");
    rig.commit(acking(1, &[("e", 1), ("f", 1)]));
    assert_eq!((rig.version("e"), rig.version("f")), (2, 2));
}

#[test]
fn a_commit_that_is_repeated_is_answered_as_the_first_time() {
    let mut rig = rig();
    let commit = Commit { request: RequestHash(1), ..named("c", only(&[("e", 0)])) };
    assert!(!rig.commit(commit.clone()).already);
    rig.crash();
    assert!(rig.commit(commit.clone()).already);
    assert_eq!(rig.version("e"), 1);
    let other = Commit { request: RequestHash(2), ..commit };
    assert_eq!(rig.refused(other), (CommitPart::Whole, Reject::KeyReused));
    assert_eq!(rig.refused(only(&[("e", 0)])), (CommitPart::Expect(0), differs(0, 1)));
}

/// A lease that had its say cannot raise in the name of its effect.
#[test]
fn a_commit_in_the_name_of_an_effect_that_is_over_raises_nothing() {
    let mut rig = rig();
    let lease = rig.executes(wish("k"));
    let finishes = vec![finishing(lease.receipt, Status::Succeeded, "done")];
    rig.commit(Commit { finishes: finishes.clone(), ..only(&[("e", 0)]) });
    let again = Commit { finishes, ..only(&[("e", 1)]) };
    assert_eq!(rig.refused(again), (CommitPart::Effect(0), Reject::EffectStale(Some(1))));
}

/// Where another shard has to be asked first, nobody has a lease before, and nothing of what is to be looked at there is
/// looked at here.
#[test]
fn whoever_rests_on_another_shard_is_told_that_it_could_have_a_lease() {
    let mut rig = rig();
    let asks = |key| BeginEffect { abroad: Abroad::Unchecked, ..on(&[("e", 9)], repeatable(key)) };
    let takes = |key, abroad| BeginEffect { abroad, ..repeatable(key) };
    let free = |raised| EffectAnswer::Free { raised };
    for (key, abroad, raised) in [("a", Abroad::Nothing, false), ("b", Abroad::Raised, true)] {
        rig.sync();
        let before = rig.snapshot();
        assert_eq!(rig.begin(asks(key)), free(false), "{key}");
        assert!(rig.snapshot() == before, "{key}: there is no record yet");
        rig.executes(takes(key, abroad));
        assert!(matches!(rig.begin(asks(key)), EffectAnswer::Running { .. }), "{key}");
        let tickets = [0; 2].map(|_| rig.ask_begin(waiting(asks(key), 50_000)));
        rig.advance(LEASE_MS);
        rig.sync();
        // Neither has it by that, so that each of those who wait is told.
        let answers = tickets.map(|ticket| rig.answer(ticket));
        assert_eq!(answers, [0; 2].map(|_| Some(Answer::Effect(free(raised)))), "{key}");
        assert_eq!(rig.effect(key).unwrap().attempts, 1, "{key}");
        let lease = rig.executes(takes(key, Abroad::Raised));
        rig.advance(LEASE_MS);
        assert_eq!(rig.begin(asks(key)), free(true), "{key}: from then on it has raised");
        rig.finish(lease, Status::Succeeded, "done");
        assert!(matches!(rig.begin(asks(key)), EffectAnswer::Replay(_)), "{key}");
    }
    assert_eq!(rig.version("e"), 0);
}

#[test]
fn a_commit_may_be_remembered_for_less_than_the_shard_says() {
    let settings = Settings { commit_ttl_ms: 1000, ..Settings::default() };
    for (most, remembered_ms) in [(Some(10), 10), (Some(5000), 1000), (None, 1000)] {
        let mut rig = Rig::new(settings.clone());
        let commit = Commit { name_ttl_ms: most, ..named("c", only(&[("e", 0)])) };
        rig.commit(commit.clone());
        rig.advance(remembered_ms - 1);
        assert!(rig.commit(commit.clone()).already, "{most:?}");
        rig.advance(1);
        assert_eq!(rig.refused(commit), (CommitPart::Expect(0), differs(0, 1)), "{most:?}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_whatever_the_versions_are() {
    let mut rig = rig();
    let long = "x".repeat(256);
    let many: Vec<String> = (0..101).map(|number| format!("e{number}")).collect();
    let many: Vec<(&str, u64)> = many.iter().map(|name| (name.as_str(), 0)).collect();
    for entities in [&[("e", 0), ("e", 1)][..], &[("", 0)], &[(&long, 0)], &many] {
        let reject = rig.turned_away(on(entities, wish("k")));
        assert!(matches!(reject, Reject::Invalid(_)), "{reject:?}");
        let (part, reject) = rig.refused(only(entities));
        assert!(matches!((part, reject), (CommitPart::Whole, Reject::Invalid(_))), "{reject:?}");
    }
    rig.executes(on(&many[..100], wish("k")));
    let reject = rig.turned_away(BeginEffect { whose: "t".repeat(4097), ..on(&[("e", 0)], wish("l")) });
    assert!(matches!(reject, Reject::Invalid(_)), "{reject:?}");
}

#[test]
fn there_is_a_limit_and_what_is_known_goes_on() {
    let mut rig = Rig::new(Settings { entities_max: 2, ..Settings::default() });
    rig.commit(only(&[("e", 0)]));
    let full = Reject::Limit("entities: there are as many as are allowed");
    assert_eq!(rig.refused(only(&[("f", 0), ("g", 0)])), (CommitPart::Whole, full));
    rig.commit(only(&[("f", 0)]));
    assert_eq!(rig.turned_away(on(&[("g", 0)], wish("k"))), full);
    rig.commit(only(&[("e", 1), ("f", 1)]));
    assert_eq!(rig.forget("t", "f"), Answer::EntityForgotten { version: 2 });
    rig.commit(only(&[("g", 0)]));
    assert_eq!(rig.forget("t", "f"), rejected(Reject::EntityUnknown));
    assert_eq!(rig.forget("", "e"), rejected(Reject::EntityUnknown), "another tenant has none");
    assert_eq!((rig.version("e"), rig.version("f"), rig.version("g")), (2, 0, 1));
}

#[test]
fn a_full_disk_lets_nobody_through_and_tells_versions_all_the_same() {
    let mut rig = rig();
    rig.commit(only(&[("e", 0)]));
    rig.tell(Input::Space { roomy: false });
    assert_eq!(rig.refused(only(&[("e", 1)])), (CommitPart::Whole, Reject::DiskFull));
    assert_eq!(rig.refused(only(&[("e", 0)])), (CommitPart::Expect(0), differs(0, 1)));
    rig.tell(Input::Space { roomy: true });
    rig.commit(only(&[("e", 1)]));
}

#[test]
fn a_begin_for_a_delivery_that_is_stale_raises_nothing() {
    let mut rig = rig();
    let topic = rig.topic("t", 1);
    rig.produce_to(topic, &[0]);
    let delivery = rig.lease(topic, 1).remove(0);
    rig.ack_token(&delivery);
    let reject = rig.turned_away(tied(on(&[("e", 0)], wish("k")), &delivery));
    assert_eq!((reject, rig.version("e")), (Reject::LeaseStale(None), 0));
}

#[test]
fn entities_are_listed_by_name() {
    let mut rig = rig();
    rig.commit(only(&[("b", 0), ("a", 0), ("c", 0)]));
    rig.commit(only(&[("c", 1)]));
    rig.commit(Commit { tenant: String::new(), ..only(&[("z", 0)]) });
    let raised = Some(rig.now);
    let view = |entity: &str, version| EntityView { entity: entity.into(), version, raised };
    let mut list = |tenant: &str, after: Option<&str>, limit| {
        let list = EntityList { tenant: tenant.into(), after: after.map(str::to_owned), limit };
        match rig.ask_durably(|ticket| Input::Describe { ticket, query: Query::Entities(list) }) {
            Answer::Described(Description::Entities(entities, more)) => (entities, more),
            other => panic!("not entities: {other:?}"),
        }
    };
    assert_eq!(list("t", None, 2), (vec![view("a", 1), view("b", 1)], true));
    assert_eq!(list("t", Some("b"), 2), (vec![view("c", 2)], false));
    assert_eq!(list("", None, 2), (vec![view("z", 1)], false));
    assert_eq!(list("u", None, 2), (vec![], false));
}
