//! One seed, one story: a set-up, a time of chaos, and a calm in which everything owed must be paid.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use driftq_core::Input;

use crate::disk::{Fault, Op};
use crate::house::House;
use crate::oracle::CheckResult;
use crate::server::NoStart;
use crate::trace::Trace;
use crate::world::World;

/// Steps within which the calm must end.
const CALM_STEPS_MAX: u64 = 40_000;

/// What happened in a seed, or in many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages stored.
    pub produced: u64,
    /// Deliveries.
    pub delivered: u64,
    /// Acks answered.
    pub acked: u64,
    /// Dead letters seen.
    pub letters: u64,
    /// Dead letters tried again.
    pub redriven: u64,
    /// Effects run.
    pub effects: u64,
    /// Commits done.
    pub commits: u64,
    /// Power cuts, kills and failed disks.
    pub crashes: u64,
    /// Snapshots made.
    pub snapshots: u64,
    /// Take-overs from a server that was still at work.
    pub takeovers: u64,
    /// Servers that found out that they were deposed.
    pub fenced: u64,
    /// Parcels sent from one shard to another, also those that were sent again.
    pub parcels: u64,
}

impl Totals {
    /// Adds another seed's counts.
    pub const fn add(&mut self, other: &Self) {
        self.produced += other.produced;
        self.delivered += other.delivered;
        self.acked += other.acked;
        self.letters += other.letters;
        self.redriven += other.redriven;
        self.effects += other.effects;
        self.commits += other.commits;
        self.crashes += other.crashes;
        self.snapshots += other.snapshots;
        self.takeovers += other.takeovers;
        self.fenced += other.fenced;
        self.parcels += other.parcels;
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { produced, delivered, acked, letters, redriven, effects, commits, .. } = self;
        let Self { crashes, snapshots, takeovers, fenced, .. } = self;
        write!(f, "{produced} messages, {delivered} deliveries, {acked} acks, ")?;
        write!(f, "{letters} dead letters ({redriven} tried again), ")?;
        write!(f, "{effects} effects, {commits} commits, ")?;
        write!(f, "{crashes} crashes, {snapshots} snapshots")?;
        if *takeovers > 0 {
            write!(f, ", {takeovers} take-overs, {fenced} servers stepped down")?;
        }
        if self.parcels > 0 {
            write!(f, ", {} parcels", self.parcels)?;
        }
        Ok(())
    }
}

/// How a seed ended.
#[derive(Debug)]
pub enum Outcome {
    /// Every promise was kept, both times.
    Clean(Totals),
    /// A promise was broken.
    Violated {
        /// Which.
        what: String,
        /// What happened before.
        recent: Vec<String>,
    },
}

/// What a seed is told with.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Nodes that share the log; one has its own disk.
    pub nodes: usize,
    /// Shards of the house.
    pub shards: usize,
    /// Steps of chaos.
    pub steps: u64,
    /// Whether every step is printed.
    pub verbose: bool,
}

/// Runs a seed twice and compares.
#[must_use]
pub fn run_seed(seed: u64, setting: Setting) -> Outcome {
    let first = match tell(seed, setting) {
        Ok(first) => first,
        Err((what, recent)) => return Outcome::Violated { what, recent },
    };
    match tell(seed, Setting { verbose: false, ..setting }) {
        Ok(second) if second == first => Outcome::Clean(first.2),
        other => {
            let second = other.map(|(digest, steps, _)| (digest, steps)).map_err(|(what, _)| what);
            let what = format!("determinism: two runs differ: {:?} and {second:?}", (first.0, first.1));
            Outcome::Violated { what, recent: Vec::new() }
        }
    }
}

type Story = Result<(u64, u64, Totals), (String, Vec<String>)>;

fn tell(seed: u64, Setting { nodes, shards, steps, verbose }: Setting) -> Story {
    if shards > 1 {
        let mut house = House::new(seed, shards, nodes, verbose);
        let verdict = caught(|| house.live(steps));
        return story(verdict, &house.trace, house.counts);
    }
    let mut world = World::new(seed, nodes, verbose);
    let verdict = caught(|| world.live(steps));
    let effects = world.oracle.outside.count;
    story(verdict, &world.trace, Totals { effects, ..world.counts })
}

