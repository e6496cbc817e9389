//! Who gets which message, and in which order.

use std::collections::BTreeMap;

use crate::support::deeds::{at, at_partition};
use crate::support::{Draft, LEASE_MS, Rig};
use driftq_core::{Answer, ConsumerId, Input, Reject, Settings, TopicId};

/// A rig with a topic and a window of `in_flight_max`.
fn rig(partitions: u32, in_flight_max: u32) -> (Rig, TopicId) {
    let mut rig = Rig::new(Settings { in_flight_max, ..Settings::default() });
    let topic = rig.topic("t", partitions);
    (rig, topic)
}

#[test]
fn a_new_group_begins_with_the_oldest_message_that_is_kept() {
    let (mut rig, topic) = rig(1, 9);
    rig.subscribe(topic, "first", "o", 9);
    rig.produce_to(topic, &[0, 0, 0, 0]);
    assert_eq!(rig.offsets(), [0, 1, 2, 3]);
    let address = |offset| driftq_core::Address { group: "first".into(), ..at(topic, offset) };
    // Everybody is done with these: they are gone, in order or not.
    rig.ack(&address(0), "o");
    rig.ack(&address(2), "o");
    rig.subscribe(topic, "g", "o", 9);
    assert_eq!((rig.offsets(), rig.lag(topic, "g")), (vec![1, 3], 2));
    rig.produce_to(topic, &[0]);
    assert_eq!(rig.offsets(), [4, 4], "both groups get what is new");
    rig.sync();
    rig.crash();
    rig.subscribe(topic, "g", "o", 9);
    assert_eq!(rig.offsets(), [], "what is on loan stays on loan");
    rig.advance(LEASE_MS);
    assert_eq!(rig.offsets(), [1, 3, 4]);
    for offset in [1, 3, 4] {
        assert_eq!(rig.ack(&at(topic, offset), "o"), Answer::Settled);
    }
    assert_eq!(rig.lag(topic, "g"), 0);
}

#[test]
fn readers_take_turns() {
    let (mut rig, topic) = rig(1, 9);
    let readers = ["a", "b", "c"].map(|owner| rig.subscribe(topic, "g", owner, 9));
    rig.produce_to(topic, &[0; 6]);
    let turns: Vec<ConsumerId> = rig.deliveries().into_iter().map(|(reader, _)| reader).collect();
    assert_eq!(turns, [readers[0], readers[1], readers[2], readers[0], readers[1], readers[2]]);
}

#[test]
fn a_reader_without_credit_is_passed_over_until_it_has_some() {
    let (mut rig, topic) = rig(1, 99);
    let stalled = rig.subscribe(topic, "g", "a", 1);
    let brisk = rig.subscribe(topic, "g", "b", 9);
    rig.produce_to(topic, &[0; 5]);
    let mut count = BTreeMap::new();
    for (reader, _) in rig.deliveries() {
        *count.entry(reader).or_insert(0) += 1;
    }
    assert_eq!(count, BTreeMap::from([(stalled, 1), (brisk, 4)]));
    rig.tell(Input::Unsubscribe { consumer: brisk });
    rig.produce_to(topic, &[0; 3]);
    assert_eq!(rig.offsets(), [], "nobody can take anything");
    rig.tell(Input::Credit { consumer: stalled, count: 2 });
    assert_eq!(rig.offsets(), [5, 6]);
    rig.tell(Input::Credit { consumer: brisk, count: 9 });
    assert_eq!(rig.offsets(), [], "a reader that left gets nothing");
}

#[test]
fn the_window_is_per_topic_group_and_partition() {
    let (mut rig, topic) = rig(2, 2);
    let other = rig.topic("u", 1);
    rig.produce_to(topic, &[0, 0, 0, 1, 1, 1]);
    rig.produce_to(other, &[0, 0, 0]);
    rig.subscribe(topic, "g", "o", 99);
    rig.subscribe(topic, "h", "o", 99);
    rig.subscribe(other, "g", "o", 99);
    let mut windows = BTreeMap::new();
    for (_, delivery) in rig.deliveries() {
        let receipt = delivery.receipt;
        *windows.entry((receipt.topic, receipt.group, receipt.partition)).or_insert(0) += 1;
    }
    assert_eq!(windows.into_values().collect::<Vec<_>>(), [2; 5]);
    let described = rig.group_described(topic, "g").unwrap();
    assert_eq!(described.partitions.iter().map(|p| (p.lag, p.in_flight)).collect::<Vec<_>>(), [(3, 2); 2]);
}

