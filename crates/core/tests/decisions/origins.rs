//! Where a message was born: what it, its dead letters and its copies are known by, and for how long.

use crate::support::ledger::{TTL_MS, eager, repeatable, tied, wish};
use crate::support::orders::{nack_dead, request};
use crate::support::{Draft, Rig, payload};
use driftq_core::ledger::Status;
use driftq_core::{
    Answer, Delivery, EffectAnswer, Input, LeaseRequest, Message, NewLineage, NewMessage, OrderInput, Origin,
    RequestHash, Settings, Spotted, TopicId,
};

/// Records are swept this much after their time.
const SLACK_MS: u64 = 10_000;

fn grave(rig: &Rig) -> TopicId {
    rig.shard.state().topics().find(|topic| *topic.name == *"dlq.t").expect("there are letters").id
}

fn place(topic: TopicId, offset: u64) -> Spotted {
    Spotted { topic, partition: 0, offset }
}

/// The group gives a message up; its letter is durable.
fn die(rig: &mut Rig, delivery: &Delivery) {
    rig.settle(delivery, nack_dead("poison"));
    let burial = rig.fetches().remove(0);
    rig.bury(&burial);
    rig.sync();
}

/// What is stored at a place.
fn stored(rig: &Rig, at: Spotted) -> Message<'_> {
    let live: Vec<u32> = rig.shard.state().live_bytes().keys().copied().collect();
    let mut pinned = live.into_iter().flat_map(|segment| rig.shard.state().pinned_in(segment, 999));
    let pinned = pinned.find(|pinned| (pinned.topic, pinned.offset) == (at.topic, at.offset));
    let pinned = pinned.expect("it is kept");
    Message::decode(rig.log.read(pinned.position, pinned.length).expect("it can be read")).expect("it is one")
}

fn origin(rig: &Rig, at: Spotted) -> Spotted {
    let own =
        Origin { incarnation: at.topic, partition: at.partition, offset: at.offset, ..Origin::default() };
    stored(rig, at).born(own, |_| None).place()
}

/// Sends a letter back as the shell does, and gives the offset.
fn redrive(rig: &mut Rig, topic: TopicId, letter: Spotted, message: NewMessage) -> u64 {
    let (alive, _) = stored(rig, letter).from_dead_letter().expect("it is a letter");
    let message = NewMessage { topic, payload: payload(&alive), ..message };
    let group = Some("g".to_owned());
    match rig.ask_durably(|ticket| Input::Order(OrderInput::Redrive { ticket, letter, message, group })) {
        Answer::Produced(stored) => stored.offset,
        other => panic!("not redriven: {other:?}"),
    }
}

/// A rig with a topic, and a message in it that group `g` has.
fn lent() -> (Rig, TopicId, Delivery) {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    rig.lease(topic, 1);
    rig.produce(&Draft::to(topic));
    let delivery = rig.lease(topic, 1).remove(0);
    (rig, topic, delivery)
}

#[test]
fn a_message_that_is_redriven_twice_was_born_once() {
    for percent in [0, 50, 100] {
        let (mut rig, topic, delivery) = lent();
        rig.snapshot_percent = percent;
        let born = place(topic, 0);
        assert_eq!(origin(&rig, born), born, "a fresh message was born where it lies");
        die(&mut rig, &delivery);
        let dlq = grave(&rig);
        for turn in 0..2 {
            let letter = place(dlq, turn);
            assert_eq!(origin(&rig, letter), born, "letter {turn}");
            rig.crash();
            let again = redrive(&mut rig, topic, letter, Draft::to(topic).message());
            assert_eq!(again, turn + 1);
            assert_eq!(origin(&rig, place(topic, again)), born, "copy {again}");
            rig.crash();
            let delivery = rig.lease(topic, 1).remove(0);
            assert_eq!(delivery.receipt.offset, again);
            if turn == 0 {
                die(&mut rig, &delivery);
            }
        }
    }
}

#[test]
fn the_state_knows_by_itself_what_descends_from_what() {
    let (mut rig, topic, delivery) = lent();
    die(&mut rig, &delivery);
    let dlq = grave(&rig);
    // Whoever redrives forgets to say it, or says something else.
    let astray = NewMessage { origin: Some(place(dlq, 77)), ..Draft::to(topic).message() };
    redrive(&mut rig, topic, place(dlq, 0), astray);
    rig.crash();
    let copy = rig.lease(topic, 1).remove(0);
    rig.executes(tied(wish("charge"), &copy));
    let message = rig.effect("charge").expect("it was begun").message;
    assert_eq!(
        message.map(|(name, partition, offset)| (name.to_string(), partition, offset)),
        Some(("t".into(), 0, 0))
    );
}

#[test]
fn a_topic_made_anew_is_another_one() {
    let (mut rig, topic, delivery) = lent();
    let keyed = Draft { request: RequestHash(5), ..Draft::to(topic).keyed("k") };
    rig.produce(&keyed);
    rig.ack_token(&delivery);
    rig.delete_topic(topic);
    let anew = rig.topic("t", 1);
    assert_ne!(anew, topic);
    // The identity of another topic, from which messages are routed here: its first message is gone with its topic.
    let routed = Draft { topic: anew, request: RequestHash(6), ..keyed };
    let first = rig.try_produce(&routed);
    assert!(
        matches!(first, Answer::Produced(stored) if !stored.duplicate && stored.offset == 0),
        "{first:?}"
    );
    let second = rig.try_produce(&routed);
    assert!(
        matches!(second, Answer::Produced(stored) if stored.duplicate && stored.offset == 0),
        "{second:?}"
    );
    assert_eq!((origin(&rig, place(anew, 0)), rig.lease(anew, 1).len()), (place(anew, 0), 1));
}

