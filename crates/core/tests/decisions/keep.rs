//! What every group is done with and a topic keeps all the same: for late groups, for those that go back, for people.

use crate::support::deeds::at;
use crate::support::orders::{offsets, request, spotted};
use crate::support::{Draft, Rig, START};
use driftq_core::{
    Answer, Browse, Description, Fact, Input, KeyHash, LeaseRequest, OrderInput, Overload,
    PartitionDescription, Query, Reject, SeekTo, Settings, Stage, Time, TopicId, TopicPatch, TopicSettings,
    Wait,
};

const KEEP_MS: u64 = 60_000;
const KEEPING: TopicSettings = TopicSettings { keep_ms: Some(KEEP_MS), ..DEFAULT };
const DEFAULT: TopicSettings = TopicSettings {
    retention_ms: None,
    retention_bytes: None,
    messages_max: None,
    bytes_max: None,
    retry: None,
    lease_ms: None,
    in_flight_max: None,
    order: driftq_core::Order::Priority,
    retry_share: None,
    keep_ms: None,
    keep_bytes: None,
};

/// A topic of which group `g` has done the first messages.
fn worked(settings: Settings, own: TopicSettings, done: u64) -> (Rig, TopicId) {
    let mut rig = Rig::new(settings);
    let topic = rig.topic_with("t", 1, own);
    rig.subscribe(topic, "g", "o", 0);
    work(&mut rig, topic, done);
    (rig, topic)
}

/// Group `g` does some more messages.
fn work(rig: &mut Rig, topic: TopicId, count: u64) {
    for _ in 0..count {
        rig.produce(&Draft::to(topic));
    }
    for delivery in rig.lease(topic, 1000) {
        rig.ack_token(&delivery);
    }
    // How much may stay is looked at when time is.
    rig.advance(0);
    rig.sync();
}

fn late(topic: TopicId, group: &str) -> LeaseRequest {
    LeaseRequest { group: group.into(), ..request(topic, 1000) }
}

fn partition(rig: &mut Rig, topic: TopicId) -> PartitionDescription {
    rig.topic_described(topic).partitions[0]
}

/// Messages that wait, and messages that are kept.
fn counts(rig: &mut Rig, topic: TopicId) -> (u64, u64) {
    let described = partition(rig, topic);
    (described.messages, described.kept_messages)
}

fn stages(rig: &mut Rig, topic: TopicId) -> Vec<(u64, Stage)> {
    let browse = Browse { topic, partition: 0, alone: false, from: 0, limit: 100, key: KeyHash::NONE };
    match rig.describe(Query::Browse(browse)) {
        Some(Description::Browse(stretch)) => stretch.found.iter().map(|f| (f.offset, f.stage)).collect(),
        other => panic!("not a stretch: {other:?}"),
    }
}

#[test]
fn a_late_group_reads_what_the_others_are_done_with() {
    let (mut rig, topic) = worked(Settings::default(), KEEPING, 3);
    rig.produce(&Draft::to(topic));
    assert_eq!(counts(&mut rig, topic), (1, 3));
    assert_eq!(offsets(&rig.lease_as(late(topic, "late"))), [0, 1, 2, 3]);
    assert_eq!(rig.lag(topic, "late"), 4);
    rig.crash();
    assert_eq!(offsets(&rig.lease_as(late(topic, "later"))), [0, 1, 2, 3]);
}

#[test]
fn without_the_setting_a_late_group_sees_nothing_as_ever() {
    let (mut rig, topic) = worked(Settings::default(), DEFAULT, 3);
    assert_eq!((counts(&mut rig, topic), rig.shard.state().messages()), ((0, 0), 0));
    assert_eq!(offsets(&rig.lease_as(late(topic, "late"))), [] as [u64; 0]);
}