#[test]
fn every_end_of_a_delivery_opens_the_window_again() {
    type End = fn(&mut Rig, TopicId);
    let ends: [(&str, End, &[u64]); 4] = [
        ("ack", |rig, topic| drop(rig.ack(&at(topic, 1), "o")), &[2]),
        ("nack", |rig, topic| drop(rig.nack(&at(topic, 1), "o", "why")), &[2]),
        ("lapse", |rig, _| rig.advance(LEASE_MS), &[2, 3]),
        (
            "crash",
            |rig, topic| {
                rig.crash();
                rig.subscribe(topic, "g", "o", 99);
                assert_eq!(rig.offsets(), [], "the window is as full as it was");
                rig.advance(LEASE_MS);
            },
            &[2, 3],
        ),
    ];
    for (name, end, next) in ends {
        let (mut rig, topic) = rig(1, 2);
        rig.subscribe(topic, "g", "o", 99);
        rig.produce_to(topic, &[0, 0, 0, 0]);
        assert_eq!(rig.offsets(), [0, 1], "{name}");
        end(&mut rig, topic);
        assert_eq!(rig.offsets(), next, "{name}");
    }
}

#[test]
fn first_deliveries_keep_the_order_of_their_partition() {
    let (mut rig, topic) = rig(3, 1);
    let reader = rig.subscribe(topic, "g", "o", 1);
    rig.produce_to(topic, &[0, 1, 0, 2, 2, 1, 0, 0, 2]);
    let mut seen: Vec<(u32, u64)> = Vec::new();
    while let Some((_, delivery)) = rig.deliveries().pop() {
        let receipt = delivery.receipt;
        seen.push((receipt.partition, receipt.offset));
        rig.tell(Input::Credit { consumer: reader, count: 1 });
        rig.ack(&at_partition(topic, receipt.partition, receipt.offset), "o");
    }
    assert_eq!(seen.len(), 9);
    for partition in 0..3 {
        let offsets: Vec<u64> = seen.iter().filter(|(p, _)| *p == partition).map(|(_, o)| *o).collect();
        assert!(offsets.is_sorted(), "{partition}: {offsets:?}");
    }
}

#[test]
fn partitions_take_turns_too() {
    let (mut rig, topic) = rig(3, 9);
    rig.produce_to(topic, &[0, 0, 0, 0, 1, 1, 2]);
    rig.subscribe(topic, "g", "o", 6);
    let order: Vec<u32> = rig.deliveries().into_iter().map(|(_, d)| d.receipt.partition).collect();
    assert_eq!(order, [0, 1, 2, 0, 1, 0], "a long queue does not hold the others up");
}

#[test]
fn a_slow_partition_does_not_hold_up_the_others() {
    let (mut rig, topic) = rig(2, 1);
    rig.subscribe(topic, "g", "o", 99);
    rig.produce_to(topic, &[0, 0, 1, 1]);
    assert_eq!(rig.delivered(), [(0, 0, 1), (1, 2, 1)]);
    rig.ack(&at_partition(topic, 1, 2), "o");
    assert_eq!(rig.delivered(), [(1, 3, 1)]);
}

#[test]
fn workers_under_one_owner_work_together_and_others_are_shut_out() {
    let (mut rig, topic) = rig(1, 9);
    let first = rig.subscribe(topic, "g", "team", 1);
    rig.subscribe(topic, "g", "team", 1);
    rig.subscribe(topic, "g", "stranger", 1);
    rig.produce_to(topic, &[0; 3]);
    rig.deliveries();
    // The first worker is gone; its colleague settles for it.
    rig.tell(Input::Unsubscribe { consumer: first });
    assert_eq!(rig.ack(&at(topic, 0), "stranger"), Answer::Rejected(Reject::NotOwner));
    assert_eq!(rig.nack(&at(topic, 0), "stranger", "x"), Answer::Rejected(Reject::NotOwner));
    assert_eq!(rig.ack(&at(topic, 2), "team"), Answer::Rejected(Reject::NotOwner));
    assert_eq!(rig.ack(&at(topic, 0), "team"), Answer::Settled);
    assert_eq!(rig.ack(&at(topic, 1), "team"), Answer::Settled);
    assert_eq!(rig.lag(topic, "g"), 1);
}

