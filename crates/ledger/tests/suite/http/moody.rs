//! A ledger that can be made to fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use driftq_ledger::memory::{ManualClock, MemoryStore};
use driftq_ledger::{
    Begin, Decision, Ending, Filter, Finished, Identity, KeptHeaders, Lease, Ledger, LedgerError, Moment,
    Page, Pending, Reacquire, Record, Resolve, Settings, Silent, Stats, Store, Sweep, Swept,
};

/// A store that says it is not there when told to.
#[derive(Clone)]
pub(crate) struct Moody {
    store: MemoryStore,
    pub(crate) begin_fails: Arc<AtomicBool>,
    pub(crate) finish_fails: Arc<AtomicBool>,
    /// Takes payloads of so many bytes, whatever the ledger lets through.
    pub(crate) payload_bytes_max: Arc<AtomicUsize>,
}

impl Moody {
    /// A ledger that is quick to give up, on a store that goes by this clock.
    pub(crate) fn ledger(clock: &Arc<ManualClock>) -> (Self, Ledger) {
        let store = Self {
            store: MemoryStore::with_clock(Arc::clone(clock) as _),
            begin_fails: Arc::default(),
            finish_fails: Arc::default(),
            payload_bytes_max: Arc::new(AtomicUsize::new(usize::MAX)),
        };
        let settings = Settings {
            retries_max: 0,
            finish_patience: Duration::from_millis(1),
            headers: KeptHeaders::default().and("x-one").and("X-Run").and("x-proof-bin").and("x-trailer"),
            ..Settings::default()
        };
        let ledger = Ledger::with(store.clone(), settings, Silent);
        (store, ledger)
    }

    fn gone<T>() -> Result<T, LedgerError> {
        Err(LedgerError::Unavailable("secret-host:5432 refuses".to_owned()))
    }
}

impl Store for Moody {
    fn name(&self) -> &'static str {
        "moody"
    }

    fn begin<'a>(&'a self, asked: &'a Begin) -> Pending<'a, Decision> {
        match self.begin_fails.load(Ordering::SeqCst) {
            true => Box::pin(async { Self::gone() }),
            false => self.store.begin(asked),
        }
    }

    fn reacquire<'a>(&'a self, asked: &'a Reacquire) -> Pending<'a, Decision> {
        self.store.reacquire(asked)
    }

    fn finish<'a>(&'a self, lease: &'a Lease, ending: &'a Ending) -> Pending<'a, Finished> {
        let (bytes, limit) = (ending.response.payload.len(), self.payload_bytes_max.load(Ordering::SeqCst));
        if bytes > limit {
            return Box::pin(async move { Err(LedgerError::TooLarge { bytes, limit }) });
        }
        match self.finish_fails.load(Ordering::SeqCst) {
            true => Box::pin(async { Self::gone() }),
            false => self.store.finish(lease, ending),
        }
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> Pending<'a, Finished> {
        match self.finish_fails.load(Ordering::SeqCst) {
            true => Box::pin(async { Self::gone() }),
            false => self.store.release(lease),
        }
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
