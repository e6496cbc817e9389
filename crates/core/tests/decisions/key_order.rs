//! Strict order per key: one message of a key at a time, and the next one only once the group is done with it.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::orders::{nack, nack_after, nack_dead, offsets, patient, spotted};
use crate::support::world::{Step, cases, steps};
use crate::support::{Draft, LEASE_MS, Rig};
use driftq_core::{
    Answer, Delivery, Identity, Input, KeyHash, Order, RetryPolicy, SeekTo, Settings, Settlement, TopicId,
    TopicPatch, TopicSettings, Verdict, Wait,
};
use proptest::prelude::*;

fn rig() -> (Rig, TopicId) {
    let mut rig = Rig::new(Settings { lease_in_flight_max: 1_000_000, ..Settings::default() });
    let topic = rig.topic_with("t", 1, TopicSettings { order: Order::Key, ..TopicSettings::default() });
    rig.lease(topic, 1);
    (rig, topic)
}

fn keyed(topic: TopicId, key: &str) -> Draft {
    Draft { key: KeyHash::of(key.as_bytes()), ..Draft::to(topic) }
}

/// Produces one message per letter, with the letter as its key; a blank is a message without one.
fn produce(rig: &mut Rig, topic: TopicId, keys: &str) {
    for key in keys.split("").filter(|key| !key.is_empty()) {
        rig.produce(&keyed(topic, key.trim()));
    }
}

#[test]
fn one_message_of_a_key_at_a_time_and_other_keys_go_on() {
    let (mut rig, topic) = rig();
    produce(&mut rig, topic, "aabba  c");
    let first = rig.lease(topic, 99);
    assert_eq!(offsets(&first), [0, 2, 5, 6, 7], "without a key nobody waits");
    assert_eq!(rig.group_described(topic, "g").map(|g| g.partitions[0].key_busy), Some(3));
    rig.ack_token(&first[0]);
    assert_eq!(rig.lease_offsets(topic, 99), [1]);
    rig.ack_token(&first[1]);
    assert_eq!(rig.lease_offsets(topic, 99), [3]);
}

/// Whatever happens to the first of two messages of a key: the second comes after the first is done, or never.
#[test]
fn the_next_one_waits_until_the_group_is_done() {
    type Happening = fn(&mut Rig, &Delivery);
    // (what happens, which offset is next)
    let happenings: [(&str, Happening, u64); 13] = [
        ("ack", |rig, held| assert_eq!(rig.ack_token(held), driftq_core::Outcome::Ok), 1),
        (
            "nack",
            |rig, held| {
                rig.settle(held, nack("no"));
                rig.advance(0);
            },
            0,
        ),
        (
            "nack with a delay",
            |rig, held| {
                rig.settle(held, nack_after(5_000));
                rig.advance(4_999);
                assert_eq!(rig.lease_offsets(held.receipt.topic, 9), []);
                rig.advance(1);
            },
            0,
        ),
        ("lapse", |rig, _| rig.advance(LEASE_MS), 0),
        (
            "release",
            |rig, held| {
                let outcome = rig.settle(held, Verdict::Release { delay_ms: 0 });
                assert_eq!(outcome, driftq_core::Outcome::Ok);
            },
            0,
        ),
        (
            "snooze",
            |rig, held| {
                rig.settle(held, Verdict::Release { delay_ms: 5_000 });
                rig.advance(4_999);
                assert_eq!(rig.lease_offsets(held.receipt.topic, 9), []);
                rig.advance(1);
            },
            0,
        ),
        (
            "restart",
            |rig, held| {
                rig.sync();
                rig.crash();
                assert_eq!(rig.lease_offsets(held.receipt.topic, 9), [], "it is on loan as before");
                rig.advance(LEASE_MS);
            },
            0,
        ),
        (
            "restart during backoff",
            |rig, held| {
                rig.settle(held, nack_after(5_000));
                rig.crash();
                assert_eq!(rig.lease_offsets(held.receipt.topic, 9), []);
                rig.advance(5_000);
            },
            0,
        ),
        ("restart before it was delivered", |rig, _| rig.crash(), 0),
        (
            "dead letter",
            |rig, held| {
                rig.settle(held, nack_dead("no"));
                let burial = rig.fetches().remove(0);
                assert_eq!(rig.lease_offsets(held.receipt.topic, 9), [], "not before it is buried");
                rig.bury(&burial);
            },
            1,
        ),
        (
            "cancellation and its end",
            |rig, held| {
                rig.cancel(spotted(held.receipt.topic, 0));
                assert_eq!(rig.lease_offsets(held.receipt.topic, 9), [], "somebody still works on it");
                rig.settle(held, nack("no"));
            },
            1,
        ),
        (
            "cancellation during backoff",
            |rig, held| {
                rig.settle(held, nack_after(5_000));
                rig.cancel(spotted(held.receipt.topic, 0));
            },
            1,
        ),
        ("removal", |rig, held| assert_eq!(rig.remove(vec![spotted(held.receipt.topic, 0)]), 1), 1),
    ];
    for (name, happening, next) in happenings {
        let (mut rig, topic) = rig();
        produce(&mut rig, topic, "aa");
        let held = rig.lease(topic, 9);
        assert_eq!(offsets(&held), [0], "{name}");
        happening(&mut rig, &held[0]);
        assert_eq!(rig.lease_offsets(topic, 9), [next], "{name}");
        assert_eq!(rig.lease_offsets(topic, 9), [], "{name}: one at a time");
    }
}