#[test]
fn what_was_due_at_a_crash_has_the_first_turn() {
    let (mut rig, topic) = rig(1, 9);
    rig.subscribe(topic, "g", "o", 2);
    rig.produce_to(topic, &[0; 5]);
    assert_eq!(rig.offsets(), [0, 1]);
    for offset in [0, 1] {
        rig.nack(&at(topic, offset), "o", "no");
    }
    rig.crash();
    // The reader is faster than the first tick.
    rig.subscribe(topic, "g", "o", 1);
    rig.sync();
    assert_eq!(rig.delivered(), [(0, 0, 2)]);
}

#[test]
fn nothing_is_delivered_before_the_run_is_durable() {
    let (mut rig, topic) = rig(1, 2);
    rig.produce(&Draft::to(topic));
    rig.reboot(rig.log.synced);
    let subscription = rig.subscription(topic, "g", "o", 9);
    rig.ask(|ticket| Input::Subscribe { ticket, subscription });
    rig.tell(Input::Tick);
    assert_eq!(rig.actions, []);
    rig.sync();
    let deliveries = rig.deliveries();
    assert_eq!(deliveries.len(), 1);
    assert_eq!(deliveries[0].1.receipt.token.epoch, 2);
}

#[test]
fn tokens_are_never_handed_out_twice() {
    let (mut rig, topic) = rig(1, 9);
    let mut tokens = std::collections::BTreeSet::new();
    rig.produce_to(topic, &[0; 3]);
    for _ in 0..4 {
        rig.subscribe(topic, "g", "o", 99);
        rig.advance(LEASE_MS * 2);
        for (_, delivery) in rig.deliveries() {
            assert!(tokens.insert(delivery.receipt.token), "{delivery:?}");
        }
        rig.advance(LEASE_MS);
        rig.crash();
    }
    assert!(tokens.len() >= 12);
}

#[test]
fn what_no_reader_may_ask_for_is_refused() {
    let settings = Settings { groups_max: 1, consumers_max: 2, ..Settings::default() };
    let (week, long) = (settings.lease_ms_max, "x".repeat(256));
    let mut rig = Rig::new(settings);
    let topic = rig.topic("t", 1);
    let invalid = |answer: &Answer| matches!(answer, Answer::Rejected(Reject::Invalid(_)));
    let limit = |answer: &Answer| matches!(answer, Answer::Rejected(Reject::Limit(_)));
    let fine = |answer: &Answer| *answer == Answer::Subscribed;
    type Case<'a> = (TopicId, &'a str, &'a str, u64, &'a dyn Fn(&Answer) -> bool);
    let cases: [Case<'_>; 9] = [
        (TopicId(9), "g", "o", 1, &|answer| *answer == Answer::Rejected(Reject::TopicUnknown)),
        (topic, "", "o", 1, &invalid),
        (topic, &long, "o", 1, &invalid),
        (topic, "g", "", 1, &invalid),
        (topic, "g", "o", 0, &invalid),
        (topic, "g", "o", week + 1, &invalid),
        (topic, "g", "o", week, &fine),
        (topic, "h", "o", 1, &limit),
        (topic, "g", "p", 1, &fine),
    ];
    for (topic, group, owner, lease_ms, expected) in cases {
        let mut subscription = rig.subscription(topic, group, owner, 1);
        subscription.lease_ms = Some(lease_ms);
        let answer = rig.ask_durably(|ticket| Input::Subscribe { ticket, subscription });
        assert!(expected(&answer), "{group:.9} {owner} {lease_ms}: {answer:?}");
    }
    let third = rig.subscription(topic, "g", "o", 1);
    assert!(limit(&rig.ask_durably(|ticket| Input::Subscribe { ticket, subscription: third })));
}
