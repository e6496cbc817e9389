//! What only the store in memory promises: a bound, a clock that never goes back, waiting without polling.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use driftq_ledger::memory::{Clock as _, ManualClock, MemoryStore};
use driftq_ledger::{
    Begin, Decision, Ending, Filter, Finished, Identity, Lease, Ledger, LedgerError, Moment, OnLapse, Proof,
    RequestHash, Resolve, Resolver, Response, Status, Store as _, Sweep, Terms,
};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);
const MICROSECOND: Duration = Duration::from_micros(1);

fn asking(key: &str) -> Begin {
    let identity = Identity::new("ann", "pay", key).unwrap();
    let terms = Terms::default().lease(60 * SECOND).ttl(600 * SECOND);
    Begin::new(identity, RequestHash::of_bytes(b"request")).terms(terms)
}

fn retrying(key: &str) -> Begin {
    let mut asked = asking(key);
    asked.terms.on_lapse = OnLapse::Retry;
    asked
}

fn done() -> Ending {
    Ending::succeeded(Response::new("done"))
}

async fn execute(ledger: &Ledger, asked: Begin) -> Lease {
    match ledger.begin(asked).await.unwrap() {
        Decision::Execute(lease) => lease,
        other => panic!("{other:?}"),
    }
}

async fn told(ledger: &Ledger, asked: Begin) -> &'static str {
    ledger.begin(asked).await.as_ref().map_or_else(LedgerError::word, Decision::word)
}

fn with_clock() -> (Ledger, MemoryStore, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::with_clock(Arc::clone(&clock) as _);
    (Ledger::new(store.clone()), store, clock)
}

#[tokio::test]
async fn a_full_store_says_so_and_serves_what_it_has() {
    let clock = Arc::new(ManualClock::default());
    let ledger = Ledger::new(MemoryStore::with_clock(Arc::clone(&clock) as _).records_max(2));
    let first = execute(&ledger, asking("first")).await;
    execute(&ledger, retrying("second")).await;
    let refused = ledger.begin(asking("third")).await;
    assert!(matches!(refused, Err(LedgerError::Full(_))), "{refused:?}");
    assert_eq!(ledger.get(&asking("third").identity).await, Ok(None));
    assert_eq!(told(&ledger, asking("first")).await, "in_progress");
    assert_eq!(ledger.finish(&first, &done()).await, Ok(Finished::Committed));
    assert_eq!(told(&ledger, asking("first")).await, "replay");
    clock.advance(60 * SECOND);
    execute(&ledger, asking("second")).await;
    assert_eq!(told(&ledger, asking("third")).await, "full");
}

#[tokio::test]
async fn what_is_over_makes_room_and_what_may_have_happened_does_not() {
    let clock = Arc::new(ManualClock::default());
    let ledger = Ledger::new(MemoryStore::with_clock(Arc::clone(&clock) as _).records_max(2));
    let first = execute(&ledger, asking("first")).await;
    ledger.finish(&first, &done()).await.unwrap();
    execute(&ledger, asking("held")).await;
    clock.advance(600 * SECOND);
    execute(&ledger, asking("third")).await;
    assert_eq!(ledger.get(&first.identity).await, Ok(None));
    assert_eq!(told(&ledger, asking("held")).await, "unknown");
    assert_eq!(told(&ledger, asking("fourth")).await, "full");
}

#[tokio::test]
async fn a_record_that_is_over_gives_its_own_place_to_the_next() {
    let clock = Arc::new(ManualClock::default());
    let ledger = Ledger::new(MemoryStore::with_clock(Arc::clone(&clock) as _).records_max(1));
    for _ in 0..3 {
        let lease = execute(&ledger, asking("k")).await;
        ledger.finish(&lease, &done()).await.unwrap();
        clock.advance(600 * SECOND);
    }
}

#[tokio::test]
async fn a_lease_is_live_before_its_end_and_not_at_its_end() {
    let (ledger, _, clock) = with_clock();
    let lease = execute(&ledger, retrying("k")).await;
    clock.advance(60 * SECOND - MICROSECOND);
    match ledger.begin(asking("k")).await.unwrap() {
        Decision::InProgress { retry_after, .. } => {
            assert_eq!(retry_after, Duration::from_millis(1), "at least so long");
        }
        other => panic!("{other:?}"),
    }
    clock.advance(MICROSECOND);
    assert_eq!(clock.now(), lease.expires_at);
    assert_eq!(execute(&ledger, asking("k")).await.epoch, 2);
}

#[tokio::test]
async fn a_record_counts_before_its_end_and_not_at_its_end() {
    let (ledger, _, clock) = with_clock();
    let lease = execute(&ledger, asking("k")).await;
    ledger.finish(&lease, &done()).await.unwrap();
    clock.advance(600 * SECOND - MICROSECOND);
    assert_eq!(told(&ledger, asking("k")).await, "replay");
    assert_eq!(ledger.sweep(Sweep::default()).await.unwrap().removed, 0);
    clock.advance(MICROSECOND);
    assert_eq!(ledger.get(&lease.identity).await, Ok(None));
    assert_eq!(ledger.stats().await.unwrap().over, Some(1));
    assert_eq!(ledger.sweep(Sweep::default()).await.unwrap().removed, 1);
    assert_eq!(ledger.stats().await.unwrap().over, Some(0));
}

