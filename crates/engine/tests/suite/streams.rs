//! Readers that stall, leave or give up.

use std::time::Duration;

use crate::common::{
    ack_of, at, config, keyed, leased, mortal, next, reader, soon, start, text, until, value,
};
use driftq_core::Message;
use driftq_engine::{Broker, Config};

/// Many deliveries at once, so that only the credit holds a stream back.
fn wide() -> Config {
    let mut config = Config { stream_credit: 4, ..config() };
    config.settings.in_flight_max = 1_000;
    config
}

async fn filled(config: Config, messages: u64) -> Broker {
    let broker = start(config);
    broker.create_topic("t", 1).await.unwrap();
    for n in 0..messages {
        broker.produce("t", text(&n.to_string())).await.unwrap();
    }
    broker
}

async fn in_flight(broker: &Broker, group: &str) -> u32 {
    broker.describe_groups("t", Some(group)).await.unwrap()[0].partitions[0].in_flight
}

#[tokio::test]
async fn a_stalled_reader_holds_its_credit_and_nobody_else() {
    let broker = filled(wide(), 50).await;
    let stalled = broker.consume(reader("t", "slow")).await.unwrap();
    let mut quick = broker.consume(reader("t", "quick")).await.unwrap();
    for n in 0..50 {
        let delivered = next(&mut quick).await;
        assert_eq!(value(&delivered), n.to_string());
        broker.ack(ack_of("t", "quick", &delivered)).await.unwrap();
    }
    assert_eq!(in_flight(&broker, "slow").await, 4, "no more than the credit is under way");
    // A second reader of the same group gets what the stalled one has no credit for.
    let mut helper = broker.consume(reader("t", "slow")).await.unwrap();
    assert_eq!(value(&next(&mut helper).await), "4");
    drop(stalled);
    let mut seen: Vec<u64> = Vec::new();
    for _ in 0..49 {
        seen.push(next(&mut helper).await.offset);
    }
    seen.sort_unstable();
    assert!(seen.iter().copied().eq((0..4).chain(5..50)), "{seen:?}");
}

#[tokio::test]
async fn what_never_reached_a_reader_uses_no_attempt() {
    let broker = filled(wide(), 4).await;
    let mut first = broker.consume(reader("t", "g")).await.unwrap();
    let written = next(&mut first).await;
    let handed_out = soon(first.next()).await.unwrap();
    assert_eq!((written.offset, handed_out.offset), (0, 1));
    drop(first);
    let mut second = broker.consume(reader("t", "g")).await.unwrap();
    for offset in 1..4 {
        let delivered = next(&mut second).await;
        assert_eq!((delivered.offset, delivered.attempt), (offset, 1));
    }
    assert_eq!(in_flight(&broker, "g").await, 4, "the one that was written stays on loan");
    until("three deliveries were given back", async || broker.counters().released == 3).await;
}

#[tokio::test]
async fn giving_up_while_subscribing_leaves_no_reader_behind() {
    let broker = filled(wide(), 1).await;
    for _ in 0..100 {
        let asked = tokio::time::timeout(Duration::ZERO, broker.consume(reader("t", "g"))).await;
        drop(asked);
    }
    until("no stream is left", async || broker.counters().streams == 0).await;
    let mut stream = broker.consume(reader("t", "g")).await.unwrap();
    let delivered = next(&mut stream).await;
    assert_eq!(delivered.attempt, 1);
    assert_eq!(broker.describe_groups("t", Some("g")).await.unwrap()[0].consumers, 1);
}

#[tokio::test]
async fn a_cancelled_wait_loses_nothing() {
    let broker = filled(wide(), 20).await;
    let mut stream = broker.consume(reader("t", "g")).await.unwrap();
    let mut offset = 0;
    while offset < 20 {
        // Polled once and dropped, over and over.
        if let Ok(Some(delivered)) = tokio::time::timeout(Duration::ZERO, stream.next()).await {
            assert_eq!((delivered.offset, delivered.attempt), (offset, 1));
            stream.written();
            offset += 1;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_delivery_whose_lease_lapsed_in_the_queue_is_not_handed_out() {
    let broker = filled(wide(), 1).await;
    let mut idle = broker.consume(leased("t", "g", 30)).await.unwrap();
    until("the lease lapsed", async || {
        let group = &broker.describe_groups("t", Some("g")).await.unwrap()[0];
        group.partitions[0].in_flight == 1 && broker.counters().requests > 0
    })
    .await;
    tokio::time::sleep(Duration::from_millis(40)).await;
    let delivered = next(&mut idle).await;
    assert!(delivered.attempt > 1, "the first attempt lapsed before it was handed out");
}

#[tokio::test]
async fn a_hopeless_message_becomes_a_dead_letter() {
    for on_disk in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        // A cache without room: the dead-letter writer has to read the log.
        let broker =
            start(Config { payload_cache_bytes: 0, ..if on_disk { at(dir.path()) } else { config() } });
        broker.create_topic("t", 1).await.unwrap();
        broker.produce("t", mortal("x", 2)).await.unwrap();
        let mut stream = broker.consume(reader("t", "g")).await.unwrap();
        for reason in ["first", "second"] {
            let delivered = next(&mut stream).await;
            broker.nack(ack_of("t", "g", &delivered), reason.into()).await.unwrap();
        }
        until("the dead-letter topic appears", async || broker.topics().contains(&"dlq.t".to_owned())).await;
        let mut dead = broker.consume(reader("dlq.t", "g")).await.unwrap();
        let letter = next(&mut dead).await;
        let message = Message::decode(&letter.payload).unwrap();
        let about = message.envelope.unwrap().dead_letter.unwrap();
        assert_eq!((&*message.value, &*about.topic, &*about.group), (&b"x"[..], "t", "g"));
        assert_eq!((about.attempts, &*about.last_error), (2, "second"));
        assert_eq!(broker.counters().buried, 1);
        assert!(broker.counters().cache_misses > 0);
    }
}

#[tokio::test]
async fn old_messages_are_read_from_the_log_in_long_stretches() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config { payload_cache_bytes: 0, ..at(dir.path()) };
    config.settings.in_flight_max = 1_000;
    let broker = filled(config, 500).await;
    let mut stream = broker.consume(reader("t", "g")).await.unwrap();
    for n in 0..500 {
        assert_eq!(value(&next(&mut stream).await), n.to_string());
    }
    let counters = broker.counters();
    assert!(counters.cache_misses < 50, "{} reads of the log", counters.cache_misses);
}

#[tokio::test]
async fn keyed_work_is_not_repeated_for_a_group() {
    let broker = start(config());
    broker.create_topic("t", 1).await.unwrap();
    broker.produce("t", keyed("x", "once")).await.unwrap();
    let mut stream = broker.consume(reader("t", "g")).await.unwrap();
    let delivered = next(&mut stream).await;
    broker.ack(ack_of("t", "g", &delivered)).await.unwrap();
    assert!(broker.produce("t", keyed("x", "once")).await.unwrap().duplicate);
    assert_eq!(broker.tally().await.unwrap().idempotency_records, 2);
}
