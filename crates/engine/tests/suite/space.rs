//! The log gives back what nobody needs.

use crate::common::{ack_of, at, config, next, reader, restart_killed, soon, start, text, until, value};
use driftq_core::Message;
use driftq_engine::{Broker, Config, Draft, Stream};

const SEGMENT_BYTES: u32 = 64 << 10;

fn small(config: Config) -> Config {
    Config { segment_bytes: SEGMENT_BYTES, snapshot_every_bytes: 3 * u64::from(SEGMENT_BYTES), ..config }
}

/// Stores, reads and acks `count` messages of about eight kilobytes.
async fn work(broker: &Broker, stream: &mut Stream, count: u64) {
    for n in 0..count {
        let message = Message { value: format!("{n:08000}").into_bytes().into(), ..Message::default() };
        soon(broker.produce("t", message)).await.unwrap();
        let delivered = next(stream).await;
        soon(broker.ack(ack_of("t", "g", &delivered))).await.unwrap();
    }
}

async fn bounded(config: Config) {
    let broker = start(small(config));
    broker.create_topic("t", 1).await.unwrap();
    let mut stream = broker.consume(reader("t", "g")).await.unwrap();
    let mut most = 0;
    for _ in 0..10 {
        work(&broker, &mut stream, 50).await;
        most = most.max(broker.counters().segments);
    }
    let counters = broker.counters();
    assert!(counters.written_bytes > 30 * u64::from(SEGMENT_BYTES));
    assert!(counters.snapshots > 3 && counters.segments_dropped > 20, "{counters:?}");
    assert!(most < 20, "{most} segments");
    drop(stream);
    soon(broker.stop()).await;
}

#[tokio::test]
async fn endless_work_takes_bounded_space_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    bounded(at(dir.path())).await;
}

#[tokio::test]
async fn endless_work_takes_bounded_space_in_memory() {
    bounded(config()).await;
}

#[tokio::test]
async fn one_old_message_does_not_keep_its_segment() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(small(at(dir.path())));
    broker.create_topic("t", 1).await.unwrap();
    broker.create_topic("old", 1).await.unwrap();
    broker.produce("old", text("precious")).await.unwrap();
    let mut stream = broker.consume(reader("t", "g")).await.unwrap();
    let first_segment = dir.path().join("seg-00000001.log");
    assert!(first_segment.exists());
    until("the segment is gone although its message lives", async || {
        work(&broker, &mut stream, 10).await;
        !first_segment.exists()
    })
    .await;
    assert!(broker.counters().relocated >= 1);
    let mut old = broker.consume(reader("old", "g")).await.unwrap();
    assert_eq!(value(&next(&mut old).await), "precious");

    let (_image, restarted) = restart_killed(dir.path()).await;
    assert!(restarted.recovery.snapshot_at.is_some());
    let mut old = restarted.broker.consume(reader("old", "other")).await.unwrap();
    assert_eq!(value(&next(&mut old).await), "precious");
}

/// To make a snapshot takes as long as the state is large. It must not be made over and over because of little.
#[tokio::test]
async fn a_large_snapshot_is_made_only_after_as_much_log() {
    const SMALL: usize = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let broker = start(small(at(dir.path())));
    broker.create_topic("t", 1).await.unwrap();
    broker.create_topic("unread", 1).await.unwrap();
    let fill = async || {
        let drafts = (0..SMALL / 20).map(|_| Draft { message: text("x"), ..Draft::default() }).collect();
        for stored in soon(broker.produce_many("unread", drafts)).await {
            stored.unwrap();
        }
    };
    for _ in 0..20 {
        fill().await;
    }
    let size = || {
        let snapshots = std::fs::read_dir(dir.path()).unwrap().flatten();
        let snapshots = snapshots.filter(|entry| entry.path().extension().is_some_and(|end| end == "snap"));
        snapshots.map(|entry| entry.metadata().map_or(0, |data| data.len())).max().unwrap_or(0)
    };
    // The one that is under way may know only the first of them.
    let every = small(config()).snapshot_every_bytes;
    until("a snapshot of all of them is made", async || {
        fill().await;
        size() > 3 * every
    })
    .await;
    // Its file may be there before it is counted; when another one has been counted, it has been, too.
    let before = broker.counters().snapshots;
    until("another one is made", async || {
        fill().await;
        broker.counters().snapshots > before
    })
    .await;
    let (size, counters) = (size(), broker.counters());
    let mut stream = broker.consume(reader("t", "g")).await.unwrap();
    let written = || broker.counters().written_bytes - counters.written_bytes;
    while written() < 3 * size {
        work(&broker, &mut stream, 20).await;
    }
    let made = broker.counters().snapshots - counters.snapshots;
    assert!((1..=3).contains(&made), "{made} snapshots of {size} bytes in {} bytes of log", written());
}

#[tokio::test]
async fn a_snapshot_made_while_running_shortens_the_replay() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(small(at(dir.path())));
    broker.create_topic("t", 1).await.unwrap();
    let mut sent = 0_u64;
    until("a snapshot is made", async || {
        for _ in 0..50 {
            soon(broker.produce("t", text(&"x".repeat(500)))).await.unwrap();
            sent += 1;
        }
        broker.counters().snapshots > 0
    })
    .await;
    let replay = broker.counters().written_bytes;
    let (_image, restarted) = restart_killed(dir.path()).await;
    assert_eq!(restarted.recovery.messages, sent);
    assert!(restarted.recovery.replayed_bytes < replay, "{:?}", restarted.recovery);
}
