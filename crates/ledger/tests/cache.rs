//! A cache changes no answer, whatever it loses, mixes up or fails to say.

use std::future::{pending, ready};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use driftq_ledger::cache::{Bounds, Cache, CacheError, Cached, Clock, Entry, Fetching, MemoryCache, Reading};
use driftq_ledger::memory::{Clock as _, ManualClock, MemoryStore};
use driftq_ledger::{
    Begin, Decision, Ending, Filter, Finished, Identity, Kept, Lease, LedgerError, Moment, OnLapse, Page,
    Pending, Reacquire, Record, RequestHash, Resolve, Resolver, Response, Stats, Store, Sweep, Swept, Terms,
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

/// Numbers that look random and are the same every time.
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 33) % sides
    }
}

/// A cache that forgets, fails, and gives out whatever it was ever told, also what is over or about something else.
struct Fickle {
    told: Mutex<(Dice, Vec<Arc<Entry>>)>,
}

impl Cache for Fickle {
    fn name(&self) -> &'static str {
        "fickle"
    }
    fn get<'a>(&'a self, identity: &'a Identity) -> Fetching<'a, Option<Arc<Entry>>> {
        let mut told = self.told.lock().unwrap();
        let (dice, entries) = &mut *told;
        let entry = match dice.roll(8) {
            0 => return Box::pin(ready(Err(CacheError("not today".to_owned())))),
            1 => None,
            2 => {
                entries.clear();
                None
            }
            3 if !entries.is_empty() => {
                let at = usize::try_from(dice.roll(entries.len() as u64)).unwrap();
                Some(Arc::clone(&entries[at]))
            }
            4 => entries.iter().find(|entry| entry.identity == *identity).cloned(),
            _ => entries.iter().rev().find(|entry| entry.identity == *identity).cloned(),
        };
        Box::pin(ready(Ok(entry)))
    }
    fn put<'a>(&'a self, entry: &'a Arc<Entry>) -> Fetching<'a, ()> {
        let mut told = self.told.lock().unwrap();
        match told.0.roll(6) {
            0 => return Box::pin(ready(Err(CacheError("not now".to_owned())))),
            1 => {}
            _ => told.1.push(Arc::clone(entry)),
        }
        Box::pin(ready(Ok(())))
    }
}

/// Something that somebody does.
enum Deed {
    Begin(Begin),
    Reacquire(Reacquire),
    Finish(Lease, Ending),
    Renew(Lease),
    Resolve(Resolve),
    Sweep,
    Look(Identity),
}

/// What came of it, in words.
async fn done(store: &impl Store, deed: &Deed) -> String {
    match deed {
        Deed::Begin(asked) => format!("{:?}", store.begin(asked).await),
        Deed::Reacquire(asked) => format!("{:?}", store.reacquire(asked).await),
        Deed::Finish(lease, ending) => format!("{:?}", store.finish(lease, ending).await),
        Deed::Renew(lease) => format!("{:?}", store.renew(lease, 20 * SECOND).await),
        Deed::Resolve(found) => format!("{:?}", store.resolve(found).await),
        Deed::Sweep => format!("{:?}", store.sweep(Sweep::default()).await),
        Deed::Look(identity) => format!("{:?}", store.get(identity).await),
    }
}

fn some_ending(dice: &mut Dice) -> Ending {
    match dice.roll(4) {
        0 => Ending::failed_retryable("later"),
        1 => Ending::failed_final("no"),
        n => Ending::succeeded(Response::new(format!("answer {n}")).header("n", "1")),
    }
}

fn some_deed(dice: &mut Dice, leases: &[Lease]) -> Deed {
    let identity = identity(&format!("k{}", dice.roll(3)));
    let lease = |dice: &mut Dice| {
        let at = dice.roll(leases.len().max(1) as u64);
        leases.get(usize::try_from(at).unwrap()).cloned()
    };
    match (dice.roll(16), lease(dice)) {
        (0..=3, Some(lease)) => Deed::Finish(lease, some_ending(dice)),
        (4, Some(lease)) => Deed::Renew(lease),
        (5, _) => {
            let resolver = Resolver { by: "eve".to_owned(), why: "asked".to_owned() };
            let (ending, ttl) = (some_ending(dice), 30 * SECOND);
            Deed::Resolve(Resolve { identity, epoch: None, ending, resolver, ttl })
        }
        (6, _) => Deed::Sweep,
        (7, _) => Deed::Look(identity),
        (8, _) => Deed::Reacquire(Reacquire::new(identity)),
        _ => {
            let (old, new) = (RequestHash::of_bytes(b"1"), RequestHash::foreign("1").unwrap());
            let hash = match dice.roll(8) {
                0 => new,
                1 => RequestHash::of_bytes(b"2"),
                2 | 3 => new.or_before(old),
                _ => old,
            };
            let on_lapse = if dice.roll(4) == 0 { OnLapse::Hold } else { OnLapse::Retry };
            let ttl = Duration::from_millis(1 + dice.roll(90_000));
            let terms = Terms::default().on_lapse(on_lapse).ttl(ttl).lease(10 * SECOND);
            let mut asked = Begin::new(identity, hash).terms(terms).call(format!("call {}", dice.roll(5)));
            asked.reacquire = dice.roll(3) == 0;
            Deed::Begin(asked)
        }
    }
}

#[tokio::test]
async fn a_cache_that_loses_and_mixes_up_everything_changes_no_answer() {
    const STORIES: u64 = 300;
    const STEPS: u64 = 300;
    let mut hits = 0;
    for story in 0..STORIES {
        let mut dice = Dice(story);
        let clock = Arc::new(ManualClock::default());
        let plain = MemoryStore::with_clock(clock.clone());
        let bounds = Bounds {
            margin: Duration::from_millis(dice.roll(2) * 500),
            lives_max: Duration::from_secs(1 + dice.roll(100)),
            pause: Duration::ZERO,
            ..Bounds::default()
        };
        let fickle = Fickle { told: Mutex::new((Dice(!story), Vec::new())) };
        let cached = Cached::with(MemoryStore::with_clock(clock.clone()), Arc::new(fickle), bounds)
            .clock(readings(&clock));
        let mut leases = Vec::new();
        for step in 0..STEPS {
            if dice.roll(6) == 0 {
                clock.advance(Duration::from_millis(dice.roll(20_000)));
            }
            let deed = some_deed(&mut dice, &leases);
            if let Deed::Begin(asked) = &deed
                && let Ok(Decision::Execute(lease)) = plain.begin(asked).await
            {
                // The same call again gets the same lease again, so that the answers can be compared below.
                leases.push(lease);
            }
            let (without, with) = (done(&plain, &deed).await, done(&cached, &deed).await);
            assert_eq!(with, without, "story {story}, step {step}");
        }
        hits += cached.counts().hits();
    }
    assert!(hits > STORIES * 3, "the cache answered only {hits} times, so that this shows nothing");
}
