//! A store with a cache in front of it.

use std::future::Future;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::counts::count;
use super::{Cache, CacheError, Clock, Counts, Entry, Reading};
use crate::{
    AuditFilter, AuditPage, Begin, Decision, Ending, Filter, Finished, Identity, Kept, Lease, Lost, Moment,
    Outcome, Page, Pending, Reacquire, Record, Resolve, Stats, Store, Sweep, Swept,
};

/// What a cache may cost and how long its copies live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The longest that a copy lives. A record that is removed by hand is forgotten within this time.
    pub lives_max: Duration,
    /// How much earlier than its record a copy ends: how far the clocks of this machine and of the store may drift
    /// apart, or be set, within a copy's life.
    pub margin: Duration,
    /// How long a call of the cache may take.
    pub patience: Duration,
    /// How long the cache is left alone after it failed.
    pub pause: Duration,
    /// The largest copy that is kept.
    pub entry_bytes_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            lives_max: Duration::from_secs(60),
            margin: Duration::from_secs(1),
            patience: Duration::from_millis(50),
            pause: Duration::from_secs(1),
            entry_bytes_max: 256 << 10,
        }
    }
}

/// A store with a cache in front of it: what is final is told from a copy while there is one, everything else is the
/// store's. Two of them, one around the other, make two levels.
pub struct Cached<S> {
    store: S,
    cache: Arc<dyn Cache>,
    bounds: Bounds,
    clock: Clock,
    counts: Arc<Counts>,
    /// Until when the cache is left alone.
    paused_until: Mutex<Option<Instant>>,
}

impl<S: Store> Cached<S> {
    /// With the usual bounds.
    pub fn new(store: S, cache: impl Cache) -> Self {
        Self::with(store, Arc::new(cache), Bounds::default())
    }

    /// With bounds of the caller's own, and a cache that may be shared.
    pub fn with(store: S, cache: Arc<dyn Cache>, bounds: Bounds) -> Self {
        Self {
            store,
            cache,
            bounds,
            clock: Arc::new(Reading::now),
            counts: Arc::default(),
            paused_until: Mutex::new(None),
        }
    }

    /// With another clock, for tests that let time pass in the store by hand.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// How the cache is doing.
    #[must_use]
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    /// The store behind the cache.
    pub const fn store(&self) -> &S {
        &self.store
    }

    async fn decide(&self, asked: &Begin) -> Result<(Decision, Option<Kept>), crate::LedgerError> {
        if let Some((outcome, kept)) = self.recall(asked).await {
            return Ok((Decision::Replay(outcome), Some(kept)));
        }
        // What is left of the record is counted from here: the store may have decided any time from now on.
        let before = (self.clock)();
        let (decision, kept) = self.store.begin_kept(asked).await?;
        if let (Decision::Replay(outcome), Some(kept)) = (&decision, &kept) {
            self.remember(&asked.identity, outcome, kept, before).await;
        }
        Ok((decision, kept))
    }

    /// The answer from a copy, if there is one that answers the question.
    async fn recall(&self, asked: &Begin) -> Option<(Outcome, Kept)> {
        let found = self.ask_cache(|| self.cache.get(&asked.identity)).await?;
        let answer = found.and_then(|entry| {
            let kept = entry.answers(asked, (self.clock)())?;
            Some((entry.outcome.clone(), kept))
        });
        count(if answer.is_some() { &self.counts.hits } else { &self.counts.misses });
        answer
    }

    async fn remember(&self, identity: &Identity, outcome: &Outcome, kept: &Kept, before: Reading) {
        let lives = kept.remains.saturating_sub(self.bounds.margin).min(self.bounds.lives_max);
        let Some(until) = before.after(lives) else { return };
        let entry = Entry {
            identity: identity.clone(),
            hash_version: kept.hash_version,
            hash: kept.hash.clone(),
            outcome: outcome.clone(),
            until,
        };
        let is_worth_it =
            !until.left((self.clock)()).is_zero() && entry.bytes() <= self.bounds.entry_bytes_max;
        if !is_worth_it || !outcome_is_final(outcome) {
            return;
        }
        let entry = Arc::new(entry);
        if self.ask_cache(|| self.cache.put(&entry)).await.is_some() {
            count(&self.counts.puts);
        }
    }

    /// Asks the cache, unless it has just failed; `None` if it does not answer in time.
    async fn ask_cache<T, Fut>(&self, ask: impl FnOnce() -> Fut) -> Option<T>
    where
        Fut: Future<Output = Result<T, CacheError>>,
    {
        if self.is_paused() {
            count(&self.counts.skipped);
            return None;
        }
        let answer = tokio::time::timeout(self.bounds.patience, ask()).await;
        let late = |_| Err(CacheError(format!("no answer within {:?}", self.bounds.patience)));
        match answer.unwrap_or_else(late) {
            Ok(answer) => Some(answer),
            Err(error) => {
                self.pause();
                self.failed(&self.counts.failures, &error);
                None
            }
        }
    }

    fn failed(&self, counter: &AtomicU64, error: &CacheError) {
        count(counter);
        let (cache, pause) = (self.cache.name(), self.bounds.pause);
        tracing::warn!(%error, cache, ?pause, "the cache of the ledger failed; the store answers meanwhile");
    }

    fn is_paused(&self) -> bool {
        let mut paused = self.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        *paused = paused.filter(|until| Instant::now() < *until);
        paused.is_some()
    }

    fn pause(&self) {
        let mut paused = self.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        *paused = Instant::now().checked_add(self.bounds.pause);
    }
}

fn outcome_is_final(outcome: &Outcome) -> bool {
    crate::Status::from(outcome.end).is_final()
}

impl<S: Store> Store for Cached<S> {
    fn name(&self) -> &'static str {
        self.store.name()
    }

    fn begin<'a>(&'a self, asked: &'a Begin) -> Pending<'a, Decision> {
        Box::pin(async move { Ok(self.decide(asked).await?.0) })
    }

    fn begin_kept<'a>(&'a self, asked: &'a Begin) -> Pending<'a, (Decision, Option<Kept>)> {
        Box::pin(self.decide(asked))
    }

    fn reacquire<'a>(&'a self, asked: &'a Reacquire) -> Pending<'a, Decision> {
        self.store.reacquire(asked)
    }

    fn finish<'a>(&'a self, lease: &'a Lease, ending: &'a Ending) -> Pending<'a, Finished> {
        self.store.finish(lease, ending)
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> Pending<'a, Finished> {
        self.store.release(lease)
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

    fn give_back<'a>(&'a self, lost: &'a Lost) -> Pending<'a, bool> {
        self.store.give_back(lost)
    }

    fn audit<'a>(&'a self, filter: &'a AuditFilter) -> Pending<'a, AuditPage> {
        self.store.audit(filter)
    }
}
