//! A dead letter is tried again: by the group that gave it up, and by nobody else.

use crate::support::orders::{nack_dead, offsets, request};
use crate::support::{Draft, Rig, payload};
use driftq_core::{
    Answer, Delivery, Input, LeaseRequest, Message, NewMessage, OrderInput, Overload, Reject, RetryPolicy,
    Settings, Spotted, Stored, TopicId, TopicPatch,
};

const POLICY: RetryPolicy =
    RetryPolicy { max_attempts: 2, backoff_ms: 10, max_backoff_ms: 10, jitter: driftq_core::Jitter::None };

fn lease_for(rig: &mut Rig, topic: TopicId, group: &str) -> Vec<Delivery> {
    rig.lease_as(LeaseRequest { group: group.into(), ..request(topic, 9) })
}

/// A message with an identity that group `g` gave up and group `h` has acked.
fn given_up() -> (Rig, TopicId, Draft, Spotted) {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    rig.lease(topic, 1);
    let draft = Draft { retry: Some(POLICY), ..Draft::to(topic).keyed("k") };
    rig.produce(&draft);
    let done = lease_for(&mut rig, topic, "h").remove(0);
    rig.ack_token(&done);
    let failed = rig.lease(topic, 1).remove(0);
    rig.settle(&failed, nack_dead("poison"));
    let burial = rig.fetches().remove(0);
    rig.bury(&burial);
    rig.sync();
    let dlq =
        rig.shard.state().topics().find(|topic| *topic.name == *"dlq.t").expect("the letter lies there").id;
    (rig, topic, draft, Spotted { topic: dlq, partition: 0, offset: 0 })
}

fn redrive(rig: &mut Rig, letter: Spotted, message: NewMessage, group: &str) -> Answer {
    let group = Some(group.to_owned());
    rig.ask_durably(|ticket| Input::Order(OrderInput::Redrive { ticket, letter, message, group }))
}

#[test]
fn the_letter_goes_and_the_message_comes_for_the_group_that_gave_it_up() {
    let (mut rig, topic, draft, letter) = given_up();
    let stored = Stored { topic: Some(topic), partition: 0, offset: 1, duplicate: false };
    assert_eq!(redrive(&mut rig, letter, draft.message(), "g"), Answer::Produced(stored));
    assert_eq!(rig.message_described(letter), None);
    assert_eq!((rig.lag(topic, "g"), rig.lag(topic, "h")), (1, 0));
    rig.crash();
    assert_eq!(lease_for(&mut rig, topic, "h"), [], "others do not see it");
    let again = rig.lease(topic, 9);
    assert_eq!((offsets(&again), again[0].attempt), (vec![1], 1), "its attempts begin anew");
    // Its policy counts: one more failure, and one that is the last.
    rig.settle(&again[0], crate::support::orders::nack("no"));
    rig.advance(10);
    let last = rig.lease(topic, 9).remove(0);
    rig.settle(&last, crate::support::orders::nack("no"));
    assert_eq!(rig.fetches().len(), 1);
    assert_eq!(redrive(&mut rig, letter, draft.message(), "g"), Answer::Rejected(Reject::MessageUnknown));
}

#[test]
fn neither_gate_swallows_it() {
    let (mut rig, topic, draft, letter) = given_up();
    // Its identity is remembered by the produce gate: another one with it is a duplicate.
    let stored =
        |offset, duplicate| Answer::Produced(Stored { topic: Some(topic), partition: 0, offset, duplicate });
    assert_eq!(rig.try_produce(&draft), stored(0, true));
    // And by the consume gate of the group, after it succeeded once.
    assert_eq!(redrive(&mut rig, letter, draft.message(), "h"), stored(1, false));
    let again = lease_for(&mut rig, topic, "h");
    assert_eq!(offsets(&again), [1], "the group was done with this identity, and gets it all the same");
    assert_eq!(rig.lease_offsets(topic, 9), []);
    rig.ack_token(&again[0]);
    assert_eq!(rig.try_produce(&draft), stored(1, true), "it keeps its identity");
}

#[test]
fn if_its_group_is_gone_the_letter_stays_and_nobody_gets_it() {
    let (mut rig, topic, draft, letter) = given_up();
    rig.delete_group(topic, "g");
    let draft = Draft { identity: None, ..draft };
    let gone = Answer::Rejected(Reject::GroupUnknown);
    let before = rig.snapshot();
    assert_eq!(redrive(&mut rig, letter, draft.message(), "g"), gone);
    assert_eq!(rig.snapshot(), before);
    assert_eq!(lease_for(&mut rig, topic, "h"), [], "this group is done with it");
    assert!(rig.message_described(letter).is_some());
    // A group that is made anew is the one that a person means.
    rig.lease(topic, 1);
    assert!(matches!(redrive(&mut rig, letter, draft.message(), "g"), Answer::Produced(_)));
    assert_eq!((rig.lag(topic, "g"), rig.lag(topic, "h")), (1, 0));
}

#[test]
fn sent_to_a_topic_that_a_person_names_it_is_for_all_its_groups() {
    let (mut rig, _, draft, letter) = given_up();
    let elsewhere = rig.topic("elsewhere", 1);
    rig.lease(elsewhere, 1);
    lease_for(&mut rig, elsewhere, "h");
    let message = NewMessage { topic: elsewhere, identity: None, ..draft.message() };
    let sent =
        rig.ask_durably(|ticket| Input::Order(OrderInput::Redrive { ticket, letter, message, group: None }));
    assert!(matches!(sent, Answer::Produced(_)));
    assert_eq!((rig.lag(elsewhere, "g"), rig.lag(elsewhere, "h")), (1, 1));
}

#[test]
fn where_there_is_no_room_the_letter_stays() {
    let (mut rig, topic, draft, letter) = given_up();
    let patch = TopicPatch { messages_max: Some(Some(1)), ..TopicPatch::default() };
    rig.configure(topic, patch);
    rig.produce_to(topic, &[0]);
    let full = Answer::Rejected(Reject::Overloaded(Overload::PartitionMessages));
    let before = rig.snapshot();
    assert_eq!(redrive(&mut rig, letter, draft.message(), "g"), full);
    rig.tell(Input::Space { roomy: false });
    let unknown = NewMessage { topic: TopicId(99), ..draft.message() };
    assert_eq!(redrive(&mut rig, letter, unknown, "g"), Answer::Rejected(Reject::TopicUnknown));
    rig.configure(topic, TopicPatch::default());
    assert_eq!(rig.snapshot(), before);
    assert!(rig.message_described(letter).is_some());
}

#[test]
fn a_letter_knows_what_it_was() {
    let (rig, topic, _, letter) = given_up();
    let segments: Vec<u32> = rig.shard.state().live_bytes().keys().copied().collect();
    let mut letters = segments.into_iter().flat_map(|segment| rig.shard.state().pinned_in(segment, 99));
    let pinned = letters.find(|pinned| pinned.topic == letter.topic).expect("it is kept");
    let bytes = rig.log.read(pinned.position, pinned.length).expect("it can be read");
    let (message, _) =
        Message::decode(bytes).ok().and_then(Message::from_dead_letter).expect("it is a letter");
    assert_eq!(
        message.origin.as_ref().map(|origin| (&*origin.topic, origin.incarnation)),
        Some(("t", topic))
    );
    let plain = Message { envelope: None, origin: None, ..message };
    assert_eq!(payload(&plain), Draft::to(topic).message().payload);
}
