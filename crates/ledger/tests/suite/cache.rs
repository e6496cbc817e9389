//! What a cache may say, and for how long.

use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use driftq_ledger::cache::{Bounds, Cache, Cached, Clock, Entry, Fetching, MemoryCache, Reading};
use driftq_ledger::memory::{Clock as _, ManualClock, MemoryStore};
use driftq_ledger::{
    Begin, Decision, Ending, Filter, Finished, Identity, Kept, Lease, LedgerError, Moment, Page, Pending,
    Reacquire, Record, RequestHash, Resolve, Response, Stats, Store, Sweep, Swept, Terms,
};

const SECOND: Duration = Duration::from_secs(1);

/// Readings that pass as the store's time does.
fn readings(clock: &Arc<ManualClock>) -> Clock {
    let (clock, origin, started) = (Arc::clone(clock), Instant::now(), clock.now());
    Arc::new(move || {
        let wall = clock.now();
        Reading { steady: origin + wall.since(started), wall }
    })
}

fn identity(key: &str) -> Identity {
    Identity::new("ann", "pay", key).unwrap()
}

fn asked(key: &str, ttl: Duration) -> Begin {
    Begin::new(identity(key), RequestHash::of_bytes(b"5 EUR")).terms(Terms::default().ttl(ttl)).call("call")
}

/// Runs an effect to its end.
async fn run(store: &impl Store, asked: &Begin) -> Ending {
    let Decision::Execute(lease) = store.begin(asked).await.unwrap() else { panic!("somebody else has it") };
    let ending = Ending::succeeded(Response::new(format!("charge under {}", lease.epoch)).code(201));
    assert_eq!(store.finish(&lease, &ending).await, Ok(Finished::Committed));
    ending
}

fn is_replay(decision: &Result<Decision, LedgerError>) -> bool {
    matches!(decision, Ok(Decision::Replay(_)))
}

#[tokio::test]
async fn an_expired_record_is_executed_anew_and_never_replayed_from_a_copy() {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::with_clock(clock.clone());
    let bounds = Bounds { margin: Duration::ZERO, ..Bounds::default() };
    let cached = Cached::with(store, Arc::new(MemoryCache::default()), bounds).clock(readings(&clock));
    let counts = cached.counts();
    let asked = asked("k", 10 * SECOND);
    run(&cached, &asked).await;

    clock.advance(3 * SECOND);
    let first = cached.begin(&asked).await;
    assert!(is_replay(&first) && counts.hits() == 0, "the first replay is the store's");
    clock.advance(Duration::from_micros(6_999_999));
    assert_eq!(cached.begin(&asked).await, first, "its last microsecond");
    assert_eq!(counts.hits(), 1);
    clock.advance(Duration::from_micros(1));
    let anew = cached.begin(&asked).await;
    assert!(matches!(&anew, Ok(Decision::Execute(lease)) if lease.epoch == 1), "{anew:?}");
    assert_eq!(counts.hits(), 1);
}

#[tokio::test]
async fn a_copy_ends_earlier_than_its_record_by_the_margin() {
    let clock = Arc::new(ManualClock::default());
    let cached =
        Cached::new(MemoryStore::with_clock(clock.clone()), MemoryCache::default()).clock(readings(&clock));
    let counts = cached.counts();
    let short = asked("short", SECOND);
    run(&cached, &short).await;
    for _ in 0..2 {
        assert!(is_replay(&cached.begin(&short).await));
    }
    assert_eq!((counts.puts(), counts.hits()), (0, 0), "nothing is left of it after the margin");

    let asked = asked("k", 10 * SECOND);
    run(&cached, &asked).await;
    assert!(is_replay(&cached.begin(&asked).await));
    clock.advance(9 * SECOND - Duration::from_micros(1));
    assert!(is_replay(&cached.begin(&asked).await));
    assert_eq!(counts.hits(), 1);
    clock.advance(Duration::from_micros(1));
    assert!(is_replay(&cached.begin(&asked).await), "the store still has it");
    assert_eq!(counts.hits(), 1);
}

