//! Random calls against the store in memory and against a model that was written from the decision table of the
//! documentation, in plain seconds, without the rules that the stores share.

use std::sync::Arc;
use std::time::Duration;

use driftq_ledger::memory::{Clock as _, ManualClock, MemoryStore};
use driftq_ledger::{
    Begin, Decision, End, Ending, Identity, Lease, LedgerError, Moment, OnLapse, Reacquire, RequestHash,
    Resolve, Resolver, Response, Status, Store as _, Sweep, Terms,
};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{option, proptest};

const KEYS: usize = 2;

#[derive(Clone, Copy, Debug)]
struct Asking {
    key: usize,
    request: u8,
    reacquire: bool,
    call: Option<u8>,
    lease: u64,
    ttl: u64,
    retry: bool,
    cap: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Begin(Asking),
    Reacquire(Asking),
    /// The lease that was given so many leases ago.
    Finish {
        ago: usize,
        end: End,
        said: u8,
    },
    Renew {
        ago: usize,
        lasts: u64,
    },
    Resolve {
        key: usize,
        end: End,
        said: u8,
        seen: Option<u32>,
        ttl: u64,
    },
    Sweep {
        limit: u32,
        dry_run: bool,
    },
    Pass(u64),
    /// Somebody sets the clock back.
    Back(u64),
}

fn asking() -> impl Strategy<Value = Asking> {
    let request = prop_oneof![9 => Just(0_u8), 1 => Just(1)];
    let numbers = (0..KEYS, request, option::of(0..3_u8), 1..5_u64, 1..8_u64, option::of(1..4_u32));
    (numbers, any::<bool>(), any::<bool>()).prop_map(
        |((key, request, call, lease, ttl, cap), reacquire, retry)| Asking {
            key,
            request,
            reacquire,
            call,
            lease,
            ttl,
            retry,
            cap,
        },
    )
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![1 => Just(End::Succeeded), 1 => Just(End::FailedFinal), 2 => Just(End::FailedRetryable)]
}

fn step() -> impl Strategy<Value = Step> {
    let ago = || prop_oneof![3 => Just(0_usize), 1 => 0..4_usize];
    prop_oneof![
        5 => asking().prop_map(Step::Begin),
        1 => asking().prop_map(Step::Reacquire),
        3 => (ago(), end(), 0..2_u8).prop_map(|(ago, end, said)| Step::Finish { ago, end, said }),
        1 => (ago(), 1..6_u64).prop_map(|(ago, lasts)| Step::Renew { ago, lasts }),
        1 => (0..KEYS, end(), 0..2_u8, option::of(0..4_u32), 1..8_u64)
            .prop_map(|(key, end, said, seen, ttl)| Step::Resolve { key, end, said, seen, ttl }),
        1 => (1..4_u32, any::<bool>()).prop_map(|(limit, dry_run)| Step::Sweep { limit, dry_run }),
        3 => (1..6_u64).prop_map(Step::Pass),
        1 => (1..20_u64).prop_map(Step::Back),
    ]
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Running {
        until: u64,
    },
    /// It was written down that nobody knows.
    Unknown {
        until: u64,
    },
    Ended {
        end: End,
        said: u8,
        by_person: bool,
        at: u64,
    },
}

#[derive(Clone, Debug)]
struct Known {
    /// Tells it from an earlier record of the same key.
    record: usize,
    request: u8,
    epoch: u32,
    attempts: u32,
    cap: Option<u32>,
    retry: bool,
    call: Option<u8>,
    ttl: u64,
    phase: Phase,
}

impl Known {
    fn left(&self, cap: Option<u32>) -> Option<u32> {
        match (self.cap, cap) {
            (None, None) => None,
            (Some(one), None) | (None, Some(one)) => Some(one.saturating_sub(self.attempts)),
            (Some(one), Some(other)) => Some(one.max(other).saturating_sub(self.attempts)),
        }
    }

    fn is_held(&self, now: u64) -> bool {
        match self.phase {
            Phase::Running { until } => until <= now && (!self.retry || self.left(None) == Some(0)),
            Phase::Unknown { .. } => true,
            Phase::Ended { .. } => false,
        }
    }

    fn is_over(&self, now: u64) -> bool {
        match self.phase {
            Phase::Running { until } => until + self.ttl <= now && !self.is_held(now),
            Phase::Unknown { .. } => false,
            Phase::Ended { at, .. } => at + self.ttl <= now,
        }
    }

    fn status(&self, now: u64) -> Status {
        match self.phase {
            Phase::Ended { end, .. } => end.into(),
            _ if self.is_held(now) => Status::Unknown,
            _ => Status::InProgress,
        }
    }

    fn lend(&mut self, asked: &Asking, now: u64) {
        self.cap = self.cap.max(asked.cap);
        self.retry = asked.retry;
        self.call = asked.call;
        self.ttl = asked.ttl;
        self.phase = Phase::Running { until: now + asked.lease };
    }
}

/// A lease, as the model knows it.
#[derive(Clone, Debug)]
struct Given {
    key: usize,
    record: usize,
    epoch: u32,
    lease: Lease,
}

#[derive(Default)]
struct Model {
    now: u64,
    records: usize,
    known: [Option<Known>; KEYS],
    given: Vec<Given>,
}

