//! The ledger as a service uses it: what is asked is checked, a store that fails for a moment is asked again, and the
//! observer is told.

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use crate::check;
use crate::lost::{Sent, own_call};
use crate::seal::without_credentials;
use crate::{
    AuditFilter, AuditPage, Begin, Call, Decision, Ending, Expiry, Filter, Finished, Identity, KeptHeaders,
    LEASE_MAX, Lease, LedgerError, Moment, Observer, Page, Reacquire, Record, Resolve, Seal, Silent, Stats,
    Status, Store, Sweep, Swept,
};

/// Bounds of the ledger.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Most bytes of a payload.
    pub payload_bytes_max: usize,
    /// How long a call may take, retries included; time spent waiting for another holder comes on top.
    pub call_timeout: Duration,
    /// How often a store is asked again after a transient failure.
    pub retries_max: u32,
    /// How long [`Ledger::run`] tries to get an outcome written down before it gives it back unrecorded.
    pub finish_patience: Duration,
    /// Which headers of an answer [`Ledger::run`] and the layers store.
    pub headers: KeptHeaders,
    /// Hides what is stored of a response. A store whose calls join a transaction is given the same settings.
    pub seal: Option<Arc<dyn Seal>>,
    /// How long outcomes are remembered, for methods of which the service says so: that counts, whatever a caller asks
    /// for.
    pub expiry: Expiry,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            payload_bytes_max: 1 << 20,
            call_timeout: Duration::from_secs(10),
            retries_max: 4,
            finish_patience: Duration::from_secs(30),
            headers: KeptHeaders::default(),
            seal: None,
            expiry: Expiry::default(),
        }
    }
}

/// First pause before a store is asked again, and while waiting for another holder; it doubles.
const PAUSE_FIRST: Duration = Duration::from_millis(5);
/// The longest such pause.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// As long as the longest lease lasts without being renewed: a caller that asks to wait for longer waits for this long,
/// and no sum of times overflows.
const WAIT_MAX: Duration = LEASE_MAX;

/// Runs side effects once. Cheap to clone; every clone is the same ledger.
#[derive(Clone)]
pub struct Ledger {
    inner: Arc<Inner>,
}

struct Inner {
    store: Box<dyn Store>,
    settings: Settings,
    observer: Box<dyn Observer>,
}

/// What a retried call came to.
struct Tried<T> {
    result: Result<T, LedgerError>,
    retries: u32,
}

impl Ledger {
    /// With the usual bounds.
    pub fn new(store: impl Store) -> Self {
        Self::with(store, Settings::default(), Silent)
    }

    /// With bounds of the service's own, and an observer that is told of every call.
    pub fn with(store: impl Store, settings: Settings, observer: impl Observer) -> Self {
        let inner = Inner { store: Box::new(store), settings, observer: Box::new(observer) };
        Self { inner: Arc::new(inner) }
    }

