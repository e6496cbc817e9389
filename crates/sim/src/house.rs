//! A house of several shards: messages that hop from one to another, by commits that end an effect in a third.
//!
//! Each shard has a log of its own. The process that has them dies as a whole, or one of its shards fails and is built
//! again from its log, or another process takes all of them over, one by one, while the first goes on with what it
//! believed. Clients know nothing of this: each message passes every topic of its chain once, and no effect is run again
//! that was told to have ended.

mod books;
mod clients;
mod life;

use std::collections::BTreeMap;

use driftq_core::{Answer, Description, Input, Query, Settings, ShardId, Ticket, Time, TopicId};

use crate::disk::{Fault, Op, SimDisk};
use crate::engine::{Caller, Engine, Kind};
use crate::oracle::CheckResult;
use crate::rng::Rng;
use crate::run::Totals;
use crate::seat::Seat;
use crate::server::{NoStart, Server};
use crate::trace::Trace;
use books::Books;
use clients::effect_identity;
use life::{Heard, Job, Life};

/// Ways from topic to topic.
const CHAINS: usize = 3;
/// Topics of each.
const HOPS: usize = 3;
/// Openings of a shard in a row that may fail.
const OPENINGS_MAX: u32 = 8;
/// Steps within which the calm must end.
const CALM_STEPS_MAX: u64 = 60_000;
/// Processes that go on although another one has taken over.
const DEPOSED_MAX: usize = 2;

/// Where the logs are.
enum Logs {
    Files(Vec<SimDisk>),
    Shared(Vec<Engine>),
}

pub(crate) struct House {
    rng: Rng,
    now: Time,
    pub(crate) trace: Trace,
    pub(crate) counts: Totals,
    settings: Vec<Settings>,
    logs: Logs,
    /// The last of them serves.
    lives: Vec<Life>,
    processes: u64,
    topics: BTreeMap<(usize, usize), TopicId>,
    /// Messages in the hands of workers.
    jobs: Vec<Job>,
    names: u64,
    books: Books,
    calm: bool,
}

impl House {
    pub(crate) fn new(seed: u64, shards: usize, nodes: usize, verbose: bool) -> Self {
        let mut rng = Rng::new(seed ^ 0x0068_6f75_7365);
        let settings = |shard: usize| Settings {
            shard: ShardId(u8::try_from(shard).expect("few shards")),
            lease_in_flight_max: 6,
            commit_ttl_ms: 600_000,
            turn_steps_max: 12 + u32::try_from(seed % 7).expect("small"),
            seed,
            ..Settings::default()
        };
        let logs = if nodes > 1 {
            let kind = if rng.chance(1, 2) { Kind::Rows } else { Kind::Stream };
            let engines: Vec<Engine> = (0..shards).map(|_| Engine::new(kind, rng.next())).collect();
            engines.iter().for_each(|engine| engine.set_calm(true));
            Logs::Shared(engines)
        } else {
            Logs::Files((0..shards).map(|_| SimDisk::new(rng.next())).collect())
        };
        Self {
            rng,
            now: Time(1_000_000),
            trace: Trace::new(verbose),
            counts: Totals::default(),
            settings: (0..shards).map(settings).collect(),
            logs,
            lives: Vec::new(),
            processes: 0,
            topics: BTreeMap::new(),
            jobs: Vec::new(),
            names: 0,
            books: Books::default(),
            calm: false,
        }
    }

    /// The whole story.
    pub(crate) fn live(&mut self, steps: u64) -> CheckResult {
        self.begin_life()?;
        self.make_topics()?;
        self.set_calm(false);
        for _ in 0..steps {
            self.step()?;
        }
        self.rest()
    }

    fn shards(&self) -> usize {
        self.settings.len()
    }

    fn life(&mut self) -> &mut Life {
        self.lives.last_mut().expect("a process serves")
    }

