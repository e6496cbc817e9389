//! All shards of a log taken from one kind of place to another, and started on there.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::LazyLock;

use driftq_core::ledger::Status;
use driftq_core::{About, EffectReceipt, Ending, Outcome, Settlement, ShardId, TopicSettings, Verdict};
use driftq_engine::log::{Log as _, NatsPlace, PostgresLog, PostgresPlace};
use driftq_engine::transfer::{Moved, TransferError, migrate};
use driftq_engine::{
    Begun, Broker, CommitCall, Config, Delivered, Draft, EffectCall, EffectEnd, LeaseCall, StartError,
    Storage,
};
use driftq_testbed::{Nats, Postgres};
use driftq_wal::{OpenError, RealDisk, SEGMENT_HEADER_BYTES, carry, holding, run};

use crate::common::{LONG_LEASE_MS, at, config, crash_image, soon, start, text, until, value};

const SHARDS: u8 = 3;
/// What is on its way from the first shard to the second.
const PARCEL: &str = "on its way";

static DATABASE: LazyLock<Postgres> = LazyLock::new(|| Postgres::start().unwrap());
static STREAMS: LazyLock<Nats> = LazyLock::new(|| Nats::start().unwrap());

fn database(schema: &str) -> PostgresPlace {
    PostgresPlace { url: DATABASE.url().to_owned(), schema: schema.to_owned(), cluster: "main".to_owned() }
}

fn in_database(schema: &str) -> Storage {
    Storage::Postgres(database(schema))
}

fn in_stream(stream: &str) -> Storage {
    Storage::Nats(NatsPlace { url: STREAMS.url(stream), cluster: "main".to_owned() })
}

fn in_directory(dir: &Path) -> Storage {
    Storage::Directory(dir.to_owned())
}

/// Whether there is a program to test with; if not, the reason is told.
fn has_nats() -> bool {
    Nats::program().inspect_err(|why| println!("skipped: {why}")).is_ok()
}

async fn moved(from: &Storage, to: &Storage) -> Result<Moved, TransferError> {
    let (from, to) = (from.clone(), to.clone());
    tokio::task::spawn_blocking(move || migrate(&from, &to)).await.unwrap()
}

/// What is in the way, and the next step.
async fn refusal(from: &Storage, to: &Storage) -> (String, String) {
    match moved(from, to).await {
        Err(TransferError::Refused { what, help }) => (what, help),
        other => panic!("{other:?}"),
    }
}

async fn started(storage: &Storage) -> Result<Broker, StartError> {
    let config = Config { storage: storage.clone(), ..config() };
    let starting = tokio::task::spawn_blocking(move || Broker::start(config));
    soon(starting).await.unwrap().map(|started| started.broker)
}

async fn leased(broker: &Broker, topic: &str, group: &str, max: u32) -> Vec<Delivered> {
    let call = LeaseCall {
        topic: topic.into(),
        group: group.into(),
        owner: "me".into(),
        max,
        lease_ms: Some(LONG_LEASE_MS),
        wait_ms: 200,
        request_id: None,
    };
    soon(broker.lease(call)).await.unwrap()
}

/// All messages of a topic, with their places, as soon as there are so many; by a group that has not seen them.
async fn messages(broker: &Broker, (topic, group): (&str, &str), count: usize) -> Vec<(u32, u64, String)> {
    let mut all = Vec::new();
    loop {
        let page = leased(broker, topic, group, 50).await;
        if page.is_empty() && all.len() >= count {
            all.sort();
            return all;
        }
        for delivered in &page {
            all.push((delivered.partition, delivered.offset, value(delivered)));
            ack(broker, &broker.token(&delivered.receipt)).await;
        }
    }
}

fn effect(key: &str) -> EffectCall<'_> {
    let about = About { scope: "pay".into(), key: key.into(), ..About::default() };
    EffectCall { about, lease_ms: Some(LONG_LEASE_MS), ..EffectCall::default() }
}

async fn begin(broker: &Broker, key: &str) -> Begun {
    soon(broker.begin_effect(&effect(key))).await.unwrap()
}

fn paid() -> EffectEnd<'static> {
    EffectEnd { status: Status::Succeeded, ending: Ending { code: Some(200), ..Ending::default() } }
}

async fn run_effect(broker: &Broker, key: &str) -> EffectReceipt {
    match begin(broker, key).await {
        Begun::Execute(lease) => lease.receipt,
        other => panic!("{other:?}"),
    }
}

async fn ack(broker: &Broker, token: &str) -> Outcome {
    let receipt = broker.receipt(token).unwrap();
    let settlement = Settlement { receipt, verdict: Verdict::Ack };
    soon(broker.settle(vec![settlement])).await.unwrap().remove(0)
}

