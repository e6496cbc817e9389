//! Idempotency on the readers' side: one message per identity at a time, and none after a success.

use crate::support::deeds::{at, at_partition};
use crate::support::{Draft, LEASE_MS, Rig};
use driftq_core::{Answer, DeliveryFact, Fact, Input, Overload, Reject, Settings, TopicId};

const TTL_MS: u64 = 100_000;

/// Two messages under one key in two partitions: the producer came back after its key was forgotten.
fn twins(settings: &Settings) -> (Rig, TopicId) {
    let mut rig = Rig::new(Settings { idempotency_ttl_ms: TTL_MS, ..settings.clone() });
    let topic = rig.topic("t", 2);
    rig.produce(&Draft::to(topic).keyed("k"));
    rig.advance(TTL_MS);
    rig.produce(&Draft::to(topic).keyed("k").partition(1));
    (rig, topic)
}

#[test]
fn while_one_is_worked_on_the_other_waits_and_then_it_is_skipped() {
    let (mut rig, topic) = twins(&Settings::default());
    rig.subscribe(topic, "g", "o", 99);
    rig.produce(&Draft::to(topic).partition(1));
    assert_eq!(rig.delivered(), [(0, 0, 1), (1, 2, 1)], "it holds nobody up");
    let mark = rig.write();
    assert_eq!(rig.ack(&at(topic, 0), "o"), Answer::Settled);
    assert_eq!(rig.delivered(), []);
    let facts = rig.facts_since(mark);
    assert!(
        matches!(
            facts[..],
            [
                Fact::Delivery(_, DeliveryFact::Acked { .. }),
                Fact::Delivery(_, DeliveryFact::Retired { dead: false, .. })
            ]
        ),
        "{facts:?}"
    );
    let described = rig.group_described(topic, "g").unwrap();
    assert_eq!(described.partitions[1].acked_below, Some(2), "the floor moves over it");
    assert_eq!(rig.ack(&at_partition(topic, 1, 1), "o"), Answer::Settled);
}

#[test]
fn when_one_fails_the_other_may_run() {
    let (mut rig, topic) = twins(&Settings::default());
    rig.subscribe(topic, "g", "o", 99);
    assert_eq!(rig.delivered(), [(0, 0, 1)]);
    assert_eq!(rig.nack(&at(topic, 0), "o", "why"), Answer::Settled);
    assert_eq!(rig.delivered(), [(1, 1, 1)]);
    rig.advance(LEASE_MS / 2);
    assert_eq!(rig.delivered(), [], "now the first one waits");
    assert_eq!(rig.ack(&at_partition(topic, 1, 1), "o"), Answer::Settled);
    rig.advance(LEASE_MS * 9);
    assert_eq!((rig.delivered(), rig.lag(topic, "g")), (vec![], 0));
}

#[test]
fn every_end_of_a_delivery_lets_the_other_one_run() {
    type End = fn(&mut Rig, TopicId, driftq_core::Receipt);
    let ends: [(&str, End, (u32, u64, u32)); 5] = [
        ("release", |rig, _, receipt| rig.release(&[receipt]), (1, 1, 1)),
        ("lapse", |rig, _, _| rig.advance(LEASE_MS), (1, 1, 1)),
        ("retention", |rig, _, _| rig.advance(20_000 + LEASE_MS / 2), (1, 1, 1)),
        ("last nack", |rig, topic, _| drop(rig.nack(&at(topic, 0), "o", "why")), (1, 1, 1)),
        (
            "crash",
            |rig, topic, _| {
                rig.crash();
                rig.subscribe(topic, "g", "o", 99);
                assert_eq!(rig.delivered(), [], "the first one runs as before");
                rig.advance(LEASE_MS);
            },
            (1, 1, 1),
        ),
    ];
    for (name, end, next) in ends {
        let retention_ms = (name == "retention").then_some(TTL_MS + 20_000);
        let (mut rig, topic) = twins(&Settings { retention_ms, ..Settings::default() });
        let mut subscription = rig.subscription(topic, "g", "o", 99);
        subscription.lease_ms = Some(if name == "retention" { 50_000 } else { LEASE_MS });
        rig.ask(|ticket| Input::Subscribe { ticket, subscription });
        rig.sync();
        let (_, delivery) = rig.deliveries().remove(0);
        end(&mut rig, topic, delivery.receipt);
        assert_eq!(rig.delivered().first(), Some(&next), "{name}");
    }
}

