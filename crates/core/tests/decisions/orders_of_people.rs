//! What people order: cancel, remove, seek, pause, delete, configure.

use crate::support::deeds::at;
use crate::support::orders::{nack_after, offsets, patient, request, spotted};
use crate::support::{Draft, LEASE_MS, Rig, START};
use driftq_core::{
    Action, Answer, Delivery, GroupPartition, Identity, Input, LeaseRequest, OrderInput, Outcome, Reject,
    SeekTo, Settings, Spotted, Time, TopicId, TopicPatch, TopicSettings, Wait,
};

const UNKNOWN: Answer = Answer::Rejected(Reject::TopicUnknown);

fn rig() -> (Rig, TopicId) {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    (rig, topic)
}

fn lease_for(rig: &mut Rig, topic: TopicId, group: &str, max: u32) -> Vec<Delivery> {
    rig.lease_as(LeaseRequest { group: group.into(), ..request(topic, max) })
}

fn kept(rig: &mut Rig, topic: TopicId) -> u64 {
    rig.topic_described(topic).partitions.iter().map(|partition| partition.messages).sum()
}

#[test]
fn a_cancelled_message_is_over_for_everybody_but_who_works_on_it() {
    let (mut rig, topic) = rig();
    rig.produce_to(topic, &[0]);
    let works = lease_for(&mut rig, topic, "works", 1).remove(0);
    let failed = lease_for(&mut rig, topic, "failed", 1).remove(0);
    rig.settle(&failed, nack_after(5));
    lease_for(&mut rig, topic, "idle", 1);
    lease_for(&mut rig, topic, "done", 1);
    assert_eq!(rig.ack(&driftq_core::Address { group: "done".into(), ..at(topic, 0) }, "o"), Answer::Settled);
    rig.delete_group(topic, "idle");
    for _ in 0..2 {
        assert_eq!(rig.cancel(spotted(topic, 0)), Answer::Cancelled { running: vec!["works".into()] });
    }
    assert_eq!((rig.lag(topic, "failed"), rig.lag(topic, "works")), (0, 1));
    assert!(rig.message_described(spotted(topic, 0)).is_some_and(|message| message.found.cancelled));
    rig.advance(10);
    assert_eq!(lease_for(&mut rig, topic, "failed", 1), []);
    assert_eq!(lease_for(&mut rig, topic, "late", 1), [], "a group that comes later does not get it");
    assert_eq!(rig.ack_token(&works), Outcome::Ok);
    assert_eq!(kept(&mut rig, topic), 0);
    assert_eq!(rig.cancel(spotted(topic, 0)), Answer::Rejected(Reject::MessageUnknown));
}

#[test]
fn a_cancelled_message_on_loan_ends_with_its_group_and_with_its_lease() {
    let (mut rig, topic) = rig();
    rig.produce_to(topic, &[0; 2]);
    rig.lease(topic, 1);
    rig.cancel(spotted(topic, 0));
    rig.delete_group(topic, "g");
    assert_eq!(kept(&mut rig, topic), 1, "only the other one waits for a group to come");
    let (mut rig, topic) = self::rig();
    rig.produce_to(topic, &[0; 2]);
    rig.lease(topic, 1);
    rig.cancel(spotted(topic, 0));
    rig.crash();
    assert_eq!((kept(&mut rig, topic), rig.lease_offsets(topic, 9)), (2, vec![1]));
    rig.advance(LEASE_MS);
    assert_eq!((kept(&mut rig, topic), rig.lease_offsets(topic, 9)), (1, vec![1]), "nobody gets it again");
}

#[test]
fn without_any_group_a_cancelled_message_is_gone_at_once() {
    let (mut rig, topic) = rig();
    rig.produce_to(topic, &[0; 2]);
    assert_eq!(rig.cancel(spotted(topic, 0)), Answer::Cancelled { running: vec![] });
    assert_eq!((kept(&mut rig, topic), rig.lease_offsets(topic, 9)), (1, vec![1]));
}