#[test]
fn a_redriven_message_stays_in_its_run() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    rig.lease(topic, 1);
    rig.produce_in_run(&Draft { priority: 7, ..Draft::to(topic) }, "run", "charge");
    let delivery = rig.lease(topic, 1).remove(0);
    die(&mut rig, &delivery);
    let letter = place(grave(&rig), 0);
    let described = rig.message_described(letter).expect("it is kept");
    assert_eq!(described.found.priority, 7, "a letter keeps what it needs when it is sent back");
    let lineage =
        NewLineage { tenant: String::new(), run: "run".into(), step: "charge".into(), parent: String::new() };
    let message = NewMessage { lineage: Some(Box::new(lineage)), ..Draft::to(topic).message() };
    let again = redrive(&mut rig, topic, letter, message);
    for percent in [0, 100] {
        rig.snapshot_percent = percent;
        rig.crash();
        let run = rig.run_page("run", 0, 10).expect("it is known");
        assert_eq!((run.summary.messages, run.entries.len()), (2, 2));
    }
    let copy = rig.lease(topic, 1).remove(0);
    assert_eq!(copy.receipt.offset, again);
    rig.executes(tied(wish("charge"), &copy));
    let view = rig.effect("charge").expect("it was begun");
    assert_eq!((view.run.as_deref(), view.step.as_deref()), (Some("run"), Some("charge")));
}

#[test]
fn a_record_lives_as_long_as_its_message_may_come_again() {
    for percent in [0, 100] {
        let (mut rig, topic, delivery) = lent();
        rig.snapshot_percent = percent;
        let lease = rig.executes(tied(wish("charge"), &delivery));
        rig.finish(lease, Status::Succeeded, "ch_1");
        die(&mut rig, &delivery);
        let letter = place(grave(&rig), 0);
        // Long after its time the letter is still there, and somebody may send it back.
        rig.advance(3 * TTL_MS);
        rig.crash();
        rig.advance(3 * TTL_MS);
        assert_eq!(rig.tally().effects.records, 1);
        let offset = redrive(&mut rig, topic, letter, Draft::to(topic).message());
        rig.advance(3 * TTL_MS);
        let copy = rig.lease(topic, 1).remove(0);
        assert_eq!(copy.receipt.offset, offset);
        let EffectAnswer::Replay(view) = rig.begin(eager(tied(wish("charge"), &copy))) else {
            panic!("the card was charged before");
        };
        assert_eq!(rig.outcome(&view), "ch_1");
        rig.ack_token(&copy);
        assert!(rig.effect("charge").is_none(), "nothing is left that could ask for it");
        let again = rig.executes(wish("charge"));
        assert_eq!((again.receipt.epoch, again.attempt), (1, 1));
        rig.advance(SLACK_MS + 1);
    }
}

#[test]
fn records_go_when_the_last_letter_is_gone() {
    let (mut rig, topic, delivery) = lent();
    for key in ["charge", "mail"] {
        let lease = rig.executes(tied(wish(key), &delivery));
        rig.finish(lease, Status::Succeeded, "done");
    }
    // One that may be repeated and was never finished.
    rig.executes(tied(repeatable("index"), &delivery));
    die(&mut rig, &delivery);
    rig.advance(2 * TTL_MS);
    assert_eq!(rig.tally().effects.records, 3);
    let letter = place(grave(&rig), 0);
    assert_eq!(
        rig.ask_durably(|ticket| Input::Order(OrderInput::Remove { ticket, messages: vec![letter] })),
        Answer::Removed(1)
    );
    assert!(rig.effect("charge").is_none() && rig.effect("index").is_none());
    rig.advance(2 * SLACK_MS);
    assert_eq!(rig.tally().effects.records, 0);
    // A topic that goes takes its letters' claims along.
    rig.produce(&Draft::to(topic));
    let delivery = rig.lease(topic, 1).remove(0);
    let lease = rig.executes(tied(wish("charge"), &delivery));
    rig.finish(lease, Status::Succeeded, "done");
    die(&mut rig, &delivery);
    rig.delete_topic(topic);
    rig.advance(2 * TTL_MS);
    assert_eq!(rig.tally().effects.records, 1, "its letter is in a topic of its own");
    let dlq = grave(&rig);
    rig.delete_topic(dlq);
    rig.advance(2 * SLACK_MS);
    assert_eq!(rig.tally().effects.records, 0);
}

#[test]
fn a_message_that_waits_keeps_its_record_and_many_of_them_do_not_keep_the_sweep_busy() {
    let mut rig = Rig::new(Settings { effects_max: 5_000, ..Settings::default() });
    let topic = rig.topic("t", 1);
    let group = |max| LeaseRequest { group: "g".into(), lease_ms: Some(60_000), ..request(topic, max) };
    rig.lease_as(group(1));
    rig.produce(&Draft::to(topic));
    let delivery = rig.lease_as(group(1)).remove(0);
    for n in 0..1_500 {
        let lease = rig.executes(tied(wish(&n.to_string()), &delivery));
        rig.finish(lease, Status::Succeeded, "done");
    }
    rig.settle(&delivery, crate::support::orders::nack("later"));
    // A few that nobody can ask for again lie behind those.
    for n in 0..5 {
        let lease = rig.executes(wish(&format!("free {n}")));
        rig.finish(lease, Status::Succeeded, "done");
    }
    rig.advance(TTL_MS + 3 * SLACK_MS);
    assert_eq!(rig.tally().effects.records, 1_500);
    let again = rig.lease_as(group(1)).remove(0);
    rig.ack_token(&again);
    rig.advance(3 * SLACK_MS);
    assert_eq!(rig.tally().effects.records, 0);
}
