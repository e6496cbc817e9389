//! Messages with a time to go out: never earlier, never forgotten.

use crate::support::orders::{offsets, patient, spotted};
use crate::support::{Draft, LEASE_MS, Rig, START};
use driftq_core::{
    Answer, Fact, Input, Order, RequestHash, Settings, Start, Time, TopicId, TopicPatch, Wait,
};

fn rig() -> (Rig, TopicId) {
    let mut rig = Rig::new(Settings { stream_unwritten_max: u32::MAX, ..Settings::default() });
    let topic = rig.topic("t", 1);
    (rig, topic)
}

fn after(topic: TopicId, ms: u64) -> Draft {
    Draft { start: Start::After(ms), ..Draft::to(topic) }
}

#[test]
fn a_scheduled_message_goes_out_when_it_is_due_and_not_before() {
    for start in [Start::After(500), Start::At(START.after_ms(500))] {
        let (mut rig, topic) = rig();
        rig.produce(&Draft { start, ..Draft::to(topic) });
        rig.produce_to(topic, &[0]);
        let ticket = rig.ask_lease(patient(topic, 1, 900));
        assert_eq!(rig.leased(ticket).map(|d| offsets(&d)), Some(vec![1]), "it holds nobody up");
        let ticket = rig.ask_lease(patient(topic, 1, 900));
        rig.advance(499);
        assert_eq!(rig.leased(ticket), None);
        assert_eq!(rig.topic_described(topic).scheduled, 1);
        rig.advance(1);
        let delivery = rig.leased(ticket).expect("it is due").remove(0);
        assert_eq!((delivery.receipt.offset, delivery.due), (0, Some(START.after_ms(500))));
        assert_eq!(rig.topic_described(topic).scheduled, 0);
    }
}

#[test]
fn a_time_that_has_passed_is_now() {
    for start in [Start::At(Time(5)), Start::At(START), Start::After(0)] {
        let (mut rig, topic) = rig();
        rig.produce(&Draft { start, ..Draft::to(topic) });
        let delivery = rig.lease(topic, 1).remove(0);
        assert_eq!((delivery.due, rig.topic_described(topic).scheduled), (None, 0), "{start:?}");
        let facts = rig.facts_since(0);
        assert!(facts.iter().any(|fact| matches!(fact, Fact::Appended(message) if message.due.is_none())));
    }
}

#[test]
fn a_time_that_never_comes_is_cut_to_one_that_can() {
    let (mut rig, topic) = rig();
    for start in [Start::At(Time::NEVER), Start::After(u64::MAX)] {
        rig.produce(&Draft { start, ..Draft::to(topic) });
    }
    assert_eq!(rig.topic_described(topic).scheduled, 2, "scheduled, not cancelled");
    assert!(rig.message_described(spotted(topic, 0)).is_some_and(|message| !message.found.cancelled));
}

#[test]
fn a_restart_neither_hurries_nor_forgets() {
    for percent in [0, 100] {
        let (mut rig, topic) = rig();
        rig.snapshot_percent = percent;
        rig.lease(topic, 1);
        rig.produce(&after(topic, 500));
        rig.advance(200);
        rig.crash();
        assert_eq!(rig.topic_described(topic).scheduled, 1);
        let ticket = rig.ask_lease(patient(topic, 1, 900));
        rig.advance(299);
        assert_eq!(rig.leased(ticket), None);
        rig.advance(1);
        assert_eq!(rig.leased(ticket).map(|d| offsets(&d)), Some(vec![0]));
    }
}

#[test]
fn the_clock_that_is_right_after_a_restart_decides() {
    // (now of the new run, what is still to wait)
    for (now, rest) in
        [(START, 500), (START.after_ms(499), 1), (START.after_ms(500), 0), (Time(10), 1_000_490)]
    {
        let (mut rig, topic) = rig();
        rig.lease(topic, 1);
        rig.produce(&after(topic, 500));
        rig.advance(300);
        rig.crash_and_set_clock(now);
        if rest > 0 {
            rig.advance(rest - 1);
            assert_eq!(rig.lease_offsets(topic, 1), [], "{now:?}");
            rig.advance(1);
        }
        rig.advance(0);
        assert_eq!(rig.lease_offsets(topic, 1), [0], "{now:?}");
    }
}

#[test]
fn a_message_that_was_due_while_nobody_ran_goes_out_at_the_start() {
    let (mut rig, topic) = rig();
    rig.lease(topic, 1);
    rig.produce(&after(topic, 500));
    rig.crash_and_set_clock(START.after_ms(9_000));
    assert_eq!(rig.lease_offsets(topic, 1), [0], "without a tick");
}

#[test]
fn what_was_due_while_nobody_read_is_there_for_who_comes() {
    let (mut rig, topic) = rig();
    rig.produce(&after(topic, 500));
    rig.produce(&after(topic, 400));
    rig.advance(60_000);
    assert_eq!(rig.lease_offsets(topic, 9), [0, 1], "a group that comes later");
    rig.produce(&after(topic, 500));
    rig.advance(60_000);
    let mut request = crate::support::orders::request(topic, 9);
    request.group = "h".into();
    assert_eq!(rig.lease_as(request).len(), 3, "every group gets it");
}

