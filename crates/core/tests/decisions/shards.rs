//! A shard knows which one it is, and its topics say so.

use crate::support::{Draft, Rig};
use driftq_core::{
    Answer, Fact, Input, MessageFact, NewMessage, OutboxFact, Position, Reject, Settings, Shard, ShardId,
    Spotted, State, Time, TopicId,
};

fn housed(shard: u8) -> Settings {
    Settings { shard: ShardId(shard), ..Settings::default() }
}

fn topic(shard: u8, index: usize) -> TopicId {
    TopicId::new(ShardId(shard), index).expect("there can be such a topic")
}

fn fold(facts: &[Fact<'_>]) -> Result<State, driftq_core::Malformed> {
    let mut bytes = Vec::new();
    facts.iter().for_each(|fact| fact.encode(&mut bytes));
    let mut state = State::new(1);
    state.apply_batch(Position(1 << 32), &bytes)?;
    Ok(state)
}

#[test]
fn topics_are_numbered_within_their_shard() {
    let mut rig = Rig::new(housed(5));
    assert_eq!(rig.shard.state().shard(), ShardId(5));
    let told = rig.facts_since(0).iter().filter(|fact| matches!(fact, Fact::Outbox(_))).count();
    assert_eq!(told, 1, "its log says so once");
    assert_eq!([rig.topic("a", 1), rig.topic("b", 1)], [topic(5, 0), topic(5, 1)]);
    for percent in [0, 50, 100] {
        rig.snapshot_percent = percent;
        rig.crash();
        assert_eq!(rig.shard.state().shard(), ShardId(5));
    }
    assert_eq!(rig.topic("c", 1), topic(5, 2));
    rig.produce_to(topic(5, 1), &[0, 0]);
    assert_eq!(rig.lease(topic(5, 1), 9).len(), 2);
    let told = rig.facts_since(0).iter().filter(|fact| matches!(fact, Fact::Outbox(_))).count();
    assert_eq!(told, 1);
}

#[test]
fn the_first_shard_does_not_say_so() {
    let rig = Rig::new(housed(0));
    assert!(!rig.facts_since(0).iter().any(|fact| matches!(fact, Fact::Outbox(_))));
    assert_eq!(rig.shard.state().encode()[0], 4, "older servers can read it");
}

#[test]
fn a_topic_of_another_shard_is_unknown() {
    let mut rig = Rig::new(housed(1));
    rig.topic("a", 1);
    for other in [topic(0, 0), topic(2, 0), TopicId(u32::MAX)] {
        let message = Draft::to(other).message();
        let answer = rig.ask_durably(|ticket| Input::Produce { ticket, message });
        assert_eq!(answer, Answer::Rejected(Reject::TopicUnknown));
    }
    assert_eq!(rig.produce(&Draft::to(topic(1, 0))), 0, "this one is its own");
}

#[test]
fn a_message_may_have_been_born_in_another_shard() {
    let mut rig = Rig::new(housed(1));
    let here = rig.topic("a", 1);
    let born = Spotted { topic: topic(3, 77), partition: 0, offset: 5 };
    let message = NewMessage { origin: Some(born), ..Draft::to(here).message() };
    rig.ask_durably(|ticket| Input::Produce { ticket, message });
    rig.crash();
    assert_eq!(rig.shard.state().messages(), 1);
}

#[test]
#[should_panic(expected = "the shell opens a log as the shard that it is of")]
fn a_log_is_not_opened_as_another_shard() {
    let state = Rig::new(housed(1)).recovered(1, 0);
    let mut shard = Shard::new(housed(2), state);
    shard.open(Time(2_000_000), Position(9 << 32), [7; 32], &mut driftq_core::Output::default());
}

#[test]
fn a_log_says_once_and_first_whose_it_is() {
    let housed = |shard| Fact::Outbox(OutboxFact::Housed { shard: ShardId(shard) });
    let created = |topic| Fact::TopicCreated {
        topic,
        partitions: 1,
        at: Time(1),
        name: "t",
        scoped: true,
        tenant: None,
    };
    let born = |origin| {
        let origin = Some(Spotted { topic: origin, partition: 0, offset: 0 });
        Fact::Appended(MessageFact { topic: topic(3, 0), origin, bytes: b"x", ..MessageFact::default() })
    };
    for accepted in [topic(2, 9), topic(3, 0)] {
        assert!(fold(&[housed(3), created(topic(3, 0)), born(accepted)]).is_ok());
    }
    for refused in [
        vec![housed(0)],
        vec![housed(64)],
        vec![housed(3), housed(3)],
        vec![created(topic(0, 0)), housed(3)],
        vec![housed(3), created(topic(0, 0))],
        vec![housed(3), created(topic(3, 1))],
        vec![housed(3), created(topic(3, 0)), born(topic(3, 1))],
    ] {
        assert!(fold(&refused).is_err(), "{refused:?}");
    }
}
