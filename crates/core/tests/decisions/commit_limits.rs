//! Limits count over a whole commit, and idempotency keys within it.

use crate::support::ledger::{appended, output};
use crate::support::{Draft, Rig};
use driftq_core::{
    Answer, Commit, CommitPart, Input, NewMessage, OutputInput, Overload, Receipt, Reject, RequestHash,
    Settings, Stored, TopicId, TopicSettings,
};

fn rig_with(settings: Settings) -> (Rig, TopicId) {
    let mut rig = Rig::new(settings);
    let topic = rig.topic("t", 2);
    (rig, topic)
}

fn produce(messages: Vec<NewMessage>) -> Commit {
    Commit { messages, ..Commit::default() }
}

fn overloaded(place: usize, overload: Overload) -> (CommitPart, Reject) {
    (CommitPart::Produce(place), Reject::Overloaded(overload))
}

fn offsets(stored: &[Stored]) -> Vec<(u64, bool)> {
    stored.iter().map(|stored| (stored.offset, stored.duplicate)).collect()
}

#[test]
fn messages_and_bytes_of_a_partition_are_counted_over_the_whole_commit() {
    for by_topic in [false, true] {
        let settings = Settings { partition_messages_max: 3, partition_bytes_max: 20, ..Settings::default() };
        let mut rig = Rig::new(if by_topic { Settings::default() } else { settings });
        let own = TopicSettings { messages_max: Some(3), bytes_max: Some(20), ..TopicSettings::default() };
        let topic = if by_topic { rig.topic_with("t", 2, own) } else { rig.topic("t", 2) };
        rig.produce(&Draft::to(topic));
        let message = || Draft::to(topic).message();
        let refused = rig.refused(produce(vec![message(), message(), message()]));
        assert_eq!(refused, overloaded(2, Overload::PartitionMessages));
        let elsewhere = Draft::to(topic).partition(1).message();
        rig.commit(produce(vec![message(), elsewhere.clone(), message(), elsewhere]));
        let large = |bytes: usize| Draft::to(topic).partition(1).value(&"x".repeat(bytes)).message();
        let small = rig.refused(produce(vec![large(18), large(1)]));
        assert_eq!(small, overloaded(1, Overload::PartitionMessages));
        let refused = rig.refused(produce(vec![large(19)]));
        assert_eq!(refused, overloaded(0, Overload::PartitionBytes));
        rig.commit(produce(vec![large(18)]));
    }
    let (mut rig, topic) = rig_with(Settings { partition_bytes_max: 20, ..Settings::default() });
    let ten = || Draft::to(topic).value("0123456789").message();
    assert_eq!(rig.refused(produce(vec![ten(), ten(), ten()])), overloaded(2, Overload::PartitionBytes));
    rig.commit(produce(vec![ten(), ten()]));
}

#[test]
fn retry_policies_are_counted_over_the_whole_commit() {
    let (mut rig, topic) = rig_with(Settings::default());
    let message = |max_attempts: u32| Draft::to(topic).attempts(max_attempts).message();
    for chunk in 0..65 {
        let messages = (0..1000).map(|n| message(chunk * 1000 + n)).collect();
        rig.ask(|ticket| Input::ProduceMany { ticket, messages });
    }
    rig.sync();
    // There are 65 534 numbers for policies; 65 000 are in use.
    let fresh = |count: u32| produce((0..count).map(|n| message(1_000_000 + n)).collect());
    assert_eq!(rig.refused(fresh(535)), overloaded(534, Overload::RetryPolicies));
    assert_eq!(rig.commit(fresh(534)).stored.len(), 534);
    assert_eq!(rig.refused(produce(vec![message(2_000_000)])), overloaded(0, Overload::RetryPolicies));
    rig.commit(produce(vec![message(1), Draft::to(topic).message()]));
}