/// Makes topics until there is one in each shard. They keep what is done, so that any group can tell what is there.
async fn one_in_each(broker: &Broker) -> Vec<String> {
    let mut names = vec![None; usize::from(SHARDS)];
    for number in 0_u32.. {
        let name = format!("topic-{number}");
        let keeps = TopicSettings { keep_ms: Some(LONG_LEASE_MS), ..TopicSettings::default() };
        broker.put_topic(&name, 2, keeps, None, false).await.unwrap();
        let shard = broker.topic_number(&name).unwrap().shard();
        names[usize::from(shard.0)].get_or_insert(name);
        if names.iter().all(Option::is_some) {
            break;
        }
    }
    names.into_iter().flatten().collect()
}

async fn produced(broker: &Broker, topics: &[String], values: Range<u32>) {
    for n in values {
        for topic in topics {
            soon(broker.produce(topic, text(&n.to_string().repeat(50)))).await.unwrap();
        }
    }
}

/// What was under way in a directory before its log was taken elsewhere.
struct Witness {
    topics: Vec<String>,
    /// Of each topic, what was there; the second one lacks what is on its way to it.
    messages: Vec<Vec<(u32, u64, String)>>,
    finished: Vec<String>,
    held: Vec<String>,
    running: EffectReceipt,
}

impl Witness {
    /// Makes a log of three shards in `dir`: snapshots and what came after them, and a message of the first shard that
    /// the second one has not got yet.
    async fn make(dir: &Path) -> Self {
        let home = tempfile::tempdir().unwrap();
        let at_home = || Config { shards: SHARDS, segment_bytes: 16 << 10, ..at(home.path()) };
        let broker = start(at_home());
        let topics = one_in_each(&broker).await;
        produced(&broker, &topics, 0..40).await;
        // A snapshot is written.
        soon(broker.stop()).await;
        let broker = start(at_home());
        produced(&broker, &topics, 40..60).await;
        let (mut finished, mut held) = (Vec::new(), Vec::new());
        let mut first = None;
        for topic in &topics {
            let lent = leased(&broker, topic, "g", 4).await;
            assert_eq!(lent.len(), 4);
            let tokens: Vec<String> = lent.iter().map(|delivered| broker.token(&delivered.receipt)).collect();
            for token in &tokens[..2] {
                assert_eq!(ack(&broker, token).await, Outcome::Ok);
            }
            finished.extend_from_slice(&tokens[..2]);
            held.extend_from_slice(&tokens[2..3]);
            first.get_or_insert_with(|| (lent[3].receipt, tokens[3].clone()));
        }
        let done = run_effect(&broker, "done").await;
        soon(broker.finish_effect(done, &paid())).await.unwrap();
        let running = run_effect(&broker, "running").await;
        let mut there = Vec::new();
        for topic in &topics {
            there.push(soon(messages(&broker, (topic, "before"), 60)).await);
        }
        let before = crash_image(home.path());
        let (receipt, token) = first.unwrap();
        let commit = CommitCall {
            acks: vec![receipt],
            messages: vec![((&*topics[1]).into(), Draft { message: text(PARCEL), ..Draft::default() })],
            ..CommitCall::default()
        };
        soon(broker.commit(commit)).await.unwrap();
        finished.push(token);
        let after = crash_image(home.path());
        soon(broker.stop()).await;
        // As after a crash in the middle: it was sent, and has not arrived.
        fs::remove_dir_all(after.path().join("shard-1")).unwrap();
        fs::rename(before.path().join("shard-1"), after.path().join("shard-1")).unwrap();
        cut_behind(after.path(), PARCEL);
        fs::rename(after.path(), dir).unwrap();
        Self { topics, messages: there, finished, held, running }
    }

    /// Everything goes on as if nothing had happened.
    async fn check(&self, storage: &Storage) {
        let broker = started(storage).await.unwrap();
        assert_eq!(broker.shard_count(), usize::from(SHARDS));
        for (shard, topic) in (0..).map(ShardId).zip(&self.topics) {
            assert_eq!(broker.topic_number(topic).unwrap().shard(), shard);
        }
        for token in self.finished.iter().chain(&self.held) {
            assert_eq!(ack(&broker, token).await, Outcome::Ok);
        }
        assert!(matches!(begin(&broker, "done").await, Begun::Replay(_)));
        assert!(matches!(begin(&broker, "running").await, Begun::Running { .. }));
        soon(broker.finish_effect(self.running, &paid())).await.unwrap();
        for (shard, topic) in self.topics.iter().enumerate() {
            let wanted = self.messages[shard].len() + usize::from(shard == 1);
            let mut there = soon(messages(&broker, (topic, "after"), wanted)).await;
            let parcels = there.iter().filter(|(_, _, value)| value == PARCEL).count();
            assert_eq!(parcels, usize::from(shard == 1), "what was on its way arrives once");
            there.retain(|(_, _, value)| value != PARCEL);
            assert_eq!(there, self.messages[shard], "{topic}");
        }
        soon(broker.stop()).await;
    }
}