#[tokio::test]
async fn a_clock_that_is_set_back_takes_nothing_back() {
    let (ledger, _, clock) = with_clock();
    let started = clock.now();
    let old = execute(&ledger, retrying("lapsed")).await;
    let over = execute(&ledger, asking("over")).await;
    ledger.finish(&over, &done()).await.unwrap();
    clock.advance(600 * SECOND);
    assert_eq!(ledger.get(&over.identity).await, Ok(None));
    for back in [3600 * SECOND, 1_000_000_000 * SECOND] {
        clock.set(Moment::from_micros(started.micros() - i64::try_from(back.as_micros()).unwrap()));
        // What had lapsed has lapsed, and what was over is over.
        assert_eq!(ledger.get(&over.identity).await, Ok(None));
        assert!(!ledger.get(&old.identity).await.unwrap().unwrap().lease_live);
    }
    let new = execute(&ledger, retrying("lapsed")).await;
    assert_eq!((new.epoch, new.expires_at), (2, started.after(660 * SECOND)), "time stands still");
    assert!(matches!(ledger.finish(&old, &done()).await, Err(LedgerError::Stale(_))));
    assert_eq!(ledger.renew(&new, 60 * SECOND).await, Ok(new.expires_at));
    ledger.finish(&new, &done()).await.unwrap();
    // And it goes on when the clock has caught up.
    clock.set(started.after(601 * SECOND));
    let next = execute(&ledger, asking("next")).await;
    assert_eq!(next.expires_at, started.after(661 * SECOND));
}

/// Lets everything that can go on without time go on.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Somebody who waits for an hour, and how long it had to.
fn waiter(ledger: &Ledger, asked: Begin) -> tokio::task::JoinHandle<(&'static str, Duration)> {
    let ledger = ledger.clone();
    tokio::spawn(async move {
        let started = Instant::now();
        let word = told(&ledger, asked.wait(3600 * SECOND)).await;
        (word, started.elapsed())
    })
}