#[test]
fn idempotency_records_are_counted_over_the_whole_commit() {
    let (mut rig, topic) = rig_with(Settings { idempotency_records_max: 3, ..Settings::default() });
    rig.produce(&Draft::to(topic).keyed("a"));
    let keyed = |key: &str| Draft::to(topic).keyed(key).message();
    let refused = rig.refused(produce(vec![keyed("b"), keyed("c"), keyed("d")]));
    assert_eq!(refused, overloaded(2, Overload::IdempotencyRecords));
    let done = rig.commit(produce(vec![keyed("b"), keyed("a"), keyed("c"), keyed("b")]));
    assert_eq!(offsets(&done.stored), [(1, false), (0, true), (2, false), (1, true)]);
}

#[test]
fn a_key_is_stored_once_within_a_commit_and_beside_it() {
    let (mut rig, topic) = rig_with(Settings::default());
    rig.produce(&Draft::to(topic).keyed("before"));
    let keyed = |key: &str, partition| Draft::to(topic).partition(partition).keyed(key).message();
    let done = rig.commit(produce(vec![keyed("new", 1), keyed("before", 0), keyed("new", 0)]));
    let expected = [(1, 1, false), (0, 0, true), (1, 1, true)].map(|(partition, offset, duplicate)| Stored {
        topic: Some(topic),
        partition,
        offset,
        duplicate,
    });
    assert_eq!(done.stored, expected);
    // And what a commit stored is known to the gate.
    let again = Draft::to(topic).keyed("new");
    let answer = rig.try_produce(&again);
    assert!(matches!(answer, Answer::Produced(Stored { offset: 1, duplicate: true, .. })), "{answer:?}");
}

/// The first message under a key is what the others are compared with, as it is when they come one by one.
#[test]
fn a_key_stands_for_one_request_within_a_commit() {
    // What the messages ask for (0: not told), and the place of the first that asks for something else.
    let cases: [(&[u64], Option<usize>); 8] = [
        (&[1, 1], None),
        (&[1, 2], Some(1)),
        (&[1, 0], None),
        (&[0, 1], None),
        (&[1, 0, 1], None),
        (&[1, 0, 2], Some(2)),
        (&[0, 1, 2], None),
        (&[1, 1, 2], Some(2)),
    ];
    for (requests, refused) in cases {
        let (mut one_by_one, topic) = rig_with(Settings::default());
        let drafts: Vec<Draft> = requests
            .iter()
            .map(|request| Draft { request: RequestHash(*request), ..Draft::to(topic).keyed("k") })
            .collect();
        let answers: Vec<_> = drafts.iter().map(|draft| one_by_one.try_produce(draft)).collect();
        let first = answers.iter().position(|answer| *answer == Answer::Rejected(Reject::KeyReused));
        assert_eq!(first, refused, "one by one: {requests:?}");
        let (mut rig, _) = rig_with(Settings::default());
        let commit = produce(drafts.iter().map(Draft::message).collect());
        match refused {
            Some(place) => {
                let expected = (CommitPart::Produce(place), Reject::KeyReused);
                assert_eq!(rig.refused(commit), expected, "{requests:?}");
            }
            None => {
                let done = rig.commit(commit);
                let expected: Vec<_> = (0..requests.len()).map(|place| (0, place > 0)).collect();
                assert_eq!(offsets(&done.stored), expected, "{requests:?}");
            }
        }
    }
}

/// Where keys are not remembered, the same key twice is two messages, and each of them has to be good.
#[test]
fn keys_that_are_not_remembered_hide_nothing() {
    let settings = Settings { idempotency_ttl_ms: 0, partition_messages_max: 2, ..Settings::default() };
    let (mut rig, topic) = rig_with(settings);
    let keyed = || Draft::to(topic).keyed("k").message();
    let nowhere = NewMessage { topic: TopicId(9), ..keyed() };
    assert_eq!(rig.refused(produce(vec![keyed(), nowhere])), (CommitPart::Produce(1), Reject::TopicUnknown));
    let outside = NewMessage { partition: 9, ..keyed() };
    let expected = (CommitPart::Produce(1), Reject::PartitionOutOfRange);
    assert_eq!(rig.refused(produce(vec![keyed(), outside])), expected);
    let refused = rig.refused(produce(vec![keyed(), keyed(), keyed()]));
    assert_eq!(refused, overloaded(2, Overload::PartitionMessages));
    assert_eq!(offsets(&rig.commit(produce(vec![keyed(), keyed()])).stored), [(0, false), (1, false)]);
}