#[test]
fn any_lease_works_with_keys() {
    for lease_ms in [1, 5, TTL_MS - 1, TTL_MS, TTL_MS * 3] {
        let mut rig = Rig::new(Settings { idempotency_ttl_ms: TTL_MS, ..Settings::default() });
        let topic = rig.topic("t", 1);
        let mut subscription = rig.subscription(topic, "g", "o", 99);
        subscription.lease_ms = Some(lease_ms);
        rig.ask(|ticket| Input::Subscribe { ticket, subscription });
        rig.produce(&Draft::to(topic).keyed("k"));
        rig.produce(&Draft::to(topic).keyed("l"));
        for attempt in 1..4 {
            assert_eq!(rig.delivered(), [(0, 0, attempt), (0, 1, attempt)], "lease {lease_ms}");
            rig.advance(lease_ms);
        }
        assert_eq!(rig.ack(&at(topic, 0), "o"), Answer::Settled);
        assert_eq!(rig.ack(&at(topic, 1), "o"), Answer::Settled);
        assert_eq!(rig.lag(topic, "g"), 0);
    }
}

#[test]
fn what_a_group_is_done_with_is_remembered_for_its_time() {
    for (wait, skipped) in [(TTL_MS - 1, true), (TTL_MS, false)] {
        for crash in [false, true] {
            let mut rig = Rig::new(Settings { idempotency_ttl_ms: TTL_MS, ..Settings::default() });
            let topic = rig.topic("t", 1);
            rig.produce(&Draft::to(topic).keyed("k"));
            let reader = rig.subscribe(topic, "g", "o", 1);
            rig.advance(TTL_MS);
            rig.deliveries();
            assert_eq!(rig.ack(&at(topic, 0), "o"), Answer::Settled);
            rig.produce(&Draft::to(topic).keyed("k"));
            rig.advance(wait);
            if crash {
                rig.crash();
                rig.subscribe(topic, "g", "o", 1);
            } else {
                rig.tell(Input::Credit { consumer: reader, count: 1 });
            }
            assert_eq!(rig.delivered(), if skipped { vec![] } else { vec![(0, 1, 1)] }, "{wait}");
        }
    }
}

#[test]
fn groups_are_done_each_for_itself() {
    let (mut rig, topic) = twins(&Settings::default());
    rig.subscribe(topic, "g", "o", 99);
    rig.subscribe(topic, "h", "o", 99);
    assert_eq!(rig.delivered(), [(0, 0, 1), (0, 0, 1)]);
    rig.ack(&at(topic, 0), "o");
    assert_eq!((rig.lag(topic, "g"), rig.lag(topic, "h")), (0, 2));
    rig.advance(LEASE_MS);
    assert_eq!(rig.delivered().len(), 1);
}

#[test]
fn an_answer_that_rests_on_a_skip_outlives_a_crash() {
    let (mut rig, topic) = twins(&Settings::default());
    let reader = rig.subscribe(topic, "g", "o", 1);
    rig.ack(&at(topic, 0), "o");
    // The reader had no credit for the second one until now: the skip is in a batch of its own.
    rig.tell(Input::Credit { consumer: reader, count: 1 });
    let address = at_partition(topic, 1, 1);
    let ticket = rig.ask(|ticket| Input::Ack { ticket, address, owner: "o".into() });
    assert_eq!(rig.answer(ticket), None);
    assert!(rig.is_urgent());
    rig.sync();
    assert_eq!(rig.answer(ticket), Some(Answer::Settled));
    rig.crash();
    rig.advance(TTL_MS);
    rig.subscribe(topic, "g", "o", 99);
    assert_eq!(rig.delivered(), [], "settled, and then delivered again");
}

