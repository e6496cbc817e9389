//! Whatever a cache loses, mixes up or fails to say: compared with a twin that has none, no answer changes.

use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use driftq_ledger::cache::{Bounds, Cache, CacheError, Cached, Clock, Entry, Fetching, Reading};
use driftq_ledger::memory::{Clock as _, ManualClock, MemoryStore};
use driftq_ledger::{
    Begin, Decision, Ending, Identity, Lease, OnLapse, Reacquire, RequestHash, Resolve, Resolver, Response,
    Store, Sweep, Terms,
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