/// Ends a log behind the first batch that has these words in it, as if nothing more had been written.
fn cut_behind(dir: &Path, words: &str) {
    let disk = RealDisk::existing(dir).unwrap();
    let mut is_over = false;
    for number in holding(&disk).unwrap().segments {
        let mut end = SEGMENT_HEADER_BYTES;
        if !is_over {
            carry(&disk, run(&disk, number).unwrap().end, |carried| {
                if !is_over {
                    end = carried.end.offset();
                    is_over = carried.body.windows(words.len()).any(|part| part == words.as_bytes());
                }
                Ok::<_, OpenError>(())
            })
            .unwrap();
        }
        if is_over {
            let file = fs::OpenOptions::new().write(true).open(dir.join(format!("seg-{number:08}.log")));
            let file = file.unwrap();
            let length = file.metadata().unwrap().len();
            let zeros = vec![0; usize::try_from(length - u64::from(end)).unwrap()];
            file.write_all_at(&zeros, u64::from(end)).unwrap();
        }
    }
    assert!(is_over, "{words} is in no batch");
}

/// Into a database, back, and on: every place holds the same, and serves the same.
#[tokio::test(flavor = "multi_thread")]
async fn all_shards_go_through_every_kind_of_place() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let witness = Witness::make(&data).await;
    let mut places =
        vec![in_directory(&data), in_database("rounds"), in_directory(&home.path().join("back"))];
    if has_nats() {
        places.push(in_stream("rounds"));
        places.push(in_database("rounds_again"));
        places.push(in_stream("rounds_again"));
        places.push(in_directory(&home.path().join("home")));
    }
    let mut first = None;
    for step in places.windows(2) {
        let moved = moved(&step[0], &step[1]).await.unwrap();
        assert_eq!((moved.shards.len(), moved.resumed()), (usize::from(SHARDS), 0));
        assert!(moved.shards.iter().all(|shard| shard.batches > 50), "{moved:?}");
        let first = first.get_or_insert_with(|| moved.clone());
        assert_eq!(moved.digest(), first.digest());
        assert_eq!(&moved, first);
    }
    for place in &places {
        witness.check(place).await;
    }
    // Each of them is a log by now, and none is taken there.
    for place in &places[1..] {
        let (what, _) = refusal(&places[0], place).await;
        assert!(what.contains("already") || what.contains("is not empty"), "{what}");
    }
}

/// A log of three shards in a directory, and in the schema of this name.
async fn three_shards(home: &Path, schema: &str, messages: u32) -> Storage {
    let dir = home.join("data");
    let broker = start(Config { shards: SHARDS, segment_bytes: 16 << 10, ..at(&dir) });
    let topics = one_in_each(&broker).await;
    produced(&broker, &topics, 0..messages).await;
    soon(broker.stop()).await;
    moved(&in_directory(&dir), &in_database(schema)).await.unwrap();
    in_directory(&dir)
}

/// Broken off in the last shard: nothing of it counts, and the same call takes what is missing.
#[tokio::test(flavor = "multi_thread")]
async fn what_broke_off_in_the_last_shard_is_no_log_until_it_is_whole() {
    let home = tempfile::tempdir().unwrap();
    three_shards(home.path(), "torn", 100).await;
    let from = in_database("torn");
    // In the middle of the last shard.
    let harm = |by: i64| {
        let text = format!(
            "UPDATE torn.batch SET crc = crc + {by} WHERE shard = 2 AND position = \
             (SELECT position FROM torn.batch WHERE shard = 2 ORDER BY position OFFSET 30 LIMIT 1)"
        );
        DATABASE.psql(&text).unwrap();
    };
    let back = home.path().join("back");
    let mut places = vec![in_directory(&back), in_database("torn_again")];
    places.extend(has_nats().then(|| in_stream("torn")));
    for to in &places {
        harm(1);
        let broken = moved(&from, to).await.unwrap_err();
        assert!(matches!(&broken, TransferError::Failed(what) if what.contains("damaged")), "{broken}");
        match to {
            Storage::Directory(dir) => assert!(!dir.exists()),
            to => match started(to).await.map(drop).unwrap_err() {
                StartError::Database { what, help } => {
                    assert!(what.contains("not whole yet"), "{what}");
                    assert!(help.contains("run the same `driftq migrate` again"), "{help}");
                    let (what, _) = refusal(to, &in_directory(&home.path().join("none"))).await;
                    assert!(what.contains("not whole yet"), "{what}");
                }
                other => panic!("{other}"),
            },
        }
        harm(-1);
        let whole = moved(&from, to).await.unwrap();
        for shard in &whole.shards[..2] {
            assert_eq!(shard.resumed, shard.batches, "the first shards were there");
        }
        assert!(whole.shards[2].resumed < whole.shards[2].batches);
        started(to).await.unwrap().stop().await;
    }
}