// Time that stands still moves only when everybody waits for it. Whoever polled would move it.

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_woken_by_the_end_and_does_not_poll() {
    let (ledger, _, _clock) = with_clock();
    let lease = execute(&ledger, asking("k")).await;
    let waiting = [waiter(&ledger, asking("k")), waiter(&ledger, asking("k"))];
    settle().await;
    assert!(waiting.iter().all(|one| !one.is_finished()));
    ledger.renew(&lease, 61 * SECOND).await.unwrap();
    settle().await;
    assert!(waiting.iter().all(|one| !one.is_finished()), "a renewal is no end");
    ledger.finish(&lease, &done()).await.unwrap();
    for one in waiting {
        assert_eq!(one.await.unwrap(), ("replay", Duration::ZERO));
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_woken_by_the_lapse_and_does_not_poll() {
    let (ledger, _, clock) = with_clock();
    execute(&ledger, asking("held")).await;
    execute(&ledger, retrying("taken")).await;
    let held = [waiter(&ledger, asking("held")), waiter(&ledger, asking("held"))];
    let taken = [waiter(&ledger, retrying("taken")), waiter(&ledger, retrying("taken"))];
    settle().await;
    clock.advance(60 * SECOND - MICROSECOND);
    settle().await;
    assert!(held.iter().chain(&taken).all(|one| !one.is_finished()));
    clock.advance(MICROSECOND);
    for one in held {
        assert_eq!(one.await.unwrap(), ("unknown", Duration::ZERO));
    }
    settle().await;
    assert_eq!(taken.iter().filter(|one| one.is_finished()).count(), 1, "one takes over, one waits on");
    clock.advance(60 * SECOND);
    for one in taken {
        assert_eq!(one.await.unwrap(), ("execute", Duration::ZERO));
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_woken_by_a_sweep_and_a_resolution() {
    let (ledger, _, clock) = with_clock();
    let lease = execute(&ledger, asking("k")).await;
    clock.advance(60 * SECOND);
    ledger.renew(&lease, SECOND).await.unwrap();
    let waiting = waiter(&ledger, asking("k"));
    settle().await;
    // The clock moves and the sweep comes first: the waiter learns what the sweep has found.
    clock.advance(SECOND);
    assert_eq!(ledger.sweep(Sweep::default()).await.unwrap().held, 1);
    assert_eq!(waiting.await.unwrap(), ("unknown", Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_when_its_time_is_up() {
    let (_, store, _clock) = with_clock();
    let ledger = Ledger::new(store.clone());
    execute(&ledger, asking("k")).await;
    let started = Instant::now();
    let decision = store.begin(&asking("k").wait(5 * SECOND)).await.unwrap();
    assert_eq!((decision.word(), started.elapsed()), ("in_progress", 5 * SECOND));
}

#[tokio::test]
async fn since_when_nobody_knows_is_when_it_was_written_down() {
    let (ledger, _, clock) = with_clock();
    let lease = execute(&ledger, asking("asked")).await;
    execute(&ledger, asking("swept")).await;
    clock.advance(90 * SECOND);
    let since = async |key: &str| match ledger.begin(asking(key)).await.unwrap() {
        Decision::Unknown { since, .. } => since,
        other => panic!("{other:?}"),
    };
    assert_eq!(since("asked").await, lease.expires_at.after(30 * SECOND));
    assert_eq!(ledger.sweep(Sweep::default()).await.unwrap().held, 1, "one was written down before");
    clock.advance(SECOND);
    for key in ["asked", "swept"] {
        assert_eq!(since(key).await, lease.expires_at.after(30 * SECOND), "{key}");
    }
}

#[tokio::test]
async fn a_cap_that_only_the_asker_knows_stops_that_asker_alone() {
    let (ledger, _, clock) = with_clock();
    execute(&ledger, retrying("k")).await;
    clock.advance(60 * SECOND);
    let mut capped = retrying("k");
    capped.terms.attempts_max = Some(1);
    assert_eq!(told(&ledger, capped).await, "exhausted");
    assert_eq!(told(&ledger, retrying("k")).await, "execute");
}

#[tokio::test]
async fn a_page_that_looks_at_many_and_finds_few_leads_on() {
    let (ledger, _, _clock) = with_clock();
    for at in 0..2_100 {
        execute(&ledger, asking(&format!("k{at}"))).await;
    }
    let needle = Begin { identity: Identity::new("bob", "pay", "k").unwrap(), ..asking("k") };
    execute(&ledger, needle).await;
    let mut filter = Filter { principal: Some("bob".to_owned()), limit: 10, ..Filter::default() };
    let page = ledger.list(&filter).await.unwrap();
    assert_eq!(page.records.len(), 0, "it has looked at enough");
    filter.cursor = page.cursor;
    assert!(filter.cursor.is_some());
    let page = ledger.list(&filter).await.unwrap();
    assert_eq!((page.records.len(), page.cursor), (1, None));
    for cursor in ["", "k", "1.5", "99999999999999999999"] {
        filter.cursor = Some(cursor.to_owned());
        assert!(matches!(ledger.list(&filter).await, Err(LedgerError::Invalid(_))), "{cursor:?}");
    }
}

#[tokio::test]
async fn a_lease_of_another_store_is_worth_nothing() {
    let (ledger, _, _clock) = with_clock();
    let mut lease = execute(&ledger, asking("k")).await;
    lease.proof = Proof::Token("sealed".to_owned());
    assert!(matches!(ledger.finish(&lease, &done()).await, Err(LedgerError::Stale(_))));
    assert!(matches!(ledger.renew(&lease, SECOND).await, Err(LedgerError::Stale(_))));
    let (other, ..) = with_clock();
    lease.proof = Proof::Record(1);
    assert!(matches!(other.finish(&lease, &done()).await, Err(LedgerError::Stale(_))));
}

#[tokio::test]
async fn every_clone_is_the_same_store_by_the_systems_clock() {
    let store = MemoryStore::new();
    let (one, other) = (Ledger::new(store.clone()), Ledger::new(store));
    let before = Moment::from(SystemTime::now());
    let lease = execute(&one, asking("k")).await;
    assert_eq!(told(&other, asking("k")).await, "in_progress");
    assert_eq!(other.finish(&lease, &done()).await, Ok(Finished::Committed));
    assert_eq!(told(&one, asking("k")).await, "replay");
    let ahead = lease.expires_at.since(before);
    assert!(ahead >= 59 * SECOND && ahead < 120 * SECOND, "{ahead:?}");
}

#[tokio::test]
async fn counts_are_exact() {
    let (ledger, _, clock) = with_clock();
    let count = async |status| {
        let stats = ledger.stats().await.unwrap();
        stats.by_status[driftq_ledger::words::of_status(status)]
    };
    execute(&ledger, retrying("lapsed")).await;
    execute(&ledger, asking("held")).await;
    assert_eq!((count(Status::InProgress).await, ledger.stats().await.unwrap().lapsed), (2, 0));
    clock.advance(60 * SECOND);
    assert_eq!((count(Status::InProgress).await, count(Status::Unknown).await), (1, 1));
    assert_eq!(ledger.stats().await.unwrap().lapsed, 1);
    let resolver = Resolver { by: "ann".to_owned(), why: "looked".to_owned() };
    let identity = asking("held").identity;
    let found = Resolve { identity, epoch: Some(1), ending: done(), resolver, ttl: SECOND };
    ledger.resolve(&found).await.unwrap();
    assert_eq!((count(Status::Succeeded).await, count(Status::Unknown).await), (1, 0));
    clock.advance(SECOND);
    assert_eq!(ledger.stats().await.unwrap().over, Some(1));
    assert_eq!(ledger.sweep(Sweep::default()).await.unwrap().removed, 1);
    assert_eq!(count(Status::Succeeded).await, 0);
}
