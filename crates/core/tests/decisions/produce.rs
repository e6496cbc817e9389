//! A message comes in: when it is answered, when it is refused, and when it was there before.

use crate::support::deeds::at;
use crate::support::{Draft, Rig, START};
use driftq_core::{
    Answer, Description, Fact, Input, NewMessage, OrderInput, Overload, Query, Reject, RetryPolicy, Settings,
    Stored, Ticket, Time, TopicId, TopicSettings,
};

fn ask(rig: &mut Rig, message: NewMessage) -> Ticket {
    rig.ask(|ticket| Input::Produce { ticket, message })
}

fn stored(offset: u64) -> Answer {
    Answer::Produced(Stored { topic: Some(TopicId(0)), partition: 0, offset, duplicate: false })
}

fn repeated(offset: u64) -> Answer {
    Answer::Produced(Stored { topic: Some(TopicId(0)), partition: 0, offset, duplicate: true })
}

#[test]
fn nothing_is_answered_or_delivered_before_it_is_durable() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    rig.subscribe(topic, "g", "o", 9);
    let first = ask(&mut rig, Draft::to(topic).message());
    assert!(rig.is_urgent(), "somebody waits for this");
    let written = rig.write();
    let second = ask(&mut rig, Draft::to(topic).message());
    rig.write();
    assert_eq!((rig.answer(first), rig.offsets()), (None, vec![]));
    // The second one is in the log as well, but it is not synced.
    rig.sync_first(written);
    assert_eq!((rig.answer(first), rig.answer(second)), (Some(stored(0)), None));
    assert_eq!(rig.offsets(), [0], "the first is delivered although newer ones keep coming");
    rig.sync();
    assert_eq!((rig.answer(second), rig.offsets()), (Some(stored(1)), vec![1]));
}

#[test]
fn a_stream_of_messages_to_one_partition_never_starves_its_readers() {
    let mut rig = Rig::new(Settings { in_flight_max: 100, ..Settings::default() });
    let topic = rig.topic("t", 1);
    rig.subscribe(topic, "g", "o", 100);
    let mut synced = rig.write();
    for offset in 0..20 {
        ask(&mut rig, Draft::to(topic).message());
        let written = rig.write();
        // The log is always one batch behind, as it is when batches fill while another one is being synced.
        rig.sync_first(synced);
        synced = written;
        assert_eq!(rig.offsets(), if offset == 0 { vec![] } else { vec![offset - 1] });
    }
}

#[test]
fn a_key_that_was_stored_is_answered_with_the_first_offset() {
    let mut rig = Rig::new(Settings { partition_messages_max: 2, ..Settings::default() });
    let topic = rig.topic("t", 2);
    let draft = Draft::to(topic).keyed("k");
    let first = ask(&mut rig, draft.message());
    let second = ask(&mut rig, draft.clone().partition(1).message());
    assert_eq!(rig.answer(second), None, "what it rests on is not durable either");
    rig.sync();
    assert_eq!((rig.answer(first), rig.answer(second)), (Some(stored(0)), Some(repeated(0))));
    rig.produce(&Draft::to(topic));
    let mark = rig.write();
    let full = Answer::Rejected(Reject::Overloaded(Overload::PartitionMessages));
    assert_eq!(rig.try_produce(&Draft::to(topic)), full);
    assert_eq!(rig.try_produce(&draft), repeated(0), "what is stored is stored, however full it is");
    rig.tell(Input::Space { roomy: false });
    assert_eq!(rig.try_produce(&Draft { deadline: Some(Time(1)), ..draft.clone() }), repeated(0));
    assert_eq!(rig.facts_since(mark), [], "nothing is stored twice");
    rig.crash();
    assert_eq!(rig.try_produce(&draft), repeated(0), "a restart forgets no key");
}

#[test]
fn a_key_whose_message_was_lost_is_new_again() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    let lost = ask(&mut rig, Draft::to(topic).keyed("k").message());
    rig.write();
    rig.crash();
    assert_eq!(rig.answer(lost), None);
    assert_eq!(rig.try_produce(&Draft::to(topic).keyed("k")), stored(0));
}