    /// The bounds.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.inner.store
    }

    /// The store's name, for logs and counters.
    #[must_use]
    pub fn store_name(&self) -> &'static str {
        self.inner.store.name()
    }

    /// Asks to run an effect. If another holder runs it and `asked.wait` is not over, waits for the outcome.
    pub async fn begin(&self, mut asked: Begin) -> Result<Decision, LedgerError> {
        let started = Instant::now();
        let checked = check::begin(&asked);
        self.inner.settings.expiry.apply(&asked.identity, &mut asked.terms);
        let is_own_call = asked.call.is_none() || asked.owner.is_none();
        asked.call = Some(own_call(asked.call.as_deref(), asked.owner.as_deref()));
        asked.wait = asked.wait.min(WAIT_MAX);
        let until = started + asked.wait;
        let mut pause = None;
        let mut retries = 0;
        let own_call = asked.call.as_deref().filter(|_| is_own_call);
        let mut sent = Sent::new(self, &asked.identity, own_call, asked.owner.as_deref(), asked.terms.lease);
        let result = loop {
            if let Err(error) = &checked {
                break Err(error.clone());
            }
            let patience = self.inner.settings.call_timeout + asked.wait;
            sent.asks();
            let tried = self.retrying(patience, || self.inner.store.begin(&asked)).await;
            sent.heard(&tried.result);
            retries += tried.retries;
            match tried.result {
                Ok(Decision::InProgress { retry_after, epoch, attempt }) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break Ok(Decision::InProgress { retry_after, epoch, attempt });
                    }
                    // The lease may end before the pause does, and then a caller may take over.
                    let next = pause.get_or_insert_with(|| Pause::new(asked.call.as_deref())).next();
                    sleep(next.min(retry_after.max(PAUSE_FIRST)).min(left)).await;
                    asked.wait = until.saturating_duration_since(Instant::now());
                }
                other => break other,
            }
        };
        let result = result.and_then(|told| self.settings().opened_decision(&asked.identity, told));
        self.told("begin", result.as_ref().map(Decision::word), started, retries);
        result
    }

    /// Asks to run again what failed and may be tried again.
    pub async fn reacquire(&self, mut asked: Reacquire) -> Result<Decision, LedgerError> {
        let checked = check::reacquire(&asked);
        self.inner.settings.expiry.apply(&asked.identity, &mut asked.terms);
        let is_own_call = asked.call.is_none() || asked.owner.is_none();
        asked.call = Some(own_call(asked.call.as_deref(), asked.owner.as_deref()));
        let own_call = asked.call.as_deref().filter(|_| is_own_call);
        let mut sent = Sent::new(self, &asked.identity, own_call, asked.owner.as_deref(), asked.terms.lease);
        sent.asks();
        let ask = || self.inner.store.reacquire(&asked);
        let result = self.call("reacquire", checked, Decision::word, ask).await;
        sent.heard(&result);
        result.and_then(|told| self.settings().opened_decision(&asked.identity, told))
    }

    /// Says how an effect ended. [`LedgerError::Stale`] if the lease is not the newest one any more.
    pub async fn finish(&self, lease: &Lease, ending: &Ending) -> Result<Finished, LedgerError> {
        let (stored, checked) = match self.settings().stored(&lease.identity, ending) {
            Ok(stored) => {
                let checked = check::ending(&stored, self.settings());
                (stored, checked)
            }
            Err(error) => (Cow::Borrowed(ending), Err(error)),
        };
        let tell = || self.inner.store.finish(lease, &stored);
        match self.call("finish", checked, |done: &Finished| done.word(), tell).await {
            // The same words, sealed again, look different.
            Err(LedgerError::Stale(_))
                if self.settings().seal.is_some() && self.has_said(lease, ending).await =>
            {
                Ok(Finished::AlreadyCommitted)
            }
            finished => finished,
        }
    }

    /// Whether the holder of a lease has ended the effect in exactly this way.
    async fn has_said(&self, lease: &Lease, ending: &Ending) -> bool {
        let said = without_credentials(ending);
        self.ended(lease).await.is_ok_and(|outcome| {
            outcome.is_some_and(|outcome| {
                (outcome.end, &outcome.response, &outcome.error) == (said.end, &said.response, &said.error)
            })
        })
    }

    /// Gives a lease up under which nothing was done. If it is the first of its record, the key is as if it had never
    /// been used, also for another request. Otherwise, or on a store that cannot forget a record, it counts as failed,
    /// and may be tried again.
    pub async fn release(&self, lease: &Lease) -> Result<Finished, LedgerError> {
        self.call("release", Ok(()), |done: &Finished| done.word(), || self.inner.store.release(lease)).await
    }

    /// Extends a lease to last for `lasts` from now; never shortens it. Returns when it lapses, by the store's clock.
    pub async fn renew(&self, lease: &Lease, lasts: Duration) -> Result<Moment, LedgerError> {
        let checked = check::lease_time(lasts);
        self.call("renew", checked, |_| "renewed", || self.inner.store.renew(lease, lasts)).await
    }

    /// Says how an effect ended whose outcome was unknown.
    pub async fn resolve(&self, found: &Resolve) -> Result<Finished, LedgerError> {
        let ending = self.settings().stored(&found.identity, &found.ending)?.into_owned();
        let found = &Resolve { ending, ..found.clone() };
        let checked = check::resolve(found, self.settings());
        self.call("resolve", checked, |done: &Finished| done.word(), || self.inner.store.resolve(found)).await
    }

    /// One record, if there is one that counts. Its response is opened, if it is sealed and can be.
    pub async fn get(&self, identity: &Identity) -> Result<Option<Record>, LedgerError> {
        let word = |found: &Option<Record>| if found.is_some() { "found" } else { "none" };
        let mut record = self.call("get", Ok(()), word, || self.inner.store.get(identity)).await?;
        if let Some(outcome) = record.as_mut().and_then(|record| record.outcome.as_mut())
            && let Err(error) = self.settings().open_outcome(identity, outcome)
        {
            tracing::warn!(%error, %identity, "a record is shown as it is stored");
        }
        Ok(record)
    }

    /// Some records, as they are stored.
    pub async fn list(&self, filter: &Filter) -> Result<Page, LedgerError> {
        let checked = check::filter(filter);
        self.call("list", checked, |_| "listed", || self.inner.store.list(filter)).await
    }

    /// Records that failed and may be tried again, for a retry worker that reacquires them: up to `limit`, those whose
    /// time is over soonest first where the store can say.
    pub async fn find_retryable(&self, method: Option<&str>, limit: u32) -> Result<Vec<Record>, LedgerError> {
        let mut filter = Filter {
            status: Some(Status::FailedRetryable),
            method: method.map(str::to_owned),
            limit,
            ..Filter::default()
        };
        let mut found = Vec::new();
        loop {
            let page = self.list(&filter).await?;
            found.extend(page.records.into_iter().filter(|record| match record.attempts_max {
                None => true,
                Some(most) => record.attempts < most,
            }));
            if found.len() >= limit as usize || page.cursor.is_none() {
                found.truncate(limit as usize);
                return Ok(found);
            }
            filter.cursor = page.cursor;
        }
    }

    /// One round of removing what is over.
    pub async fn sweep(&self, sweep: Sweep) -> Result<Swept, LedgerError> {
        let checked = check::page(sweep.limit);
        self.call("sweep", checked, |_| "swept", || self.inner.store.sweep(sweep)).await
    }

    /// Sweeps for ever, a round after each `every`, and at once again while there is more to do. Spawn it once per
    /// service; several at the same time do no harm. A failure is logged and tried again at the next round.
    pub async fn keep_swept(&self, every: Duration) {
        let mut rounds = tokio::time::interval(every.max(PAUSE_MAX));
        rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            rounds.tick().await;
            loop {
                match self.sweep(Sweep::default()).await {
                    Ok(swept) if swept.more => {}
                    Ok(_) => break,
                    Err(error) => {
                        tracing::warn!(%error, "sweeping the ledger failed; the next round tries again");
                        break;
                    }
                }
            }
        }
    }

    /// How many records there are.
    pub async fn stats(&self) -> Result<Stats, LedgerError> {
        self.call("stats", Ok(()), |_| "counted", || self.inner.store.stats()).await
    }

    /// What became of records that did not just begin and end, oldest first.
    pub async fn audit(&self, filter: &AuditFilter) -> Result<AuditPage, LedgerError> {
        let checked = check::audit(filter);
        self.call("audit", checked, |_| "listed", || self.inner.store.audit(filter)).await
    }

    async fn call<T, Fut: Future<Output = Result<T, LedgerError>>>(
        &self,
        operation: &'static str,
        checked: Result<(), LedgerError>,
        word: impl Fn(&T) -> &'static str,
        ask: impl Fn() -> Fut,
    ) -> Result<T, LedgerError> {
        let started = Instant::now();
        let tried = match checked {
            Ok(()) => self.retrying(self.inner.settings.call_timeout, ask).await,
            Err(error) => Tried { result: Err(error), retries: 0 },
        };
        self.told(operation, tried.result.as_ref().map(word), started, tried.retries);
        tried.result
    }

    /// Asks until there is an answer that a repetition would not change. Every call of a store is safe to repeat.
    async fn retrying<T, Fut: Future<Output = Result<T, LedgerError>>>(
        &self,
        patience: Duration,
        ask: impl Fn() -> Fut,
    ) -> Tried<T> {
        let until = Instant::now() + patience;
        let mut pause = None;
        let mut retries = 0;
        // What went wrong before says more than that the time is over.
        let mut before = None;
        loop {
            let Ok(result) = timeout_at(until, ask()).await else {
                let result = Err(before.unwrap_or(LedgerError::TimedOut(patience)));
                return Tried { result, retries };
            };
            let is_worth_it = result.as_ref().is_err_and(|error| {
                error.is_transient() && !matches!(error, LedgerError::TimedOut(_) | LedgerError::Full(_))
            });
            if !is_worth_it || retries >= self.inner.settings.retries_max {
                return Tried { result, retries };
            }
            let next = pause.get_or_insert_with(|| Pause::new(None)).next();
            if Instant::now() + next >= until {
                return Tried { result, retries };
            }
            before = result.err();
            retries += 1;
            sleep(next).await;
        }
    }

    fn told(
        &self,
        operation: &'static str,
        result: Result<&'static str, &LedgerError>,
        started: Instant,
        retries: u32,
    ) {
        let result = result.unwrap_or_else(LedgerError::word);
        let store = self.inner.store.name();
        self.inner.observer.on_call(Call { store, operation, result, took: started.elapsed(), retries });
    }
}

