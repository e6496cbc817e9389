//! Workers are killed and stopped, PostgreSQL is crashed, again and again, while effects run through the ledger.
//! Afterwards what the workers wrote down elsewhere is held against the ledger's last word about every key.
//!
//! `DRIFTQ_KILL_CYCLES` says how often something dies; `DRIFTQ_CHAOS_SEED` repeats the blows, though not what they hit.

mod checker;
mod drill;
mod history;
mod plan;
mod release;
mod worker;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use checker::{Last, check};
use driftq_ledger::{Decision, Filter, Ledger, PAGE_MAX, postgres::PostgresStore};
use driftq_testbed::{Postgres, pause, resume};
use history::{Answer, Entry, Fact, FinishResult, Journal, now};
use plan::{Dice, Plan};
use worker::Worker;

/// Worker processes at a time.
const WORKERS: usize = 4;
/// How often something dies, unless the environment says otherwise.
const CYCLES: u64 = 50;
/// Every so many blows the database is hit, and at the first of them.
const DATABASE_EVERY: u64 = 8;
const DATABASE_FIRST: u64 = 3;
/// Longest that the first workers may take to begin.
const START_MAX: Duration = Duration::from_secs(60);
/// Longest that all keys together may take to end when nobody is killed any more.
const RECOVERY_MAX: Duration = Duration::from_secs(60);
/// Keys that are brought to their end at a time.
const RECOVERED_AT_A_TIME: usize = 32;

/// A worker process. Killed when it is dropped, so that a failing test leaves none behind.
struct Process {
    child: Child,
    paused_until: Option<Instant>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is done to the workers and to the database.
struct Chaos<'a> {
    postgres: &'a Postgres,
    folder: &'a Path,
    began: i64,
    dice: Dice,
    started: u64,
    kills: u64,
    pauses: u64,
    crashes: u64,
}

impl Chaos<'_> {
    fn start(&mut self) -> Process {
        self.started += 1;
        let name = format!("worker-{}", self.started);
        let child = Command::new(env::current_exe().expect("this is a program"))
            .args(["--exact", "worker_process", "--nocapture"])
            .env(worker::NAME, &name)
            .env(worker::URL, self.postgres.url())
            .env(worker::FOLDER, self.folder)
            .env(worker::BEGAN, self.began.to_string())
            .env(worker::SEED, self.dice.roll(1 << 32).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("this program can be started again");
        Process { child, paused_until: None }
    }

    /// One blow.
    fn strike(&mut self, cycle: u64, workers: &mut [Process]) {
        // The moment is the test: nothing is waited for here.
        thread::sleep(self.dice.millis(20, 200));
        for process in workers.iter_mut() {
            let ended = process.child.try_wait().expect("it is our child");
            assert!(ended.is_none(), "a worker ended by itself: {ended:?}");
            if process.paused_until.is_some_and(|until| until <= Instant::now()) {
                resume(&process.child).expect("a paused worker is there");
                process.paused_until = None;
            }
        }
        if cycle % DATABASE_EVERY == DATABASE_FIRST {
            self.postgres.crash().expect("PostgreSQL runs");
            thread::sleep(self.dice.millis(0, 200));
            self.postgres.restart().expect("PostgreSQL recovers");
            self.crashes += 1;
            return;
        }
        let victim = usize::try_from(self.dice.roll(WORKERS as u64)).expect("a small number");
        let process = &mut workers[victim];
        if self.dice.roll(3) == 0 && process.paused_until.is_none() {
            // Longer than any lease: somebody else may take over before it goes on.
            pause(&process.child).expect("a worker lives until it is killed");
            process.paused_until = Some(Instant::now() + self.dice.millis(500, 1200));
            self.pauses += 1;
        } else {
            workers[victim] = self.start();
            self.kills += 1;
        }
    }
}

/// Not a test: the life of a worker process.
#[test]
fn worker_process() {
    if let Ok(name) = env::var(worker::NAME) {
        worker::live(&name);
    }
}

