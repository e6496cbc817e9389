//! Copies in a real Redis, which may go away or hold what nobody wrote.

use std::sync::Arc;
use std::time::Duration;

use driftq_ledger::cache::redis::{COPY_BYTES_MAX, RedisCache};
use driftq_ledger::cache::{Bounds, Cached, Entry, Reading};
use driftq_ledger::memory::MemoryStore;
use driftq_ledger::{Begin, Decision, Ending, Identity, LedgerError, RequestHash, Response, Store};
use driftq_testbed::Redis;

/// More than any machine needs for an answer of Redis, so that slowness alone fails no test.
const PATIENT: Bounds = Bounds {
    lives_max: Duration::from_secs(60),
    margin: Duration::from_secs(1),
    patience: Duration::from_secs(10),
    pause: Duration::ZERO,
    entry_bytes_max: 256 << 10,
};

fn asked(key: &str) -> Begin {
    Begin::new(Identity::new("ann", "pay", key).unwrap(), RequestHash::of_bytes(b"5 EUR"))
}

async fn run(store: &impl Store, asked: &Begin) {
    let Decision::Execute(lease) = store.begin(asked).await.unwrap() else { panic!("somebody else has it") };
    let response = Response::new(vec![0, 159, 146, 150]).code(201).header("location", "/charges/1");
    store.finish(&lease, &Ending::succeeded(response)).await.unwrap();
}

fn is_replay(decision: &Result<Decision, LedgerError>) -> bool {
    matches!(decision, Ok(Decision::Replay(_)))
}

#[tokio::test]
async fn one_process_answers_from_the_copy_of_another() {
    let redis = Redis::start().unwrap();
    let store = MemoryStore::new();
    let process = || {
        let cache = RedisCache::new(&redis.url(), "test:").unwrap();
        Cached::with(store.clone(), Arc::new(cache), PATIENT)
    };
    let (one, other) = (process(), process());
    let asked = asked("k");
    run(&one, &asked).await;
    let first = one.begin(&asked).await;
    assert!(is_replay(&first));
    assert_eq!(one.counts().puts(), 1);
    assert_eq!(other.begin(&asked).await, first, "bytes, code, headers, times: everything");
    assert_eq!(other.counts().hits(), 1);
    let different = Begin { hash: RequestHash::of_bytes(b"6 EUR"), ..asked.clone() };
    assert!(matches!(other.begin(&different).await, Err(LedgerError::Conflict(_))));

    let elsewhere = RedisCache::new(&redis.url(), "another table:").unwrap();
    let elsewhere = Cached::with(MemoryStore::new(), Arc::new(elsewhere), PATIENT);
    assert!(matches!(elsewhere.begin(&asked).await, Ok(Decision::Execute(_))), "the prefix divides them");
}

#[tokio::test]
async fn redis_forgets_a_copy_when_its_time_is_over() {
    let redis = Redis::start().unwrap();
    let cache = RedisCache::new(&redis.url(), "test:").unwrap();
    let asked = asked("k");
    let key = cache.key(&asked.identity);
    let cached = Cached::with(MemoryStore::new(), Arc::new(cache), PATIENT);
    run(&cached, &asked).await;
    assert!(is_replay(&cached.begin(&asked).await));
    let mut connection = connect(&redis).await;
    let left: i64 = redis::cmd("PTTL").arg(&key).query_async(&mut connection).await.unwrap();
    assert!((1..=60_000).contains(&left), "{left} ms");
}

#[tokio::test]
async fn redis_killed_in_the_middle_changes_no_answer() {
    let redis = Redis::start().unwrap();
    let cache = RedisCache::new(&redis.url(), "test:").unwrap();
    let cached = Cached::with(MemoryStore::new(), Arc::new(cache), PATIENT);
    let asked = asked("k");
    run(&cached, &asked).await;
    let first = cached.begin(&asked).await;
    assert_eq!(cached.begin(&asked).await, first);
    assert_eq!(cached.counts().hits(), 1);
    redis.kill().unwrap();
    for n in 0..5 {
        assert_eq!(cached.begin(&asked).await, first);
        run(&cached, &self::asked(&format!("after {n}"))).await;
    }
    assert_eq!(cached.counts().hits(), 1);
    assert!(cached.counts().failures() > 0);
}

#[tokio::test]
async fn a_redis_that_was_never_there_costs_little() {
    // Port 9 is nobody's.
    let cache = RedisCache::new("redis://127.0.0.1:9/", "test:").unwrap();
    let cached = Cached::new(MemoryStore::new(), cache);
    let asked = asked("k");
    run(&cached, &asked).await;
    for _ in 0..50 {
        assert!(is_replay(&cached.begin(&asked).await));
    }
    assert!(cached.counts().failures() >= 1 && cached.counts().hits() == 0);
    assert!(cached.counts().skipped() > 0, "it is left alone after it failed");
    assert!(RedisCache::new("http://127.0.0.1/", "test:").is_err(), "what is no address is said so at once");
}

#[tokio::test]
async fn what_nobody_wrote_is_no_copy() {
    let redis = Redis::start().unwrap();
    let cache = RedisCache::new(&redis.url(), "test:").unwrap();
    let (asked, other) = (asked("k"), asked("other"));
    let (key, other_key) = (cache.key(&asked.identity), cache.key(&other.identity));
    let cached = Cached::with(MemoryStore::new(), Arc::new(cache), PATIENT);
    let mut connection = connect(&redis).await;
    run(&cached, &asked).await;
    run(&cached, &other).await;
    let first = cached.begin(&asked).await;
    assert!(is_replay(&first) && is_replay(&cached.begin(&other).await));

    let good: Vec<u8> = redis::cmd("GET").arg(&key).query_async(&mut connection).await.unwrap();
    let of_another: Vec<u8> = redis::cmd("GET").arg(&other_key).query_async(&mut connection).await.unwrap();
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let mut newer = good.clone();
    newer[0] += 1;
    // Whole and right in itself, and still more than is ever read.
    let now = Reading::now();
    let mut huge = Entry::from_bytes(&good, now).unwrap();
    huge.outcome.response.payload = vec![7; COPY_BYTES_MAX].into();
    let hits = cached.counts().hits();
    for (what, poison) in [
        ("nothing", Vec::new()),
        ("a text", b"{\"status\":\"SUCCEEDED\"}".to_vec()),
        ("cut off", good[..good.len() / 2].to_vec()),
        ("damaged", damaged),
        ("a newer version", newer),
        ("the copy of another effect", of_another),
        ("too much", huge.to_bytes(now).unwrap()),
    ] {
        let mut command = redis::cmd("SET");
        command.arg(&key).arg(poison).query_async::<()>(&mut connection).await.unwrap();
        assert_eq!(cached.begin(&asked).await, first, "{what}");
        assert_eq!(cached.counts().hits(), hits, "{what}");
    }
    redis::cmd("DEL").arg(&key).query_async::<()>(&mut connection).await.unwrap();
    redis::cmd("LPUSH").arg(&key).arg("x").query_async::<()>(&mut connection).await.unwrap();
    assert_eq!(cached.begin(&asked).await, first, "a list");
    assert_eq!((cached.counts().failures(), cached.counts().hits()), (1, hits));
}

async fn connect(redis: &Redis) -> redis::aio::MultiplexedConnection {
    redis::Client::open(redis.url()).unwrap().get_multiplexed_async_connection().await.unwrap()
}
