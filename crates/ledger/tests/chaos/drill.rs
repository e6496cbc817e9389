//! A new release of a service is deployed beside the old one, takes over, and is rolled back, on one PostgreSQL and under
//! load, while workers of both are killed. Nothing runs twice, every caller is told what the first one was told, and
//! nobody is refused.
//!
//! `DRIFTQ_KILL_CYCLES` says how many workers are killed.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use driftq_testbed::Postgres;

use super::{
    CYCLES, Process, START_MAX, check,
    history::{self, Entry, Fact, Journal, now},
    plan::Dice,
    recover,
    release::Release,
    summary, worker,
};

/// How many workers of the old release and of the new one there are, one phase after the other.
const PHASES: [(&str, usize, usize); 5] = [
    ("the old release alone", 4, 0),
    ("the new one beside it, which migrates", 2, 2),
    ("the new one alone", 0, 4),
    ("the way back", 2, 2),
    ("the old release alone again", 4, 0),
];
/// Starts of the new release that are killed before the one that is left to migrate.
const STARTS_KILLED: usize = 3;

struct Drill<'a> {
    url: &'a str,
    table: &'a str,
    folder: &'a Path,
    began: i64,
    dice: Dice,
    started: u64,
    kills: u64,
    workers: Vec<Deployed>,
}

struct Deployed {
    release: Release,
    name: String,
    process: Process,
}

