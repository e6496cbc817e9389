//! Messages that have used up their attempts.

use crate::support::deeds::{at, at_partition};
use crate::support::{Draft, LEASE_MS, Rig};
use driftq_core::{Answer, Burial, DeliveryFact, Fact, Input, Message, Settings, TopicId};

/// A topic with one message that may be tried `attempts` times, and a reader for each group.
fn doomed(attempts: u32, groups: &[&str], settings: Settings) -> (Rig, TopicId) {
    let mut rig = Rig::new(settings);
    let topic = rig.topic("t", 3);
    for group in groups {
        rig.subscribe(topic, group, "o", 99);
    }
    rig.produce(&Draft::to(topic).partition(1).value("poison").attempts(attempts));
    (rig, topic)
}

/// Nacks the doomed message until it is to be buried.
fn give_up(rig: &mut Rig, topic: TopicId) -> Burial {
    for _ in 0..9 {
        rig.nack(&at_partition(topic, 1, 0), "o", "broken");
        let mut fetches = rig.fetches();
        if let Some(burial) = fetches.pop() {
            assert_eq!(fetches, []);
            return burial;
        }
        rig.advance(LEASE_MS - 1);
    }
    panic!("it never dies");
}

fn dlq(rig: &Rig) -> Option<TopicId> {
    rig.shard.state().topics().find(|topic| &*topic.name == "dlq.t").map(|topic| topic.id)
}

/// Letters kept, and messages that group `g` of the source still owes.
fn books(rig: &mut Rig, topic: TopicId) -> (u64, u64) {
    let letters = dlq(rig).map_or(0, |dlq| {
        rig.topic_described(dlq).partitions.iter().map(|partition| partition.messages).sum()
    });
    (letters, rig.lag(topic, "g"))
}

#[test]
fn a_message_dies_at_its_last_nack_or_lapse() {
    for lapse in [false, true] {
        for attempts in [1, 3] {
            let (mut rig, topic) = doomed(attempts, &["g"], Settings::default());
            for attempt in 1..=attempts {
                assert_eq!(rig.delivered(), [(1, 0, attempt)]);
                assert_eq!(rig.fetches(), []);
                if lapse {
                    rig.advance(LEASE_MS);
                } else {
                    rig.nack(&at_partition(topic, 1, 0), "o", "broken");
                    rig.advance(if attempt < attempts { 10 } else { 0 });
                }
            }
            let fetches = rig.fetches();
            assert_eq!(fetches.len(), 1);
            let error = if lapse { "ack_timeout" } else { "broken" };
            assert_eq!((fetches[0].attempts, &*fetches[0].last_error), (attempts, error));
            assert_eq!(
                (&*fetches[0].topic, &*fetches[0].group, fetches[0].reason.name()),
                ("t", "g", "max_attempts_reached")
            );
            rig.advance(LEASE_MS * 100);
            assert_eq!(rig.delivered(), [], "it is not delivered again while it waits for its burial");
        }
    }
}

#[test]
fn the_letter_and_the_retirement_are_one_batch() {
    let (mut rig, topic) = doomed(1, &["g"], Settings::default());
    let burial = give_up(&mut rig, topic);
    let mark = rig.write();
    rig.bury(&burial);
    rig.write();
    assert_eq!(rig.log.batches.len(), mark + 1);
    match rig.facts_since(mark)[..] {
        [
            Fact::TopicCreated { name: "dlq.t", partitions: 3, .. },
            Fact::Appended(letter),
            Fact::Delivery(place, DeliveryFact::Retired { dead: true }),
        ] => {
            assert_eq!((letter.partition, letter.retry, letter.identity), (1, None, None));
            assert_eq!((place.topic, place.partition, place.offset), (topic, 1, 0));
            let letter = Message::decode(letter.bytes).unwrap();
            assert_eq!(&*letter.value, b"poison");
            assert_eq!(&*letter.envelope.unwrap().dead_letter.unwrap().topic, "t");
        }
        ref other => panic!("{other:?}"),
    }
    assert_eq!(rig.published(), [], "nobody hears of the new topic yet");
    rig.sync();
    assert_eq!(rig.published().len(), 1);
    assert_eq!(rig.topic_described(topic).dead_letters, 1);
    assert_eq!(books(&mut rig, topic), (1, 0));
}

#[test]
fn a_crash_shows_both_or_neither() {
    for kept_extra in [0, 1] {
        let (mut rig, topic) = doomed(1, &["g"], Settings::default());
        let burial = give_up(&mut rig, topic);
        rig.sync();
        let synced = rig.log.synced;
        rig.bury(&burial);
        rig.write();
        rig.crash_keeping(synced + kept_extra);
        assert_eq!(books(&mut rig, topic), if kept_extra == 1 { (1, 0) } else { (0, 1) });
        // If it did not happen, it happens now; if it did, the old burial is worth nothing.
        assert_eq!(rig.fetches().iter().map(|again| rig.bury(again)).count(), 1 - kept_extra);
        rig.bury(&burial);
        rig.sync();
        assert_eq!(books(&mut rig, topic), (1, 0));
    }
}

