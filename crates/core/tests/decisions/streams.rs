//! Streams with credit: never more unsettled than the credit, and every end of a delivery gives it back, once.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::deeds::at;
use crate::support::orders::{nack_after, nack_dead, spotted};
use crate::support::world::{cases, steps};
use crate::support::{Draft, LEASE_MS, Rig};
use driftq_core::{
    Action, ConsumerId, Delivery, Input, RetryPolicy, Settings, Settlement, Token, TopicId, Verdict,
};
use proptest::prelude::*;

fn rig() -> (Rig, TopicId) {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    (rig, topic)
}

#[test]
fn a_stream_never_holds_more_than_its_credit() {
    let (mut rig, topic) = rig();
    rig.produce_to(topic, &[0; 9]);
    rig.borrow(topic, "o", 3);
    assert_eq!(rig.offsets(), [0, 1, 2]);
    rig.produce_to(topic, &[0]);
    rig.advance(LEASE_MS - 1);
    assert_eq!(rig.offsets(), []);
}

/// Whatever ends a delivery gives its credit back: one delivery more, and not two.
#[test]
fn every_end_of_a_delivery_gives_its_credit_back_once() {
    type End = fn(&mut Rig, &Delivery);
    let ends: [(&str, End); 11] = [
        ("ack", |rig, held| assert_eq!(rig.ack_token(held), driftq_core::Outcome::Ok)),
        ("ack by name", |rig, held| {
            rig.ack(&at(held.receipt.topic, held.receipt.offset), "o");
        }),
        ("nack", |rig, held| assert_eq!(rig.settle(held, nack_after(90_000)), driftq_core::Outcome::Ok)),
        ("nacked dead", |rig, held| {
            assert_eq!(rig.settle(held, nack_dead("no")), driftq_core::Outcome::Buried)
        }),
        ("lapse", |rig, _| rig.advance(LEASE_MS)),
        ("removal", |rig, held| assert_eq!(rig.remove(vec![spotted(held.receipt.topic, 0)]), 1)),
        ("expiry", |rig, held| {
            let patch = driftq_core::TopicPatch { retention_ms: Some(Some(1)), ..Default::default() };
            rig.configure(held.receipt.topic, patch);
            rig.advance(LEASE_MS / 2);
            rig.produce_to(held.receipt.topic, &[0]);
        }),
        ("seek", |rig, held| {
            rig.seek(held.receipt.topic, "g", None, driftq_core::SeekTo::Offset(1));
        }),
        ("ack of a cancelled one", |rig, held| {
            rig.cancel(spotted(held.receipt.topic, 0));
            rig.ack_token(held);
        }),
        ("lapse of a cancelled one", |rig, held| {
            rig.cancel(spotted(held.receipt.topic, 0));
            rig.advance(LEASE_MS);
        }),
        ("release of a cancelled one", |rig, held| {
            rig.cancel(spotted(held.receipt.topic, 0));
            rig.release(&[held.receipt]);
        }),
    ];
    for (name, end) in ends {
        let (mut rig, topic) = rig();
        rig.borrow(topic, "o", 1);
        let retry = Some(RetryPolicy { backoff_ms: 90_000, ..RetryPolicy::default() });
        rig.produce(&Draft { retry, ..Draft::to(topic) });
        let held = rig.deliveries().remove(0).1;
        rig.produce_to(topic, &[0; 3]);
        assert_eq!(rig.offsets(), [], "{name}");
        end(&mut rig, &held);
        assert_eq!(rig.offsets().len(), 1, "{name}");
        assert_eq!(rig.in_flight(topic), 1, "{name}");
    }
}

#[test]
fn what_is_given_back_comes_again_as_if_nothing_had_been() {
    let (mut rig, topic) = rig();
    rig.borrow(topic, "o", 1);
    rig.produce_to(topic, &[0; 2]);
    for _ in 0..3 {
        let held = rig.deliveries().remove(0).1;
        assert_eq!((held.receipt.offset, held.attempt), (0, 1));
        rig.settle(&held, Verdict::Release { delay_ms: 0 });
    }
    assert_eq!(rig.deliveries().len(), 1);
}

#[test]
fn credit_of_who_left_is_nobodys() {
    let (mut rig, topic) = rig();
    let gone = rig.borrow(topic, "o", 1);
    rig.produce_to(topic, &[0; 3]);
    let held = rig.deliveries().remove(0).1;
    rig.tell(Input::Unsubscribe { consumer: gone });
    let there = rig.borrow(topic, "p", 1);
    assert_eq!(rig.deliveries().len(), 1);
    rig.ack_token(&held);
    assert_eq!(rig.deliveries().len(), 0, "the credit that came back was that of {gone:?}, not of {there:?}");
}

