//! Deadlines are exact, and handling them is bounded.

use crate::support::deeds::at;
use crate::support::{Draft, LEASE_MS, Rig};
use driftq_core::{Input, RetryPolicy, Settings, Time, TopicId};

#[test]
fn the_next_deadline_is_the_first_thing_that_is_due() {
    let settings = Settings {
        group_expiry_ms: 1_000_000,
        idempotency_ttl_ms: 50_000,
        retention_ms: Some(400_000),
        ..Settings::default()
    };
    let mut rig = Rig::new(settings);
    let start = rig.now;
    let due = |rig: &Rig| rig.shard.next_deadline().map(|due| due.since_ms(start));
    assert_eq!(due(&rig), None, "an empty shard waits for nothing");
    let topic = rig.topic("t", 1);
    assert_eq!(due(&rig), None);
    rig.subscribe(topic, "g", "o", 1);
    assert_eq!(due(&rig), Some(1_000_000), "the group");
    rig.advance(5);
    let backoff =
        RetryPolicy { max_attempts: 3, backoff_ms: 4000, max_backoff_ms: 0, ..RetryPolicy::default() };
    rig.produce(&Draft { retry: Some(backoff), ..Draft::to(topic).keyed("k") });
    assert_eq!(due(&rig), Some(5 + LEASE_MS), "the lease");
    rig.advance(10);
    rig.nack(&at(topic, 0), "o", "why");
    let retry = due(&rig).expect("a retry");
    assert!((15 + 2000..=15 + 4000).contains(&retry), "{retry}");
    rig.advance(5000);
    assert_eq!(due(&rig), Some(5 + 50_000 + 10_000), "the produce gate, as nobody takes the retry");
    rig.advance(60_000);
    assert_eq!(due(&rig), Some(5 + 400_000), "retention");
    rig.advance(400_000);
    assert_eq!(due(&rig), Some(1_000_000), "the group");
    rig.advance(1_000_000);
    assert_eq!(due(&rig), None, "it has a reader, so there is nothing to wait for");
}

#[test]
fn settling_takes_the_deadline_back() {
    type End = fn(&mut Rig, TopicId, driftq_core::Receipt);
    let ends: [(&str, End); 3] = [
        ("ack", |rig, topic, _| drop(rig.ack(&at(topic, 0), "o"))),
        ("release", |rig, _, receipt| rig.release(&[receipt])),
        ("late ack", |rig, topic, _| {
            rig.advance(LEASE_MS);
            rig.ack(&at(topic, 0), "o");
        }),
    ];
    for (name, end) in ends {
        let mut rig = Rig::new(Settings::default());
        let topic = rig.topic("t", 1);
        rig.subscribe(topic, "g", "o", 1);
        let group = rig.shard.next_deadline();
        rig.produce(&Draft {
            retry: Some(RetryPolicy {
                max_attempts: 9,
                backoff_ms: 5000,
                max_backoff_ms: 0,
                ..RetryPolicy::default()
            }),
            ..Draft::to(topic)
        });
        assert_ne!(rig.shard.next_deadline(), group);
        let (_, delivery) = rig.deliveries().remove(0);
        end(&mut rig, topic, delivery.receipt);
        assert_eq!(rig.shard.next_deadline(), group, "{name}");
    }
}

#[test]
fn a_tick_before_its_time_does_nothing() {
    let mut rig = Rig::new(Settings { retention_ms: Some(90_000), ..Settings::default() });
    let topic = rig.topic("t", 1);
    rig.subscribe(topic, "g", "o", 1);
    rig.produce(&Draft::to(topic).keyed("k"));
    rig.deliveries();
    rig.sync();
    let mark = rig.write();
    let due = rig.shard.next_deadline();
    for _ in 0..3 {
        rig.tell(Input::Tick);
    }
    rig.now = Time(due.expect("a lease is out").0 - 1);
    rig.tell(Input::Tick);
    assert_eq!((rig.write(), rig.shard.next_deadline()), (mark, due));
    assert_eq!(rig.actions, []);
}

#[test]
fn a_tick_is_bounded_and_the_rest_is_due_at_once() {
    let mut rig = Rig::new(Settings { in_flight_max: 9999, ..Settings::default() });
    let topic = rig.topic("t", 1);
    let reader = rig.subscribe(topic, "g", "o", 1000);
    for _ in 0..1000 {
        let message = Draft::to(topic).message();
        rig.ask(|ticket| Input::Produce { ticket, message });
    }
    rig.sync();
    assert_eq!(rig.offsets().len(), 1000);
    rig.sync();
    rig.tell(Input::Unsubscribe { consumer: reader });
    rig.now = rig.now.after_ms(LEASE_MS * 5);
    let mut counts = Vec::new();
    while rig.shard.next_deadline().is_some_and(|due| due <= rig.now) {
        let mark = rig.write();
        rig.tell(Input::Tick);
        rig.write();
        counts.push(rig.facts_since(mark).len());
        assert!(counts.len() < 100, "ticks make progress");
    }
    assert_eq!(counts.iter().sum::<usize>(), 1000);
    assert!(counts.iter().all(|count| *count <= 256), "{counts:?}");
    rig.subscribe(topic, "g", "o", 9999);
    assert_eq!(rig.delivered().len(), 1000, "and nothing was forgotten on the way");
}

#[test]
fn a_clock_that_was_set_back_between_two_runs_holds_nothing_for_years() {
    const DAY_MS: u64 = 24 * 60 * 60 * 1000;
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    rig.advance(9999 * DAY_MS);
    rig.subscribe(topic, "g", "o", 1);
    let backoff =
        RetryPolicy { max_attempts: 3, backoff_ms: 1000, max_backoff_ms: 0, ..RetryPolicy::default() };
    rig.produce(&Draft { retry: Some(backoff), ..Draft::to(topic) });
    rig.nack(&at(topic, 0), "o", "why");
    rig.deliveries();
    rig.now = crate::support::START;
    rig.crash();
    rig.subscribe(topic, "g", "o", 1);
    assert_eq!(rig.delivered(), [], "it goes on waiting");
    rig.advance(DAY_MS);
    assert_eq!(rig.delivered(), [(0, 0, 2)], "but no longer than any message waits");
}

#[test]
#[should_panic(expected = "never goes back")]
fn the_clock_never_goes_back() {
    let mut rig = Rig::new(Settings::default());
    rig.now = Time(rig.now.0 - 1);
    rig.tell(Input::Tick);
}
