//! Random calls against the store in memory and against a model that knows nothing of the rules that the stores share.

mod model;
mod step;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use driftq_ledger::memory::{Clock as _, ManualClock, MemoryStore};
use driftq_ledger::{
    Begin, Decision, End, Ending, Filter, Identity, LedgerError, Moment, OnLapse, Reacquire, RequestHash,
    Resolve, Resolver, Response, Status, Store as _, Sweep, Terms,
};
use proptest::test_runner::Config;
use proptest::{collection, proptest};

use model::{Given, Model, Phase};
use step::{Asking, Step, step};

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn identity(key: usize) -> Identity {
    Identity::new("ann", "pay", &format!("k{key}")).unwrap()
}

fn ending(end: End, said: u8) -> Ending {
    Ending { end, response: Response::new(vec![said]), error: String::new() }
}

/// The store, the model, and the time at which both began.
struct Race {
    store: MemoryStore,
    clock: Arc<ManualClock>,
    origin: Moment,
    model: Model,
}

impl Race {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let store = MemoryStore::with_clock(Arc::clone(&clock) as _);
        Self { store, origin: clock.now(), clock, model: Model::default() }
    }

    async fn begin(&mut self, asked: &Asking, is_worker: bool) {
        let mut terms = Terms::default().lease(seconds(asked.lease)).ttl(seconds(asked.ttl));
        terms.on_lapse = if asked.retry { OnLapse::Retry } else { OnLapse::Hold };
        terms.attempts_max = asked.cap;
        let call = asked.call.map(|call| format!("call {call}"));
        let hash = RequestHash::of_bytes(&[asked.request]);
        let (identity, owner) = (identity(asked.key), None);
        let decision = if is_worker {
            let asked = Reacquire { identity, hash: Some(hash), terms, call, owner };
            self.store.reacquire(&asked).await
        } else {
            let (reacquire, wait) = (asked.reacquire, Duration::ZERO);
            self.store.begin(&Begin { identity, hash, terms, reacquire, wait, call, owner }).await
        };
        let expected = self.model.begin(asked, is_worker);
        let told = match &decision {
            Ok(Decision::Execute(lease)) => ("execute", lease.epoch, lease.attempt),
            Ok(Decision::InProgress { epoch, attempt, .. }) => ("in_progress", *epoch, *attempt),
            Ok(Decision::Unknown { epoch, attempt, .. }) => ("unknown", *epoch, *attempt),
            Ok(Decision::Replay(outcome)) => ("replay", outcome.epoch, outcome.attempt),
            Ok(Decision::Retryable { outcome, .. }) => ("retryable", outcome.epoch, outcome.attempt),
            Err(LedgerError::Exhausted { attempts }) => ("exhausted", expected.1, *attempts),
            Err(error) => (error.word(), 0, 0),
        };
        assert_eq!(told, expected);
        if let Ok(Decision::Execute(lease)) = decision {
            let record = self.model.known[asked.key].as_ref().map_or(0, |known| known.record);
            let given = Given { key: asked.key, record, epoch: lease.epoch, lease };
            let before = self.model.given.iter().rev().find(|before| before.key == given.key);
            if let Some(before) = before {
                let rises = (before.record, before.epoch) < (given.record, given.epoch);
                assert!(rises || before.lease.proof == given.lease.proof, "{before:?} {given:?}");
            }
            self.model.given.push(given);
        }
    }

    async fn go(&mut self, step: Step) {
        match step {
            Step::Begin(asked) => self.begin(&asked, false).await,
            Step::Reacquire(asked) => self.begin(&asked, true).await,
            Step::Finish { ago, end, said } => {
                let Some(given) = self.model.given.iter().rev().nth(ago).cloned() else { return };
                let result = self.store.finish(&given.lease, &ending(end, said)).await;
                let told = result.as_ref().map_or_else(LedgerError::word, |done| done.word());
                assert_eq!(told, self.model.finish(&given, (end, said)));
            }
            Step::Renew { ago, lasts } => {
                let Some(given) = self.model.given.iter().rev().nth(ago).cloned() else { return };
                let result = self.store.renew(&given.lease, seconds(lasts)).await;
                let expected = self.model.renew(&given, lasts).map(|until| self.origin.after(seconds(until)));
                assert_eq!(result.ok(), expected);
            }
            Step::Resolve { key, end, said, seen, ttl } => {
                let resolver = Resolver { by: "ann".to_owned(), why: "looked".to_owned() };
                let (ending, ttl_long) = (ending(end, said), seconds(ttl));
                let found = Resolve { identity: identity(key), epoch: seen, ending, resolver, ttl: ttl_long };
                let result = self.store.resolve(&found).await;
                let told = result.as_ref().map_or_else(LedgerError::word, |done| done.word());
                assert_eq!(told, self.model.resolve(key, (end, said), seen, ttl));
            }
            Step::Sweep { limit, dry_run } => {
                let (removed, held) = self.model.due();
                let swept = self.store.sweep(Sweep { dry_run, limit }).await.unwrap();
                assert_eq!(swept.removed + swept.held, (removed + held).min(u64::from(limit)));
                assert_eq!(swept.more, removed + held > u64::from(limit));
                if !dry_run && !swept.more {
                    assert_eq!((swept.removed, swept.held), (removed, held));
                    self.note_held();
                    self.model.swept();
                } else if !dry_run {
                    // Which of them it was does not matter: go on until all is done.
                    let rest = self.store.sweep(Sweep { dry_run, limit: 1_000 }).await.unwrap();
                    assert_eq!((swept.removed + rest.removed, swept.held + rest.held), (removed, held));
                    self.note_held();
                    self.model.swept();
                }
            }
            Step::Pass(time) => {
                self.model.now += time;
                self.clock.set(self.origin.after(seconds(self.model.now)));
            }
            Step::Back(time) => {
                let micros = i64::try_from(seconds(time).as_micros()).unwrap();
                // Somebody looks before, or the store could not know that it was ever later.
                self.store.stats().await.unwrap();
                self.clock.set(Moment::from_micros(self.clock.now().micros() - micros));
            }
        }
    }

    /// Sweeping writes down what is held.
    fn note_held(&mut self) {
        let now = self.model.now;
        for known in self.model.known.iter_mut().flatten().filter(|known| known.is_held(now)) {
            if let Phase::Running { until } = known.phase {
                known.phase = Phase::Unknown { until };
            }
        }
    }

    /// Both see the same.
    async fn agree(&self) {
        let now = self.model.now;
        let mut expected = BTreeMap::<Status, u64>::new();
        for (key, known) in self.model.known.iter().enumerate() {
            let seen = self.store.get(&identity(key)).await.unwrap();
            let Some(known) = known.as_ref().filter(|known| !known.is_over(now)) else {
                assert_eq!(seen, None);
                continue;
            };
            let seen = seen.unwrap();
            let numbers = (seen.status, seen.epoch, seen.attempts, seen.attempts_max);
            assert_eq!(numbers, (known.status(now), known.epoch, known.attempts, known.cap));
            let live = matches!(known.phase, Phase::Running { until } if until > now);
            assert_eq!(seen.lease_live, live);
            match (&known.phase, &seen.outcome) {
                (Phase::Ended { end, said, by_person, at }, Some(outcome)) => {
                    assert_eq!((outcome.end, outcome.response.payload.as_ref()), (*end, &[*said][..]));
                    assert_eq!(outcome.resolved.is_some(), *by_person);
                    assert_eq!(outcome.finished_at, self.origin.after(seconds(*at)));
                }
                (Phase::Running { .. } | Phase::Unknown { .. }, None) => {}
                other => panic!("{other:?}"),
            }
            *expected.entry(seen.status).or_default() += 1;
        }
        for status in Status::ALL {
            let filter = Filter { status: Some(status), limit: 10, ..Filter::default() };
            let page = self.store.list(&filter).await.unwrap();
            let count = expected.get(&status).copied().unwrap_or(0);
            assert_eq!((page.records.len() as u64, page.cursor), (count, None), "{status:?}");
        }
        assert_eq!(self.store.stats().await.unwrap().over, Some(self.model.due().0));
    }
}

proptest! {
    #![proptest_config(Config { cases: 1_500, ..Config::default() })]

    #[test]
    fn the_store_does_what_the_table_says(steps in collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut race = Race::new();
            for step in steps {
                race.go(step).await;
                race.agree().await;
            }
        });
    }
}