/// What an attempt with another log left is thrown away, of all shards, and the next attempt is whole.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_another_log_is_thrown_away() {
    let home = tempfile::tempdir().unwrap();
    three_shards(home.path(), "other", 100).await;
    DATABASE.psql("UPDATE other.batch SET crc = 0 WHERE shard = 2").unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let from = three_shards(elsewhere.path(), "own", 70).await;
    let mut places = vec![in_directory(&home.path().join("to")), in_database("to")];
    places.extend(has_nats().then(|| in_stream("to")));
    for to in &places {
        moved(&in_database("other"), to).await.unwrap_err();
        let (what, help) = refusal(&from, to).await;
        assert!(what.contains("has changed") && help.contains("same command"), "{what}: {help}");
        let whole = moved(&from, to).await.unwrap();
        assert_eq!(whole.resumed(), 0, "{whole:?}");
        started(to).await.unwrap().stop().await;
    }
}

/// Of more shards than the log has: those beyond would be taken for part of it.
#[tokio::test(flavor = "multi_thread")]
async fn the_remains_of_a_larger_log_are_not_gone_on_with() {
    let home = tempfile::tempdir().unwrap();
    three_shards(home.path(), "larger", 20).await;
    let single = home.path().join("single");
    start(at(&single)).stop().await;
    DATABASE.psql("UPDATE larger.batch SET crc = 0 WHERE shard = 2").unwrap();
    let back = home.path().join("back");
    let mut places = vec![in_directory(&back), in_database("larger_again")];
    places.extend(has_nats().then(|| in_stream("larger")));
    for to in &places {
        moved(&in_database("larger"), to).await.unwrap_err();
        let (what, help) = refusal(&in_directory(&single), to).await;
        assert!(what.contains("a log of 3 shards was being taken to"), "{what}");
        assert!(help.contains("remove") || help.contains("drop the schema"), "{help}");
    }
}

/// Streams of a log whose first one was removed are not ours to fill, nor to throw away.
#[tokio::test(flavor = "multi_thread")]
async fn streams_that_are_left_of_another_log_are_not_touched() {
    if !has_nats() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let single = home.path().join("single");
    start(at(&single)).stop().await;
    // What an operator called so is the log of another one's second shard, to us.
    let left = in_stream("left_shard1");
    moved(&in_directory(&single), &left).await.unwrap();
    let (what, _) = refusal(&in_directory(&single), &in_stream("left")).await;
    assert!(what.contains("there is a stream left_shard1, and no stream left"), "{what}");
    let nowhere = refusal(&in_stream("left"), &in_directory(&home.path().join("none"))).await.0;
    assert!(nowhere.contains("there is no stream left"), "{nowhere}");
    started(&left).await.unwrap().stop().await;
}

/// What a server writes meanwhile would be left behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_claimed_meanwhile_is_not_taken() {
    if !has_nats() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    three_shards(home.path(), "claimed", 600).await;
    let (from, to) = (in_database("claimed"), in_stream("claimed"));
    let taking = tokio::spawn(async move { moved(&from, &to).await });
    until("some of it was taken", async || STREAMS.messages("claimed").is_ok_and(|count| count > 5)).await;
    // Of the last shard, which was not read yet.
    tokio::task::spawn_blocking(|| {
        PostgresLog::new(database("claimed"), ShardId(2), 1 << 20).unwrap().open().map(drop).unwrap();
    })
    .await
    .unwrap();
    let refused = taking.await.unwrap().unwrap_err();
    let TransferError::Refused { what, help } = refused else { panic!("{refused}") };
    assert!(what.contains("a server has taken over the log") && help.contains("stop that server"), "{what}");
    let refused = started(&in_stream("claimed")).await.map(drop).unwrap_err().to_string();
    assert!(refused.contains("not whole yet"), "{refused}");
    moved(&in_database("claimed"), &in_stream("claimed")).await.unwrap();
    started(&in_stream("claimed")).await.unwrap().stop().await;
}