impl Drill<'_> {
    fn start(&mut self, release: Release) -> Deployed {
        self.started += 1;
        let name = format!("{}-{}", release.name(), self.started);
        let child = Command::new(env::current_exe().expect("this is a program"))
            .args(["--exact", "worker_process", "--nocapture"])
            .env(worker::NAME, &name)
            .env(worker::URL, self.url)
            .env(worker::TABLE, self.table)
            .env(worker::RELEASE, release.name())
            .env(worker::FOLDER, self.folder)
            .env(worker::BEGAN, self.began.to_string())
            .env(worker::SEED, self.dice.roll(1 << 32).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("this program can be started again");
        Deployed { release, name, process: Process { child, paused_until: None } }
    }

    /// Kills those that are too many, whatever they do, and starts those that are missing; returns when all are at work.
    fn deploy(&mut self, old: usize, new: usize) {
        for (release, wanted) in [(Release::Old, old), (Release::New, new)] {
            let mut left = wanted;
            let before = self.workers.len();
            self.workers.retain(|worker| {
                let stays = worker.release != release || left > 0;
                left -= usize::from(worker.release == release && stays);
                stays
            });
            self.kills += (before - self.workers.len()) as u64;
            for _ in 0..left {
                let worker = self.start(release);
                self.workers.push(worker);
            }
        }
        let until = Instant::now() + START_MAX;
        loop {
            let idle: Vec<&str> =
                self.workers.iter_mut().filter_map(|worker| worker.idle(self.folder)).collect();
            if idle.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "{idle:?} did not begin within {START_MAX:?}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Starts of the new release that die in the middle, perhaps while they migrate.
    fn fail_to_deploy(&mut self) {
        for _ in 0..STARTS_KILLED {
            let doomed = self.start(Release::New);
            // The moment is the test: nothing is waited for here.
            thread::sleep(self.dice.millis(20, 200));
            drop(doomed);
            self.kills += 1;
        }
    }

    /// Kills one worker and starts another of the same release.
    fn strike(&mut self) {
        thread::sleep(self.dice.millis(20, 120));
        for worker in &mut self.workers {
            worker.expect_alive();
        }
        let victim = usize::try_from(self.dice.roll(self.workers.len() as u64)).expect("a small number");
        let release = self.workers[victim].release;
        self.workers[victim] = self.start(release);
        self.kills += 1;
    }
}

impl Deployed {
    fn expect_alive(&mut self) {
        let ended = self.process.child.try_wait().expect("it is our child");
        assert!(ended.is_none(), "{} ended by itself: {ended:?}", self.name);
    }

    /// Its name, if it has not begun yet.
    fn idle(&mut self, folder: &Path) -> Option<&str> {
        self.expect_alive();
        let has_begun = fs::metadata(folder.join(&self.name)).is_ok_and(|file| file.len() > 0);
        (!has_begun).then_some(&self.name)
    }
}

#[test]
fn a_release_is_deployed_and_rolled_back_under_load() {
    let cycles = env::var("DRIFTQ_KILL_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(CYCLES);
    let seed = u64::try_from(now()).unwrap_or(1);
    // Nobody crashes this one: the releases are what dies here.
    let postgres = Postgres::shared().expect("PostgreSQL is there");
    let schema = format!("drill_{}", std::process::id());
    postgres.psql(&format!("CREATE SCHEMA {schema}")).expect("a schema of its own");
    let table = format!("{schema}.idempotency_keys");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let steps = |release: Release| -> Vec<i32> {
        let steps =
            runtime.block_on(release.store(postgres.url(), &table).migrations()).expect("it is there");
        steps.into_iter().filter(|step| step.applied).map(|step| step.version).collect()
    };

    let mut drill = Drill {
        url: postgres.url(),
        table: &table,
        folder: folder.path(),
        began: now(),
        dice: Dice::new(seed),
        started: 0,
        kills: 0,
        workers: Vec::new(),
    };
    let began = Instant::now();
    for (at, (phase, old, new)) in PHASES.into_iter().enumerate() {
        if at == 1 {
            assert_eq!(steps(Release::New), steps(Release::Old), "the new step was not taken yet");
            drill.fail_to_deploy();
        }
        drill.deploy(old, new);
        for _ in 0..cycles.div_ceil(PHASES.len() as u64) {
            drill.strike();
        }
        println!("{phase}: until {:?}", began.elapsed());
    }
    drill.workers.clear();
    // First, because a key whose callers are refused comes to no end.
    let refused: Vec<Entry> = history::read(folder.path()).expect("workers leave whole lines behind");
    let refused: Vec<&Entry> =
        refused.iter().filter(|entry| matches!(entry.fact, Fact::Odd { .. })).collect();
    assert!(refused.is_empty(), "seed {seed}: {} refused, first {:?}", refused.len(), refused.first());
    assert!(steps(Release::New).len() > steps(Release::Old).len(), "the new release has migrated");

    let survivor = |release: Release| {
        let name = format!("{}-survivor", release.name());
        let journal = Journal::open(&folder.path().join(&name)).expect("a new file");
        release.worker(&name, postgres.url(), &table, journal)
    };
    // Whoever was rolled back to ends it all; whoever comes next must say the same.
    let ends = runtime.block_on(recover(&survivor(Release::Old), folder.path()));
    assert_eq!(runtime.block_on(recover(&survivor(Release::New), folder.path())), ends);
    let writers = history::by_writer(folder.path()).expect("workers leave whole lines behind");
    let crossed = crossed(&writers);
    let all: Vec<Entry> = writers.into_iter().flat_map(|(_, entries)| entries).collect();
    println!("{} kills in {:?}; {}; {crossed:?}", drill.kills, began.elapsed(), summary(&all, &ends));
    let mut broken = check(&all, &ends);
    broken.extend(repeated(&all));
    assert!(broken.is_empty(), "seed {seed}: {}", broken.join("\n"));
    for what in ["old was told what new did", "new was told what old did"] {
        assert!(crossed.get(what).is_some_and(|times| *times > 0), "{what}: {crossed:?}");
    }
}

/// How often a caller of one release was told what a worker of the other had done.
fn crossed(writers: &[(String, Vec<Entry>)]) -> BTreeMap<&'static str, usize> {
    let mut crossed = BTreeMap::new();
    // What is asked for when all is over says nothing about the time before.
    for (writer, entries) in writers.iter().filter(|(writer, _)| !writer.ends_with("survivor")) {
        for entry in entries {
            let Fact::Replayed { answer, .. } = &entry.fact else { continue };
            let what = match (writer.starts_with("old"), answer.text.starts_with("old")) {
                (true, false) => "old was told what new did",
                (false, true) => "new was told what old did",
                _ => "each was told what its own release did",
            };
            *crossed.entry(what).or_insert(0) += 1;
        }
    }
    crossed
}

/// Keys that ran more often than they failed in a way that may be tried again, by what the workers wrote down alone. The
/// policy is `hold`: no kill excuses a repetition.
fn repeated(history: &[Entry]) -> Vec<String> {
    let mut runs: BTreeMap<&str, usize> = BTreeMap::new();
    let mut failures: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for entry in history {
        match &entry.fact {
            Fact::Ran { .. } => *runs.entry(&entry.key).or_default() += 1,
            Fact::Saying { epoch, answer } if answer.is_retryable() => {
                failures.entry(&entry.key).or_default().insert(*epoch);
            }
            _ => {}
        }
    }
    let most = |key: &str| 1 + failures.get(key).map_or(0, BTreeSet::len);
    let repeated = runs.iter().filter(|(key, times)| **times > most(key));
    repeated.map(|(key, times)| format!("{key}: it ran {times} times")).collect()
}