#[test]
fn every_group_has_its_own_death() {
    let (mut rig, topic) = doomed(1, &["g", "h"], Settings::default());
    rig.advance(LEASE_MS);
    let fetches = rig.fetches();
    assert_eq!(fetches.iter().map(|fetch| &*fetch.group).collect::<Vec<_>>(), ["g", "h"]);
    rig.bury(&fetches[0]);
    rig.bury(&fetches[0]);
    rig.sync();
    assert_eq!((books(&mut rig, topic), rig.lag(topic, "h")), ((1, 0), 1), "once per group");
    rig.bury(&fetches[1]);
    rig.sync();
    assert_eq!((books(&mut rig, topic), rig.lag(topic, "h")), ((2, 0), 0));
}

#[test]
fn a_late_ack_wins_over_the_burial() {
    let (mut rig, topic) = doomed(1, &["g"], Settings::default());
    rig.advance(LEASE_MS);
    let fetches = rig.fetches();
    assert_eq!(rig.ack(&at_partition(topic, 1, 0), "o"), Answer::Settled);
    rig.bury(&fetches[0]);
    rig.tell(Input::FetchFailed { receipt: fetches[0].receipt });
    rig.advance(LEASE_MS * 9);
    assert_eq!((dlq(&rig), rig.fetches().len(), rig.lag(topic, "g")), (None, 0, 0));
}

/// What is left on a full disk is for acks: of a long reason only the beginning is written.
#[test]
fn a_full_disk_keeps_the_beginning_of_an_error() {
    for (roomy, kept) in [(true, 100), (false, 64)] {
        let (mut rig, topic) = doomed(1, &["g"], Settings::default());
        rig.tell(Input::Space { roomy });
        assert_eq!(rig.nack(&at_partition(topic, 1, 0), "o", &"e".repeat(100)), Answer::Settled);
        let given_up = rig.fetches().pop().expect("its one attempt is used up");
        assert_eq!(given_up.last_error.len(), kept, "roomy: {roomy}");
    }
}

/// Whoever looks at a dead letter must learn something of why it died, also if nobody told.
#[test]
fn every_dead_letter_says_why() {
    let (mut rig, topic) = doomed(1, &["g"], Settings::default());
    let nacked = rig.nack(&at_partition(topic, 1, 0), "o", "");
    assert_eq!(nacked, Answer::Settled);
    let silent = rig.fetches().pop().expect("its one attempt is used up");
    assert!(!silent.last_error.is_empty(), "{silent:?}");

    let (mut rig, _) = doomed(1, &["g"], Settings::default());
    rig.sync();
    rig.crash();
    rig.advance(LEASE_MS);
    let restarted = rig.fetches().pop().expect("its one attempt is used up");
    assert!(!restarted.last_error.is_empty(), "{restarted:?}");
}

#[test]
fn a_payload_that_could_not_be_read_is_asked_for_again() {
    let (mut rig, topic) = doomed(1, &["g"], Settings::default());
    let first = give_up(&mut rig, topic);
    rig.tell(Input::FetchFailed { receipt: first.receipt });
    rig.advance(999);
    assert_eq!(rig.fetches(), []);
    rig.advance(1);
    let second = rig.fetches().pop().expect("it is asked for again");
    rig.bury(&first);
    assert_eq!(dlq(&rig), None, "the first burial is over");
    rig.bury(&second);
    assert_eq!(books(&mut rig, topic), (1, 0));
}

#[test]
fn a_full_disk_makes_the_burial_wait() {
    let (mut rig, topic) = doomed(1, &["g"], Settings::default());
    let burial = give_up(&mut rig, topic);
    rig.tell(Input::Space { roomy: false });
    rig.bury(&burial);
    for _ in 0..3 {
        assert_eq!(books(&mut rig, topic), (0, 1));
        rig.advance(1000);
        let again = rig.fetches().pop().expect("it is tried again");
        rig.bury(&again);
    }
    rig.tell(Input::Space { roomy: true });
    rig.advance(1000);
    let last = rig.fetches().pop().expect("it is tried again");
    rig.bury(&last);
    assert_eq!(books(&mut rig, topic), (1, 0));
}

