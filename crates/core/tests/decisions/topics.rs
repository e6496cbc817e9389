//! Topics: made once, kept for ever, numbered offsets.

use crate::support::{Draft, Rig};
use driftq_core::{Action, Answer, Input, OrderInput, Reject, Settings, Ticket, TopicSettings};

fn create(rig: &mut Rig, name: &str, partitions: u32) -> Ticket {
    let name = name.to_owned();
    rig.ask(|ticket| {
        Input::Order(OrderInput::CreateTopic {
            ticket,
            name,
            partitions,
            settings: TopicSettings::default(),
            tenant: None,
            exact: false,
        })
    })
}

fn ready(partitions: u32, created: bool) -> Option<Answer> {
    Some(Answer::TopicReady { partitions, created })
}

#[test]
fn the_catalogue_hears_of_a_topic_before_its_maker_and_both_once_it_is_durable() {
    let mut rig = Rig::new(Settings::default());
    let ticket = create(&mut rig, "t", 3);
    rig.write();
    assert_eq!(rig.actions, []);
    rig.sync();
    match &rig.actions[..] {
        [Action::Publish(topic), Action::Reply { ticket: asked, answer }] => {
            assert_eq!((&*topic.name, topic.partitions), ("t", 3));
            assert_eq!((*asked, Some(answer.clone())), (ticket, ready(3, true)));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn creating_it_again_changes_nothing() {
    let mut rig = Rig::new(Settings::default());
    let first = create(&mut rig, "t", 3);
    let second = create(&mut rig, "t", 8);
    assert_eq!((rig.answer(first), rig.answer(second)), (None, None), "neither is durable");
    rig.sync();
    assert_eq!((rig.answer(first), rig.answer(second)), (ready(3, true), ready(3, false)));
    assert_eq!(rig.published().len(), 1);
    let mark = rig.write();
    // Not even a count that could not be had makes it a fault.
    let third = create(&mut rig, "t", 0);
    assert_eq!((rig.answer(third), rig.write()), (ready(3, false), mark));
}

#[test]
fn empty_topics_and_their_partition_counts_survive() {
    let mut rig = Rig::new(Settings::default());
    let counts = [("b", 3), ("a", 1), ("c", 4096)];
    for (name, partitions) in counts {
        rig.topic(name, partitions);
    }
    create(&mut rig, "lost", 2);
    rig.write();
    rig.crash();
    let topics: Vec<_> =
        rig.shard.state().topics().map(|t| (t.id.0, t.name.to_string(), t.partitions)).collect();
    assert_eq!(topics, [(0, "b".into(), 3), (1, "a".into(), 1), (2, "c".into(), 4096)]);
    let again = create(&mut rig, "a", 7);
    assert_eq!(rig.answer(again), ready(1, false));
}

#[test]
fn offsets_rise_over_the_whole_topic() {
    let mut rig = Rig::new(Settings::default());
    let (one, two) = (rig.topic("one", 3), rig.topic("two", 1));
    let offsets = [(one, 0), (one, 2), (two, 0), (one, 1), (two, 0), (one, 0)]
        .map(|(topic, partition)| rig.produce(&Draft::to(topic).partition(partition)));
    assert_eq!(offsets, [0, 1, 0, 2, 1, 3]);
    rig.crash();
    assert_eq!(rig.produce(&Draft::to(one).partition(1)), 4);
    let described = rig.topic_described(one);
    let oldest: Vec<_> = described.partitions.iter().map(|p| (p.messages, p.oldest_offset)).collect();
    assert_eq!((described.next_offset, oldest), (5, vec![(2, Some(0)), (2, Some(2)), (1, Some(1))]));
}

#[test]
fn what_cannot_be_a_topic_is_refused() {
    let settings = Settings { topics_max: 2, partitions_max: 5, ..Settings::default() };
    let mut rig = Rig::new(settings);
    let long = "x".repeat(256);
    let cases: [(&str, u32, bool); 7] = [
        ("", 1, false),
        (&long, 1, false),
        (&long[1..], 5, true),
        ("t", 0, false),
        ("t", 6, false),
        ("t", 1, true),
        ("u", 1, false),
    ];
    for (name, partitions, fits) in cases {
        let ticket = create(&mut rig, name, partitions);
        rig.sync();
        let answer = rig.answer(ticket).expect("everything is answered");
        let refused = matches!(answer, Answer::Rejected(Reject::Limit(_) | Reject::Invalid(_)));
        assert_eq!(refused, !fits, "{name} {partitions}: {answer:?}");
    }
}

#[test]
fn those_who_wait_when_the_shard_is_given_up_are_known() {
    let mut rig = Rig::new(Settings::default());
    rig.topic("t", 1);
    let waiting = [create(&mut rig, "u", 1), create(&mut rig, "v", 1)];
    assert_eq!(rig.shard.abandon(), waiting);
}