#[test]
fn retention_takes_the_first_and_the_next_one_goes() {
    let (mut rig, topic) = rig();
    produce(&mut rig, topic, "a");
    rig.advance(100);
    produce(&mut rig, topic, "a");
    assert_eq!(rig.lease_offsets(topic, 9), [0]);
    let ticket = rig.ask_lease(patient(topic, 9, 900));
    rig.configure(topic, TopicPatch { retention_ms: Some(Some(150)), ..TopicPatch::default() });
    rig.advance(60);
    assert_eq!(rig.leased(ticket).map(|d| offsets(&d)), Some(vec![1]));
}

/// Two messages with one identity and another of the same key behind them: the twin is skipped, the rest goes on.
#[test]
fn a_twin_that_is_skipped_gives_way_to_the_next_of_its_key() {
    let mut rig = Rig::new(Settings { idempotency_ttl_ms: 1000, ..Settings::default() });
    let topic = rig.topic_with("t", 1, TopicSettings { order: Order::Key, ..TopicSettings::default() });
    rig.lease(topic, 1);
    let twin = |key: &str| Draft { identity: Some(Identity([7; 16])), ..keyed(topic, key) };
    rig.produce(&twin("a"));
    rig.advance(1001);
    rig.produce(&twin("b"));
    produce(&mut rig, topic, "bb");
    let first = rig.lease(topic, 9);
    assert_eq!(offsets(&first), [0], "the twin waits for it, and its key with it");
    rig.ack_token(&first[0]);
    let next = rig.lease(topic, 9);
    assert_eq!(offsets(&next), [2], "the twin is skipped");
    rig.ack_token(&next[0]);
    assert_eq!(rig.lease_offsets(topic, 9), [3]);
}

#[test]
fn parked_messages_that_go_leave_the_order_whole() {
    let (mut rig, topic) = rig();
    produce(&mut rig, topic, "aaaaa");
    let held = rig.lease(topic, 9).remove(0);
    rig.cancel(spotted(topic, 1));
    rig.remove(vec![spotted(topic, 3)]);
    rig.ack_token(&held);
    let held = rig.lease(topic, 9);
    assert_eq!(offsets(&held), [2]);
    rig.ack_token(&held[0]);
    assert_eq!(rig.lease_offsets(topic, 9), [4]);
}

#[test]
fn a_seek_begins_again_in_order() {
    let (mut rig, topic) = rig();
    let mut other = crate::support::orders::request(topic, 1);
    other.group = "keeper".into();
    rig.lease_as(other);
    produce(&mut rig, topic, "aab");
    let held = rig.lease(topic, 9);
    rig.ack_token(&held[0]);
    assert!(matches!(rig.seek(topic, "g", None, SeekTo::Earliest), Answer::Sought(_)));
    let again = rig.lease(topic, 9);
    assert_eq!(offsets(&again), [0, 2]);
    rig.ack_token(&again[0]);
    assert_eq!(rig.lease_offsets(topic, 9), [1]);
}

#[test]
fn patching_the_order_counts_from_then_on() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    produce(&mut rig, topic, "aaaa");
    let held = rig.lease(topic, 1).remove(0);
    rig.configure(topic, TopicPatch { order: Some(Order::Key), ..TopicPatch::default() });
    assert_eq!(rig.lease_offsets(topic, 9), []);
    assert_eq!(rig.standing(topic, 1, "g").wait, Wait::KeyBusy);
    rig.ack_token(&held);
    assert_eq!(rig.lease_offsets(topic, 9), [1]);
    rig.configure(topic, TopicPatch { order: Some(Order::Fifo), ..TopicPatch::default() });
    assert_eq!(rig.lease_offsets(topic, 9), [2, 3]);
}

