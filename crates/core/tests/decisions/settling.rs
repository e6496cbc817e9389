//! How a delivery ends, and who may end it.

use crate::support::deeds::at;
use crate::support::{Draft, LEASE_MS, Rig};
use driftq_core::{Answer, Delivery, DeliveryFact, Fact, Input, Reject, RetryPolicy, Settings, TopicId};

const NOT_OWNER: Answer = Answer::Rejected(Reject::NotOwner);
const NOT_IN_FLIGHT: Answer = Answer::Rejected(Reject::NotInFlight);

/// A topic with `messages` messages and one reader of group `g`, owner `o`.
fn working(messages: usize) -> (Rig, TopicId) {
    let mut rig = Rig::new(Settings { in_flight_max: 9, ..Settings::default() });
    let topic = rig.topic("t", 1);
    rig.subscribe(topic, "g", "o", 99);
    rig.produce_to(topic, &vec![0; messages]);
    (rig, topic)
}

/// Takes the one delivery that was made.
fn only(rig: &mut Rig) -> Delivery {
    let mut deliveries = rig.deliveries();
    assert_eq!(deliveries.len(), 1, "{deliveries:?}");
    deliveries.remove(0).1
}

#[test]
fn acking_the_higher_never_loses_the_lower() {
    let (mut rig, topic) = working(3);
    assert_eq!(rig.ack(&at(topic, 1), "o"), Answer::Settled);
    let acked_below = rig.group_described(topic, "g").unwrap().partitions[0].acked_below;
    assert_eq!(acked_below, Some(0));
    rig.offsets();
    rig.crash();
    rig.subscribe(topic, "g", "o", 9);
    assert_eq!(rig.offsets(), [], "they are on loan as before");
    rig.advance(LEASE_MS);
    assert_eq!(rig.offsets(), [0, 2]);
    assert_eq!(rig.ack(&at(topic, 0), "o"), Answer::Settled);
    assert_eq!(rig.group_described(topic, "g").unwrap().partitions[0].acked_below, Some(2));
    rig.crash();
    rig.subscribe(topic, "g", "o", 9);
    rig.advance(LEASE_MS);
    assert_eq!(rig.offsets(), [2]);
}

#[test]
fn an_ack_is_answered_once_it_is_durable_and_then_for_ever() {
    let (mut rig, topic) = working(1);
    let address = at(topic, 0);
    let ask = |rig: &mut Rig| {
        let address = address.clone();
        rig.ask(|ticket| Input::Ack { ticket, address, owner: "o".into() })
    };
    let first = ask(&mut rig);
    let second = ask(&mut rig);
    rig.write();
    assert_eq!((rig.answer(first), rig.answer(second)), (None, None), "a duplicate must not be faster");
    rig.sync();
    assert_eq!((rig.answer(first), rig.answer(second)), (Some(Answer::Settled), Some(Answer::Settled)));
    assert_eq!(rig.ack(&address, "stranger"), Answer::Settled, "it is done, whoever says so");
    assert_eq!(rig.nack(&address, "o", "late"), NOT_IN_FLIGHT, "acked work cannot fail afterwards");
    rig.crash();
    assert_eq!(rig.ack(&address, "o"), Answer::Settled);
}

#[test]
fn an_ack_that_was_not_durable_never_happened() {
    let (mut rig, topic) = working(1);
    rig.ask(|ticket| Input::Ack { ticket, address: at(topic, 0), owner: "o".into() });
    rig.write();
    rig.crash();
    rig.subscribe(topic, "g", "o", 9);
    assert_eq!(rig.offsets(), [0]);
}

#[test]
fn who_may_settle_after_what() {
    type Story = fn(&mut Rig, TopicId);
    let lapse: Story = |rig, _| rig.advance(LEASE_MS);
    let quiet_lapse: Story = |rig, _| {
        // No reader is left that could take the next attempt.
        for consumer in 1..3 {
            rig.tell(Input::Unsubscribe { consumer: driftq_core::ConsumerId(consumer) });
        }
        rig.advance(LEASE_MS);
    };
    let stranger: Story = |rig, topic| {
        rig.subscribe(topic, "g", "stranger", 9);
        rig.tell(Input::Unsubscribe { consumer: driftq_core::ConsumerId(1) });
        rig.advance(LEASE_MS);
    };
    let cases: [(&str, Story, u64, &str, Answer); 10] = [
        ("nothing", |_, _| (), 0, "o", Answer::Settled),
        ("nothing", |_, _| (), 0, "stranger", NOT_OWNER),
        ("never stored", |_, _| (), 7, "o", NOT_IN_FLIGHT),
        ("lapse, nobody else has it", quiet_lapse, 0, "o", Answer::Settled),
        ("lapse, nobody else has it", quiet_lapse, 0, "stranger", NOT_OWNER),
        ("lapse and a new attempt by the same owner", lapse, 0, "o", Answer::Settled),
        ("lapse and a new attempt by another owner", stranger, 0, "o", NOT_OWNER),
        ("lapse and a new attempt by another owner", stranger, 0, "stranger", Answer::Settled),
        ("restart", |rig, _| rig.crash(), 0, "o", Answer::Settled),
        ("restart", |rig, _| rig.crash(), 0, "stranger", NOT_OWNER),
    ];
    for (name, story, offset, owner, answer) in cases {
        let (mut rig, topic) = working(1);
        rig.sync();
        story(&mut rig, topic);
        assert_eq!(rig.ack(&at(topic, offset), owner), answer, "{name}: ack by {owner}");
        let (mut rig, topic) = working(1);
        rig.sync();
        story(&mut rig, topic);
        assert_eq!(rig.nack(&at(topic, offset), owner, "x"), answer, "{name}: nack by {owner}");
    }
}