#[test]
fn a_group_that_goes_back_reads_it_again() {
    let (mut rig, topic) = worked(Settings::default(), KEEPING, 2);
    rig.advance(10);
    work(&mut rig, topic, 2);
    for (to, expected) in [
        (SeekTo::Earliest, &[0, 1, 2, 3][..]),
        (SeekTo::Offset(1), &[1, 2, 3]),
        (SeekTo::Time(START.after_ms(5)), &[2, 3]),
        (SeekTo::Latest, &[]),
    ] {
        assert!(matches!(rig.seek(topic, "g", None, to), Answer::Sought(_)));
        assert_eq!(rig.lag(topic, "g"), expected.len() as u64);
        let deliveries = rig.lease(topic, 10);
        assert_eq!(offsets(&deliveries), expected, "{to:?}");
        for delivery in deliveries {
            rig.ack_token(&delivery);
        }
    }
    assert_eq!(counts(&mut rig, topic), (0, 4), "and all of it is kept as before");
}

#[test]
fn it_is_shown_as_done() {
    let (mut rig, topic) = worked(Settings::default(), KEEPING, 2);
    rig.produce(&Draft::to(topic));
    assert_eq!(stages(&mut rig, topic), [(0, Stage::Done), (1, Stage::Done), (2, Stage::Ready)]);
    let described = partition(&mut rig, topic);
    assert_eq!((described.oldest_offset, described.earliest_offset), (Some(2), Some(0)));
    assert_eq!((described.kept_messages, described.kept_bytes), (2, 2));
    assert_eq!(rig.standing(topic, 0, "g").wait, Wait::Done);
    rig.lease_as(LeaseRequest { max: 1, ..late(topic, "late") });
    assert_eq!(stages(&mut rig, topic)[..2], [(0, Stage::InFlight), (1, Stage::Ready)]);
}

#[test]
fn it_goes_at_its_age_counted_from_when_it_was_stored() {
    let (mut rig, topic) = worked(Settings::default(), KEEPING, 2);
    rig.advance(1000);
    work(&mut rig, topic, 1);
    rig.advance(KEEP_MS - 1001);
    assert_eq!(counts(&mut rig, topic), (0, 3));
    rig.advance(1);
    assert_eq!(counts(&mut rig, topic), (0, 1));
    rig.sync();
    rig.crash();
    rig.advance(999);
    assert_eq!(counts(&mut rig, topic), (0, 1));
    rig.advance(1);
    assert_eq!((counts(&mut rig, topic), rig.shard.state().live_bytes().len()), ((0, 0), 0));
}

#[test]
fn what_is_done_after_its_age_goes_at_once_and_what_is_owed_stays() {
    let (mut rig, topic) = worked(Settings::default(), KEEPING, 0);
    rig.produce_to(topic, &[0, 0, 0]);
    let deliveries = rig.lease(topic, 3);
    rig.ack_token(&deliveries[2]);
    rig.advance(KEEP_MS);
    assert_eq!(counts(&mut rig, topic), (2, 0), "nobody is done with the two before it");
    let again = rig.lease(topic, 3);
    rig.ack_token(&again[1]);
    rig.advance(0);
    assert_eq!((counts(&mut rig, topic), stages(&mut rig, topic)), ((1, 0), vec![(0, Stage::InFlight)]));
}

#[test]
fn the_oldest_go_when_there_are_too_many_bytes_of_it() {
    let own = TopicSettings { keep_bytes: Some(3), ..DEFAULT };
    let (mut rig, topic) = worked(Settings::default(), own, 5);
    assert_eq!((counts(&mut rig, topic), partition(&mut rig, topic).earliest_offset), ((0, 3), Some(2)));
    rig.advance(1_000_000_000);
    assert_eq!(counts(&mut rig, topic), (0, 3), "no age is set");
}

#[test]
fn there_are_never_more_messages_of_it_than_the_server_allows() {
    let settings = Settings { kept_messages_max: 2, ..Settings::default() };
    let (mut rig, topic) = worked(settings, KEEPING, 5);
    assert_eq!((counts(&mut rig, topic), partition(&mut rig, topic).earliest_offset), ((0, 2), Some(3)));
}

#[test]
fn an_age_alone_is_bound_by_the_bytes_of_a_partition_too() {
    let own = TopicSettings { bytes_max: Some(2), ..KEEPING };
    let (mut rig, topic) = worked(Settings::default(), own, 2);
    work(&mut rig, topic, 2);
    assert_eq!(counts(&mut rig, topic), (0, 2));
}