#[test]
fn what_is_not_there_cannot_be_cancelled_nor_removed() {
    let (mut rig, topic) = rig();
    let cases = [
        (spotted(TopicId(9), 0), Reject::TopicUnknown),
        (Spotted { partition: 5, ..spotted(topic, 0) }, Reject::PartitionOutOfRange),
        (spotted(topic, 0), Reject::MessageUnknown),
    ];
    for (message, reject) in cases {
        assert_eq!(rig.cancel(message), Answer::Rejected(reject));
        assert_eq!(rig.remove(vec![message]), 0);
    }
}

#[test]
fn removed_messages_are_gone_for_every_group() {
    let (mut rig, topic) = rig();
    rig.produce_to(topic, &[0; 3]);
    let held = rig.lease(topic, 1).remove(0);
    lease_for(&mut rig, topic, "h", 1);
    assert_eq!(rig.remove(vec![spotted(topic, 0), spotted(topic, 2), spotted(topic, 0)]), 2);
    assert_eq!(rig.ack_token(&held), Outcome::Stale { attempt: None });
    assert_eq!((rig.lag(topic, "g"), rig.lag(topic, "h"), kept(&mut rig, topic)), (1, 1, 1));
    assert_eq!((rig.lease_offsets(topic, 9), rig.shard.state().live_bytes().len()), (vec![1], 1));
}

/// Four messages in two partitions, a second apart; group `g` has acked them all, group `keeper` none.
fn read_by_two() -> (Rig, TopicId) {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 2);
    lease_for(&mut rig, topic, "keeper", 1);
    rig.lease(topic, 1);
    for partition in [0, 1, 0, 1] {
        rig.produce(&Draft::to(topic).partition(partition).keyed(&rig.now.0.to_string()));
        rig.advance(1000);
    }
    for delivery in rig.lease(topic, 9) {
        rig.ack_token(&delivery);
    }
    (rig, topic)
}

#[test]
fn a_group_goes_where_it_is_sent_and_gets_again_what_it_was_done_with() {
    let cases: [(SeekTo, Option<u32>, &[u64]); 9] = [
        (SeekTo::Earliest, None, &[0, 1, 2, 3]),
        (SeekTo::Earliest, Some(1), &[1, 3]),
        (SeekTo::Latest, None, &[]),
        (SeekTo::Offset(2), None, &[2, 3]),
        (SeekTo::Offset(2), Some(0), &[2]),
        (SeekTo::Offset(99), None, &[]),
        (SeekTo::Time(START.after_ms(1000)), None, &[1, 2, 3]),
        (SeekTo::Time(START.after_ms(1001)), Some(1), &[3]),
        (SeekTo::Time(Time(0)), None, &[0, 1, 2, 3]),
    ];
    for restart in [false, true] {
        for (to, partition, expected) in cases {
            let (mut rig, topic) = read_by_two();
            let Answer::Sought(partitions) = rig.seek(topic, "g", partition, to) else { panic!("{to:?}") };
            let lag: u64 = partitions.iter().map(|GroupPartition { lag, .. }| lag).sum();
            assert_eq!(lag, expected.len() as u64, "{to:?} {partition:?}");
            if restart {
                rig.crash();
            }
            let mut again = rig.lease_offsets(topic, 9);
            again.sort_unstable();
            assert_eq!(again, expected, "{to:?} {partition:?} {restart}");
            assert_eq!((rig.lag(topic, "keeper"), kept(&mut rig, topic)), (4, 4), "the others stay");
        }
    }
}

#[test]
fn a_message_goes_when_the_last_group_is_done_however_often_they_were_moved() {
    let (mut rig, topic) = read_by_two();
    for to in [SeekTo::Earliest, SeekTo::Latest, SeekTo::Offset(1), SeekTo::Earliest, SeekTo::Offset(3)] {
        rig.seek(topic, "g", None, to);
        assert_eq!(kept(&mut rig, topic), 4, "{to:?}");
    }
    for delivery in lease_for(&mut rig, topic, "keeper", 9) {
        rig.ack_token(&delivery);
    }
    assert_eq!(kept(&mut rig, topic), 1, "g still owes one");
    rig.seek(topic, "g", None, SeekTo::Latest);
    assert_eq!((kept(&mut rig, topic), rig.shard.state().live_bytes().len()), (0, 0));
}