#[test]
fn forgetting_is_done_in_bounded_steps_until_nothing_is_left() {
    let mut rig =
        Rig::new(Settings { idempotency_ttl_ms: TTL_MS, in_flight_max: 9999, ..Settings::default() });
    let topic = rig.topic("t", 1);
    rig.subscribe(topic, "g", "o", 9999);
    for n in 0..2500 {
        let message = Draft::to(topic).keyed(&n.to_string()).message();
        rig.ask(|ticket| Input::Produce { ticket, message });
    }
    rig.sync();
    for offset in 0..2500 {
        rig.ask(|ticket| Input::Ack { ticket, address: at(topic, offset), owner: "o".into() });
    }
    rig.sync();
    assert_eq!(rig.tally().idempotency_records, 5000);
    let mark = rig.write();
    rig.advance(TTL_MS + 9_999);
    assert_eq!(rig.tally().idempotency_records, 5000, "one sweep takes many");
    rig.advance(1);
    assert_eq!(rig.tally().idempotency_records, 0);
    rig.write();
    let sweeps = rig.facts_since(mark);
    assert_eq!(sweeps.len(), 6, "three for each gate");
    assert!(sweeps.iter().all(|fact| matches!(fact, Fact::Forgotten { most: 1024, .. })), "{sweeps:?}");
    assert!(rig.shard.next_deadline().is_none_or(|due| due > rig.now.after_ms(TTL_MS)));
}

#[test]
fn forgetting_goes_on_after_a_crash() {
    let mut rig = Rig::new(Settings { idempotency_ttl_ms: TTL_MS, ..Settings::default() });
    let topic = rig.topic("t", 1);
    rig.subscribe(topic, "g", "o", 99);
    rig.produce(&Draft::to(topic).keyed("k"));
    rig.ack(&at(topic, 0), "o");
    rig.advance(TTL_MS / 2);
    rig.crash();
    assert_eq!(rig.tally().idempotency_records, 2);
    rig.advance(TTL_MS);
    assert_eq!(rig.tally().idempotency_records, 0);
}

#[test]
fn a_shorter_lifetime_is_not_held_up_by_records_with_a_longer_one() {
    let mut rig = Rig::new(Settings { idempotency_ttl_ms: 100 * TTL_MS, ..Settings::default() });
    let topic = rig.topic("t", 1);
    rig.subscribe(topic, "g", "o", 9);
    rig.produce(&Draft::to(topic).keyed("long"));
    rig.ack(&at(topic, 0), "o");
    rig.settings.idempotency_ttl_ms = TTL_MS;
    rig.crash();
    rig.subscribe(topic, "g", "o", 9);
    for (offset, key) in [(1, "a"), (2, "b")] {
        rig.produce(&Draft::to(topic).keyed(key));
        rig.ack(&at(topic, offset), "o");
    }
    assert_eq!(rig.tally().idempotency_records, 6);
    rig.advance(2 * TTL_MS);
    assert_eq!(rig.tally().idempotency_records, 2, "of the first message, as was promised");
    rig.sync();
    rig.crash();
    rig.advance(100 * TTL_MS);
    assert_eq!(rig.tally().idempotency_records, 0);
}

#[test]
fn records_are_limited() {
    let mut rig =
        Rig::new(Settings { idempotency_ttl_ms: TTL_MS, idempotency_records_max: 3, ..Settings::default() });
    let topic = rig.topic("t", 1);
    rig.subscribe(topic, "g", "o", 99);
    rig.produce(&Draft::to(topic).keyed("a"));
    rig.produce(&Draft::to(topic).keyed("b"));
    rig.ack(&at(topic, 0), "o");
    let full = Answer::Rejected(Reject::Overloaded(Overload::IdempotencyRecords));
    assert_eq!(rig.try_produce(&Draft::to(topic).keyed("c")), full);
    rig.produce(&Draft::to(topic));
    rig.produce(&Draft::to(topic).keyed("a"));
    rig.advance(TTL_MS + 10_000);
    rig.produce(&Draft::to(topic).keyed("c"));
}