/// What each stream holds, as the deliveries and their ends tell it.
#[derive(Default)]
struct Books {
    /// Deliveries that are not over, by token, and whose they are.
    open: BTreeMap<Token, (ConsumerId, Delivery)>,
    credit: BTreeMap<ConsumerId, u32>,
}

impl Books {
    /// Takes over new deliveries, and forgets those that the shard itself says are over.
    fn follow(&mut self, rig: &mut Rig) {
        for action in std::mem::take(&mut rig.actions) {
            if let Action::Deliver { consumer, delivery } = action {
                self.open.insert(delivery.receipt.token, (consumer, delivery));
            }
        }
        let mut current = BTreeSet::new();
        for (_, delivery) in self.open.values() {
            let message = driftq_core::Spotted {
                topic: delivery.receipt.topic,
                partition: delivery.receipt.partition,
                offset: delivery.receipt.offset,
            };
            let described = rig.message_described(message);
            let on_loan = described.is_some_and(|described| {
                let standing = &described.groups[0];
                standing.owner.is_some()
                    && standing.attempts == delivery.attempt
                    && standing.until >= Some(rig.now)
            });
            if on_loan {
                current.insert(delivery.receipt.token);
            }
        }
        // Of two tokens for the same attempt, the newer one counts: the older was given back.
        let newest: BTreeMap<_, _> = self
            .open
            .iter()
            .filter(|(token, _)| current.contains(token))
            .map(|(token, (_, d))| ((d.receipt.partition, d.receipt.offset), *token))
            .collect();
        self.open.retain(|token, _| newest.values().any(|current| current == token));
        rig.actions.clear();
    }

    fn held_by(&self, consumer: ConsumerId) -> u32 {
        self.open.values().filter(|(holder, _)| *holder == consumer).count() as u32
    }
}

proptest! {
    #![proptest_config(cases(200))]

    /// After any sequence of ends: nobody holds more than its credit, and nobody holds less while messages wait.
    #[test]
    fn credit_neither_leaks_nor_grows(steps in steps(120)) {
        let settings = Settings {
            lease_in_flight_max: 1000,
            stream_unwritten_max: u32::MAX,
            ..Settings::default()
        };
        let mut rig = Rig::new(settings);
        let topic = rig.topic("t", 2);
        let mut books = Books::default();
        for credit in [1, 3] {
            let consumer = rig.borrow(topic, "o", credit);
            books.credit.insert(consumer, credit);
        }
        for (kind, a, b, _) in steps {
            let held = books.open.values().nth(usize::from(a) % books.open.len().max(1)).map(|(_, d)| d.clone());
            match (kind % 9, held) {
                (0 | 1, _) => rig.produce_to(topic, &[u32::from(a % 2)]),
                (2, Some(held)) => drop(rig.settle_many(vec![Settlement { receipt: held.receipt, verdict: Verdict::Ack }])),
                (3, Some(held)) => drop(rig.settle_many(vec![Settlement { receipt: held.receipt, verdict: nack_after(u64::from(b)) }])),
                (4, Some(held)) => {
                    rig.release(&[held.receipt]);
                    rig.sync();
                }
                (5, Some(held)) => {
                    let receipt = held.receipt;
                    rig.cancel(driftq_core::Spotted { topic, partition: receipt.partition, offset: receipt.offset });
                }
                (6, Some(held)) => {
                    let receipt = held.receipt;
                    rig.remove(vec![driftq_core::Spotted { topic, partition: receipt.partition, offset: receipt.offset }]);
                }
                (7, _) => rig.advance(u64::from(b) * 10),
                _ => drop(rig.settle_many(Vec::new())),
            }
            books.follow(&mut rig);
            for (consumer, credit) in &books.credit {
                prop_assert!(books.held_by(*consumer) <= *credit, "more than its credit");
            }
        }
        // All that is held is acked: then each can take exactly its credit again, no less and no more.
        for (_, delivery) in std::mem::take(&mut books.open).into_values() {
            rig.ack_token(&delivery);
        }
        rig.produce_to(topic, &[0; 20]);
        books.follow(&mut rig);
        for (consumer, credit) in &books.credit {
            prop_assert_eq!(books.held_by(*consumer), *credit);
        }
    }
}
