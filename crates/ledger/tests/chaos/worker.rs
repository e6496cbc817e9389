//! A process that runs effects through the ledger until it is killed.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use driftq_ledger::{
    Begin, Decision, End, Failed, Finished, Lease, Ledger, LedgerError, Proof, Resolve, Resolver, Response,
    RunError, Settings, Silent, Store, Sweep, postgres::PostgresStore,
};
use tokio::time::{Instant, sleep};

use super::{
    history::{Answer, Fact, FinishResult, Journal, now},
    plan::{Dice, Plan, ending},
    release::Release,
};

/// Names the worker. Set for a worker process, and for nobody else.
pub(crate) const NAME: &str = "DRIFTQ_CHAOS_WORKER";
/// Where it finds the database.
pub(crate) const URL: &str = "DRIFTQ_CHAOS_URL";
/// Where it writes down what it does.
pub(crate) const FOLDER: &str = "DRIFTQ_CHAOS_FOLDER";
/// When the test began, in microseconds since 1970.
pub(crate) const BEGAN: &str = "DRIFTQ_CHAOS_BEGAN";
/// What its dice start with.
pub(crate) const SEED: &str = "DRIFTQ_CHAOS_SEED";
/// Which release it is, in the deployment drill.
pub(crate) const RELEASE: &str = "DRIFTQ_CHAOS_RELEASE";
/// The table of the drill.
pub(crate) const TABLE: &str = "DRIFTQ_CHAOS_TABLE";

/// Effects that one worker runs at a time.
const TASKS: u64 = 4;
/// So many effects to a sweep, which writes down what has become unknown.
const SWEEP_EVERY: u64 = 40;
/// After a failure of the database.
const PAUSE: Duration = Duration::from_millis(20);

/// Somebody who runs effects and writes down what happens.
#[derive(Clone)]
pub(crate) struct Worker {
    pub(crate) name: String,
    pub(crate) ledger: Ledger,
    pub(crate) journal: Arc<Journal>,
    answers: Arc<AtomicU64>,
    /// The release in whose words it asks, in the deployment drill.
    release: Option<Release>,
}

/// A ledger that does not wait for a dead database longer than the dead usually rest here.
pub(crate) fn ledger(url: &str) -> Ledger {
    patient(PostgresStore::connect(url).expect("it is a URL"))
}

pub(crate) fn patient(store: impl Store) -> Ledger {
    let settings = Settings {
        call_timeout: Duration::from_secs(3),
        finish_patience: Duration::from_secs(6),
        ..Settings::default()
    };
    Ledger::with(store, settings, Silent)
}

/// The life of a worker process: it ends by being killed, or with the process that started it.
pub(crate) fn live(name: &str) {
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is set"));
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(0);
    });
    let began: i64 = variable(BEGAN).parse().expect("a number");
    let seed: u64 = variable(SEED).parse().expect("a number");
    let file = PathBuf::from(variable(FOLDER)).join(name);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let journal = Journal::open(&file).expect("a new file");
        let worker = match std::env::var(RELEASE) {
            Ok(release) => {
                let release = Release::named(&release).expect("the name of a release");
                release.start(name, &variable(URL), &variable(TABLE), journal).await
            }
            Err(_) => Worker::new(name, ledger(&variable(URL)), journal),
        };
        let tasks =
            (0..TASKS).map(|task| tokio::spawn(worker.clone().work(began, Dice::new(seed + task * 7919))));
        for task in tasks.collect::<Vec<_>>() {
            task.await.expect("a task goes on for ever");
        }
    });
}

impl Worker {
    pub(crate) fn new(name: &str, ledger: Ledger, journal: Journal) -> Self {
        let (journal, answers) = (Arc::new(journal), Arc::new(AtomicU64::new(0)));
        Self { name: name.to_owned(), ledger, journal, answers, release: None }
    }

    pub(crate) fn of(self, release: Release) -> Self {
        Self { release: Some(release), ..self }
    }

    /// What it asks for.
    pub(crate) fn asked(&self, plan: &Plan) -> Begin {
        let mut asked = plan.begin(&self.name);
        if let Some(release) = self.release {
            asked.hash = release.hash(&plan.key);
        }
        asked
    }