/// What the name of a call is made of.
const CALL_ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// As many as 128 bits need: it is written down with every request.
const CALL_CHARACTERS: usize = 22;

/// A name for a call that no other call has.
pub(crate) fn new_call() -> String {
    let mut bytes = [0; 16];
    // Without randomness no name is sure to be new. If the system has none to give, the system's time is the next best:
    // calls at different times stay apart.
    if getrandom::fill(&mut bytes).is_err() {
        let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        bytes = nanos.map_or(0, |time| time.as_nanos()).to_le_bytes();
    }
    let mut number = u128::from_le_bytes(bytes);
    let mut name = String::with_capacity(CALL_CHARACTERS);
    for _ in 0..CALL_CHARACTERS {
        name.push(char::from(CALL_ALPHABET[(number % 64) as usize]));
        number /= 64;
    }
    name
}

/// Pauses that double, each up to a quarter shorter, so that callers that wait for the same thing spread out.
struct Pause {
    next: Duration,
    seed: u64,
}

impl Pause {
    fn new(name: Option<&str>) -> Self {
        let name = name.map_or_else(new_call, str::to_owned);
        let hash = blake3::hash(name.as_bytes());
        let mut seed = [0; 8];
        seed.copy_from_slice(&hash.as_bytes()[..8]);
        Self { next: PAUSE_FIRST, seed: u64::from_le_bytes(seed) }
    }

    fn next(&mut self) -> Duration {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let full = self.next;
        self.next = (full * 2).min(PAUSE_MAX);
        let part = u32::try_from(self.seed >> 56).unwrap_or(0);
        full - full * part / 1024
    }
}