#[test]
fn a_key_is_remembered_for_its_time_and_not_a_moment_longer() {
    // Longer than the slack of the sweep: the first entry is swept while the second one lives.
    let ttl = 20_000;
    let mut rig = Rig::new(Settings { idempotency_ttl_ms: ttl, ..Settings::default() });
    let topic = rig.topic("t", 1);
    let draft = Draft::to(topic).keyed("k");
    assert_eq!(rig.produce(&draft), 0);
    rig.advance(ttl - 1);
    assert_eq!(rig.try_produce(&draft), repeated(0));
    rig.crash();
    assert_eq!(rig.try_produce(&draft), repeated(0));
    rig.advance(1);
    assert_eq!(rig.try_produce(&draft), stored(1));
    // The second life is counted from the second message.
    rig.advance(ttl - 1);
    assert_eq!(rig.try_produce(&draft), repeated(1));
    rig.advance(1);
    assert_eq!(rig.try_produce(&draft), stored(2));
}

#[test]
fn keys_are_not_remembered_when_they_live_for_no_time() {
    let mut rig = Rig::new(Settings { idempotency_ttl_ms: 0, ..Settings::default() });
    let topic = rig.topic("t", 1);
    let draft = Draft::to(topic).keyed("k");
    assert_eq!((rig.try_produce(&draft), rig.try_produce(&draft)), (stored(0), stored(1)));
    assert_eq!(rig.shard.next_deadline(), None, "there is nothing to forget");
    rig.subscribe(topic, "g", "o", 9);
    assert_eq!(rig.offsets(), [0], "the second waits for the first");
    rig.ack(&at(topic, 0), "o");
    assert_eq!((rig.offsets(), rig.tally().idempotency_records), (vec![1], 0));
}

#[test]
fn a_full_partition_refuses_by_count_and_by_bytes() {
    let settings = Settings { partition_messages_max: 3, partition_bytes_max: 10, ..Settings::default() };
    let count = Answer::Rejected(Reject::Overloaded(Overload::PartitionMessages));
    let bytes = Answer::Rejected(Reject::Overloaded(Overload::PartitionBytes));
    let cases: [(&[usize], usize, Answer); 5] = [
        (&[1, 1], 1, stored(2)),
        (&[1, 1, 1], 1, count),
        (&[4, 4], 2, stored(2)),
        (&[4, 4], 3, bytes.clone()),
        (&[], 11, bytes),
    ];
    for (before, size, answer) in cases {
        let mut rig = Rig::new(settings.clone());
        let topic = rig.topic("t", 2);
        for size in before {
            rig.produce(&Draft::to(topic).value(&"x".repeat(*size)));
        }
        let draft = Draft::to(topic).value(&"x".repeat(size));
        assert_eq!(rig.try_produce(&draft), answer, "{size} after {before:?}");
        rig.produce(&Draft::to(topic).partition(1));
    }
}

#[test]
fn an_ack_makes_room() {
    let mut rig = Rig::new(Settings::v1_dev());
    let topic = rig.topic("t", 1);
    rig.subscribe(topic, "g", "o", 9);
    rig.produce_to(topic, &[0, 0]);
    let refused = Answer::Rejected(Reject::Overloaded(Overload::PartitionMessages));
    assert_eq!(rig.try_produce(&Draft::to(topic)), refused);
    assert_eq!(rig.ack(&at(topic, 1), "o"), Answer::Settled);
    assert_eq!(rig.try_produce(&Draft::to(topic)), stored(2));
}

#[test]
fn a_deadline_that_has_come_is_refused() {
    for (deadline, refused) in [(START.0 - 1, true), (START.0, true), (START.0 + 1, false)] {
        let mut rig = Rig::new(Settings::default());
        let topic = rig.topic("t", 1);
        let answer = rig.try_produce(&Draft { deadline: Some(Time(deadline)), ..Draft::to(topic) });
        let expected = if refused { Answer::Rejected(Reject::DeadlineExceeded) } else { stored(0) };
        assert_eq!(answer, expected, "{deadline}");
    }
}