#[test]
fn history_does_not_stop_producers_and_neither_does_who_reads_it() {
    let own = TopicSettings { messages_max: Some(2), bytes_max: Some(2), keep_bytes: Some(100), ..DEFAULT };
    let (mut rig, topic) = worked(Settings::default(), own, 2);
    work(&mut rig, topic, 2);
    rig.produce_to(topic, &[0]);
    rig.lease_as(late(topic, "late"));
    assert_eq!((rig.lag(topic, "late"), counts(&mut rig, topic)), (5, (1, 4)));
    rig.produce_to(topic, &[0]);
    let full = Answer::Rejected(Reject::Overloaded(Overload::PartitionMessages));
    assert_eq!(rig.try_produce(&Draft::to(topic)), full, "what waits counts as ever");
}

#[test]
fn what_a_late_group_has_begun_to_read_is_not_taken_away() {
    let own = TopicSettings { keep_bytes: Some(3), keep_ms: Some(KEEP_MS), ..DEFAULT };
    let (mut rig, topic) = worked(Settings::default(), own, 3);
    rig.lease_as(LeaseRequest { max: 1, ..late(topic, "late") });
    rig.advance(2 * KEEP_MS);
    work(&mut rig, topic, 3);
    assert_eq!(rig.lag(topic, "late"), 6);
    let again = rig.lease_as(late(topic, "late"));
    assert_eq!(offsets(&again), [0, 1, 2, 3, 4, 5]);
    for delivery in &again {
        rig.ack_token(delivery);
    }
    rig.advance(0);
    assert_eq!((counts(&mut rig, topic), partition(&mut rig, topic).earliest_offset), ((0, 3), Some(3)));
}

#[test]
fn retention_drops_it_with_everything_else() {
    let own = TopicSettings { retention_ms: Some(1000), keep_ms: Some(KEEP_MS), ..DEFAULT };
    let (mut rig, topic) = worked(Settings::default(), own, 3);
    rig.produce(&Draft::to(topic));
    rig.advance(1000);
    assert_eq!((counts(&mut rig, topic), rig.lag(topic, "g")), ((0, 0), 0));
}

#[test]
fn history_makes_room_before_retention_takes_what_waits() {
    let own = TopicSettings { retention_bytes: Some(4), keep_bytes: Some(100), ..DEFAULT };
    let (mut rig, topic) = worked(Settings::default(), own, 4);
    assert_eq!(counts(&mut rig, topic), (0, 4));
    for (waiting, kept) in [(1, 3), (2, 2), (3, 1), (4, 0), (4, 0)] {
        rig.produce(&Draft::to(topic));
        rig.advance(0);
        assert_eq!(counts(&mut rig, topic), (waiting, kept));
    }
    assert_eq!(rig.lag(topic, "g"), 4);
}

#[test]
fn what_no_longer_qualifies_goes_in_bounded_steps() {
    let settings = Settings { in_flight_max: 9999, ..Settings::default() };
    let (mut rig, topic) = worked(settings, KEEPING, 0);
    for _ in 0..3 {
        work(&mut rig, topic, 900);
    }
    assert_eq!(counts(&mut rig, topic), (0, 2700));
    let keep = |keep_ms, keep_bytes| TopicPatch { keep_ms, keep_bytes, ..TopicPatch::default() };
    rig.configure(topic, keep(None, Some(Some(2650))));
    rig.advance(0);
    assert_eq!(counts(&mut rig, topic), (0, 2650));
    rig.sync();
    let mark = rig.write();
    rig.configure(topic, keep(Some(None), Some(None)));
    rig.advance(0);
    rig.write();
    let below: Vec<u64> = rig
        .facts_since(mark)
        .iter()
        .filter_map(|fact| if let Fact::Trimmed { below, .. } = fact { Some(*below) } else { None })
        .collect();
    assert_eq!(below, [50 + 1024, 50 + 2048, 2700]);
    assert_eq!((counts(&mut rig, topic), rig.shard.state().live_bytes().len()), ((0, 0), 0));
}