#[test]
fn retention_makes_room_while_a_commit_stores() {
    let (mut rig, topic) = rig_with(Settings { retention_bytes: Some(4), ..Settings::default() });
    rig.produce_to(topic, &[0, 0, 0, 0]);
    let delivery = rig.lease(topic, 1).remove(0);
    let commit = Commit {
        acks: vec![delivery.receipt],
        messages: (0..6).map(|_| Draft::to(topic).message()).collect(),
        ..Commit::default()
    };
    assert_eq!(rig.commit(commit).stored.len(), 6);
    assert_eq!(rig.topic_described(topic).partitions[0].messages, 4);
    rig.crash();
    assert_eq!(rig.topic_described(topic).partitions[0].oldest_offset, Some(6));
}

/// A worker with a delivery that it never settles.
fn mover(settings: Settings) -> (Rig, Receipt) {
    let (mut rig, topic) = rig_with(settings);
    rig.produce(&Draft::to(topic));
    let receipt = rig.lease(topic, 1)[0].receipt;
    (rig, receipt)
}

#[test]
fn pointers_are_limited_and_moving_one_takes_no_more_room() {
    let (mut rig, receipt) = mover(Settings { outputs_max: 3, ..Settings::default() });
    let moving = |outputs| Commit { fences: vec![receipt], outputs, ..Commit::default() };
    let full = Reject::Limit("outputs: there are as many as are allowed");
    let cells = |n: usize| (0..n).map(|n| output("v", &n.to_string(), "here")).collect::<Vec<_>>();
    assert_eq!(rig.refused(moving(cells(4))), (CommitPart::Output(3), full));
    rig.commit(moving(vec![output("v", "p", "a"), appended("v", "q", "1", "b"), output("v", "r", "c")]));
    assert_eq!(rig.refused(moving(vec![appended("v", "q", "2", "b")])), (CommitPart::Output(0), full));
    assert_eq!(rig.refused(moving(vec![output("w", "p", "a")])), (CommitPart::Output(0), full));
    // Nothing is added by these.
    let same = vec![output("v", "p", "elsewhere"), appended("v", "q", "1", "b"), output("v", "p", "again")];
    assert_eq!(rig.commit(moving(same)).outputs.len(), 3);
    assert_eq!(rig.tally().outputs, 3);
    rig.ask_durably(|ticket| {
        Input::Output(OutputInput::Drop { ticket, dataset: "d".into(), version: "v".into() })
    });
    rig.commit(moving(cells(3)));
}

#[test]
fn bytes_of_pointers_are_limited_as_they_are_counted() {
    // A pointer costs 128 bytes and its texts.
    let (mut rig, receipt) = mover(Settings { output_bytes_max: 300, ..Settings::default() });
    let moving = |outputs| Commit { fences: vec![receipt], outputs, ..Commit::default() };
    let full = Reject::Limit("outputs: there are as many as are allowed");
    let pointer = |cell: &str| output("v", cell, "here");
    assert_eq!(
        rig.refused(moving(vec![pointer("a"), pointer("b"), pointer("c")])),
        (CommitPart::Output(2), full)
    );
    rig.commit(moving(vec![pointer("a"), pointer("b")]));
    assert_eq!(rig.refused(moving(vec![pointer("c")])), (CommitPart::Output(0), full));
    let long = output("v", "a", &"x".repeat(100));
    assert_eq!(rig.refused(moving(vec![long])), (CommitPart::Output(0), full));
    rig.commit(moving(vec![pointer("a"), output("v", "b", "where")]));
}