/// A panic is a broken promise like any other.
fn caught(live: impl FnOnce() -> CheckResult) -> CheckResult {
    catch_unwind(AssertUnwindSafe(live)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

fn story(verdict: CheckResult, trace: &Trace, counts: Totals) -> Story {
    match verdict {
        Ok(()) => Ok((trace.digest(), trace.steps(), counts)),
        Err(what) => Err((what, trace.recent().map(String::from).collect())),
    }
}

impl World {
    fn live(&mut self, steps: u64) -> CheckResult {
        self.start()?;
        self.create_topics()?;
        self.flush()?;
        self.create_groups()?;
        self.flush()?;
        self.disturb();
        for _ in 0..steps {
            self.step()?;
        }
        self.calm()
    }

    /// Brings everything decided to disk and lets the server know.
    pub(crate) fn flush(&mut self) -> CheckResult {
        for _ in 0..100 {
            if self.server.as_ref().is_none_or(crate::server::Server::is_quiet) {
                return Ok(());
            }
            self.keep()?;
            self.seal();
            self.write()?;
            self.confirm()?;
        }
        Err("liveness: the log does not come to rest".into())
    }

    fn step(&mut self) -> CheckResult {
        if self.server.is_none() {
            return self.crash(true);
        }
        if self.cluster.is_some() && self.rng.chance(1, 6) {
            return self.cluster_step();
        }
        match self.rng.below(1530) {
            0..100 => self.produce(),
            100..115 => self.retry_produce(),
            115..330 => self.arrive_request()?,
            330..430 => self.seal(),
            430..530 => self.write()?,
            530..630 => self.confirm()?,
            630..700 => self.elapse(40),
            700..706 => self.elapse(9000),
            706..780 => self.tick()?,
            780..795 => self.arrive()?,
            795..800 => self.leave()?,
            800..870 => self.look()?,
            870..930 => self.finish_work(false),
            930..950 => self.pay()?,
            950..960 => self.undertake()?,
            960..975 => self.keep()?,
            975..988 => self.snapshot()?,
            988..991 => self.plan_fault(),
            991..993 => self.squeeze(),
            993..996 => self.crash(true)?,
            996..997 => self.crash(false)?,
            997..998 => self.stop()?,
            998..1000 => self.compare()?,
            1000..1060 => self.ask_lease()?,
            1060..1130 => self.settle_some(),
            1130..1150 => self.settle_stale(),
            1150..1154 => self.forsake()?,
            1154..1166 => self.repeat_lease()?,
            1166..1200 => self.operate()?,
            1200..1290 => self.arrive_request()?,
            1290..1410 => self.run_effects()?,
            1410..1480 => self.run_commits()?,
            _ => self.run_entities()?,
        }
        Ok(())
    }

    fn elapse(&mut self, most_ms: u64) {
        self.now = self.now.after_ms(self.rng.below(most_ms));
        self.oracle.elapsed(self.now);
    }

    fn seal(&mut self) {
        if let Some(server) = &mut self.server {
            server.seal();
        }
    }

    fn write(&mut self) -> CheckResult {
        match self.server.as_mut().map_or(Ok(()), crate::server::Server::write) {
            Ok(()) => Ok(()),
            Err(_) => self.crash(false),
        }
    }

    fn confirm(&mut self) -> CheckResult {
        let now = self.now;
        let actions = self.server.as_mut().map(|server| server.confirm(now)).unwrap_or_default();
        self.execute(actions)
    }

    fn tick(&mut self) -> CheckResult {
        let due = self.server.as_ref().and_then(crate::server::Server::next_deadline);
        if due.is_none_or(|due| due > self.now) {
            return Ok(());
        }
        self.hand(Input::Tick)?;
        self.check_waiting()
    }

    fn keep(&mut self) -> CheckResult {
        let now = self.now;
        match self.server.as_mut().map(|server| server.keep(now)) {
            Some(Ok(actions)) => self.execute(actions),
            Some(Err(_)) => self.crash(false),
            None => Ok(()),
        }
    }

    fn snapshot(&mut self) -> CheckResult {
        let now = self.now;
        match self.server.as_mut().map(|server| server.snapshot(now)) {
            Some(Ok(actions)) => {
                self.counts.snapshots += 1;
                self.execute(actions)
            }
            // The disk may be failing by plan; what is on it must still be whole afterwards.
            Some(Err(NoStart(_))) => self.crash(false),
            None => Ok(()),
        }
    }

    /// Something will go wrong with the disk soon.
    fn plan_fault(&mut self) {
        let soon = 1 + self.rng.below(12);
        match self.rng.below(4) {
            0 => self.disk.fail(Op::Write, soon, Fault::Eio),
            1 => self.disk.fail(Op::Sync, soon, Fault::Eio),
            2 => self.disk.fail(Op::Write, soon, Fault::Short),
            _ => self.disk.power_off_at(self.disk.ops() + soon),
        }
    }

    /// The disk fills up, or gets its space back.
    fn squeeze(&mut self) {
        let capacity = self.rng.chance(1, 2).then(|| self.disk.used());
        self.disk.set_capacity(capacity);
    }

    /// The server is told to stop, as for a new version, and starts again.
    fn stop(&mut self) -> CheckResult {
        let crashes = self.counts.crashes;
        for _ in 0..100 {
            if self.server.as_ref().is_none_or(crate::server::Server::is_quiet) {
                break;
            }
            self.keep()?;
            self.seal();
            self.write()?;
            self.confirm()?;
        }
        // The disk may have failed or filled up on the way: then it was no orderly stop.
        if self.counts.crashes == crashes && self.server.as_ref().is_some_and(crate::server::Server::is_quiet)
        {
            self.oracle.stopped();
        }
        self.crash(false)
    }

    /// The machine loses power, or just the process dies.
    pub(crate) fn crash(&mut self, power: bool) -> CheckResult {
        self.trace.note("crash", &power);
        self.counts.crashes += 1;
        self.server = None;
        // A log that several nodes share outlives any of them.
        if self.cluster.is_some() {
            return self.start();
        }
        if power {
            self.disk.crash();
        } else {
            self.disk.kill();
        }
        // A disk without space for its first segment cannot be opened; everywhere else it can.
        self.disk.set_capacity(None);
        self.start()
    }

    /// What is on disk, folded, is what the server believes.
    fn compare(&mut self) -> CheckResult {
        let Some(server) = self.server.as_ref().filter(|server| server.is_quiet()) else { return Ok(()) };
        match server.fold_differs() {
            Ok(false) | Err(NoStart(_)) => Ok(()),
            Ok(true) => Err("fold: the facts on disk do not make the state in memory".into()),
        }
    }

    /// Nothing goes wrong any more: everything stored must reach every group it is owed to.
    fn calm(&mut self) -> CheckResult {
        self.crash(true)?;
        self.calm = true;
        self.calm_cluster()?;
        self.resume_all()?;
        for step in 0..CALM_STEPS_MAX {
            self.staff()?;
            if step % 8 == 0 {
                self.ask_lease()?;
            }
            // A message that such an order mislays stays away: no crash brings it back any more.
            if step % 8 == 4 {
                self.retry()?;
            }
            self.keep()?;
            self.seal();
            self.write()?;
            self.confirm()?;
            self.check_books()?;
            self.tick()?;
            self.look()?;
            self.finish_work(true);
            self.settle_some();
            self.pay()?;
            self.arrive_request()?;
            self.undertake()?;
            if step % 4 == 0 {
                self.elapse(50);
            }
            let rested = step % 16 == 0 && self.is_idle() && self.oracle.unfinished().is_none();
            if rested && self.server.as_ref().is_some_and(crate::server::Server::is_quiet) {
                self.trials()?;
                self.try_effects()?;
                return self.rest();
            }
        }
        Err(format!(
            "liveness: {}",
            self.oracle.unfinished().unwrap_or_else(|| "it never comes to rest".into())
        ))
    }

    /// When all is done, the state agrees with the disk and the log has given its space back.
    fn rest(&mut self) -> CheckResult {
        for _ in 0..4 {
            self.snapshot()?;
            self.flush()?;
        }
        let Some(server) = &self.server else { return Err("liveness: the server is gone".into()) };
        if server.fold_differs().unwrap_or(true) {
            return Err("fold: at rest, the facts on disk do not make the state in memory".into());
        }
        let (segments, messages) = (server.segments(), server.state().messages());
        let pieces = server.effect_pieces() as u64;
        if segments as u64 > 4 + messages + pieces {
            return Err(format!(
                "trimming: {segments} segments are kept for {messages} messages and {pieces} pieces"
            ));
        }
        Ok(())
    }
}