/// A store that answers five seconds after it has decided.
struct Slow {
    store: MemoryStore,
    clock: Arc<ManualClock>,
}

impl Store for Slow {
    fn begin_kept<'a>(&'a self, asked: &'a Begin) -> Pending<'a, (Decision, Option<Kept>)> {
        Box::pin(async move {
            let answer = self.store.begin_kept(asked).await;
            self.clock.advance(5 * SECOND);
            answer
        })
    }
    fn name(&self) -> &'static str {
        "slow"
    }
    fn begin<'a>(&'a self, asked: &'a Begin) -> Pending<'a, Decision> {
        self.store.begin(asked)
    }
    fn reacquire<'a>(&'a self, asked: &'a Reacquire) -> Pending<'a, Decision> {
        self.store.reacquire(asked)
    }
    fn finish<'a>(&'a self, lease: &'a Lease, ending: &'a Ending) -> Pending<'a, Finished> {
        self.store.finish(lease, ending)
    }
    fn renew<'a>(&'a self, lease: &'a Lease, lasts: Duration) -> Pending<'a, Moment> {
        self.store.renew(lease, lasts)
    }
    fn resolve<'a>(&'a self, found: &'a Resolve) -> Pending<'a, Finished> {
        self.store.resolve(found)
    }
    fn get<'a>(&'a self, identity: &'a Identity) -> Pending<'a, Option<Record>> {
        self.store.get(identity)
    }
    fn list<'a>(&'a self, filter: &'a Filter) -> Pending<'a, Page> {
        self.store.list(filter)
    }
    fn sweep(&self, sweep: Sweep) -> Pending<'_, Swept> {
        self.store.sweep(sweep)
    }
    fn stats(&self) -> Pending<'_, Stats> {
        self.store.stats()
    }
}

#[tokio::test]
async fn the_time_of_a_copy_is_counted_from_before_the_store_was_asked() {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::with_clock(clock.clone());
    let asked = asked("k", 10 * SECOND);
    run(&store, &asked).await;
    let bounds = Bounds { margin: Duration::ZERO, ..Bounds::default() };
    let slow = Slow { store, clock: clock.clone() };
    let cached = Cached::with(slow, Arc::new(MemoryCache::default()), bounds).clock(readings(&clock));
    assert!(is_replay(&cached.begin(&asked).await), "decided now, known five seconds later");
    clock.advance(4 * SECOND);
    assert!(is_replay(&cached.begin(&asked).await));
    assert_eq!(cached.counts().hits(), 1);
    clock.advance(SECOND);
    assert!(matches!(cached.begin(&asked).await, Ok(Decision::Execute(_))));
}

#[tokio::test]
async fn what_is_removed_by_hand_is_forgotten_within_the_longest_life() {
    let clock = Arc::new(ManualClock::default());
    let cache: Arc<dyn Cache> = Arc::new(MemoryCache::default());
    let readings = readings(&clock);
    let cached =
        |store| Cached::with(store, Arc::clone(&cache), Bounds::default()).clock(Arc::clone(&readings));
    let before = cached(MemoryStore::with_clock(clock.clone()));
    let asked = asked("k", 3600 * SECOND);
    run(&before, &asked).await;
    assert!(is_replay(&before.begin(&asked).await));
    // The store has lost the record; the cache has not.
    let after = cached(MemoryStore::with_clock(clock.clone()));
    clock.advance(Bounds::default().lives_max - Duration::from_micros(1));
    assert!(is_replay(&after.begin(&asked).await), "this is what a cache costs");
    clock.advance(Duration::from_micros(1));
    assert!(matches!(after.begin(&asked).await, Ok(Decision::Execute(_))));
}