#[test]
fn whoever_held_something_of_the_old_position_holds_nothing() {
    let (mut rig, topic) = rig();
    rig.produce_to(topic, &[0; 2]);
    let held = rig.lease(topic, 2);
    rig.seek(topic, "g", None, SeekTo::Earliest);
    assert_eq!(rig.ack_token(&held[0]), Outcome::Stale { attempt: None });
    let again = rig.lease(topic, 2);
    assert_eq!((offsets(&again), again[0].attempt), (vec![0, 1], 1), "history begins anew");
    rig.advance(60_000);
    assert_eq!(rig.in_flight(topic), 0);
}

#[test]
fn nobody_is_sent_where_there_is_nothing() {
    let (mut rig, topic) = rig();
    rig.lease(topic, 1);
    let cases = [
        (TopicId(9), "g", None, Reject::TopicUnknown),
        (topic, "x", None, Reject::GroupUnknown),
        (topic, "g", Some(1), Reject::PartitionOutOfRange),
    ];
    for (topic, group, partition, reject) in cases {
        assert_eq!(rig.seek(topic, group, partition, SeekTo::Latest), Answer::Rejected(reject));
    }
}

#[test]
fn a_pause_stops_deliveries_and_nothing_else() {
    for group in [None, Some("g")] {
        let (mut rig, topic) = rig();
        rig.produce_to(topic, &[0; 2]);
        let held = rig.lease(topic, 1).remove(0);
        rig.advance(10);
        assert_eq!(rig.pause(topic, group, true), Answer::Paused(Some(START.after_ms(10))));
        rig.advance(10);
        assert_eq!(
            rig.pause(topic, group, true),
            Answer::Paused(Some(START.after_ms(10))),
            "since then, still"
        );
        let ticket = rig.ask_lease(patient(topic, 9, 500));
        rig.produce_to(topic, &[0]);
        assert_eq!((rig.leased(ticket), rig.ack_token(&held)), (None, Outcome::Ok));
        assert_eq!(lease_for(&mut rig, topic, "h", 9).len(), if group.is_some() { 2 } else { 0 });
        rig.crash();
        assert_eq!(rig.lease_offsets(topic, 9), [], "a restart does not end it");
        assert_eq!(rig.standing(topic, 1, "g").wait, Wait::Paused);
        let ticket = rig.ask_lease(patient(topic, 9, 500));
        assert_eq!(rig.pause(topic, group, false), Answer::Paused(None));
        assert_eq!(rig.leased(ticket).map(|d| offsets(&d)), Some(vec![1, 2]));
    }
    let (mut rig, topic) = rig();
    assert_eq!(rig.pause(TopicId(9), None, true), UNKNOWN);
    assert_eq!(rig.pause(topic, Some("x"), true), Answer::Rejected(Reject::GroupUnknown));
}