#[test]
fn a_dead_letter_never_dies_again() {
    let (mut rig, topic) = doomed(1, &["g"], Settings::default());
    let burial = give_up(&mut rig, topic);
    rig.bury(&burial);
    rig.sync();
    let dlq = dlq(&rig).expect("there is one now");
    rig.deliveries();
    rig.subscribe(dlq, "g", "o", 99);
    // Not even one that somebody put there with a policy of its own.
    rig.produce(&Draft::to(dlq).attempts(1));
    for _ in 0..5 {
        assert_eq!(rig.deliveries().len(), 2);
        rig.nack(&at_partition(dlq, 1, 0), "o", "still broken");
        rig.nack(&at(dlq, 1), "o", "still broken");
        rig.advance(LEASE_MS - 1);
    }
    assert_eq!(rig.fetches(), []);
}

#[test]
fn what_was_exhausted_before_a_crash_is_buried_and_not_delivered_again() {
    // On loan for the last time, which is over when its lease is, or failed for the last time.
    for nacked in [false, true] {
        let (mut rig, topic) = doomed(2, &["g"], Settings::default());
        rig.nack(&at_partition(topic, 1, 0), "o", "broken");
        rig.advance(10);
        assert_eq!(rig.delivered(), [(1, 0, 1), (1, 0, 2)]);
        if nacked {
            rig.nack(&at_partition(topic, 1, 0), "o", "twice");
        }
        rig.sync();
        rig.crash();
        if !nacked {
            assert_eq!(rig.fetches(), [], "its holder may still be at it");
            rig.advance(LEASE_MS);
        }
        let fetches = rig.fetches();
        assert_eq!(fetches.len(), 1);
        assert_eq!(&*fetches[0].last_error, if nacked { "twice" } else { "broken" });
        rig.subscribe(topic, "g", "o", 99);
        rig.advance(LEASE_MS * 9);
        assert_eq!(rig.delivered(), []);
        rig.bury(&fetches[0]);
        rig.sync();
        assert_eq!(books(&mut rig, topic), (1, 0));
    }
}

#[test]
fn a_full_grave_drops_its_oldest_letter() {
    let settings =
        Settings { dead_letters_max: 2, in_flight_max: 99, partition_messages_max: 5, ..Settings::default() };
    let (mut rig, topic) = doomed(1, &["g"], settings);
    for _ in 0..4 {
        rig.produce(&Draft::to(topic).partition(1).attempts(1));
    }
    rig.advance(LEASE_MS);
    for burial in rig.fetches() {
        rig.bury(&burial);
        rig.sync();
    }
    assert_eq!(books(&mut rig, topic), (2, 0));
    let dlq = dlq(&rig).expect("there is one");
    let described = rig.topic_described(dlq).partitions[1];
    assert_eq!((described.oldest_offset, described.messages), (Some(3), 2));
}

#[test]
fn the_bytes_of_letters_are_limited_like_those_of_messages() {
    let settings = Settings { retention_bytes: Some(20), in_flight_max: 99, ..Settings::default() };
    let (mut rig, topic) = doomed(1, &["g"], settings);
    for _ in 0..2 {
        rig.produce(&Draft::to(topic).partition(1).value("poison").attempts(1));
    }
    rig.advance(LEASE_MS);
    for burial in [rig.fetches(), vec![]].concat() {
        rig.bury(&burial);
    }
    rig.produce(&Draft::to(topic).partition(1).value("poison").attempts(1));
    rig.advance(LEASE_MS);
    let last = rig.fetches().pop().expect("one more");
    rig.bury(&last);
    let dlq = dlq(&rig).expect("there is one");
    let described = rig.topic_described(dlq).partitions[1];
    assert_eq!((described.oldest_offset, described.bytes), (Some(1), 18));
}

#[test]
fn an_existing_grave_with_fewer_partitions_takes_everything() {
    let mut rig = Rig::new(Settings::default());
    let (topic, dlq) = (rig.topic("t", 3), rig.topic("dlq.t", 2));
    rig.subscribe(topic, "g", "o", 99);
    for partition in 0..3 {
        rig.produce(&Draft::to(topic).partition(partition).attempts(1));
    }
    rig.advance(LEASE_MS);
    for burial in rig.fetches() {
        rig.bury(&burial);
    }
    let described = rig.topic_described(dlq);
    assert_eq!(described.partitions.iter().map(|p| p.messages).collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn a_group_that_is_forgotten_takes_its_undertakings_along() {
    let settings = Settings { group_expiry_ms: 5000, ..Settings::default() };
    let (mut rig, topic) = doomed(1, &["g"], settings);
    let burial = give_up(&mut rig, topic);
    rig.tell(Input::FetchFailed { receipt: burial.receipt });
    rig.tell(Input::Unsubscribe { consumer: driftq_core::ConsumerId(1) });
    rig.advance(20_000);
    assert!(rig.group_described(topic, "g").is_none());
    let asked = rig.fetches();
    rig.bury(asked.last().unwrap_or(&burial));
    assert_eq!(dlq(&rig), None);
}