#[tokio::test]
async fn another_request_under_a_cached_key_is_refused() {
    let cached = Cached::new(MemoryStore::new(), MemoryCache::default());
    let asked = asked("k", 3600 * SECOND);
    run(&cached, &asked).await;
    assert!(is_replay(&cached.begin(&asked).await));
    let other = Begin { hash: RequestHash::of_bytes(b"6 EUR"), ..asked.clone() };
    assert_eq!(cached.begin(&other).await, cached.store().begin(&other).await);
    assert!(matches!(cached.begin(&other).await, Err(LedgerError::Conflict(_))));
    assert!(is_replay(&cached.begin(&asked).await), "that changed nothing");
}

#[tokio::test]
async fn only_what_is_final_is_kept_and_a_failure_for_good_is() {
    let cached = Cached::new(MemoryStore::new(), MemoryCache::default());
    let counts = cached.counts();
    let asked = asked("k", 3600 * SECOND);
    let Decision::Execute(lease) = cached.begin(&asked).await.unwrap() else { panic!("nobody has it") };
    cached.finish(&lease, &Ending::failed_retryable("later")).await.unwrap();
    assert!(matches!(cached.begin(&asked).await, Ok(Decision::Retryable { .. })));
    assert_eq!(counts.puts(), 0);
    let Decision::Execute(lease) = cached.begin(&asked.clone().reacquire()).await.unwrap() else {
        panic!("it may be tried again")
    };
    cached.finish(&lease, &Ending::failed_final("no such account")).await.unwrap();
    for _ in 0..2 {
        let told = cached.begin(&asked).await;
        assert!(matches!(&told, Ok(Decision::Replay(outcome)) if outcome.error == "no such account"));
    }
    assert_eq!((counts.puts(), counts.hits()), (1, 1));
    let text = counts.to_string();
    assert!(text.contains("driftq_ledger_cache_total{result=\"hit\"} 1\n"), "{text}");
}

/// A cache that never answers.
struct Silence;

impl Cache for Silence {
    fn name(&self) -> &'static str {
        "silence"
    }
    fn get<'a>(&'a self, _: &'a Identity) -> Fetching<'a, Option<Arc<Entry>>> {
        Box::pin(pending())
    }
    fn put<'a>(&'a self, _: &'a Arc<Entry>) -> Fetching<'a, ()> {
        Box::pin(pending())
    }
}

#[tokio::test]
async fn a_cache_that_hangs_costs_a_moment_and_is_left_alone_for_a_while() {
    let bounds = Bounds { patience: Duration::from_millis(20), pause: 3600 * SECOND, ..Bounds::default() };
    let cached = Cached::with(MemoryStore::new(), Arc::new(Silence), bounds);
    let counts = cached.counts();
    let asked = asked("k", 3600 * SECOND);
    run(&cached, &asked).await;
    for _ in 0..10 {
        assert!(is_replay(&cached.begin(&asked).await));
    }
    assert_eq!((counts.failures(), counts.skipped(), counts.hits()), (1, 20, 0));
}

#[tokio::test]
async fn two_levels_are_one_around_the_other() {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::with_clock(clock.clone());
    let near = Arc::new(MemoryCache::default());
    let far = Cached::new(store, MemoryCache::default()).clock(readings(&clock));
    let far_counts = far.counts();
    let cached = Cached::with(far, near.clone(), Bounds::default()).clock(readings(&clock));
    let asked = asked("k", 10 * SECOND);
    run(&cached, &asked).await;
    let first = cached.begin(&asked).await;
    near.clear();
    assert_eq!(cached.begin(&asked).await, first);
    assert_eq!((far_counts.hits(), cached.counts().hits()), (1, 0));
    assert_eq!(cached.begin(&asked).await, first);
    assert_eq!((far_counts.hits(), cached.counts().hits()), (1, 1));
    clock.advance(10 * SECOND);
    assert!(matches!(cached.begin(&asked).await, Ok(Decision::Execute(_))));
}
