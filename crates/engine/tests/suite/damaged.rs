//! Messages and dead letters whose bytes are not those that were stored, and a shard that is not there.

use crate::common::{at, mortal, next, reader, soon, start, text, until, value};
use driftq_engine::{
    AckRequest, Broker, CommitCall, Config, Draft, Job, JobCall, JobKind, JobState, LeaseCall, LetterFilter,
};

fn call(kind: JobKind, filter: LetterFilter) -> JobCall {
    JobCall {
        kind,
        topic: "t".into(),
        filter,
        rate_per_second: None,
        dry_run: false,
        target_topic: None,
        request_key: None,
    }
}

async fn done(broker: &Broker, call: JobCall) -> Job {
    let job = broker.start_job(call).await.unwrap();
    until("the job ends", async || broker.job(job.id).unwrap().state != JobState::Running).await;
    broker.job(job.id).unwrap()
}

async fn letters(broker: &Broker) -> u64 {
    broker.describe_topic("dlq.t").await.map_or(0, |topic| topic.partitions[0].messages)
}

/// Overwrites the last place in the log in which `text` stands.
fn damage(dir: &std::path::Path, text: &[u8]) {
    let path = dir.join("seg-00000001.log");
    let bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(text.len()).rposition(|window| window == text).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"#", at as u64).unwrap();
}

#[tokio::test]
async fn a_damaged_letter_is_refused_once_and_purged_by_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(Config { payload_cache_bytes: 0, ..at(dir.path()) });
    broker.create_topic("t", 1).await.unwrap();
    for value in ["to be damaged", "unharmed"] {
        broker.produce("t", mortal(value, 1)).await.unwrap();
    }
    let mut stream = broker.consume(reader("t", "g")).await.unwrap();
    for _ in 0..2 {
        let delivered = next(&mut stream).await;
        let request = AckRequest {
            topic: "t".into(),
            group: "g".into(),
            partition: 0,
            offset: delivered.offset,
            owner: "me".into(),
        };
        broker.nack(request, "no use".into()).await.unwrap();
    }
    until("both are dead", async || letters(&broker).await == 2).await;
    broker.produce("t", text("something behind them")).await.unwrap();
    damage(dir.path(), b"to be damaged");

    let redriven = done(&broker, call(JobKind::Redrive, LetterFilter::default())).await;
    assert_eq!((redriven.state, redriven.done, redriven.failed), (JobState::Done, 1, 1), "{redriven:?}");
    assert!(redriven.error.as_ref().unwrap().contains("damaged"), "{redriven:?}");
    assert_eq!(letters(&broker).await, 1);

    // What nothing is known of does not meet a condition.
    let of_group = LetterFilter { group: Some("g".into()), ..LetterFilter::default() };
    assert_eq!(done(&broker, call(JobKind::Purge, of_group)).await.matched, 0);
    let place = LetterFilter { letters: vec![(0, 0)], ..LetterFilter::default() };
    let purged = done(&broker, call(JobKind::Purge, place)).await;
    assert_eq!((purged.matched, purged.done, letters(&broker).await), (1, 1, 0), "{purged:?}");
}

/// It is never delivered, and nobody waits for it: it becomes a dead letter that says where the damage is.
#[tokio::test]
async fn a_damaged_message_becomes_a_dead_letter_without_a_value() {
    for streamed in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config { payload_cache_bytes: 0, ..at(dir.path()) };
        // The damaged one would keep the other from being lent.
        config.settings.in_flight_max = 1;
        let broker = start(config);
        broker.create_topic("t", 1).await.unwrap();
        broker.produce("t", text("to be damaged")).await.unwrap();
        broker.produce("t", text("unharmed")).await.unwrap();
        damage(dir.path(), b"to be damaged");

        let delivered = if streamed {
            let mut stream = broker.consume(reader("t", "g")).await.unwrap();
            next(&mut stream).await
        } else {
            let call = LeaseCall {
                topic: "t".into(),
                group: "g".into(),
                owner: "o".into(),
                max: 1,
                lease_ms: None,
                wait_ms: 20_000,
                request_id: None,
            };
            // The first call finds the damage.
            let mut lent = Vec::new();
            while lent.is_empty() {
                lent = soon(broker.lease(call.clone())).await.unwrap();
            }
            lent.remove(0)
        };
        assert_eq!((value(&delivered).as_str(), delivered.offset), ("unharmed", 1), "streamed: {streamed}");
        until("it is a dead letter", async || letters(&broker).await == 1).await;
        assert!(broker.counters().payloads_damaged >= 1);

        let mut graves = broker.consume(reader("dlq.t", "people")).await.unwrap();
        let letter = next(&mut graves).await;
        let message = driftq_core::Message::decode(&letter.payload).unwrap();
        assert!(message.value.is_empty(), "nobody mistakes it for what was stored: {message:?}");
        let (_, letter) = message.from_dead_letter().expect("a dead letter");
        assert_eq!((&*letter.reason, letter.offset), (driftq_core::Reason::PayloadDamaged.name(), 0));
        assert!(letter.last_error.contains("seg-00000001.log"), "{}", letter.last_error);
        drop(graves);

        let redriven = done(&broker, call(JobKind::Redrive, LetterFilter::default())).await;
        assert_eq!((redriven.done, redriven.failed), (0, 1), "{redriven:?}");
        assert!(redriven.error.as_ref().unwrap().contains("can only be purged"), "{redriven:?}");
        let purged = done(&broker, call(JobKind::Purge, LetterFilter::default())).await;
        assert_eq!((purged.done, letters(&broker).await), (1, 0), "{purged:?}");
    }
}

/// The others know it by what it has sent them.
#[tokio::test]
async fn the_last_shard_is_missed_if_it_has_sent_something() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(Config { shards: 2, ..at(dir.path()) });
    let mut topics = [None, None];
    for number in 0_u32.. {
        let name = format!("topic-{number}");
        broker.create_topic(&name, 1).await.unwrap();
        let shard = broker.topic_number(&name).unwrap().shard();
        topics[usize::from(shard.0)].get_or_insert(name);
        if topics.iter().all(Option::is_some) {
            break;
        }
    }
    let [first, last] = topics.map(Option::unwrap);
    broker.produce(&last, text("work")).await.unwrap();
    let call = LeaseCall {
        topic: last.as_str().into(),
        group: "g".into(),
        owner: "me".into(),
        max: 1,
        lease_ms: None,
        wait_ms: 10_000,
        request_id: None,
    };
    let delivered = soon(broker.lease(call)).await.unwrap().remove(0);
    let commit = CommitCall {
        acks: vec![delivered.receipt],
        messages: vec![(first.into(), Draft { message: text("next"), ..Draft::default() })],
        ..CommitCall::default()
    };
    soon(broker.commit(commit)).await.unwrap();
    broker.stop().await;
    let (log, spare) = (dir.path().join("shard-1"), dir.path().join("spare"));
    std::fs::rename(&log, &spare).unwrap();
    let refused = Broker::start(at(dir.path())).map(drop).unwrap_err().to_string();
    assert!(refused.contains("shard 0 has had to do with shard 1, whose log is missing"), "{refused}");
    assert!(!log.exists());
    std::fs::rename(&spare, &log).unwrap();
    assert_eq!(start(at(dir.path())).shard_count(), 2);
}
