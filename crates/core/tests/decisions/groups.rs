//! Groups that went away.

use crate::support::deeds::at;
use crate::support::{Draft, LEASE_MS, Rig};
use driftq_core::{Answer, ConsumerId, Fact, Input, Overload, Reject, Settings, TopicId};

const EXPIRY_MS: u64 = 60_000;

fn rig() -> (Rig, TopicId) {
    let mut rig =
        Rig::new(Settings { group_expiry_ms: EXPIRY_MS, partition_messages_max: 2, ..Settings::default() });
    let topic = rig.topic("t", 1);
    (rig, topic)
}

fn leave(rig: &mut Rig, consumer: ConsumerId) {
    rig.tell(Input::Unsubscribe { consumer });
}

#[test]
fn a_dead_group_does_not_block_producers_for_ever() {
    let (mut rig, topic) = rig();
    let dead = rig.subscribe(topic, "dead", "o", 0);
    rig.subscribe(topic, "g", "o", 99);
    rig.produce_to(topic, &[0, 0]);
    leave(&mut rig, dead);
    rig.ack(&at(topic, 0), "o");
    rig.ack(&at(topic, 1), "o");
    let full = Answer::Rejected(Reject::Overloaded(Overload::PartitionMessages));
    rig.advance(EXPIRY_MS - 1);
    assert_eq!(rig.try_produce(&Draft::to(topic)), full);
    rig.advance(1);
    assert!(rig.group_described(topic, "dead").is_none());
    assert_eq!((rig.shard.state().messages(), rig.shard.state().groups()), (0, 1));
    rig.produce(&Draft::to(topic));
    rig.crash();
    assert!(rig.group_described(topic, "dead").is_none());
    assert_eq!(rig.shard.state().messages(), 1);
}

#[test]
fn the_messages_of_the_last_group_stay_for_the_next_one() {
    let (mut rig, topic) = rig();
    let only = rig.subscribe(topic, "only", "o", 1);
    rig.produce_to(topic, &[0, 0]);
    rig.ack(&driftq_core::Address { group: "only".into(), ..at(topic, 0) }, "o");
    leave(&mut rig, only);
    rig.advance(EXPIRY_MS);
    assert_eq!((rig.shard.state().groups(), rig.shard.state().messages()), (0, 1));
    rig.produce(&Draft::to(topic));
    rig.crash();
    rig.deliveries();
    rig.subscribe(topic, "g", "o", 99);
    assert_eq!(rig.offsets(), [1, 2]);
    rig.ack(&at(topic, 1), "o");
    rig.ack(&at(topic, 2), "o");
    assert_eq!(rig.shard.state().messages(), 0);
}

#[test]
fn a_group_that_is_at_work_never_expires() {
    let (mut rig, topic) = rig();
    rig.subscribe(topic, "reader", "o", 0);
    let mut subscription = rig.subscription(topic, "holder", "o", 1);
    subscription.lease_ms = Some(EXPIRY_MS * 5);
    let holder = subscription.consumer;
    rig.ask(|ticket| Input::Subscribe { ticket, subscription });
    rig.produce(&Draft::to(topic));
    leave(&mut rig, holder);
    rig.advance(EXPIRY_MS * 5 - 1);
    let names: Vec<_> = rig.topic_described(topic).groups.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["holder", "reader"]);
    // Its lease is over: from the lapse on it is as dead as any other.
    rig.advance(1 + EXPIRY_MS);
    assert!(rig.group_described(topic, "holder").is_none());
    assert!(rig.group_described(topic, "reader").is_some());
}

#[test]
fn an_ack_without_a_reader_is_a_sign_of_life() {
    let (mut rig, topic) = rig();
    let mut subscription = rig.subscription(topic, "g", "o", 2);
    subscription.lease_ms = Some(EXPIRY_MS / 2 + 1);
    let reader = subscription.consumer;
    rig.ask(|ticket| Input::Subscribe { ticket, subscription });
    rig.produce_to(topic, &[0]);
    leave(&mut rig, reader);
    rig.advance(EXPIRY_MS / 2);
    assert_eq!(rig.ack(&at(topic, 0), "o"), Answer::Settled);
    let seen = rig.now;
    assert_eq!(rig.group_described(topic, "g").unwrap().seen, seen);
    rig.advance(EXPIRY_MS - 1);
    assert!(rig.group_described(topic, "g").is_some());
    rig.advance(1);
    assert!(rig.group_described(topic, "g").is_none());
}

#[test]
fn a_group_that_comes_back_in_time_goes_on_and_too_late_begins_anew() {
    for (away, delivered) in [(EXPIRY_MS - 1, vec![1]), (EXPIRY_MS, vec![0, 1])] {
        let (mut rig, topic) = rig();
        rig.subscribe(topic, "other", "o", 0);
        let reader = rig.subscribe(topic, "g", "o", 1);
        rig.produce_to(topic, &[0, 0]);
        rig.ack(&at(topic, 0), "o");
        leave(&mut rig, reader);
        rig.advance(away);
        rig.deliveries();
        rig.subscribe(topic, "g", "o", 99);
        assert_eq!(rig.offsets(), delivered, "away for {away}");
    }
}

#[test]
fn readers_that_come_and_go_leave_one_timer_behind() {
    let (mut rig, topic) = rig();
    for _ in 0..300 {
        let reader = rig.subscribe(topic, "g", "o", 1);
        rig.advance(1);
        leave(&mut rig, reader);
    }
    let mark = rig.write();
    let mut ticks = 0;
    while let Some(due) = rig.shard.next_deadline() {
        rig.now = due;
        rig.tell(Input::Tick);
        ticks += 1;
    }
    assert!(ticks <= 2, "{ticks} ticks");
    rig.write();
    assert!(matches!(rig.facts_since(mark)[..], [Fact::GroupExpired { .. }]));
}

#[test]
fn what_is_left_of_a_forgotten_group_disturbs_nobody() {
    let (mut rig, topic) = rig();
    let reader = rig.subscribe(topic, "g", "o", 9);
    rig.produce_to(topic, &[0, 0]);
    let receipts: Vec<_> = rig.deliveries().iter().map(|(_, delivery)| delivery.receipt).collect();
    rig.nack(&at(topic, 0), "o", "why");
    leave(&mut rig, reader);
    rig.advance(EXPIRY_MS + LEASE_MS + EXPIRY_MS);
    assert!(rig.group_described(topic, "g").is_none());
    rig.release(&receipts);
    assert_eq!(rig.ack(&at(topic, 1), "o"), Answer::Rejected(Reject::NotInFlight));
    rig.tell(Input::Credit { consumer: reader, count: 9 });
    leave(&mut rig, reader);
    rig.advance(EXPIRY_MS);
    rig.deliveries();
    rig.subscribe(topic, "g", "o", 9);
    assert_eq!(rig.delivered(), [(0, 0, 1), (0, 1, 1)], "the new group of that name knows nothing of it");
}