    async fn work(self, began: i64, mut dice: Dice) {
        loop {
            let elapsed = Duration::from_micros(u64::try_from(now() - began).unwrap_or(0));
            let plan = match self.release {
                Some(_) => Plan::pick_deployed(elapsed, &mut dice),
                None => Plan::pick(elapsed, &mut dice),
            };
            let resolves = dice.roll(4) == 0;
            if dice.roll(SWEEP_EVERY) == 0
                && let Err(error) = self.ledger.sweep(Sweep::default()).await
            {
                self.stumble(&plan, &error).await;
            }
            if plan.is_one_call {
                self.one_call(&plan).await;
            } else {
                self.attempt(&plan, resolves).await;
            }
        }
    }

    /// A name that no other answer has.
    fn new_answer(&self) -> String {
        format!("{} {}", self.name, self.answers.fetch_add(1, Ordering::Relaxed))
    }

    /// Asks for a key and does what the ledger says; true if it has ended for good.
    pub(crate) async fn attempt(&self, plan: &Plan, resolves: bool) -> bool {
        match self.ledger.begin(self.asked(plan)).await {
            Ok(Decision::Execute(lease)) => self.execute(plan, &lease).await,
            Ok(Decision::Replay(outcome)) => {
                let (epoch, answer) = (outcome.epoch, Answer::of(&outcome));
                self.journal.write(&plan.key, Fact::Replayed { epoch, answer });
                return true;
            }
            Ok(Decision::InProgress { retry_after, .. }) => sleep(retry_after.min(PAUSE)).await,
            Ok(Decision::Retryable { outcome, attempts_left }) => {
                if attempts_left != Some(0) {
                    let what = format!("{attempts_left:?} attempts are left, and it may not run");
                    self.journal.write(&plan.key, Fact::Odd { what });
                }
                if resolves {
                    self.resolve(plan, outcome.epoch, &Answer::new(End::FailedFinal, &self.new_answer()))
                        .await;
                }
            }
            Ok(Decision::Unknown { epoch, attempt, .. }) => {
                if resolves {
                    // Somebody looked it up: it did not happen, or, for every other attempt, it did.
                    let may_run = attempt % 2 == 1 && !plan.is_found;
                    let end = if may_run { End::FailedRetryable } else { End::Succeeded };
                    self.resolve(plan, epoch, &Answer::new(end, &self.new_answer())).await;
                }
            }
            Err(error) => self.stumble(plan, &error).await,
        }
        false
    }

    fn lent(&self, plan: &Plan, lease: &Lease) {
        let Proof::Record(record) = lease.proof else { panic!("PostgreSQL numbers its records") };
        let expires = lease.expires_at.micros();
        let lasts = i64::try_from(plan.terms.lease.as_micros()).expect("a short lease");
        let fact = Fact::Lent {
            record,
            epoch: lease.epoch,
            attempt: lease.attempt,
            // When it was given, also if it took a second call to learn of it.
            granted: expires - lasts,
            expires,
            may_repeat: plan.terms.on_lapse == driftq_ledger::OnLapse::Retry,
            attempts_max: plan.terms.attempts_max,
        };
        self.journal.write(&plan.key, fact);
    }

    async fn execute(&self, plan: &Plan, lease: &Lease) {
        let epoch = lease.epoch;
        self.lent(plan, lease);
        self.journal.write(&plan.key, Fact::Ran { epoch });
        let until = Instant::now() + plan.takes;
        while Instant::now() < until {
            let left = until - Instant::now();
            sleep(plan.renews.unwrap_or(left).min(left)).await;
            if plan.renews.is_some() {
                match self.ledger.renew(lease, plan.terms.lease).await {
                    Ok(until) => {
                        self.journal.write(&plan.key, Fact::Renewed { epoch, until: until.micros() })
                    }
                    Err(LedgerError::Stale(_)) => break,
                    Err(error) => self.stumble(plan, &error).await,
                }
            }
        }
        self.finish(plan, lease, &plan.end(lease.attempt, &self.new_answer())).await;
    }

