//! The way of a message through the broker, and what survives a restart.

use crate::common::{
    ack_of, at, config, crash_image, keyed, leased, next, reader, soon, start, start_at, text, value,
};
use driftq_core::Reject;
use driftq_engine::{Broker, Config, Failure, StartError, WriteMode};

async fn round_trip(config: Config) {
    let broker = start(config);
    let ready = broker.create_topic("orders", 3).await.unwrap();
    assert_eq!((ready.partitions, ready.created), (3, true));
    let again = broker.create_topic("orders", 7).await.unwrap();
    assert_eq!((again.partitions, again.created), (3, false));
    broker.create_topic("a", 1).await.unwrap();
    assert_eq!(broker.topics(), ["a", "orders"]);

    let mut stream = broker.consume(reader("a", "g")).await.unwrap();
    for n in 0..5 {
        let produced = broker.produce("a", text(&n.to_string())).await.unwrap();
        assert_eq!((produced.offset, produced.duplicate), (n, false));
        let delivered = next(&mut stream).await;
        assert_eq!((value(&delivered), delivered.attempt), (n.to_string(), 1));
        broker.ack(ack_of("a", "g", &delivered)).await.unwrap();
    }
    let described = broker.describe_topic("a").await.unwrap();
    assert_eq!((described.next_offset, described.partitions[0].messages), (5, 0));
    let groups = broker.describe_groups("a", Some("g")).await.unwrap();
    assert_eq!((groups.len(), groups[0].consumers), (1, 1));
    let counters = broker.counters();
    assert_eq!((counters.produced, counters.delivered, counters.acked), (5, 5, 5));
    assert!(counters.syncs > 0 && counters.cache_hits >= 5);
    drop(stream);
    soon(broker.stop()).await;
}

#[tokio::test]
async fn a_message_goes_round_in_memory() {
    round_trip(config()).await;
}

#[tokio::test]
async fn a_message_goes_round_on_disk_whoever_writes_the_batches() {
    for commit in [WriteMode::Thread, WriteMode::Inline, WriteMode::Adaptive] {
        let dir = tempfile::tempdir().unwrap();
        round_trip(Config { commit, ..at(dir.path()) }).await;
    }
}

#[tokio::test]
async fn a_nacked_message_comes_back_with_its_reason() {
    let broker = start(config());
    broker.create_topic("t", 1).await.unwrap();
    broker.produce("t", text("x")).await.unwrap();
    let mut stream = broker.consume(reader("t", "g")).await.unwrap();
    let first = next(&mut stream).await;
    broker.nack(ack_of("t", "g", &first), "boom".into()).await.unwrap();
    let second = next(&mut stream).await;
    assert_eq!((second.offset, second.attempt, &*second.last_error), (first.offset, 2, "boom"));
    let wrong = driftq_engine::AckRequest { owner: "somebody else".into(), ..ack_of("t", "g", &second) };
    assert_eq!(broker.ack(wrong).await, Err(Failure::Reject(Reject::NotOwner)));
}

#[tokio::test]
async fn a_lapsed_lease_comes_back_by_itself() {
    let broker = start(config());
    broker.create_topic("t", 1).await.unwrap();
    broker.produce("t", text("x")).await.unwrap();
    let mut stream = broker.consume(leased("t", "g", 20)).await.unwrap();
    let first = next(&mut stream).await;
    let second = next(&mut stream).await;
    assert_eq!((first.attempt, second.attempt), (1, 2));
    assert!(second.expires > first.expires);
}

#[tokio::test]
async fn refusals_say_why() {
    let broker = start(Config { message_bytes_max: 1000, ..config() });
    let unknown = Err(Failure::Reject(Reject::TopicUnknown));
    assert_eq!(broker.produce("none", text("x")).await.map(drop), unknown);
    assert_eq!(broker.consume(reader("none", "g")).await.map(drop), unknown);
    broker.create_topic("t", 1).await.unwrap();
    let large = "x".repeat(2000);
    let refused = broker.produce("t", text(&large)).await;
    assert!(matches!(refused, Err(Failure::Reject(Reject::Invalid(_)))));
    let refused = broker.consume(leased("t", "g", 0)).await.map(drop);
    assert!(matches!(refused, Err(Failure::Reject(Reject::Invalid(_)))));
    assert_eq!(broker.counters().streams, 0);
}