#[test]
fn a_full_disk_refuses_messages_and_topics_but_not_acks() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    rig.subscribe(topic, "g", "o", 9);
    rig.produce_to(topic, &[0, 0]);
    rig.tell(Input::Space { roomy: false });
    let full = Answer::Rejected(Reject::DiskFull);
    assert_eq!(rig.try_produce(&Draft::to(topic)), full);
    let create = |name: &str| {
        let name = name.to_owned();
        |ticket| {
            Input::Order(OrderInput::CreateTopic {
                ticket,
                name,
                partitions: 1,
                settings: TopicSettings::default(),
                tenant: None,
                exact: false,
            })
        }
    };
    assert_eq!(rig.ask_durably(create("u")), full);
    let there = Answer::TopicReady { partitions: 1, created: false };
    assert_eq!(rig.ask_durably(create("t")), there, "this one exists");
    assert_eq!(rig.ack(&at(topic, 0), "o"), Answer::Settled);
    assert_eq!(rig.nack(&at(topic, 1), "o", "why"), Answer::Settled);
    rig.tell(Input::Space { roomy: true });
    assert_eq!(rig.try_produce(&Draft::to(topic)), stored(2));
}

#[test]
fn what_does_not_exist_is_refused_at_once() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 2);
    let mark = rig.write();
    let nowhere = Draft::to(TopicId(9));
    let cases = [
        (nowhere, Reject::TopicUnknown),
        (Draft::to(topic).partition(2), Reject::PartitionOutOfRange),
        (Draft::to(topic).partition(u32::MAX), Reject::PartitionOutOfRange),
    ];
    for (draft, reject) in cases {
        let ticket = ask(&mut rig, draft.message());
        assert_eq!(rig.answer(ticket), Some(Answer::Rejected(reject)));
    }
    let question = rig.ask(|ticket| Input::Describe { ticket, query: Query::Topic(TopicId(9)) });
    assert_eq!(rig.answer(question), Some(Answer::Rejected(Reject::TopicUnknown)));
    let group = rig.describe(Query::Groups(topic));
    assert_eq!(group, Some(Description::Groups(vec![])));
    rig.write();
    assert_eq!(rig.facts_since(mark), []);
}

#[test]
fn the_table_of_retry_policies_is_bounded_and_its_places_are_used_again() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    let policy = |n: u64| {
        Some(RetryPolicy { max_attempts: 3, backoff_ms: n, max_backoff_ms: 0, ..RetryPolicy::default() })
    };
    let most = u64::from(u16::MAX) - 1;
    for n in 0..most {
        ask(&mut rig, Draft { retry: policy(n), ..Draft::to(topic) }.message());
    }
    rig.sync();
    rig.actions.clear();
    let draft = |n| Draft { retry: policy(n), ..Draft::to(topic) };
    let refused = rig.try_produce(&draft(most));
    assert_eq!(refused, Answer::Rejected(Reject::Overloaded(Overload::RetryPolicies)));
    rig.produce(&draft(5));
    rig.produce(&Draft::to(topic));
    rig.subscribe(topic, "g", "o", 1);
    rig.ack(&at(topic, 0), "o");
    rig.produce(&draft(most));
    rig.crash();
    let refused = rig.try_produce(&draft(most + 1));
    assert_eq!(refused, Answer::Rejected(Reject::Overloaded(Overload::RetryPolicies)));
}

#[test]
fn a_produce_is_one_fact_with_everything_in_it() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 3);
    let mark = rig.write();
    let draft =
        Draft { deadline: Some(Time(u64::MAX)), ..Draft::to(topic).partition(2).keyed("k").attempts(4) };
    rig.produce(&draft);
    let message = draft.message();
    match rig.facts_since(mark)[..] {
        [Fact::Appended(fact)] => {
            assert_eq!((fact.topic, fact.partition, fact.offset, fact.at), (topic, 2, 0, START));
            assert_eq!((fact.size, fact.check), (message.payload.size, message.payload.check));
            assert_eq!((fact.retry, fact.bytes), (message.retry, &*message.payload.bytes));
            let until = START.after_ms(Settings::default().idempotency_ttl_ms);
            assert_eq!(fact.identity, message.identity.map(|identity| (identity, until)));
        }
        ref other => panic!("{other:?}"),
    }
}