    async fn finish(&self, plan: &Plan, lease: &Lease, answer: &Answer) {
        let (epoch, asked) = (lease.epoch, now());
        self.journal.write(&plan.key, Fact::Saying { epoch, answer: answer.clone() });
        let told = |verdict| {
            let answer = answer.clone();
            self.journal.write(&plan.key, Fact::Told { epoch, answer, asked, verdict });
        };
        match self.ledger.finish(lease, &ending(answer)).await {
            Ok(Finished::Committed | Finished::AlreadyCommitted) => told(FinishResult::Committed),
            Err(LedgerError::Stale(_)) => told(FinishResult::Stale),
            Err(error) => self.stumble(plan, &error).await,
        }
    }

    pub(crate) async fn resolve(&self, plan: &Plan, epoch: u32, answer: &Answer) {
        self.journal.write(&plan.key, Fact::Resolving { epoch, answer: answer.clone() });
        let resolver = Resolver { by: self.name.clone(), why: "looked it up".to_owned() };
        let (identity, ending, ttl) = (plan.identity(), ending(answer), plan.terms.ttl);
        let found = Resolve { identity, epoch: Some(epoch), ending, resolver, ttl };
        match self.ledger.resolve(&found).await {
            Ok(_) => self.journal.write(&plan.key, Fact::Resolved { epoch, answer: answer.clone() }),
            // Somebody else was quicker, or its worker spoke up after all.
            Err(LedgerError::Stale(_) | LedgerError::Running | LedgerError::Final) => {}
            Err(error) => self.stumble(plan, &error).await,
        }
    }

    /// By the one call that does it all, which begins, renews, finishes and replays by itself.
    async fn one_call(&self, plan: &Plan) {
        let said = Arc::new(std::sync::Mutex::new(None));
        let effect = |lease: Lease| {
            let said = Arc::clone(&said);
            async move {
                let epoch = lease.epoch;
                self.lent(plan, &lease);
                self.journal.write(&plan.key, Fact::Ran { epoch });
                sleep(plan.takes).await;
                let answer = plan.end(lease.attempt, &self.new_answer());
                self.journal.write(&plan.key, Fact::Saying { epoch, answer: answer.clone() });
                *said.lock().expect("nobody panics here") = Some((epoch, answer.clone(), now()));
                match answer.end.as_str() {
                    "SUCCEEDED" => Ok(Response::new(answer.text)),
                    _ => Err(Failed::retryable(answer.text)),
                }
            }
        };
        let verdict = match self.ledger.run_attached(self.asked(plan), effect).await {
            Ok(ran) => (!ran.replayed).then_some(FinishResult::Committed),
            Err(RunError::Failed { recorded, .. }) => recorded.then_some(FinishResult::Committed),
            Err(RunError::Overtaken) => Some(FinishResult::Stale),
            Err(RunError::InProgress { retry_after }) => {
                sleep(retry_after.min(PAUSE)).await;
                None
            }
            Err(RunError::Ledger(error)) => {
                self.stumble(plan, &error).await;
                None
            }
            Err(RunError::Unrecorded { error, .. }) => {
                self.stumble(plan, &error).await;
                None
            }
            // A worker was killed at it. Whoever looks it up says so by other calls.
            Err(RunError::Unknown { .. }) if plan.is_found => None,
            Err(other) => {
                self.journal.write(&plan.key, Fact::Odd { what: format!("{other:?}") });
                None
            }
        };
        let said = said.lock().expect("nobody panics here").take();
        if let (Some(verdict), Some((epoch, answer, asked))) = (verdict, said) {
            self.journal.write(&plan.key, Fact::Told { epoch, answer, asked, verdict });
        }
    }

    /// A database that is away or busy is what this test is about. Anything else it must not say.
    async fn stumble(&self, plan: &Plan, error: &LedgerError) {
        if !error.is_transient() {
            self.journal.write(&plan.key, Fact::Odd { what: error.to_string() });
        }
        sleep(PAUSE).await;
    }
}