#[test]
fn only_what_was_delivered_to_the_group_can_be_settled() {
    let mut rig = Rig::new(Settings { in_flight_max: 1, ..Settings::default() });
    let topic = rig.topic("t", 2);
    rig.produce_to(topic, &[0, 0]);
    assert_eq!(rig.ack(&at(topic, 0), "o"), NOT_IN_FLIGHT, "there is no such group");
    rig.subscribe(topic, "g", "o", 9);
    assert_eq!(rig.ack(&at(topic, 1), "o"), NOT_IN_FLIGHT, "it waits behind the window");
    let elsewhere = driftq_core::Address { partition: 2, ..at(topic, 0) };
    assert_eq!(rig.ack(&elsewhere, "o"), Answer::Rejected(Reject::PartitionOutOfRange));
    let nowhere = driftq_core::Address { topic: TopicId(5), ..at(topic, 0) };
    assert_eq!(rig.ack(&nowhere, "o"), Answer::Rejected(Reject::TopicUnknown));
    let wrong_partition = driftq_core::Address { partition: 1, ..at(topic, 0) };
    assert_eq!(rig.ack(&wrong_partition, "o"), NOT_IN_FLIGHT);
}

#[test]
fn a_nack_comes_back_at_once_but_never_in_a_tight_loop() {
    let (mut rig, topic) = working(1);
    rig.deliveries();
    for (attempt, wait) in
        [(1, 0), (2, 10), (3, 20), (4, 40), (5, 80), (6, 160), (7, 320), (8, 640), (9, 1000)]
    {
        assert_eq!(rig.nack(&at(topic, 0), "o", "why"), Answer::Settled);
        assert_eq!(rig.shard.next_deadline(), Some(rig.now.after_ms(wait)), "after attempt {attempt}");
        rig.advance(wait);
        assert_eq!(only(&mut rig).attempt, attempt + 1);
    }
}

#[test]
fn backoff_is_the_same_after_a_nack_and_after_a_lapse() {
    for lapse in [false, true] {
        let (mut rig, topic) = working(0);
        let retry = Some(RetryPolicy {
            max_attempts: 9,
            backoff_ms: 1000,
            max_backoff_ms: 3000,
            ..RetryPolicy::default()
        });
        rig.produce(&Draft { retry, ..Draft::to(topic) });
        for full in [1000, 2000, 3000, 3000] {
            rig.deliveries();
            if lapse {
                rig.advance(LEASE_MS);
            } else {
                rig.nack(&at(topic, 0), "o", "why");
            }
            assert_eq!(rig.offsets(), []);
            let due = rig.shard.next_deadline().expect("a retry is due some time");
            let wait = due.since_ms(rig.now);
            assert!((full / 2..=full).contains(&wait), "{wait} of {full}");
            rig.advance(wait - 1);
            assert_eq!(rig.offsets(), []);
            rig.advance(1);
        }
    }
}

#[test]
fn the_latest_error_is_kept_and_a_lapse_has_none_of_its_own_if_there_was_one() {
    let (mut rig, topic) = working(1);
    assert_eq!(&*only(&mut rig).last_error, "");
    rig.advance(LEASE_MS);
    assert_eq!(&*only(&mut rig).last_error, "ack_timeout");
    rig.nack(&at(topic, 0), "o", "first");
    rig.advance(10);
    assert_eq!(&*only(&mut rig).last_error, "first");
    rig.advance(LEASE_MS);
    assert_eq!(&*only(&mut rig).last_error, "first");
    rig.nack(&at(topic, 0), "o", "second");
    rig.advance(40);
    assert_eq!(&*only(&mut rig).last_error, "second");
    rig.nack(&at(topic, 0), "o", &"é".repeat(4000));
    rig.advance(80);
    assert_eq!(only(&mut rig).last_error.len(), 4096);
}

