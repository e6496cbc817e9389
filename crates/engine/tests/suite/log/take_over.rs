//! Two servers on one log, whatever engine keeps it.

use std::collections::BTreeSet;
use std::sync::Barrier;

use driftq_core::{Settlement, Verdict};
use driftq_engine::cluster::Seat;
use driftq_engine::{Broker, CommitCall, Config, Draft, Failure, LeaseCall, StartError, Storage};

use crate::common::{ack_of, config, next, reader, soon, text, until, value};

/// How often nothing is there yet.
const FIRST_STARTS: usize = 5;
const SERVERS_AT_ONCE: usize = 8;
/// Batches of one message each.
const SMALL_BATCHES: usize = 200;

async fn started(storage: &Storage) -> Broker {
    with_shards(storage, 0).await.unwrap()
}

async fn with_shards(storage: &Storage, shards: u8) -> Result<Broker, StartError> {
    let config = Config { storage: storage.clone(), shards, ..config() };
    let starting = tokio::task::spawn_blocking(move || Broker::start(config));
    soon(starting).await.unwrap().map(|started| started.broker)
}

/// The first server is not rebuilt over and over: it says who has the log, and stays down.
pub(crate) async fn a_second_server_takes_over_and_the_first_steps_down(storage: Storage) {
    let first = started(&storage).await;
    first.create_topic("t", 1).await.unwrap();
    for n in 0..50 {
        soon(first.produce("t", text(&n.to_string()))).await.unwrap();
    }
    let second = started(&storage).await;
    let refused = soon(first.produce("t", text("lost"))).await;
    let Err(Failure::Unavailable(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("taken over"), "{why}");
    until("the first is down", async || !first.status().ready).await;
    let status = first.status();
    assert!(status.why.as_ref().is_some_and(|why| why.contains("taken over")), "{status:?}");
    soon(second.produce("t", text("50"))).await.unwrap();
    let refused = soon(first.produce("t", text("lost"))).await;
    assert!(matches!(refused, Err(Failure::Unavailable(_))), "{refused:?}");
    assert_eq!((first.counters().rebuilds, second.status().epoch), (0, 2));
    soon(first.stop()).await;
    soon(second.stop()).await;
    let third = started(&storage).await;
    let mut stream = third.consume(reader("t", "g")).await.unwrap();
    for n in 0..=50 {
        let delivered = next(&mut stream).await;
        assert_eq!(value(&delivered), n.to_string());
        soon(third.ack(ack_of("t", "g", &delivered))).await.unwrap();
    }
    drop(stream);
    soon(third.stop()).await;
}

/// A message of a topic, on loan for long.
async fn one_leased(broker: &Broker, topic: &str) -> driftq_engine::Delivered {
    let call = LeaseCall {
        topic: topic.into(),
        group: "g".into(),
        owner: "me".into(),
        max: 1,
        lease_ms: Some(600_000),
        wait_ms: 10_000,
        request_id: None,
    };
    soon(broker.lease(call)).await.unwrap().remove(0)
}

/// All shards are taken over together, with what was on its way between them.
pub(crate) async fn several_shards_are_kept_and_taken_over(storage: Storage) {
    let first = with_shards(&storage, 3).await.unwrap();
    let topics: Vec<String> = (0..9).map(|n| format!("t{n}")).collect();
    for topic in &topics {
        first.create_topic(topic, 1).await.unwrap();
    }
    let shard = |topic: &String| first.topic_number(topic).unwrap().shard();
    assert_eq!(topics.iter().map(shard).collect::<BTreeSet<_>>().len(), 3);
    soon(first.produce(&topics[0], text("hop"))).await.unwrap();
    // From topic to topic, and so from shard to shard.
    for (from, to) in topics.iter().zip(&topics[1..]) {
        let delivered = one_leased(&first, from).await;
        let message = Draft { message: text("hop"), ..Draft::default() };
        let commit = CommitCall {
            acks: vec![delivered.receipt],
            messages: vec![(to.as_str().into(), message)],
            ..CommitCall::default()
        };
        soon(first.commit(commit)).await.unwrap();
    }
    let held = one_leased(&first, &topics[8]).await;
    let token = first.token(&held.receipt);

    let second = started(&storage).await;
    assert_eq!(second.shard_count(), 3);
    for topic in &topics {
        let refused = soon(first.produce(topic, text("lost"))).await;
        assert!(matches!(refused, Err(Failure::Unavailable(_))), "{topic}: {refused:?}");
        soon(second.produce(topic, text("late"))).await.unwrap();
    }
    // What is on loan stays so: its holder settles it at the next server.
    let receipt = second.receipt(&token).unwrap();
    let settled = second.settle(vec![Settlement { receipt, verdict: Verdict::Ack }]).await.unwrap();
    assert_eq!(settled, [driftq_core::Outcome::Ok]);
    soon(first.stop()).await;
    soon(second.stop()).await;
    let fewer = with_shards(&storage, 2).await.map(drop).unwrap_err();
    assert!(matches!(fewer, StartError::Shards { found: 3, wanted: 2, .. }), "{fewer}");
    let third = with_shards(&storage, 4).await.unwrap();
    assert_eq!(third.shard_count(), 4);
    for topic in &topics {
        assert_eq!(value(&one_leased(&third, topic).await), "late");
    }
    soon(third.stop()).await;
}

/// A server that takes over reads every batch behind the snapshot: many small ones take long, though they are few bytes.
pub(crate) async fn many_small_batches_are_folded_as_many_bytes_are(storage: Storage) {
    const EVERY_BYTES: u64 = 256 << 10;
    let config = Config { storage, snapshot_every_bytes: EVERY_BYTES, ..config() };
    let broker = tokio::task::spawn_blocking(move || Broker::start(config)).await.unwrap().unwrap().broker;
    broker.create_topic("t", 1).await.unwrap();
    for n in 0..SMALL_BATCHES {
        soon(broker.produce("t", text(&n.to_string()))).await.unwrap();
    }
    assert!(broker.counters().written_bytes < EVERY_BYTES / 2, "{:?}", broker.counters());
    until("a snapshot was made", async || broker.counters().snapshots > 0).await;
    soon(broker.stop()).await;
}

/// Several servers of a cluster that are started at once, where nothing is yet: one makes what is missing, and all of them
/// take part in the same cluster.
pub(crate) fn servers_may_begin_at_once(storage: impl Fn() -> Storage) {
    for _ in 0..FIRST_STARTS {
        let (storage, barrier) = (storage(), Barrier::new(SERVERS_AT_ONCE));
        let begin = |number: usize| {
            barrier.wait();
            Seat::keep(&storage, &format!("http://127.0.0.1:{number}"))
        };
        let seats: Vec<Seat> = std::thread::scope(|scope| {
            let begin = &begin;
            let begun: Vec<_> =
                (1..=SERVERS_AT_ONCE).map(|number| scope.spawn(move || begin(number))).collect();
            begun.into_iter().map(|begun| begun.join().unwrap().unwrap()).collect()
        });
        let signature = seats[0].sign("hello");
        assert!(seats.iter().all(|seat| seat.is_signed("hello", &signature)), "they know the same secret");
    }
}