#[test]
fn a_deleted_topic_leaves_nothing_but_its_name_free() {
    let (mut rig, topic) = rig();
    let identity = |id| Identity::in_topic("tenant", "t", Some(id), "key");
    rig.produce(&Draft {
        identity: Some(identity(topic)),
        start: driftq_core::Start::After(50),
        ..Draft::to(topic)
    });
    rig.produce_to(topic, &[0; 2]);
    rig.subscribe(topic, "g", "o", 1);
    let held = rig.deliveries().remove(0).1;
    let ticket = rig.ask_lease(LeaseRequest { group: "h".into(), lease_ms: None, ..patient(topic, 9, 500) });
    rig.leased(ticket).expect("it got something");
    let ticket = rig.ask_lease(LeaseRequest { group: "h".into(), ..patient(topic, 9, 500) });
    let deletion = rig.ask(|ticket| Input::Order(OrderInput::DeleteTopic { ticket, topic }));
    assert_eq!(rig.answer(ticket), None, "not before it is durable");
    assert!(rig.actions.iter().any(|action| matches!(action, Action::Close { .. })), "streams end");
    assert!(rig.answer(deletion).is_none() && !rig.actions.iter().any(|a| matches!(a, Action::Unpublish(_))));
    rig.sync();
    assert_eq!(rig.answer(ticket), Some(UNKNOWN), "who waited is told");
    assert_eq!(rig.answer(deletion), Some(Answer::Deleted));
    assert!(rig.actions.iter().any(|action| matches!(action, Action::Unpublish(info) if info.id == topic)));
    assert_eq!((rig.shard.state().messages(), rig.shard.state().live_bytes().len()), (0, 0));
    assert_eq!((rig.ack_token(&held), rig.delete_topic(topic)), (Outcome::Unknown, UNKNOWN));
    rig.advance(10_000);
    rig.crash();
    let anew = rig.topic("t", 3);
    assert_ne!(anew, topic, "numbers are never used twice");
    let draft = Draft { identity: Some(identity(anew)), ..Draft::to(anew) };
    assert_eq!(rig.produce(&draft), 0, "offsets and identities begin anew");
    assert_eq!(rig.lease_offsets(anew, 9), [0]);
    assert_eq!(rig.tally().topics.len(), 1);
}

#[test]
fn the_name_of_a_deleted_topic_is_free_at_once() {
    let mut rig = Rig::new(Settings { topics_max: 1, ..Settings::default() });
    let mut seen = Vec::new();
    for partitions in 1..4 {
        let topic = rig.topic("t", partitions);
        assert_eq!(
            (rig.topic_described(topic).partitions.len(), seen.contains(&topic)),
            (partitions as usize, false)
        );
        seen.push(topic);
        assert_eq!(rig.delete_topic(topic), Answer::Deleted);
    }
}

#[test]
fn a_deleted_group_holds_nothing_back() {
    let (mut rig, topic) = rig();
    rig.produce_to(topic, &[0]);
    rig.lease(topic, 1);
    let ack = lease_for(&mut rig, topic, "h", 1).remove(0);
    rig.ack_token(&ack);
    assert_eq!(kept(&mut rig, topic), 1);
    assert_eq!(rig.delete_group(topic, "g"), Answer::Deleted);
    assert_eq!(
        (kept(&mut rig, topic), rig.delete_group(topic, "g")),
        (0, Answer::Rejected(Reject::GroupUnknown))
    );
    assert_eq!(rig.delete_group(TopicId(9), "g"), UNKNOWN);
    rig.produce_to(topic, &[0]);
    assert_eq!(rig.lease_offsets(topic, 9), [1], "the same name is a new group");
}