    fn set_calm(&mut self, calm: bool) {
        self.calm = calm;
        if let Logs::Shared(engines) = &self.logs {
            engines.iter().for_each(|engine| engine.set_calm(calm));
        }
    }

    /// A new process opens all logs, one after the other.
    fn begin_life(&mut self) -> CheckResult {
        for opening in 0..OPENINGS_MAX {
            let calm = self.calm;
            self.set_calm(calm || self.lives.is_empty() || opening + 2 > OPENINGS_MAX / 2);
            self.processes += 1;
            let mut servers = Vec::new();
            for shard in 0..self.shards() {
                match self.open(shard)? {
                    Some(server) => servers.push(server),
                    None => break,
                }
                // Whoever was there before goes on, until it notices.
                for _ in 0..self.rng.below(6) {
                    self.step_of_deposed()?;
                }
            }
            self.set_calm(calm);
            if servers.len() == self.shards() {
                let mut life = Life::new(self.processes, servers);
                let mut heard = Vec::new();
                for shard in 0..self.shards() {
                    let first = life.shards[shard].as_mut().map(Server::first_actions).unwrap_or_default();
                    life.hear(shard, first, &mut heard);
                }
                self.trace.note("serves", &self.processes);
                self.lives.push(life);
                return self.told(heard);
            }
        }
        Err("recovery: the logs do not open".into())
    }

    /// Opens the log of a shard. `None` if it failed on the way.
    fn open(&mut self, shard: usize) -> Result<Option<Server>, String> {
        let (now, settings, process) = (self.now, &self.settings[shard], self.processes);
        let failed = |NoStart(why): NoStart| format!("recovery: shard {shard}: {why}");
        match &self.logs {
            Logs::Files(disks) => {
                for _ in 0..OPENINGS_MAX {
                    let opened = Server::start(&disks[shard], settings, now, settings.seed);
                    match opened.map_err(failed)? {
                        Some(server) => return Ok(Some(server)),
                        None => disks[shard].kill(),
                    }
                }
                Err(format!("recovery: the disk of shard {shard} works again, yet its log does not open"))
            }
            Logs::Shared(engines) => {
                let (engine, caller) = (&engines[shard], Caller { node: 0, process });
                let Some(claim) = engine.claim(caller, false) else {
                    return Err("recovery: a new process was refused a log".into());
                };
                (0..self.rng.below(3)).for_each(|_| _ = engine.arrive());
                let seat = Seat::new(engine, caller, claim)?;
                let mut server = Server::join(seat, settings, now, settings.seed).map_err(failed)?;
                server.seal();
                while !server.is_written() {
                    if server.write().is_err() {
                        return Ok(None);
                    }
                    (0..self.rng.below(3)).for_each(|_| _ = engine.arrive());
                }
                Ok(Some(server))
            }
        }
    }

    /// The process dies, or the machine loses power.
    fn crash(&mut self, power: bool) -> CheckResult {
        self.trace.note("crash", &power);
        self.counts.crashes += 1;
        let mut life = self.lives.pop().expect("a process serves");
        self.counts.parcels += life.parcels;
        let mut heard = Vec::new();
        for shard in 0..self.shards() {
            life.end(shard, &mut heard);
        }
        if let Logs::Files(disks) = &self.logs {
            for disk in disks {
                if power {
                    disk.crash();
                } else {
                    disk.kill();
                }
            }
        }
        self.told(heard)?;
        self.begin_life()
    }

    /// Another process takes over, and the one that serves may not notice.
    fn take_over(&mut self) -> CheckResult {
        self.trace.note("take-over", &self.processes);
        self.counts.takeovers += 1;
        if self.lives.len() > DEPOSED_MAX {
            let gone = self.lives.remove(0);
            self.counts.parcels += gone.parcels;
        }
        self.begin_life()
    }

