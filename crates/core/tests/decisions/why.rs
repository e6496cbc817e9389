//! Why a message waits, since when and until when; and messages found without a group.

use crate::support::orders::{nack_after, nack_dead, request, spotted};
use crate::support::{Draft, LEASE_MS, Rig, START};
use driftq_core::{
    Answer, Browse, Description, Found, Identity, Input, KeyHash, LeaseRequest, Order, Query, RetryPolicy,
    Settings, Spotted, Stage, Start, Stretch, Time, TopicId, TopicSettings, Wait,
};

fn later(ms: u64) -> Time {
    START.after_ms(ms)
}

/// Settles a scene in which group `g` does not get message 1, ten milliseconds after the start.
type Scene = fn(&mut Rig, TopicId);

#[test]
fn every_reason_to_wait_has_its_name_and_its_times() {
    let scenes: [(Wait, Scene, Time, Option<Time>, Stage); 10] = [
        (Wait::Ready, |_, _| {}, START, None, Stage::Ready),
        (
            Wait::InFlight,
            |rig, topic| drop(rig.lease(topic, 2)),
            later(10),
            Some(later(10 + LEASE_MS)),
            Stage::InFlight,
        ),
        (
            Wait::Done,
            |rig, topic| {
                let leased = rig.lease(topic, 2);
                rig.ack_token(&leased[1]);
            },
            START,
            None,
            Stage::Ready,
        ),
        (
            Wait::Backoff,
            |rig, topic| {
                let leased = rig.lease(topic, 2);
                rig.advance(5);
                rig.settle(&leased[1], nack_after(100));
            },
            later(15),
            Some(later(115)),
            Stage::Backoff,
        ),
        (
            Wait::Dying,
            |rig, topic| {
                let leased = rig.lease(topic, 2);
                rig.settle(&leased[1], nack_dead("poison"));
            },
            later(10),
            None,
            Stage::Ready,
        ),
        (Wait::Paused, |rig, topic| drop(rig.pause(topic, Some("g"), true)), later(10), None, Stage::Ready),
        (Wait::Paused, |rig, topic| drop(rig.pause(topic, None, true)), later(10), None, Stage::Ready),
        (
            Wait::KeyBusy,
            |rig, topic| {
                let order = Some(Order::Key);
                rig.configure(topic, driftq_core::TopicPatch { order, ..Default::default() });
                rig.lease(topic, 2);
            },
            START,
            Some(later(10 + LEASE_MS)),
            Stage::Ready,
        ),
        (
            Wait::SameIdentityRunning,
            |rig, topic| drop(rig.lease(topic, 1)),
            START,
            Some(later(10 + LEASE_MS)),
            Stage::Ready,
        ),
        (
            Wait::WindowFull,
            |rig, topic| {
                let in_flight_max = Some(Some(1));
                rig.configure(topic, driftq_core::TopicPatch { in_flight_max, ..Default::default() });
                rig.lease(topic, 2);
            },
            START,
            None,
            Stage::Ready,
        ),
    ];
    for (wait, scene, since, until, stage) in scenes {
        let mut rig = Rig::new(Settings { idempotency_ttl_ms: 0, ..Settings::default() });
        let topic = rig.topic("t", 1);
        rig.lease(topic, 1);
        rig.lease_as(LeaseRequest { group: "keeper".into(), ..request(topic, 1) });
        let identity = (wait == Wait::SameIdentityRunning).then_some(Identity([1; 16]));
        for _ in 0..2 {
            rig.produce(&Draft { key: KeyHash(5), identity, ..Draft::to(topic) });
        }
        rig.advance(10);
        scene(&mut rig, topic);
        let standing = rig.standing(topic, 1, "g");
        assert_eq!((standing.wait, standing.since, standing.until), (wait, since, until));
        assert_eq!(standing.owner.as_deref(), (wait == Wait::InFlight).then_some("o"), "{wait:?}");
        let found = rig.message_described(spotted(topic, 1)).map(|message| message.found.stage);
        assert_eq!(found, Some(stage), "{wait:?}");
    }
}

#[test]
fn a_scheduled_message_waits_for_its_time_and_then_since_its_time() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    rig.lease(topic, 1);
    rig.produce(&Draft { start: Start::After(50), priority: 4, ..Draft::to(topic) });
    let described = rig.message_described(spotted(topic, 0)).expect("it is kept");
    let Found { due, stage, priority, at, cancelled, .. } = described.found;
    assert_eq!((due, stage, priority, at, cancelled), (Some(later(50)), Stage::Scheduled, 4, START, false));
    let standing = &described.groups[0];
    assert_eq!((standing.wait, standing.since, standing.until), (Wait::Scheduled, START, Some(later(50))));
    rig.advance(80);
    let standing = rig.standing(topic, 0, "g");
    assert_eq!((standing.wait, standing.since, standing.until), (Wait::Ready, later(50), None));
}