#[test]
fn a_change_of_settings_says_what_it_did() {
    let (mut rig, topic) = rig();
    let patch = TopicPatch { messages_max: Some(Some(2)), lease_ms: Some(Some(77)), ..TopicPatch::default() };
    let after = TopicSettings { messages_max: Some(2), lease_ms: Some(77), ..TopicSettings::default() };
    let before = TopicSettings::default();
    assert_eq!(rig.configure(topic, patch.clone()), Answer::Configured { before, after });
    let mark = rig.log.batches.len();
    assert_eq!(rig.configure(topic, patch), Answer::Configured { before: after, after });
    assert_eq!(rig.facts_since(mark), [], "what changes nothing is nothing to remember");
    rig.crash();
    assert_eq!(rig.topic_described(topic).settings, after);
    rig.produce_to(topic, &[0; 2]);
    assert!(matches!(rig.try_produce(&Draft::to(topic)), Answer::Rejected(Reject::Overloaded(_))));
    let held = rig.lease_as(LeaseRequest { lease_ms: None, ..request(topic, 1) }).remove(0);
    assert_eq!(held.expires, rig.now.after_ms(77));
    let none = TopicPatch { messages_max: Some(None), ..TopicPatch::default() };
    rig.configure(topic, none);
    rig.produce_to(topic, &[0]);
    assert_eq!(rig.configure(TopicId(9), TopicPatch::default()), UNKNOWN);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let zero = Some(Some(0));
    let cases = [
        TopicPatch { messages_max: zero, ..TopicPatch::default() },
        TopicPatch { bytes_max: zero, ..TopicPatch::default() },
        TopicPatch { retention_ms: zero, ..TopicPatch::default() },
        TopicPatch { retention_bytes: zero, ..TopicPatch::default() },
        TopicPatch { lease_ms: zero, ..TopicPatch::default() },
        TopicPatch { in_flight_max: Some(Some(0)), ..TopicPatch::default() },
        TopicPatch { retry_share: Some(Some(0)), ..TopicPatch::default() },
        TopicPatch { retry_share: Some(Some(101)), ..TopicPatch::default() },
    ];
    let (mut rig, topic) = rig();
    let before = rig.snapshot();
    for patch in cases {
        let settings = TopicSettings::default().patched(&patch);
        assert!(matches!(rig.configure(topic, patch), Answer::Rejected(Reject::Invalid(_))), "{settings:?}");
        let answer = rig.ask_durably(|ticket| {
            Input::Order(OrderInput::CreateTopic {
                ticket,
                name: "u".into(),
                partitions: 1,
                settings,
                tenant: None,
                exact: false,
            })
        });
        assert!(matches!(answer, Answer::Rejected(Reject::Invalid(_))), "{settings:?}");
    }
    assert_eq!(rig.snapshot(), before);
}

#[test]
fn another_retention_counts_for_what_is_there_already() {
    let (mut rig, topic) = rig();
    rig.produce_to(topic, &[0]);
    rig.configure(topic, TopicPatch { retention_ms: Some(Some(50_000)), ..TopicPatch::default() });
    rig.configure(topic, TopicPatch { retention_ms: Some(Some(300)), ..TopicPatch::default() });
    rig.advance(299);
    assert_eq!(kept(&mut rig, topic), 1);
    rig.advance(1);
    assert_eq!(kept(&mut rig, topic), 0);
    rig.produce_to(topic, &[0]);
    rig.configure(topic, TopicPatch { retention_ms: Some(Some(900)), ..TopicPatch::default() });
    rig.advance(899);
    assert_eq!(kept(&mut rig, topic), 1, "longer, too");
    rig.advance(1);
    assert_eq!(kept(&mut rig, topic), 0);
}

#[test]
fn a_topic_that_exists_otherwise_is_named_by_what_differs() {
    let mut rig = Rig::new(Settings::default());
    let settings = TopicSettings { lease_ms: Some(5), ..TopicSettings::default() };
    rig.topic_with("t", 2, settings);
    let cases = [
        (2, settings, None),
        (3, settings, Some("partitions")),
        (2, TopicSettings { lease_ms: None, ..settings }, Some("lease_ms")),
        (2, TopicSettings { order: driftq_core::Order::Key, ..settings }, Some("ordering")),
        (2, TopicSettings { retry_share: Some(9), ..settings }, Some("retry_share_percent")),
    ];
    for (partitions, settings, difference) in cases {
        for exact in [true, false] {
            let name = "t".to_owned();
            let answer = rig.ask_durably(|ticket| {
                Input::Order(OrderInput::CreateTopic {
                    ticket,
                    name,
                    partitions,
                    settings,
                    tenant: None,
                    exact,
                })
            });
            let expected = match difference.filter(|_| exact) {
                Some(name) => Answer::Rejected(Reject::SettingsDiffer(name)),
                None => Answer::TopicReady { partitions: 2, created: false },
            };
            assert_eq!(answer, expected);
        }
    }
}