    /// One shard of a process failed: it is built again from its log, or is somebody else's by now.
    fn fail(&mut self, life: usize, shard: usize) -> CheckResult {
        let serves = life + 1 == self.lives.len();
        self.trace.note("shard failed", &(self.lives[life].number, shard));
        let mut heard = Vec::new();
        self.lives[life].end(shard, &mut heard);
        self.told(heard)?;
        match &self.logs {
            Logs::Files(disks) => {
                disks[shard].kill();
                self.counts.crashes += 1;
                let Some(mut server) = self.open(shard)? else {
                    return Err(format!("recovery: shard {shard} does not open again"));
                };
                let (first, mut heard) = (server.first_actions(), Vec::new());
                self.lives[life].shards[shard] = Some(server);
                self.lives[life].hear(shard, first, &mut heard);
                self.told(heard)
            }
            Logs::Shared(_) if serves => self.take_over(),
            Logs::Shared(_) => {
                self.counts.fenced += 1;
                if self.lives[life].shards.iter().all(Option::is_none) {
                    let gone = self.lives.remove(life);
                    self.counts.parcels += gone.parcels;
                }
                Ok(())
            }
        }
    }

    fn step(&mut self) -> CheckResult {
        if self.lives.len() > 1 && self.rng.chance(1, 5) {
            return self.step_of_deposed();
        }
        let serving = self.lives.len() - 1;
        match self.rng.below(1000) {
            0..70 => {
                self.produce();
                Ok(())
            }
            70..170 => {
                self.lease();
                Ok(())
            }
            170..300 => self.work(),
            300..930 => self.drive(serving),
            930..960 => {
                self.now = self.now.after_ms(self.rng.below(60));
                Ok(())
            }
            960..966 => {
                self.now = self.now.after_ms(self.rng.below(2500));
                Ok(())
            }
            966..980 => self.snapshot(),
            980..988 => self.disturb(),
            988..992 => {
                let shard = self.some_shard();
                self.fail(serving, shard)
            }
            992..995 => {
                let power = self.rng.chance(1, 2);
                self.crash(power)
            }
            _ => Ok(()),
        }
    }

    fn step_of_deposed(&mut self) -> CheckResult {
        if self.lives.len() < 2 {
            return Ok(());
        }
        let life = self.rng.below(self.lives.len() as u64 - 1);
        self.drive(usize::try_from(life).expect("few processes"))
    }

    fn some_shard(&mut self) -> usize {
        usize::try_from(self.rng.below(self.settings.len() as u64)).expect("few shards")
    }

    /// Something goes wrong with a disk soon, or arrives late; or another process takes over.
    fn disturb(&mut self) -> CheckResult {
        let shard = self.some_shard();
        match &self.logs {
            Logs::Files(disks) => {
                let op = if self.rng.chance(1, 2) { Op::Write } else { Op::Sync };
                disks[shard].fail(op, 1 + self.rng.below(12), Fault::Eio);
                Ok(())
            }
            Logs::Shared(_) if self.rng.chance(1, 3) => self.take_over(),
            Logs::Shared(_) => Ok(()),
        }
    }

    /// A process goes on.
    fn drive(&mut self, life: usize) -> CheckResult {
        let (now, shard) = (self.now, self.some_shard());
        let what = self.rng.below(12);
        let mut heard = Vec::new();
        let process = &mut self.lives[life];
        match what {
            0..5 => {
                let carried = process.carry(&mut self.rng, now, &mut heard);
                self.trace.note("carried", &(process.number, carried));
            }
            5 => process.forward(&mut self.rng),
            _ => {
                let Some(server) = &mut process.shards[shard] else { return Ok(()) };
                match what {
                    6 => server.seal(),
                    7..9 => {
                        if server.write().is_err() {
                            return self.fail(life, shard);
                        }
                    }
                    9..11 => {
                        let actions = server.confirm(now);
                        process.hear(shard, actions, &mut heard);
                    }
                    _ => {
                        let Ok(kept) = server.keep(now) else { return self.fail(life, shard) };
                        process.hear(shard, kept, &mut heard);
                        self.tick(life, shard, &mut heard);
                        if let Logs::Shared(engines) = &self.logs {
                            engines[shard].arrive();
                        }
                    }
                }
            }
        }
        self.told(heard)
    }