#[test]
fn what_was_tried_is_told_with_its_attempts() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    let retry = Some(RetryPolicy {
        max_attempts: 9,
        backoff_ms: 10,
        jitter: driftq_core::Jitter::None,
        ..Default::default()
    });
    rig.produce(&Draft { retry, ..Draft::to(topic) });
    let first = rig.lease(topic, 1).remove(0);
    rig.advance(3);
    rig.settle(&first, crate::support::orders::nack("broken"));
    rig.advance(10);
    rig.lease(topic, 1);
    rig.advance(LEASE_MS);
    let standing = rig.standing(topic, 0, "g");
    assert_eq!((standing.attempts, &*standing.last_error), (2, "broken"));
    let history: Vec<_> =
        standing.history.iter().map(|a| (a.number, &*a.owner, &*a.error, a.leased, a.ended)).collect();
    let expected = [(1, "o", "broken", START, later(3)), (2, "o", "broken", later(13), later(13 + LEASE_MS))];
    assert_eq!(history, expected);
    rig.sync();
    rig.crash();
    assert_eq!(rig.standing(topic, 0, "g").history, standing.history, "also after a restart");
}

fn browse(rig: &mut Rig, browse: Browse) -> Stretch {
    match rig.describe(Query::Browse(browse)) {
        Some(Description::Browse(stretch)) => stretch,
        other => panic!("not a stretch: {other:?}"),
    }
}

fn places(stretch: &Stretch) -> Vec<(u32, u64)> {
    stretch.found.iter().map(|found| (found.partition, found.offset)).collect()
}

#[test]
fn messages_are_found_by_partition_offset_and_key_page_by_page() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 3);
    for n in 0..12_u64 {
        rig.produce(&Draft { key: KeyHash(1 + n % 2), ..Draft::to(topic).partition((n % 3) as u32) });
    }
    rig.remove(vec![Spotted { topic, partition: 0, offset: 3 }]);
    let all = Browse { topic, partition: 0, alone: false, from: 0, limit: 99, key: KeyHash::NONE };
    let expected = [(0, 0), (0, 6), (0, 9), (1, 1), (1, 4), (1, 7), (1, 10), (2, 2), (2, 5), (2, 8), (2, 11)];
    let whole = browse(&mut rig, all.clone());
    assert_eq!((places(&whole), whole.next, whole.scanned), (expected.to_vec(), None, 11));
    // Page by page, in any size, it is the same.
    for limit in 1..6 {
        let (mut found, mut page) = (Vec::new(), Browse { limit, ..all.clone() });
        loop {
            let stretch = browse(&mut rig, page.clone());
            assert!(stretch.found.len() <= limit as usize);
            found.extend(places(&stretch));
            let Some((partition, from)) = stretch.next else { break };
            (page.partition, page.from) = (partition, from);
        }
        assert_eq!(found, expected, "{limit} at a time");
    }
    let some = browse(&mut rig, Browse { partition: 1, alone: true, from: 4, ..all });
    assert_eq!(places(&some), [(1, 4), (1, 7), (1, 10)]);
    let keyed = browse(&mut rig, Browse { key: KeyHash(2), ..all });
    assert_eq!(places(&keyed), [(0, 9), (1, 1), (1, 7), (2, 5), (2, 11)]);
    assert_eq!(places(&browse(&mut rig, Browse { partition: 9, ..all })), []);
    assert_eq!(rig.describe(Query::Browse(Browse { topic: TopicId(9), ..all })), None);
}

#[test]
fn one_question_looks_at_so_many_messages_and_says_where_to_go_on() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    for _ in 0..3 {
        let messages = (0..1000).map(|_| Draft::to(topic).message()).collect();
        rig.ask_durably(|ticket| Input::ProduceMany { ticket, messages });
    }
    rig.produce(&Draft { key: KeyHash(7), ..Draft::to(topic) });
    let query = Browse { topic, partition: 0, alone: false, from: 100, limit: 5, key: KeyHash(7) };
    let first = browse(&mut rig, query.clone());
    assert_eq!((first.found.len(), first.scanned, first.next), (0, 2_000, Some((0, 2_100))));
    let second = browse(&mut rig, Browse { from: 2_100, ..query });
    assert_eq!((places(&second), second.next), (vec![(0, 3_000)], None));
}

#[test]
fn an_identity_leads_to_its_message_as_long_as_it_is_remembered() {
    let mut rig = Rig::new(Settings { idempotency_ttl_ms: 1000, ..Settings::default() });
    let topic = rig.topic_with("t", 2, TopicSettings::default());
    rig.produce_to(topic, &[0]);
    let draft = Draft::to(topic).partition(1).keyed("k");
    rig.produce(&draft);
    let identity = draft.identity.expect("it has one");
    let ask = |rig: &mut Rig, identity| rig.describe(Query::Whereabouts(topic, identity));
    assert_eq!(
        ask(&mut rig, identity),
        Some(Description::Whereabouts(Some(Spotted { topic, partition: 1, offset: 1 })))
    );
    assert_eq!(ask(&mut rig, Identity([9; 16])), Some(Description::Whereabouts(None)));
    rig.advance(1000);
    assert_eq!(ask(&mut rig, identity), Some(Description::Whereabouts(None)));
    assert_eq!(rig.describe(Query::Whereabouts(TopicId(9), identity)), None);
    assert_eq!(
        rig.ask_durably(|ticket| Input::Describe { ticket, query: Query::Message(spotted(TopicId(9), 0)) }),
        Answer::Described(Description::Message(None))
    );
}
