//! Idempotency keys on their way in: kept while a message is routed, held to one request, answered one by one.

use crate::support::{Draft, Rig, START};
use driftq_core::{
    Answer, Identity, Input, NewMessage, Overload, Reject, RequestHash, Settings, Stored, TopicId,
    TopicSettings,
};

const IDENTITY: Identity = Identity([3; 16]);
const KEPT_MS: u64 = 60_000;

fn rig() -> (Rig, TopicId) {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    (rig, topic)
}

fn reserve(rig: &mut Rig, request: u64) -> Answer {
    let request = RequestHash(request);
    rig.ask_durably(|ticket| Input::Reserve { ticket, identity: IDENTITY, request })
}

fn message(topic: TopicId, request: u64) -> NewMessage {
    Draft { identity: Some(IDENTITY), request: RequestHash(request), ..Draft::to(topic) }.message()
}

fn produce(rig: &mut Rig, message: NewMessage) -> Answer {
    rig.ask_durably(|ticket| Input::Produce { ticket, message })
}

const IN_FLIGHT: Answer = Answer::Rejected(Reject::KeyInFlight);
const REUSED: Answer = Answer::Rejected(Reject::KeyReused);

fn stored(offset: u64, duplicate: bool) -> Answer {
    Answer::Produced(Stored { topic: Some(TopicId(0)), partition: 0, offset, duplicate })
}

#[test]
fn while_a_message_is_routed_its_twin_is_refused() {
    let (mut rig, topic) = rig();
    assert_eq!(reserve(&mut rig, 1), Answer::Reserved);
    assert_eq!(reserve(&mut rig, 1), IN_FLIGHT);
    assert_eq!(produce(&mut rig, message(topic, 1)), IN_FLIGHT);
    let own = NewMessage { reserved: true, ..message(topic, 1) };
    assert_eq!(produce(&mut rig, own), stored(0, false));
    rig.tell(Input::Unreserve { identity: IDENTITY });
    assert_eq!(produce(&mut rig, message(topic, 1)), stored(0, true));
    assert_eq!(reserve(&mut rig, 1), stored(0, true), "who comes to route it again is told what was stored");
}

#[test]
fn a_reservation_ends_by_word_by_time_and_by_restart() {
    type End = fn(&mut Rig);
    let ends: [(&str, End); 3] = [
        ("word", |rig| rig.tell(Input::Unreserve { identity: IDENTITY })),
        ("time", |rig| {
            rig.advance(KEPT_MS - 1);
            assert_eq!(reserve(rig, 1), IN_FLIGHT);
            rig.advance(1);
        }),
        ("restart", Rig::crash),
    ];
    for (name, end) in ends {
        let (mut rig, topic) = rig();
        assert_eq!(reserve(&mut rig, 1), Answer::Reserved);
        end(&mut rig);
        assert_eq!(produce(&mut rig, message(topic, 1)), stored(0, false), "{name}");
    }
}

#[test]
fn an_old_timer_does_not_end_a_new_reservation() {
    let (mut rig, _) = rig();
    reserve(&mut rig, 1);
    rig.advance(1000);
    rig.tell(Input::Unreserve { identity: IDENTITY });
    reserve(&mut rig, 1);
    rig.advance(KEPT_MS - 1);
    assert_eq!(reserve(&mut rig, 1), IN_FLIGHT);
    rig.tell(Input::Unreserve { identity: Identity([9; 16]) });
}

/// What was stored is answered to whoever asks for the same; who asks for something else is refused.
#[test]
fn a_key_is_good_for_one_request() {
    // (first, again, the same?)
    for (first, again, same) in [(1, 1, true), (1, 2, false), (0, 2, true), (1, 0, true), (0, 0, true)] {
        let (mut rig, topic) = rig();
        assert_eq!(produce(&mut rig, message(topic, first)), stored(0, false));
        rig.crash();
        let expected = if same { stored(0, true) } else { REUSED };
        assert_eq!(produce(&mut rig, message(topic, again)), expected, "{first} {again}");
        assert_eq!(reserve(&mut rig, again), expected, "{first} {again}");
        let messages = vec![message(topic, again)];
        let many = rig.ask_durably(|ticket| Input::ProduceMany { ticket, messages });
        let one = match expected {
            Answer::Produced(stored) => Ok(stored),
            Answer::Rejected(reject) => Err(reject),
            other => panic!("{other:?}"),
        };
        assert_eq!(many, Answer::ProducedMany(vec![one]), "{first} {again}");
    }
}

#[test]
fn what_is_stored_but_not_durable_is_not_answered_yet() {
    let (mut rig, topic) = rig();
    let first = message(topic, 1);
    rig.ask(|ticket| Input::Produce { ticket, message: first });
    let ticket = rig.ask(|ticket| Input::Reserve { ticket, identity: IDENTITY, request: RequestHash(1) });
    assert_eq!(rig.answer(ticket), None);
    rig.sync();
    assert_eq!(rig.answer(ticket), Some(stored(0, true)));
}

#[test]
fn many_messages_have_one_answer_each_and_all_of_them_are_durable_before_it() {
    let mut rig = Rig::new(Settings::default());
    let settings = TopicSettings { messages_max: Some(3), ..TopicSettings::default() };
    let topic = rig.topic_with("t", 2, settings);
    let plain = Draft::to(topic).message();
    let messages = vec![
        plain.clone(),
        message(topic, 1),
        message(topic, 1),
        message(topic, 2),
        NewMessage { topic: TopicId(9), ..plain.clone() },
        NewMessage { partition: 7, ..plain.clone() },
        NewMessage { deadline: Some(START), ..plain.clone() },
        NewMessage { priority: 10, ..plain.clone() },
        plain.clone(),
        plain.clone(),
        NewMessage { partition: 1, ..plain },
    ];
    let ticket = rig.ask(|ticket| Input::ProduceMany { ticket, messages });
    assert_eq!(rig.answer(ticket), None);
    rig.write();
    assert_eq!(rig.answer(ticket), None);
    rig.sync();
    let stored =
        |partition, offset, duplicate| Ok(Stored { topic: Some(topic), partition, offset, duplicate });
    let expected = vec![
        stored(0, 0, false),
        stored(0, 1, false),
        stored(0, 1, true),
        Err(Reject::KeyReused),
        Err(Reject::TopicUnknown),
        Err(Reject::PartitionOutOfRange),
        Err(Reject::DeadlineExceeded),
        Err(Reject::Invalid("priority must be between 0 and 9")),
        stored(0, 2, false),
        Err(Reject::Overloaded(Overload::PartitionMessages)),
        stored(1, 3, false),
    ];
    assert_eq!(rig.answer(ticket), Some(Answer::ProducedMany(expected)));
}