#[test]
fn no_effect_is_repeated_lost_or_stuck_whatever_dies() {
    let cycles = env::var("DRIFTQ_KILL_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(CYCLES);
    let seed = env::var("DRIFTQ_CHAOS_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::try_from(now()).unwrap_or(1));
    println!("DRIFTQ_CHAOS_SEED={seed} DRIFTQ_KILL_CYCLES={cycles}");
    let postgres = Postgres::start().expect("PostgreSQL starts");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let store = PostgresStore::connect(postgres.url()).expect("it is a URL");
    runtime.block_on(store.migrate()).expect("a new database takes the table");

    let mut chaos = Chaos {
        postgres: &postgres,
        folder: folder.path(),
        began: now(),
        dice: Dice::new(seed),
        started: 0,
        kills: 0,
        pauses: 0,
        crashes: 0,
    };
    let mut workers: Vec<Process> = (0..WORKERS).map(|_| chaos.start()).collect();
    until_all_work(folder.path());
    let struck = Instant::now();
    for cycle in 0..cycles {
        chaos.strike(cycle, &mut workers);
    }
    drop(workers);
    let struck = struck.elapsed();

    let recovery = Instant::now();
    let survivor = Journal::open(&folder.path().join("survivor")).expect("a new file");
    let survivor = Worker::new("survivor", worker::ledger(postgres.url()), survivor);
    let ends = runtime.block_on(recover(&survivor, folder.path()));
    let history = history::read(folder.path()).expect("workers leave whole lines behind");
    let told = summary(&history, &ends);
    println!(
        "{} kills, {} pauses, {} crashes of PostgreSQL in {struck:?}, recovered in {:?}; {told}",
        chaos.kills,
        chaos.pauses,
        chaos.crashes,
        recovery.elapsed()
    );
    let broken = check(&history, &ends);
    assert!(broken.is_empty(), "seed {seed}: {}", broken.join("\n"));
}

/// Returns when every worker has something to lose.
fn until_all_work(folder: &Path) {
    let until = Instant::now() + START_MAX;
    let is_at_work = |number: usize| {
        fs::metadata(folder.join(format!("worker-{number}"))).is_ok_and(|file| file.len() > 0)
    };
    while !(1..=WORKERS).all(is_at_work) {
        assert!(Instant::now() < until, "the workers did not begin within {START_MAX:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Brings every key to its end, now that nobody dies any more, and asks for each once more.
async fn recover(survivor: &Worker, folder: &Path) -> BTreeMap<String, Last> {
    let until = Instant::now() + RECOVERY_MAX;
    let mut keys = keys_of(&survivor.ledger).await;
    keys.extend(
        history::read(folder).expect("workers leave whole lines behind").into_iter().map(|entry| entry.key),
    );
    let mut left: Vec<Plan> =
        keys.iter().map(|key| Plan::of_key(key).expect("a key of the plan").quick()).collect();
    let mut tasks = tokio::task::JoinSet::new();
    while let Some(plan) = left.pop() {
        if tasks.len() >= RECOVERED_AT_A_TIME {
            tasks.join_next().await.expect("there is one").expect("no key is wedged");
        }
        let survivor = survivor.clone();
        tasks.spawn(async move {
            while !survivor.attempt(&plan, true).await {
                assert!(Instant::now() < until, "{} is wedged", plan.key);
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no key is wedged");
    }
    let mut ends = BTreeMap::new();
    for key in keys {
        let plan = Plan::of_key(&key).expect("a key of the plan");
        match survivor.ledger.begin(survivor.asked(&plan)).await {
            Ok(Decision::Replay(outcome)) => {
                ends.insert(key, Last { epoch: outcome.epoch, answer: Answer::of(&outcome) })
            }
            other => panic!("{key} has ended and is {other:?}"),
        };
    }
    ends
}

/// Every key that the ledger has a record of: also of those whose worker died before it could write anything down.
async fn keys_of(ledger: &Ledger) -> BTreeSet<String> {
    let mut filter = Filter { limit: PAGE_MAX, ..Filter::default() };
    let mut keys = BTreeSet::new();
    loop {
        let page = ledger.list(&filter).await.expect("PostgreSQL is there");
        keys.extend(page.records.into_iter().map(|record| record.identity.key().to_owned()));
        match page.cursor {
            Some(cursor) => filter.cursor = Some(cursor),
            None => return keys,
        }
    }
}

/// Says what happened, and that enough happened for the check to mean something.
fn summary(history: &[Entry], ends: &BTreeMap<String, Last>) -> String {
    let count = |wanted: &dyn Fn(&Fact) -> bool| history.iter().filter(|entry| wanted(&entry.fact)).count();
    let runs = count(&|fact| matches!(fact, Fact::Ran { .. }));
    let again = count(&|fact| matches!(fact, Fact::Lent { attempt, .. } if *attempt > 1));
    let stale = count(&|fact| matches!(fact, Fact::Told { verdict: FinishResult::Stale, .. }));
    let replays = count(&|fact| matches!(fact, Fact::Replayed { .. }));
    let resolved = count(&|fact| matches!(fact, Fact::Resolved { .. }));
    assert!(runs > 0 && replays > 0 && again > 0, "{runs} runs, {replays} replays, {again} more attempts");
    format!(
        "{} keys, {runs} runs, {again} of them another attempt, {stale} stale finishes, {resolved} resolutions, \
         {replays} replays",
        ends.len()
    )
}