    fn tick(&mut self, life: usize, shard: usize, heard: &mut Vec<Heard>) {
        let process = &mut self.lives[life];
        let Some(server) = &mut process.shards[shard] else { return };
        if server.next_deadline().is_some_and(|due| due <= self.now) {
            let actions = server.handle(self.now, Input::Tick);
            process.hear(shard, actions, heard);
        }
    }

    fn snapshot(&mut self) -> CheckResult {
        let (now, shard) = (self.now, self.some_shard());
        let serving = self.lives.len() - 1;
        let Some(server) = &mut self.lives[serving].shards[shard] else { return Ok(()) };
        let Ok(actions) = server.snapshot(now) else { return self.fail(serving, shard) };
        self.counts.snapshots += 1;
        let mut heard = Vec::new();
        self.life().hear(shard, actions, &mut heard);
        self.told(heard)
    }

    /// Nothing goes wrong any more: whatever is on its way arrives.
    fn rest(&mut self) -> CheckResult {
        self.crash(true)?;
        self.set_calm(true);
        // Those that were deposed say what they have to say, and are ended.
        for _ in 0..400 {
            self.step_of_deposed()?;
        }
        for step in 0..CALM_STEPS_MAX {
            // What was sent before may still be refused now, and another process then takes over.
            let deposed = self.lives.len() - 1;
            self.counts.parcels += self.lives.drain(..deposed).map(|life| life.parcels).sum::<u64>();
            self.drive(0)?;
            match step % 24 {
                0 => self.lease(),
                8 | 16 => self.work()?,
                4 => self.now = self.now.after_ms(20),
                _ => {}
            }
            let is_over = step % 64 == 0 && self.jobs.is_empty() && self.books.missing().is_none();
            if is_over && self.life().is_quiet() {
                return self.judge();
            }
        }
        Err(match self.books.missing() {
            Some(value) => format!("liveness: message {value} does not arrive"),
            None => "liveness: it never comes to rest".into(),
        })
    }

    /// When all is done, no parcel is left, no effect is open, and every log makes the state in memory.
    fn judge(&mut self) -> CheckResult {
        let effects: Vec<_> = self.books.effects().collect();
        for key in effects {
            let identity = effect_identity(key);
            match self.describe(self.home_of_effect(key), Query::Effect(identity)) {
                Some(Description::Effect(Some(view)))
                    if view.status == driftq_core::ledger::Status::Succeeded => {}
                other => {
                    return Err(format!("effect: {key:?} is not ended, and its message is acked: {other:?}"));
                }
            }
        }
        for shard in 0..self.shards() {
            match self.describe(shard, Query::Tally) {
                Some(Description::Tally(tally)) if tally.parcels == 0 => {}
                other => return Err(format!("parcels: shard {shard} keeps some: {other:?}")),
            }
            let Some(server) = &self.lives[0].shards[shard] else { continue };
            if server.is_quiet() && server.fold_differs().unwrap_or(true) {
                return Err(format!("fold: the facts of shard {shard} do not make its state"));
            }
        }
        self.counts.parcels += self.lives[0].parcels;
        Ok(())
    }

    fn describe(&mut self, shard: usize, query: Query) -> Option<Description> {
        let (now, ticket) = (self.now, Ticket(u64::MAX));
        let server = self.life().shards[shard].as_mut()?;
        let actions = server.handle(now, Input::Describe { ticket, query });
        actions.into_iter().find_map(|action| match action {
            driftq_core::Action::Reply { answer: Answer::Described(description), .. } => Some(description),
            _ => None,
        })
    }
}
