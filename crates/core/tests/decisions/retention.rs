//! How long messages are kept, and where their bytes lie.

use crate::support::deeds::at;
use crate::support::{Draft, LEASE_MS, Rig};
use driftq_core::{Answer, Fact, Input, Payload, Pinned, Settings, TopicId};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Bytes of all payloads kept, by what the state says and by a walk over the messages.
fn live(rig: &Rig) -> u64 {
    let state = rig.shard.state();
    let pinned = |segment| -> u64 {
        state.pinned_in(segment, usize::MAX).iter().map(|pinned| u64::from(pinned.length)).sum()
    };
    for segment in 0..=rig.log.base.segment() {
        assert_eq!(state.live_bytes().get(&segment).copied().unwrap_or(0), pinned(segment), "{segment}");
    }
    state.live_bytes().values().sum()
}

fn relocate(rig: &mut Rig, pinned: &Pinned) {
    let bytes = rig.log.read(pinned.position, pinned.length).expect("it is written").to_vec();
    let payload = Payload { bytes, check: pinned.check, size: pinned.size };
    let Pinned { topic, partition, offset, position: from, .. } = *pinned;
    rig.tell(Input::Relocate { topic, partition, offset, from, payload });
}

/// The first message's place.
fn first(rig: &Rig) -> Pinned {
    let segment = *rig.shard.state().live_bytes().keys().next().expect("something is kept");
    rig.shard.state().pinned_in(segment, 1)[0]
}

#[test]
fn what_every_group_has_acked_is_gone() {
    let mut rig = Rig::new(Settings { in_flight_max: 9999, ..Settings::default() });
    let topic = rig.topic("t", 1);
    rig.subscribe(topic, "g", "o", 9999);
    rig.subscribe(topic, "h", "o", 9999);
    rig.produce_to(topic, &[0; 1200]);
    let (messages, bytes) = (rig.shard.state().messages(), live(&rig));
    assert_eq!((messages, bytes > 0), (1200, true));
    for offset in 0..1200 {
        rig.ack(&at(topic, offset), "o");
    }
    assert_eq!((rig.shard.state().messages(), live(&rig)), (1200, bytes), "the other group has not");
    for offset in (0..1200).rev() {
        rig.ack(&driftq_core::Address { group: "h".into(), ..at(topic, offset) }, "o");
        if offset % 100 == 0 {
            assert_eq!(rig.shard.state().messages(), offset);
            live(&rig);
        }
    }
    assert_eq!((live(&rig), rig.shard.state().live_bytes().len()), (0, 0));
    assert!(rig.shard.state().encode().len() < 2500, "nothing but the last chunk is remembered");
    rig.crash();
    assert_eq!((rig.shard.state().messages(), live(&rig)), (0, 0));
    assert_eq!(rig.ack(&at(topic, 3), "o"), Answer::Settled);
}

#[test]
fn a_snapshot_asks_for_memory_for_what_is_kept_only() {
    let mut rig = Rig::new(Settings { in_flight_max: 9999, ..Settings::default() });
    let topic = rig.topic("t", 1);
    rig.subscribe(topic, "g", "o", 9999);
    rig.produce_to(topic, &[0; 2100]);
    for offset in 1..2100 {
        rig.ack(&at(topic, offset), "o");
    }
    let room = rig.shard.state().encode().capacity();
    assert!(room < 64 << 10, "{room} bytes for the two chunks that still hold something");
}

#[test]
fn old_messages_leave_at_their_time_read_or_not() {
    let mut rig = Rig::new(Settings { retention_ms: Some(DAY_MS), ..Settings::default() });
    let topic = rig.topic("t", 2);
    rig.subscribe(topic, "g", "o", 1);
    rig.produce_to(topic, &[0, 0]);
    rig.advance(1000);
    rig.produce_to(topic, &[0, 1]);
    rig.advance(DAY_MS - 1001);
    assert_eq!(rig.lag(topic, "g"), 4);
    rig.advance(1);
    assert_eq!(rig.lag(topic, "g"), 2);
    rig.crash();
    rig.advance(999);
    assert_eq!(rig.lag(topic, "g"), 2);
    rig.advance(1);
    assert_eq!((rig.lag(topic, "g"), rig.shard.state().messages(), live(&rig)), (0, 0, 0));
}

#[test]
fn retention_is_done_in_bounded_steps() {
    let mut rig = Rig::new(Settings { retention_ms: Some(DAY_MS), ..Settings::default() });
    let topic = rig.topic("t", 1);
    for _ in 0..2500 {
        let message = Draft::to(topic).message();
        rig.ask(|ticket| Input::Produce { ticket, message });
    }
    rig.sync();
    let mark = rig.write();
    rig.advance(DAY_MS);
    rig.write();
    let below: Vec<u64> = rig
        .facts_since(mark)
        .iter()
        .map(|fact| if let Fact::Expired { below, .. } = fact { *below } else { panic!("{fact:?}") })
        .collect();
    assert_eq!(below, [1024, 2048, 2500]);
}