/// One key with more messages than may wait for their turn: others behind it go on once some of it is done.
#[test]
fn a_key_without_end_costs_a_bounded_list() {
    const MANY: usize = 70_000;
    const PARKED_MAX: usize = 1 << 16;
    let (mut rig, topic) = rig();
    for _ in 0..MANY / 1000 {
        let messages = (0..1000).map(|_| keyed(topic, "a").message()).collect();
        rig.ask_durably(|ticket| Input::ProduceMany { ticket, messages });
    }
    produce(&mut rig, topic, "b");
    let mut held = rig.lease(topic, 1).remove(0);
    let ticket = rig.ask_lease(patient(topic, 1, 60_000));
    let parked = |rig: &mut Rig| rig.group_described(topic, "g").map(|g| g.partitions[0].key_busy as usize);
    rig.advance(0);
    assert_eq!(parked(&mut rig), Some(PARKED_MAX));
    assert_eq!(rig.leased(ticket), None, "the other key lies behind what can be looked at");
    rig.tell(Input::Forsake { ticket });
    for done in 1.. {
        rig.ack_token(&held);
        let mut next = rig.lease(topic, 9);
        if next.iter().any(|delivery| delivery.receipt.offset == MANY as u64) {
            assert_eq!(done, MANY - PARKED_MAX - 1, "as soon as the rest of the first key can be put aside");
            return;
        }
        held = next.remove(0);
        assert_eq!(held.receipt.offset, done as u64);
        assert!(parked(&mut rig) <= Some(PARKED_MAX));
    }
}

/// What a group does at random, and what must hold for every key.
struct Watch {
    rig: Rig,
    topic: TopicId,
    held: Vec<Delivery>,
    keys: BTreeMap<u64, KeyHash>,
    settled: BTreeSet<u64>,
}

impl Watch {
    fn step(&mut self, (kind, a, b, _): Step) {
        let held = self.held.get(usize::from(a) % self.held.len().max(1)).cloned();
        match (kind % 12, held) {
            (0..=2, _) => {
                let key = ["a", "b", "c", ""][usize::from(a % 4)];
                let offset = self.rig.produce(&Draft {
                    retry: Some(RetryPolicy { max_attempts: u32::from(b % 4), ..RetryPolicy::default() }),
                    ..keyed(self.topic, key)
                });
                self.keys.insert(offset, KeyHash::of(key.as_bytes()));
            }
            (3 | 4, Some(held)) => self.settle(&held, Verdict::Ack),
            (5, Some(held)) => self.settle(&held, nack_after(u64::from(b) * 4)),
            (6, Some(held)) => self.settle(&held, Verdict::Release { delay_ms: 0 }),
            (7, Some(held)) => self.settle(&held, crate::support::orders::EXTEND),
            (8, Some(held)) => drop(self.rig.cancel(spotted(self.topic, held.receipt.offset))),
            (9, _) => self.rig.advance(u64::from(b) * 8),
            (10, _) if b < 40 => {
                self.rig.sync();
                self.rig.crash();
                self.held.clear();
            }
            (11, _) if b < 40 => drop(self.rig.remove(vec![spotted(self.topic, u64::from(a % 32))])),
            _ => self.lease(u32::from(b % 3) + 1),
        }
        for burial in self.rig.fetches() {
            self.rig.bury(&burial);
        }
        self.rig.sync();
    }

    fn settle(&mut self, delivery: &Delivery, verdict: Verdict) {
        let items = vec![Settlement { receipt: delivery.receipt, verdict }];
        self.rig.settle_many(items);
    }

    /// A message is over for the group, or on loan, or neither, as the shard says itself.
    fn standing(&mut self, offset: u64) -> Option<Wait> {
        let described = self.rig.message_described(spotted(self.topic, offset))?;
        let standing = described.groups.first().map(|standing| standing.wait);
        standing.filter(|wait| *wait != Wait::Done)
    }

    fn lease(&mut self, max: u32) {
        for delivery in self.rig.lease(self.topic, max) {
            let offset = delivery.receipt.offset;
            assert!(!self.settled.contains(&offset), "{offset} was over");
            let key = self.keys[&offset];
            let earlier: Vec<u64> =
                self.keys.range(..offset).filter(|(_, k)| **k == key).map(|(o, _)| *o).collect();
            for earlier in earlier.into_iter().filter(|_| key != KeyHash::NONE) {
                let standing = self.standing(earlier);
                assert_eq!(standing, None, "{offset} was delivered before {earlier} was done");
                self.settled.insert(earlier);
            }
            self.held.push(delivery);
        }
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn deliveries_of_a_key_are_in_order_whatever_happens(steps in steps(150)) {
        let (rig, topic) = rig();
        let (held, keys, settled) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        let mut watch = Watch { rig, topic, held, keys, settled };
        for step in steps {
            watch.step(step);
        }
        // And nothing is left behind.
        for _ in 0..300 {
            watch.rig.advance(LEASE_MS);
            for burial in watch.rig.fetches() {
                watch.rig.bury(&burial);
            }
            watch.rig.sync();
            watch.held.clear();
            watch.lease(9);
            for delivery in std::mem::take(&mut watch.held) {
                watch.settle(&delivery, Verdict::Ack);
            }
        }
        prop_assert_eq!(watch.rig.lag(topic, "g"), 0);
    }
}
