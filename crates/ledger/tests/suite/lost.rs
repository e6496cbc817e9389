//! The answer to a begin is lost: nobody runs the effect, and nobody has to wait for the lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{Bed, ask, identity, lease};
use driftq_ledger::memory::MemoryStore;
use driftq_ledger::{
    Begin, Decision, Ending, Filter, Finished, Identity, Lease, Ledger, LedgerError, Lost, Moment, Page,
    Pending, Reacquire, Record, Resolve, Resolver, Response, Settings, Silent, Stats, Store, Sweep, Swept,
};

/// A store on a line that cuts the answers to every begin until it is mended.
#[derive(Clone)]
struct Cut<S> {
    store: S,
    is_cut: Arc<AtomicBool>,
}

impl<S: Store> Cut<S> {
    fn new(store: S) -> Self {
        Self { store, is_cut: Arc::new(AtomicBool::new(true)) }
    }

    fn mend(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }

    fn answer<T>(&self, answer: T) -> Result<T, LedgerError> {
        if self.is_cut.load(Ordering::SeqCst) {
            return Err(LedgerError::Unavailable("the line was cut".to_owned()));
        }
        Ok(answer)
    }
}

impl<S: Store> Store for Cut<S> {
    fn name(&self) -> &'static str {
        "cut"
    }
    fn begin<'a>(&'a self, asked: &'a Begin) -> Pending<'a, Decision> {
        Box::pin(async move { self.answer(self.store.begin(asked).await?) })
    }
    fn reacquire<'a>(&'a self, asked: &'a Reacquire) -> Pending<'a, Decision> {
        Box::pin(async move { self.answer(self.store.reacquire(asked).await?) })
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
    fn give_back<'a>(&'a self, lost: &'a Lost) -> Pending<'a, bool> {
        Box::pin(async move {
            self.answer(())?;
            self.store.give_back(lost).await
        })
    }
}

fn found(key: &str) -> Resolve {
    Resolve {
        identity: identity(key),
        epoch: None,
        ending: Ending::succeeded(Response::new("found")),
        resolver: Resolver { by: "ann".to_owned(), why: "looked".to_owned() },
        ttl: Duration::from_secs(3600),
    }
}

/// How often a test looks whether something has come about. It comes about much sooner.
const LOOKS_MAX: u32 = 3_000;

async fn until_resolved(ledger: &Ledger, key: &str) {
    for _ in 0..LOOKS_MAX {
        match ledger.resolve(&found(key)).await {
            Ok(Finished::Committed) => return,
            Err(LedgerError::Running) => tokio::time::sleep(Duration::from_millis(10)).await,
            other => panic!("{other:?}"),
        }
    }
    panic!("a lease that nobody has still keeps the operator off");
}

async fn a_lost_begin_is_given_back(store: impl Store + Clone) {
    let cut = Cut::new(store.clone());
    let settings = Settings { retries_max: 1, ..Settings::default() };
    let (ledger, other) = (Ledger::with(cut.clone(), settings, Silent), Ledger::new(store));
    for key in ["resolved", "run", "again"] {
        let error = ledger.begin(ask(key)).await.unwrap_err();
        assert!(matches!(error, LedgerError::Unavailable(_)), "{error:?}");
        let there = other.get(&identity(key)).await.unwrap().unwrap();
        assert!(there.lease_live, "the store has given a lease, of which nobody knows");
        assert_eq!(other.resolve(&found(key)).await, Err(LedgerError::Running));
    }
    cut.mend();
    until_resolved(&other, "resolved").await;
    // The lease is an hour long, and the next caller runs it as if it had never been given.
    let patient = ask("run").wait(Duration::from_secs(30));
    let taken = lease(&other, patient).await;
    assert_eq!((taken.epoch, taken.attempt), (3, 1));
    assert_eq!(other.finish(&taken, &found("run").ending).await.unwrap(), Finished::Committed);
}

#[tokio::test]
async fn a_begin_whose_answer_is_lost_blocks_nobody_in_memory() {
    a_lost_begin_is_given_back(MemoryStore::new()).await;
}

#[tokio::test]
async fn a_begin_whose_answer_is_lost_blocks_nobody_in_postgres() {
    a_lost_begin_is_given_back(Bed::new().await.store).await;
}

/// A caller with a name of its own may ask again by that name, and its lease must stay.
#[tokio::test]
async fn what_a_caller_can_ask_for_again_is_not_given_back() {
    for bed in [None, Some(Bed::new().await)] {
        let memory = MemoryStore::new();
        let store: &dyn Store = bed.as_ref().map_or(&memory, |bed| &bed.store);
        let lost = |call: &str, owner: Option<&str>| Lost {
            identity: identity("k"),
            call: call.to_owned(),
            owner: owner.map(str::to_owned),
        };
        let asked = ask("k").call("mine").owner("me");
        assert!(!store.give_back(&lost("mine", Some("me"))).await.unwrap(), "there is nothing");
        let Decision::Execute(held) = store.begin(&asked).await.unwrap() else { panic!("it is new") };
        for other in [lost("mine", None), lost("mine", Some("you")), lost("yours", Some("me"))] {
            assert!(!store.give_back(&other).await.unwrap(), "{other:?}");
        }
        assert_eq!(store.begin(&asked).await.unwrap(), Decision::Execute(held.clone()));
        assert_eq!(store.finish(&held, &found("k").ending).await.unwrap(), Finished::Committed);
        assert!(!store.give_back(&lost("mine", Some("me"))).await.unwrap(), "what has ended stays");
    }
    let cut = Cut::new(MemoryStore::new());
    let ledger = Ledger::with(cut.clone(), Settings { retries_max: 0, ..Settings::default() }, Silent);
    ledger.begin(ask("k").call("mine").owner("me")).await.unwrap_err();
    cut.mend();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(lease(&ledger, ask("k").call("mine").owner("me")).await.epoch, 1);
}