#[test]
fn a_lease_on_a_message_that_left_is_over() {
    let mut rig = Rig::new(Settings { retention_ms: Some(LEASE_MS / 2), ..Settings::default() });
    let topic = rig.topic("t", 1);
    rig.subscribe(topic, "g", "o", 99);
    rig.produce_to(topic, &[0, 0, 0]);
    assert_eq!(rig.offsets(), [0, 1]);
    rig.advance_unsynced(LEASE_MS / 2);
    assert!(rig.is_urgent(), "an ack of what left is answered by this fact");
    let ticket = rig.ask(|ticket| Input::Ack { ticket, address: at(topic, 0), owner: "o".into() });
    assert_eq!(rig.answer(ticket), None);
    rig.sync();
    assert_eq!(rig.answer(ticket), Some(Answer::Settled));
    let expiry = rig.now.after_ms(rig.settings.group_expiry_ms - LEASE_MS / 2);
    assert_eq!(rig.shard.next_deadline(), Some(expiry), "no lapse is left behind");
    rig.produce_to(topic, &[0, 0]);
    assert_eq!(rig.offsets(), [3, 4], "and the window is open");
}

#[test]
fn the_oldest_leave_when_there_are_too_many_bytes() {
    let mut rig = Rig::new(Settings { retention_bytes: Some(10), ..Settings::default() });
    let topic = rig.topic("t", 2);
    let kept = |rig: &mut Rig| {
        let partition = rig.topic_described(topic).partitions[0];
        (partition.oldest_offset, partition.messages, partition.bytes)
    };
    for (size, after) in [
        (4, (Some(0), 1, 4)),
        (4, (Some(0), 2, 8)),
        (4, (Some(1), 2, 8)),
        (9, (Some(3), 1, 9)),
        (50, (Some(4), 1, 50)),
        (1, (Some(5), 1, 1)),
    ] {
        rig.produce(&Draft::to(topic).value(&"x".repeat(size)));
        assert_eq!(kept(&mut rig), after);
        live(&rig);
    }
    rig.produce(&Draft::to(topic).partition(1).value(&"x".repeat(10)));
    assert_eq!(kept(&mut rig), (Some(5), 1, 1), "partitions are counted each for itself");
}

#[test]
fn a_partition_that_runs_empty_and_fills_again_keeps_one_timer() {
    let mut rig = Rig::new(Settings { retention_ms: Some(DAY_MS), ..Settings::default() });
    let topic = rig.topic("t", 1);
    rig.subscribe(topic, "g", "o", 999);
    for offset in 0..500 {
        rig.produce(&Draft::to(topic));
        rig.ack(&at(topic, offset), "o");
        rig.advance(1);
    }
    let mut ticks = 0;
    while let Some(due) = rig.shard.next_deadline().filter(|due| *due < rig.now.after_ms(2 * DAY_MS)) {
        rig.now = due;
        rig.tell(Input::Tick);
        ticks += 1;
    }
    assert_eq!(ticks, 1);
    rig.produce(&Draft::to(topic));
    rig.advance(DAY_MS);
    assert_eq!(rig.shard.state().messages(), 0);
}

#[test]
fn a_payload_that_moves_leaves_its_segment_free() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    rig.produce(&Draft::to(topic).value(&"x".repeat(2000)));
    rig.produce_to(topic, &[0]);
    let before = live(&rig);
    let pinned = first(&rig);
    relocate(&mut rig, &pinned);
    assert_eq!(live(&rig), before);
    let moved = rig.shard.state().pinned_in(rig.log.base.segment(), 9);
    assert_eq!((moved.len(), moved[0].offset, moved[0].check), (2, 0, pinned.check));
    assert!(!rig.shard.state().live_bytes().contains_key(&pinned.position.segment()));
    // Nothing is delivered from a copy that is not durable, nor overtakes it.
    rig.subscription(topic, "g", "o", 9);
    let subscription = rig.subscription(topic, "g", "o", 9);
    rig.ask(|ticket| Input::Subscribe { ticket, subscription });
    assert_eq!(rig.delivered(), []);
    rig.sync();
    assert_eq!(rig.delivered(), [(0, 0, 1), (0, 1, 1)]);
}

#[test]
fn a_move_that_was_lost_leaves_the_old_copy() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    rig.produce_to(topic, &[0]);
    let pinned = first(&rig);
    relocate(&mut rig, &pinned);
    rig.write();
    rig.crash();
    assert_eq!(first(&rig), pinned);
    relocate(&mut rig, &pinned);
    rig.sync();
    rig.crash();
    assert_ne!(first(&rig).position, pinned.position);
    rig.subscribe(topic, "g", "o", 9);
    assert_eq!(rig.offsets(), [0]);
}

#[test]
fn a_move_of_what_lies_elsewhere_by_now_is_nothing() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    rig.subscribe(topic, "g", "o", 9);
    rig.produce_to(topic, &[0, 0]);
    let pinned = first(&rig);
    relocate(&mut rig, &pinned);
    rig.sync();
    let mark = rig.write();
    let current = first(&rig);
    let cases: [(&str, Pinned); 5] = [
        ("moved before", pinned),
        ("of another check", Pinned { check: 0, ..current }),
        ("of another length", Pinned { length: current.length - 1, ..current }),
        ("of another partition", Pinned { partition: 1, ..current }),
        ("of another topic", Pinned { topic: TopicId(4), ..current }),
    ];
    for (name, stale) in cases {
        relocate(&mut rig, &stale);
        assert_eq!(rig.write(), mark, "{name}");
    }
    rig.tell(Input::Space { roomy: false });
    relocate(&mut rig, &current);
    assert_eq!(rig.write(), mark, "a full disk");
    rig.tell(Input::Space { roomy: true });
    rig.ack(&at(topic, current.offset), "o");
    let mark = rig.write();
    relocate(&mut rig, &current);
    assert_eq!(rig.write(), mark, "acked");
}
