//! A ledger on a store that has trouble, and whose time passes when everybody waits.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use driftq_ledger::memory::{Clock, MemoryStore};
use driftq_ledger::{
    Begin, Decision, Ending, Failed, Filter, Finished, HEADERS_MAX, Identity, KeptHeaders, Lease, Ledger,
    LedgerError, Moment, OnLapse, Page, Pending, Ran, Reacquire, Record, RequestHash, Resolve, Response,
    RunError, Settings, Silent, Stats, Store, Sweep, Swept, Terms,
};
use tokio::time::Instant;

pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// Larger payloads are not kept.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 1000;

/// Time as the paused runtime has it: it passes when everybody waits.
struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    fn now(&self) -> Moment {
        Moment::from_millis(1_766_318_400_000).after(self.0.elapsed())
    }
}

/// What goes wrong with a store.
#[derive(Default)]
pub(crate) struct Trouble {
    /// So many finishes fail.
    pub(crate) finishes: AtomicU32,
    /// With this, or as if the store was gone.
    pub(crate) error: Mutex<Option<LedgerError>>,
    /// Whether they are written down all the same, and only the answer is lost.
    pub(crate) is_answer_lost: AtomicBool,
    /// Of so many begins the answer is lost.
    pub(crate) begins_lost: AtomicU32,
    /// So many begins do not get to the store.
    pub(crate) begins_failed: AtomicU32,
    /// Whether a begin whose answer is lost is never answered at all.
    pub(crate) is_silent: AtomicBool,
    /// So many renewals fail.
    pub(crate) renewals: AtomicU32,
    /// Finishes that got to the store.
    pub(crate) finished: AtomicU32,
}

/// A store in memory that has trouble.
struct Troubled {
    store: MemoryStore,
    trouble: Arc<Trouble>,
}

/// Takes one from what is left.
fn one_of(left: &AtomicU32) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

impl Store for Troubled {
    fn name(&self) -> &'static str {
        "troubled"
    }

    fn begin<'a>(&'a self, asked: &'a Begin) -> Pending<'a, Decision> {
        Box::pin(async move {
            let gone = || Err(LedgerError::Unavailable("it is gone".to_owned()));
            if one_of(&self.trouble.begins_failed) {
                return gone();
            }
            let told = self.store.begin(asked).await;
            match one_of(&self.trouble.begins_lost) {
                true if self.trouble.is_silent.load(Ordering::SeqCst) => std::future::pending().await,
                true => gone(),
                false => told,
            }
        })
    }

    fn reacquire<'a>(&'a self, asked: &'a Reacquire) -> Pending<'a, Decision> {
        self.store.reacquire(asked)
    }

    fn finish<'a>(&'a self, lease: &'a Lease, ending: &'a Ending) -> Pending<'a, Finished> {
        Box::pin(async move {
            self.trouble.finished.fetch_add(1, Ordering::SeqCst);
            if !one_of(&self.trouble.finishes) {
                return self.store.finish(lease, ending).await;
            }
            if self.trouble.is_answer_lost.load(Ordering::SeqCst) {
                self.store.finish(lease, ending).await?;
            }
            let error = self.trouble.error.lock().unwrap().clone();
            Err(error.unwrap_or_else(|| LedgerError::Unavailable("it is gone".to_owned())))
        })
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> Pending<'a, Finished> {
        self.store.release(lease)
    }

    fn renew<'a>(&'a self, lease: &'a Lease, lasts: Duration) -> Pending<'a, Moment> {
        if one_of(&self.trouble.renewals) {
            return Box::pin(async { Err(LedgerError::Unavailable("it is gone".to_owned())) });
        }
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

pub(crate) fn world() -> (Ledger, Arc<Trouble>) {
    let trouble = Arc::new(Trouble::default());
    let store = MemoryStore::with_clock(Arc::new(RuntimeClock(Instant::now())));
    let listed = (0..=HEADERS_MAX).map(|at| format!("h{at}"));
    let headers = listed.fold(KeptHeaders::default().and("x"), |headers, name| headers.and(&name));
    let settings = Settings { payload_bytes_max: PAYLOAD_BYTES_MAX, headers, ..Settings::default() };
    let troubled = Troubled { store, trouble: Arc::clone(&trouble) };
    (Ledger::with(troubled, settings, Silent), trouble)
}

pub(crate) fn identity() -> Identity {
    Identity::new("ann", "pay", "order-7").unwrap()
}

pub(crate) fn hash() -> RequestHash {
    RequestHash::of_bytes(b"5 EUR")
}

pub(crate) fn asking(on_lapse: OnLapse) -> Begin {
    Begin::new(identity(), hash()).terms(Terms::default().lease(LEASE).on_lapse(on_lapse)).reacquire()
}

/// Runs an effect that comes to this at once.
pub(crate) async fn run(ledger: &Ledger, result: Result<Response, Failed>) -> Result<Ran, RunError<Failed>> {
    ledger.run(identity(), hash(), || async move { result }).await
}

/// Asks for an effect that must not be run any more.
pub(crate) async fn replay(ledger: &Ledger) -> Result<Ran, RunError<Failed>> {
    let must_not_run = || async { panic!("it must not be run") };
    ledger.run::<_, _, Response, Failed>(identity(), hash(), must_not_run).await
}

/// What the ledger has of it.
pub(crate) async fn record(ledger: &Ledger) -> Record {
    ledger.get(&identity()).await.unwrap().unwrap()
}