/// What somebody is told, in words and numbers.
type Told = (&'static str, u32, u32);

impl Model {
    fn begin(&mut self, asked: &Asking, is_worker: bool) -> Told {
        let now = self.now;
        let slot = &mut self.known[asked.key];
        let Some(known) = slot.as_mut().filter(|known| !known.is_over(now)) else {
            if is_worker {
                return ("not_found", 0, 0);
            }
            self.records += 1;
            let mut known = Known {
                record: self.records,
                request: asked.request,
                epoch: 1,
                attempts: 1,
                cap: None,
                retry: asked.retry,
                call: None,
                ttl: 0,
                phase: Phase::Unknown { until: 0 },
            };
            known.lend(asked, now);
            *slot = Some(known);
            return ("execute", 1, 1);
        };
        if known.request != asked.request {
            return ("conflict", 0, 0);
        }
        let left = known.left(asked.cap);
        let word = match known.phase {
            Phase::Ended { end: End::Succeeded | End::FailedFinal, .. } => "replay",
            Phase::Ended { .. } if !asked.reacquire && !is_worker => "retryable",
            Phase::Ended { .. } if left == Some(0) && is_worker => "exhausted",
            Phase::Ended { .. } if left == Some(0) => "retryable",
            Phase::Ended { .. } => "next",
            Phase::Unknown { .. } => "unknown",
            Phase::Running { until } if until > now => {
                let is_same = asked.call.is_some() && asked.call == known.call;
                if is_same { "execute" } else { "in_progress" }
            }
            Phase::Running { .. } if known.retry && left != Some(0) => "next",
            Phase::Running { until } => {
                known.phase = Phase::Unknown { until };
                "unknown"
            }
        };
        if word == "next" {
            (known.epoch, known.attempts) = (known.epoch + 1, known.attempts + 1);
            known.lend(asked, now);
            return ("execute", known.epoch, known.attempts);
        }
        (word, known.epoch, known.attempts)
    }

    /// The record that a lease is the newest one of.
    fn held(&mut self, given: &Given) -> Option<&mut Known> {
        let known = self.known[given.key].as_mut();
        known.filter(|known| (known.record, known.epoch) == (given.record, given.epoch))
    }

    fn finish(&mut self, given: &Given, (end, said): (End, u8)) -> &'static str {
        let at = self.now;
        let Some(known) = self.held(given) else { return "stale" };
        let ended = Phase::Ended { end, said, by_person: false, at };
        match &known.phase {
            Phase::Ended { end: before, said: word, .. } if (*before, *word) == (end, said) => {
                "already_committed"
            }
            Phase::Ended { .. } => "stale",
            _ => {
                known.phase = ended;
                "committed"
            }
        }
    }

    fn renew(&mut self, given: &Given, lasts: u64) -> Option<u64> {
        let now = self.now;
        let known = self.held(given)?;
        match known.phase {
            Phase::Ended { .. } => None,
            Phase::Running { until } | Phase::Unknown { until } => {
                let until = until.max(now + lasts);
                known.phase = Phase::Running { until };
                Some(until)
            }
        }
    }

    fn resolve(&mut self, key: usize, (end, said): (End, u8), seen: Option<u32>, ttl: u64) -> &'static str {
        let now = self.now;
        let Some(known) = self.known[key].as_mut().filter(|known| !known.is_over(now)) else {
            return "not_found";
        };
        match known.phase {
            Phase::Running { until } if until > now => return "running",
            Phase::Ended { end: before, said: word, by_person: true, .. }
                if (before, word) == (end, said) =>
            {
                return "already_committed";
            }
            Phase::Ended { end: End::Succeeded | End::FailedFinal, .. } => return "final",
            _ => {}
        }
        if seen.is_some_and(|seen| seen != known.epoch) {
            return "stale";
        }
        known.epoch += 1;
        known.ttl = ttl;
        if end == End::FailedRetryable {
            known.cap = known.cap.map(|cap| cap.max(known.attempts + 1));
        }
        known.phase = Phase::Ended { end, said, by_person: true, at: now };
        "committed"
    }

    /// What a sweep without a limit would find: records to remove, and records to hold.
    fn due(&self) -> (u64, u64) {
        let known = || self.known.iter().flatten();
        let held = |one: &&Known| matches!(one.phase, Phase::Running { .. }) && one.is_held(self.now);
        (known().filter(|one| one.is_over(self.now)).count() as u64, known().filter(held).count() as u64)
    }

    /// Does to the model what the store did: what is written down decides nothing that was not decided before.
    fn swept(&mut self) {
        for slot in &mut self.known {
            if slot.as_ref().is_some_and(|known| known.is_over(self.now)) {
                *slot = None;
            }
        }
    }
}

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
        let mut expected = std::collections::BTreeMap::<Status, u64>::new();
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
            let filter = driftq_ledger::Filter { status: Some(status), limit: 10, ..Default::default() };
            let page = self.store.list(&filter).await.unwrap();
            let count = expected.get(&status).copied().unwrap_or(0);
            assert_eq!((page.records.len() as u64, page.cursor), (count, None), "{status:?}");
        }
        assert_eq!(self.store.stats().await.unwrap().over, Some(self.model.due().0));
    }
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 1_500, ..Default::default() })]

    #[test]
    fn the_store_does_what_the_table_says(steps in proptest::collection::vec(step(), 1..60)) {
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