#[tokio::test]
async fn an_idempotency_key_is_stored_once() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start_at(dir.path()).broker;
    broker.create_topic("t", 1).await.unwrap();
    let first = broker.produce("t", keyed("x", "once")).await.unwrap();
    let image = crash_image(dir.path());
    let broker = start_at(image.path()).broker;
    let second = broker.produce("t", keyed("y", "once")).await.unwrap();
    assert_eq!((second.offset, second.duplicate), (first.offset, true));
    assert_eq!(broker.describe_topic("t").await.unwrap().partitions[0].messages, 1);
}

#[tokio::test]
async fn a_killed_broker_loses_nothing_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start_at(dir.path()).broker;
    broker.create_topic("t", 1).await.unwrap();
    broker.create_topic("empty", 5).await.unwrap();
    for n in 0..2 {
        broker.produce("t", text(&n.to_string())).await.unwrap();
    }
    let mut stream = broker.consume(reader("t", "g")).await.unwrap();
    let (zero, one) = (next(&mut stream).await, next(&mut stream).await);
    broker.ack(ack_of("t", "g", &one)).await.unwrap();

    let image = crash_image(dir.path());
    let restarted = start_at(image.path());
    assert_eq!((restarted.recovery.topics, restarted.recovery.groups, restarted.recovery.epoch), (2, 1, 2));
    assert!(restarted.recovery.replayed_bytes > 0 && restarted.recovery.truncated.is_none());
    let broker = restarted.broker;
    assert_eq!(broker.create_topic("empty", 1).await.unwrap().partitions, 5);
    assert_eq!(value(&zero), "0");
    // Its lease outlived the broker, and so did the right of its reader to settle it.
    broker.ack(ack_of("t", "g", &zero)).await.unwrap();
    let groups = broker.describe_groups("t", None).await.unwrap();
    assert_eq!(groups[0].partitions[0].lag, 0, "the acked one does not come back");
}

#[tokio::test]
async fn a_graceful_stop_leaves_nothing_to_replay() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start_at(dir.path()).broker;
    broker.create_topic("t", 2).await.unwrap();
    for n in 0..100 {
        broker.produce("t", text(&n.to_string())).await.unwrap();
    }
    let mut stream = broker.consume(reader("t", "g")).await.unwrap();
    let written = next(&mut stream).await;
    let unwritten = soon(stream.next()).await.unwrap();
    broker.begin_stop();
    assert_eq!(soon(stream.next()).await, None, "streams end when the stop begins");
    drop(stream);
    soon(broker.stop()).await;

    let restarted = start_at(dir.path());
    let recovery = &restarted.recovery;
    assert_eq!((recovery.messages, recovery.replayed_batches), (100, 0));
    assert!(recovery.snapshot_at.is_some());
    let broker = restarted.broker;
    let mut stream = broker.consume(reader("t", "g")).await.unwrap();
    let delivered = next(&mut stream).await;
    assert_eq!(
        (delivered.offset, delivered.attempt),
        (unwritten.offset, 1),
        "what was not written out was given back; what was stays on loan"
    );
    broker.ack(ack_of("t", "g", &written)).await.expect("its lease outlived the broker");
}

#[tokio::test]
async fn requests_after_the_stop_are_turned_away() {
    let broker = start(config());
    broker.create_topic("t", 1).await.unwrap();
    let other = broker.clone();
    soon(broker.stop()).await;
    assert!(matches!(other.produce("t", text("x")).await, Err(Failure::Unavailable(_))));
    assert!(matches!(other.consume(reader("t", "g")).await.map(drop), Err(Failure::Unavailable(_))));
    assert!(!other.status().ready);
}

#[tokio::test]
async fn a_directory_belongs_to_one_broker() {
    let dir = tempfile::tempdir().unwrap();
    let first = start_at(dir.path()).broker;
    assert!(first.status().ready && first.status().durable);
    let second = Broker::start(at(dir.path())).map(drop);
    assert!(matches!(second, Err(StartError::Locked { .. })), "{second:?}");
    soon(first.stop()).await;
    let third = start_at(dir.path());
    assert_eq!(third.broker.status().epoch, 2);
}

#[tokio::test]
async fn ten_thousand_topics_are_no_trouble() {
    let broker = start(config());
    let begun = tokio::time::Instant::now();
    for n in 0..10_000 {
        broker.create_topic(&format!("topic-{n}"), 1).await.unwrap();
    }
    assert!(begun.elapsed() < crate::common::PATIENCE);
    assert_eq!(broker.topics().len(), 10_000);
    assert_eq!(broker.produce("topic-9999", text("x")).await.unwrap().offset, 0);
}
