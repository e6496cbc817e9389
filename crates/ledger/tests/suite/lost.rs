//! The answer to a begin is lost, or its caller is gone: nobody runs the effect, and nobody has to wait for the lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{Bed, ask, identity, lease};
use driftq_ledger::memory::MemoryStore;
use driftq_ledger::{
    Begin, Decision, Ending, Filter, Finished, Identity, Lease, Ledger, LedgerError, Lost, Moment, Page,
    Pending, Reacquire, Record, Resolve, Resolver, Response, Settings, Silent, Stats, Store, Sweep, Swept,
};
use tokio::sync::{Notify, watch};

/// What becomes of the answers to every begin.
#[derive(Clone, Copy, PartialEq)]
enum Line {
    /// They arrive.
    Fine,
    /// The caller is told that the line was cut.
    Cut,
    /// The caller is told nothing.
    Mute,
}

/// A store on a line that loses the answers to every begin until it is mended.
#[derive(Clone)]
struct Cut<S> {
    store: S,
    line: watch::Sender<Line>,
    /// The store has decided about a begin.
    decided: Arc<Notify>,
    /// How often it was asked to give something back.
    asked_back: Arc<AtomicUsize>,
}

impl<S: Store> Cut<S> {
    fn new(store: S) -> Self {
        Self::by(Line::Cut, store)
    }

    fn by(line: Line, store: S) -> Self {
        Self { store, line: watch::Sender::new(line), decided: Arc::default(), asked_back: Arc::default() }
    }

    fn mend(&self) {
        self.line.send_replace(Line::Fine);
    }

    async fn answer<T>(&self, answer: T) -> Result<T, LedgerError> {
        let line = *self.line.subscribe().wait_for(|line| *line != Line::Mute).await.unwrap();
        match line {
            Line::Cut => Err(LedgerError::Unavailable("the line was cut".to_owned())),
            Line::Fine | Line::Mute => Ok(answer),
        }
    }
}

impl<S: Store> Store for Cut<S> {
    fn name(&self) -> &'static str {
        "cut"
    }
    fn begin<'a>(&'a self, asked: &'a Begin) -> Pending<'a, Decision> {
        Box::pin(async move {
            // The line is not kept busy by a caller that waits: that is the ledger's to do.
            let at_once = asked.clone().wait(Duration::ZERO);
            let decision = self.store.begin(&at_once).await?;
            self.decided.notify_one();
            self.answer(decision).await
        })
    }
    fn reacquire<'a>(&'a self, asked: &'a Reacquire) -> Pending<'a, Decision> {
        Box::pin(async move {
            let decision = self.store.reacquire(asked).await?;
            self.decided.notify_one();
            self.answer(decision).await
        })
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
            self.asked_back.fetch_add(1, Ordering::SeqCst);
            self.answer(()).await?;
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

/// The caller is cancelled after the store has decided, and before it is told.
async fn a_dropped_begin_is_given_back(store: impl Store + Clone) {
    let mute = Cut::by(Line::Mute, store.clone());
    let (ledger, other) = (Ledger::new(mute.clone()), Ledger::new(store));
    let failed = lease(&other, ask("failed")).await;
    other.finish(&failed, &Ending::failed_retryable("not now")).await.unwrap();
    for key in ["resolved", "run", "failed"] {
        let begin = async {
            match key {
                "failed" => ledger.reacquire(Reacquire::new(identity(key)).terms(ask(key).terms)).await,
                _ => ledger.begin(ask(key)).await,
            }
        };
        tokio::select! {
            told = begin => panic!("nobody was to be told anything: {told:?}"),
            () = mute.decided.notified() => {}
        }
        let there = other.get(&identity(key)).await.unwrap().unwrap();
        assert!(there.lease_live, "the store has given a lease, of which nobody knows");
    }
    mute.mend();
    until_resolved(&other, "resolved").await;
    let taken = lease(&other, ask("run").wait(Duration::from_secs(30))).await;
    assert_eq!((taken.epoch, taken.attempt), (3, 1));
    let taken = lease(&other, ask("failed").reacquire().wait(Duration::from_secs(30))).await;
    assert_eq!((taken.epoch, taken.attempt), (4, 2));
}

#[tokio::test]
async fn a_begin_that_is_dropped_before_its_answer_blocks_nobody_in_memory() {
    a_dropped_begin_is_given_back(MemoryStore::new()).await;
}

#[tokio::test]
async fn a_begin_that_is_dropped_before_its_answer_blocks_nobody_in_postgres() {
    a_dropped_begin_is_given_back(Bed::new().await.store).await;
}

/// It knows what the store has decided, and that it has got nothing.
#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_while_it_waits_has_nothing_to_give_back() {
    let store = Cut::by(Line::Fine, MemoryStore::new());
    let ledger = Ledger::new(store.clone());
    let held = lease(&ledger, ask("k")).await;
    let waits = ledger.begin(ask("k").wait(Duration::from_secs(60)));
    let gone = tokio::time::timeout(Duration::from_millis(2), waits).await;
    assert!(gone.is_err(), "it waits: {gone:?}");
    // Longer than any pause before the store would be asked.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(store.asked_back.load(Ordering::SeqCst), 0);
    assert_eq!(ledger.finish(&held, &found("k").ending).await.unwrap(), Finished::Committed);
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