#[test]
fn it_is_durable_before_it_goes_out_however_late_that_is() {
    let (mut rig, topic) = rig();
    let ticket = rig.ask_lease(patient(topic, 1, 900));
    rig.sync();
    let message = after(topic, 100).message();
    rig.ask(|ticket| Input::Produce { ticket, message });
    rig.advance_unsynced(200);
    assert_eq!(rig.leased(ticket), None);
    rig.sync();
    assert_eq!(rig.leased(ticket).map(|d| offsets(&d)), Some(vec![0]));
}

#[test]
fn those_that_are_due_go_by_priority_and_then_by_offset() {
    let (mut rig, topic) = rig();
    for (ms, priority) in [(300, 0), (200, 5), (100, 5), (100, 9), (50, 0)] {
        rig.produce(&Draft { priority, ..after(topic, ms) });
    }
    rig.produce_to(topic, &[0]);
    rig.advance(300);
    assert_eq!(rig.lease_offsets(topic, 9), [3, 1, 2, 0, 4, 5]);
}

#[test]
fn a_scheduled_message_can_be_cancelled_and_removed() {
    let (mut rig, topic) = rig();
    rig.lease(topic, 1);
    for ms in [100, 200, 300] {
        rig.produce(&after(topic, ms));
    }
    assert_eq!(rig.cancel(spotted(topic, 0)), Answer::Cancelled { running: vec![] });
    assert_eq!(rig.remove(vec![spotted(topic, 1), spotted(topic, 1)]), 1);
    assert_eq!(rig.topic_described(topic).scheduled, 1);
    assert_eq!(rig.message_described(spotted(topic, 0)), None, "no group wants it");
    rig.advance(300);
    assert_eq!(rig.lease_offsets(topic, 9), [2]);
}

#[test]
fn retention_that_comes_later_takes_a_scheduled_message_like_any_other() {
    let (mut rig, topic) = rig();
    rig.lease(topic, 1);
    rig.produce(&after(topic, 300));
    rig.produce(&after(topic, 500));
    rig.produce(&after(topic, 400));
    rig.configure(topic, TopicPatch { retention_ms: Some(Some(400)), ..TopicPatch::default() });
    rig.advance(299);
    assert_eq!(rig.topic_described(topic).scheduled, 3);
    rig.advance(101);
    let described = rig.topic_described(topic);
    assert_eq!((described.scheduled, described.partitions[0].messages), (0, 0));
    rig.advance(200);
    assert_eq!(rig.lease_offsets(topic, 9), []);
}

#[test]
fn ten_thousand_that_are_due_at_once_leave_room_for_others() {
    let (mut rig, topic) = rig();
    rig.borrow(topic, "o", u32::MAX);
    let draft = Draft { start: Start::At(START.after_ms(100)), ..Draft::to(topic) };
    for _ in 0..10 {
        let messages = (0..1000).map(|_| draft.message()).collect();
        rig.ask_durably(|ticket| Input::ProduceMany { ticket, messages });
    }
    rig.now = START.after_ms(100);
    let (mut ticks, mut out) = (0, 0);
    while rig.shard.next_deadline().is_some_and(|due| due <= rig.now) {
        rig.tell(Input::Tick);
        let batch = rig.offsets();
        assert!(batch.len() <= 256, "{} in one tick", batch.len());
        assert!(batch.iter().copied().eq(out..out + batch.len() as u64));
        (ticks, out) = (ticks + 1, out + batch.len() as u64);
    }
    assert_eq!(out, 10_000);
    assert!((40..60).contains(&ticks), "{ticks}");
}

#[test]
fn a_retry_of_a_scheduled_message_is_a_retry_like_any_other() {
    let (mut rig, topic) = rig();
    rig.lease(topic, 1);
    rig.produce(&after(topic, 100));
    rig.advance(100);
    assert_eq!(rig.lease_offsets(topic, 1), [0]);
    rig.advance(LEASE_MS);
    assert_eq!(rig.lease(topic, 1)[0].attempt, 2);
    rig.sync();
    rig.crash();
    rig.advance(LEASE_MS);
    assert_eq!(rig.lease(topic, 1)[0].attempt, 3);
}

/// Neither an order nor a pause makes a scheduled message early or lost.
#[test]
fn nothing_that_people_change_makes_it_early_or_lost() {
    type Change = fn(&mut Rig, TopicId);
    let changes: [(&str, Change); 4] = [
        ("order", |rig, topic| {
            drop(rig.configure(topic, TopicPatch { order: Some(Order::Key), ..TopicPatch::default() }))
        }),
        ("pause", |rig, topic| {
            rig.pause(topic, None, true);
            rig.advance(600);
            assert_eq!(rig.lease_offsets(topic, 9), []);
            rig.pause(topic, None, false);
        }),
        ("seek", |rig, topic| drop(rig.seek(topic, "g", None, driftq_core::SeekTo::Earliest))),
        ("another group", |rig, topic| {
            let mut request = crate::support::orders::request(topic, 9);
            request.group = "h".into();
            assert_eq!(rig.lease_as(request), []);
        }),
    ];
    for (name, change) in changes {
        let (mut rig, topic) = rig();
        rig.lease(topic, 1);
        rig.produce(&Draft { priority: 3, request: RequestHash::NONE, ..after(topic, 500) });
        change(&mut rig, topic);
        if rig.now < START.after_ms(500) {
            assert_eq!(rig.lease_offsets(topic, 9), [], "{name}");
            assert_eq!(rig.standing(topic, 0, "g").wait, Wait::Scheduled, "{name}");
        }
        rig.advance(500);
        assert_eq!(rig.lease_offsets(topic, 9), [0], "{name}");
    }
}