#[test]
fn a_lapse_is_exact() {
    let (mut rig, _) = working(1);
    rig.deliveries();
    rig.advance(LEASE_MS - 1);
    assert_eq!(rig.delivered(), []);
    rig.advance(1);
    assert_eq!(rig.delivered(), [(0, 0, 2)]);
}

#[test]
fn attempts_and_errors_survive_a_crash_as_far_as_they_were_written() {
    for lucky in [false, true] {
        let (mut rig, topic) = working(1);
        rig.nack(&at(topic, 0), "o", "why");
        rig.deliveries();
        rig.advance_unsynced(0);
        rig.write();
        assert_eq!(rig.delivered(), [], "written and not synced: the second delivery");
        if lucky {
            rig.crash_lucky()
        } else {
            rig.crash()
        }
        rig.subscribe(topic, "g", "o", 9);
        rig.advance(LEASE_MS / 2);
        if lucky {
            assert_eq!(rig.delivered(), [], "it was made, and its reader never heard of it");
            rig.advance(LEASE_MS);
        }
        let delivery = only(&mut rig);
        assert_eq!((delivery.attempt, &*delivery.last_error), (if lucky { 3 } else { 2 }, "why"));
    }
}

#[test]
fn the_time_of_the_next_attempt_survives_a_crash() {
    let (mut rig, topic) = working(0);
    let retry = Some(RetryPolicy {
        max_attempts: 9,
        backoff_ms: 60_000,
        max_backoff_ms: 0,
        ..RetryPolicy::default()
    });
    rig.produce(&Draft { retry, ..Draft::to(topic) });
    rig.nack(&at(topic, 0), "o", "why");
    let due = rig.shard.next_deadline();
    rig.deliveries();
    rig.crash();
    rig.subscribe(topic, "g", "o", 9);
    assert_eq!((rig.offsets(), rig.shard.next_deadline()), (vec![], due));
}

#[test]
fn what_is_released_was_never_delivered() {
    let (mut rig, topic) = working(2);
    let receipts: Vec<_> = rig.deliveries().iter().map(|(_, delivery)| delivery.receipt).collect();
    let mark = rig.write();
    // In any order: what comes back together goes out again in order.
    rig.release(&[receipts[1], receipts[0]]);
    assert_eq!(rig.delivered(), [], "the log may still show who had them: not before it does not");
    rig.sync();
    assert_eq!(rig.delivered(), [(0, 0, 1), (0, 1, 1)]);
    assert!(
        rig.facts_since(mark).iter().any(|fact| matches!(fact, Fact::Delivery(_, DeliveryFact::Released)))
    );
    assert_eq!(rig.ack(&at(topic, 0), "o"), Answer::Settled);
    // The second attempt released is the second attempt again, with its error.
    rig.nack(&at(topic, 1), "o", "why");
    rig.advance(0);
    let second = only(&mut rig);
    assert_eq!(second.attempt, 2);
    rig.release(&[second.receipt]);
    rig.sync();
    let again = only(&mut rig);
    assert_eq!((again.attempt, &*again.last_error), (2, "why"));
    assert_ne!(again.receipt.token, second.receipt.token);
    // An old receipt is an old story.
    let mark = rig.write();
    rig.release(&[second.receipt, receipts[0]]);
    rig.write();
    assert_eq!((rig.delivered(), rig.facts_since(mark).len()), (vec![], 0));
}

#[test]
fn a_release_survives_a_crash_and_leaves_nothing_to_settle() {
    let (mut rig, topic) = working(1);
    let consumer = driftq_core::ConsumerId(1);
    let first = only(&mut rig);
    rig.tell(Input::Unsubscribe { consumer });
    rig.release(&[first.receipt]);
    assert_eq!(rig.ack(&at(topic, 0), "o"), NOT_IN_FLIGHT);
    assert_eq!(rig.shard.next_deadline(), Some(rig.now.after_ms(rig.settings.group_expiry_ms)));
    rig.sync();
    rig.crash();
    rig.subscribe(topic, "g", "o", 9);
    assert_eq!(rig.delivered(), [(0, 0, 1)]);
    rig.crash();
    rig.release(&[first.receipt]);
    rig.subscribe(topic, "g", "o", 9);
    assert_eq!(rig.delivered(), [], "an older receipt names nothing");
}

#[test]
fn a_disconnect_leaves_the_lease_where_it_is() {
    let (mut rig, topic) = working(2);
    rig.deliveries();
    rig.tell(Input::Unsubscribe { consumer: driftq_core::ConsumerId(1) });
    rig.subscribe(topic, "g", "p", 9);
    assert_eq!(rig.delivered(), []);
    assert_eq!(rig.ack(&at(topic, 0), "o"), Answer::Settled);
    rig.advance(LEASE_MS);
    assert_eq!(rig.delivered(), [(0, 1, 2)]);
}