#[test]
fn a_group_that_leaves_lets_go_into_history_but_what_nobody_read_waits() {
    let (mut rig, topic) = worked(Settings::default(), KEEPING, 1);
    rig.lease_as(late(topic, "late"));
    rig.produce(&Draft::to(topic));
    let mine = rig.lease(topic, 1);
    rig.ack_token(&mine[0]);
    assert_eq!(counts(&mut rig, topic), (1, 1), "the late group owes the second");
    rig.delete_group(topic, "late");
    assert_eq!(counts(&mut rig, topic), (0, 2));
    rig.produce(&Draft::to(topic));
    rig.delete_group(topic, "g");
    assert_eq!(counts(&mut rig, topic), (1, 2), "nobody has read the third");
    rig.advance(KEEP_MS);
    assert_eq!((counts(&mut rig, topic), stages(&mut rig, topic)), ((1, 0), vec![(2, Stage::Ready)]));
}

#[test]
fn what_is_kept_can_be_cancelled_and_removed() {
    let (mut rig, topic) = worked(Settings::default(), KEEPING, 3);
    assert_eq!(rig.cancel(spotted(topic, 0)), Answer::Cancelled { running: Vec::new() });
    assert_eq!(rig.remove(vec![spotted(topic, 1)]), 1);
    assert_eq!((counts(&mut rig, topic), stages(&mut rig, topic)), ((0, 1), vec![(2, Stage::Done)]));
    assert_eq!(rig.ack(&at(topic, 0), "o"), Answer::Settled, "an ack of what is gone is as ever");
    rig.crash();
    assert_eq!(offsets(&rig.lease_as(late(topic, "late"))), [2]);
}

#[test]
fn settings_of_nothing_are_refused() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    for (keep_ms, keep_bytes) in [(Some(0), None), (None, Some(0))] {
        let patch =
            TopicPatch { keep_ms: Some(keep_ms), keep_bytes: Some(keep_bytes), ..TopicPatch::default() };
        let refused = Answer::Rejected(Reject::Invalid("keep_ms and keep_bytes must be at least 1"));
        assert_eq!(rig.configure(topic, patch), refused);
    }
}

#[test]
fn one_timer_watches_the_history_of_a_partition() {
    let (mut rig, topic) = worked(Settings::default(), KEEPING, 3);
    let next = |rig: &Rig| rig.shard.next_deadline();
    assert_eq!(next(&rig), Some(Time(START.0 + KEEP_MS)));
    rig.advance(KEEP_MS);
    assert_eq!(counts(&mut rig, topic), (0, 0));
    let ticket = rig.ask(|ticket| Input::Order(OrderInput::DeleteTopic { ticket, topic }));
    rig.sync();
    assert_eq!(rig.answer(ticket), Some(Answer::Deleted));
}

#[test]
fn what_goes_before_it_was_due_leaves_the_schedule() {
    let (mut rig, topic) = worked(Settings::default(), KEEPING, 0);
    rig.produce(&Draft { start: driftq_core::Start::After(2 * KEEP_MS), ..Draft::to(topic) });
    rig.seek(topic, "g", None, SeekTo::Latest);
    assert_eq!((counts(&mut rig, topic), rig.topic_described(topic).scheduled), ((0, 1), 1));
    rig.advance(KEEP_MS);
    assert_eq!((counts(&mut rig, topic), rig.topic_described(topic).scheduled), ((0, 0), 0));
}

/// What was folded may name the first message of a history that is gone by now: the next one is watched all the same.
#[test]
fn history_goes_in_time_although_older_history_was_folded() {
    let (mut rig, topic) = worked(Settings::default(), KEEPING, 1);
    rig.snapshot_percent = 0;
    rig.advance(KEEP_MS);
    assert_eq!(counts(&mut rig, topic), (0, 0));
    rig.produce(&Draft::to(topic));
    let lent = rig.lease(topic, 1).remove(0);
    rig.sync();
    // The first thing that the new run is told.
    rig.reboot(rig.log.synced);
    rig.ack_token(&lent);
    assert_eq!(counts(&mut rig, topic), (0, 1));
    rig.advance(KEEP_MS);
    assert_eq!(counts(&mut rig, topic), (0, 0), "it is as old as it may be");
}
