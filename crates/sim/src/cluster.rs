//! Several nodes on one shared log: one serves, another takes over, and the one before goes on with what it believed.
//!
//! To the oracle all of them are one server that crashes now and then, because that is what clients are promised. A
//! server that was deposed and does not know it is heard, too: what it tells must lie in the log from the time of its
//! claim, and nothing that it was asked since ever happens. How a node steps down is the shell's affair and written
//! down here once more; in production it is `supervise.rs` of the engine.

use std::collections::BTreeMap;

use driftq_core::{
    Action, Answer, Input, LeaseRequest, Message, NewMessage, Settings, Settlement, Ticket, Time, Verdict,
};
use driftq_wal::claim::Stop;

use crate::asked::Asked;
use crate::clients::{GROUPS, OWNERS};
use crate::engine::{Caller, Engine, Kind};
use crate::oracle::{CheckResult, Receiver, Way};
use crate::rng::Rng;
use crate::seat::Seat;
use crate::server::{Broken, NoStart, Server, payload};
use crate::workers::loan;
use crate::world::World;

/// How far apart the clocks of two nodes may be: what `docs/cluster.md` asks for. The next node's clock is ahead of the
/// one before it: what is counted from a clock that goes back is moved back with it, and the oracle does not follow that.
/// A deposed server's clock is ahead or behind.
const SKEW_MS_MAX: u64 = 1000;
/// Messages that only a deposed server was asked to store have numbers from here on: no reader may ever see one.
const GHOSTS_FROM: u64 = 1_000_000_000;
/// Steps in which a server that reaches the log finds out that it was deposed.
const NOTICED_WITHIN: u32 = 2000;
/// After so many openings in a row that failed, nothing goes wrong in the next one.
const OPENINGS_MAX: u32 = 3;

/// The nodes, and the log that they share.
pub(crate) struct Cluster {
    pub(crate) engine: Engine,
    nodes: usize,
    /// The node that serves, or is about to.
    serving: usize,
    deposed: Vec<Deposed>,
    processes: u64,
    /// Openings in a row that failed.
    failed: u32,
    /// Clients do not reach the node that serves.
    pub(crate) unheard: bool,
    ghosts: u64,
}

/// A server that was deposed and may not know it.
struct Deposed {
    server: Server,
    caller: Caller,
    /// Who waited for its answers.
    asked: BTreeMap<Ticket, Asked>,
    /// Workers that asked it for messages since.
    workers: BTreeMap<Ticket, Receiver>,
    /// By how much its clock is ahead of the one that served when it was deposed…
    ahead_ms: u64,
    /// …and that one behind the one that serves now.
    behind_ms: u64,
    /// It does nothing until it wakes.
    asleep: bool,
    /// It was told that another one has the log.
    fenced: bool,
}

impl Cluster {
    pub(crate) fn new(nodes: usize, seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x006e_6f64_6573);
        let kind = if rng.chance(1, 2) { Kind::Rows } else { Kind::Stream };
        let engine = Engine::new(kind, rng.next());
        // Until there is something to lose.
        engine.set_calm(true);
        Self {
            engine,
            nodes,
            serving: 0,
            deposed: Vec::new(),
            processes: 0,
            failed: 0,
            unheard: false,
            ghosts: 0,
        }
    }

    fn process(&mut self, node: usize) -> Caller {
        self.processes += 1;
        Caller { node, process: self.processes }
    }

    /// Claims the log, reads it and opens the shard, as a new process on the node that is to serve. `None` if another
    /// one was quicker, or the log could not be reached.
    pub(crate) fn open(
        &mut self,
        rng: &mut Rng,
        settings: &Settings,
        now: Time,
        calm: bool,
    ) -> Result<Option<Server>, NoStart> {
        self.engine.set_calm(calm || self.failed >= OPENINGS_MAX);
        let opened = self.try_open(rng, settings, now);
        self.engine.set_calm(calm);
        self.failed = if matches!(opened, Ok(None)) { self.failed + 1 } else { 0 };
        opened
    }

    fn try_open(&mut self, rng: &mut Rng, settings: &Settings, now: Time) -> Result<Option<Server>, NoStart> {
        let caller = self.process(self.serving);
        let Some(claim) = self.engine.claim(caller, false) else {
            return Err(NoStart("a new process was refused the log".into()));
        };
        self.meanwhile(rng);
        let seat = Seat::new(&self.engine, caller, claim).map_err(NoStart)?;
        let mut server = Server::join(seat, settings, now, settings.seed)?;
        self.meanwhile(rng);
        // Nothing is served before the opening is durable.
        server.seal();
        while !server.is_written() {
            if server.write().is_err() {
                return Ok(None);
            }
            self.meanwhile(rng);
        }
        Ok(Some(server))
    }

    /// Between two steps of an opening: something late arrives, or a rival claims the log and dies.
    fn meanwhile(&mut self, rng: &mut Rng) {
        for _ in 0..rng.below(3) {
            self.engine.arrive();
        }
        if !self.engine.is_calm() && rng.chance(1, 40) {
            let rival = self.process((self.serving + 1) % self.nodes);
            self.engine.claim(rival, false);
        }
    }
}

impl World {
    /// Which node is to serve next; the time is the one of its clock.
    pub(crate) fn appoint(&mut self) {
        let Some(cluster) = &mut self.cluster else { return };
        let busy = |cluster: &Cluster, node: usize| cluster.deposed.iter().any(|old| old.caller.node == node);
        let free: Vec<usize> = (0..cluster.nodes)
            .filter(|node| !busy(cluster, *node) && !cluster.engine.is_cut(*node))
            .collect();
        let node = if free.is_empty() {
            // A person starts one of them again.
            let node = usize::try_from(self.rng.below(cluster.nodes as u64)).expect("few nodes");
            cluster.deposed.retain(|old| old.caller.node != node);
            cluster.engine.set_cut(node, false);
            node
        } else {
            *self.rng.pick(&free)
        };
        let ahead_ms = if self.set_up { self.rng.below(SKEW_MS_MAX) * self.rng.below(2) } else { 0 };
        self.now = self.now.after_ms(ahead_ms);
        cluster.deposed.iter_mut().for_each(|old| old.behind_ms += ahead_ms);
        cluster.serving = node;
        cluster.unheard = false;
        self.trace.note("appointed", &(node, self.now.0));
    }

    /// The topics are made: things may go wrong.
    pub(crate) fn disturb(&mut self) {
        self.set_up = true;
        if let Some(cluster) = &self.cluster {
            cluster.engine.set_calm(false);
        }
    }

    /// Something happens between the nodes, the log and the clients.
    pub(crate) fn cluster_step(&mut self) -> CheckResult {
        let Some(cluster) = &mut self.cluster else { return Ok(()) };
        match self.rng.below(100) {
            0..30 => {
                cluster.engine.arrive();
            }
            30..84 => self.hear_deposed()?,
            84..90 => {
                let node = usize::try_from(self.rng.below(cluster.nodes as u64)).expect("few nodes");
                let cut = self.rng.chance(1, 3);
                cluster.engine.set_cut(node, cut);
            }
            90..94 => cluster.unheard = self.rng.chance(1, 3),
            _ => self.depose()?,
        }
        self.check_books()
    }

    /// The simulator's own books find nothing wrong.
    pub(crate) fn check_books(&self) -> CheckResult {
        let fault =
            self.cluster.as_ref().and_then(|cluster| cluster.engine.books(|books| books.take_fault()));
        fault.map_or(Ok(()), Err)
    }

    /// The serving node sleeps, or is thought dead, and another one takes over.
    fn depose(&mut self) -> CheckResult {
        let (Some(server), Some(cluster)) = (self.server.take(), &mut self.cluster) else { return Ok(()) };
        let (asked, workers) = (self.asked.clone(), BTreeMap::new());
        let Some(caller) = server.caller() else { return Ok(()) };
        let ahead_ms = self.rng.below(SKEW_MS_MAX) * self.rng.below(2);
        let asleep = self.rng.chance(1, 3);
        cluster.deposed.push(Deposed {
            server,
            caller,
            asked,
            workers,
            ahead_ms,
            behind_ms: 0,
            asleep,
            fenced: false,
        });
        self.counts.takeovers += 1;
        self.trace.note("deposed", &caller);
        self.start()
    }

    /// A deposed server goes on with what it believes.
    fn hear_deposed(&mut self) -> CheckResult {
        let Some(cluster) = &mut self.cluster else { return Ok(()) };
        let Some(mut old) = self.rng.take(&mut cluster.deposed) else { return Ok(()) };
        let now = Time(self.now.0 + old.ahead_ms - old.behind_ms);
        if old.asleep && !self.calm && !self.rng.chance(1, 60) {
            cluster.deposed.push(old);
            return Ok(());
        }
        // Whoever wakes goes on where it was: with a snapshot, say, that is older than the one that counts by now.
        let (actions, broken) = match std::mem::take(&mut old.asleep) {
            true => (old.server.snapshot(now).unwrap_or_default(), None),
            false => self.drive(&mut old, now),
        };
        self.overhear(&mut old, actions)?;
        if let Some(broken) = broken {
            self.step_down(&mut old, broken)?;
        }
        let goes_on = !old.fenced;
        if let Some(cluster) = self.cluster.as_mut().filter(|_| goes_on) {
            cluster.deposed.push(old);
        }
        Ok(())
    }

    /// One step of a deposed server.
    fn drive(&mut self, old: &mut Deposed, now: Time) -> (Vec<Action>, Option<Broken>) {
        let server = &mut old.server;
        let input = match self.rng.below(16) {
            0..3 => self.ghost(),
            3 => self.rng.chance(1, 2).then_some(Input::Tick),
            4..6 => self.settle_there(),
            6 => self.lease_there(&mut old.workers),
            7..13 => {
                server.seal();
                return (Vec::new(), server.write().err());
            }
            13 => return (server.confirm(now), None),
            14 => return (server.snapshot(now).unwrap_or_default(), None),
            _ => {
                let newest = server.seat().and_then(|seat| seat.is_newest());
                return (Vec::new(), (newest == Some(false)).then_some(Broken::Fenced));
            }
        };
        let Some(input) = input else { return (Vec::new(), None) };
        self.trace.note("input there", &(old.caller, &input));
        (server.handle(now, input), None)
    }

    /// A message that nobody but a deposed server is asked to store.
    fn ghost(&mut self) -> Option<Input> {
        let topics: Vec<_> = self.topics.values().map(|topic| topic.id).collect();
        if topics.is_empty() {
            return None;
        }
        let topic = *self.rng.pick(&topics);
        let cluster = self.cluster.as_mut()?;
        cluster.ghosts += 1;
        let text = format!("message {}", GHOSTS_FROM + cluster.ghosts);
        let message = Message {
            key: Vec::new().into(),
            value: text.into_bytes().into(),
            envelope: None,
            routing: None,
            origin: None,
        };
        let message = NewMessage { topic, payload: payload(&message), ..NewMessage::default() };
        Some(Input::Produce { ticket: self.own_ticket(), message })
    }

    /// A holder says to a deposed server that its work is done, and is never answered.
    fn settle_there(&mut self) -> Option<Input> {
        if self.loans.is_empty() {
            return None;
        }
        let receipt = self.rng.pick(&self.loans).receipt;
        let items = vec![Settlement { receipt, verdict: Verdict::Ack }];
        Some(Input::Settle { ticket: self.own_ticket(), items })
    }

    /// A worker asks a deposed server for messages.
    fn lease_there(&mut self, workers: &mut BTreeMap<Ticket, Receiver>) -> Option<Input> {
        let topics: Vec<_> = self.topics.values().map(|topic| topic.id).collect();
        if topics.is_empty() {
            return None;
        }
        let request = LeaseRequest {
            topic: *self.rng.pick(&topics),
            group: (*self.rng.pick(&GROUPS)).into(),
            owner: (*self.rng.pick(&OWNERS)).into(),
            max: 2,
            lease_ms: Some(400),
            wait_ms: 0,
            request: None,
        };
        let ticket = self.own_ticket();
        let (group, owner) = (request.group.clone(), request.owner.clone());
        workers.insert(ticket, Receiver { group, owner, way: Way::Leased });
        Some(Input::Lease { ticket, request })
    }

    /// A ticket that the oracle does not wait for.
    fn own_ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// What a deposed server says to clients. Answers to what they asked in time are as good as any other, and late.
    fn overhear(&mut self, old: &mut Deposed, actions: Vec<Action>) -> CheckResult {
        for action in actions {
            self.trace.note("overheard", &(old.caller, &action));
            if old.fenced {
                let caller = old.caller;
                return Err(format!(
                    "deposed: {caller:?} knows that another one serves, and says {action:?}"
                ));
            }
            let Action::Reply { ticket, answer } = action else { continue };
            if let (Answer::Leased(deliveries), Some(to)) = (&answer, old.workers.remove(&ticket)) {
                // No other server knows these tokens: whoever settles by them is refused.
                self.keepsakes.extend(deliveries.iter().map(|delivery| loan(&to, delivery)));
            }
            if let (Some(Asked::Produce { offers, decided }), Answer::Produced(_) | Answer::ProducedMany(_)) =
                (old.asked.remove(&ticket), &answer)
            {
                self.produce_answered(&offers, decided, &answer)?;
            }
        }
        Ok(())
    }

    /// A server whose append came to nothing: it steps down for good, or opens the log again if nobody else has it.
    fn step_down(&mut self, old: &mut Deposed, broken: Broken) -> CheckResult {
        let (caller, Some(cluster)) = (old.caller, &self.cluster) else { return Ok(()) };
        self.trace.note("steps down", &(caller, broken));
        if broken == Broken::Failed {
            if old.server.seat().is_some_and(|seat| seat.stopped() == Some(Stop::Fenced)) {
                return Err(format!("deposed: {caller:?} was refused for good and asks for the log again"));
            }
            if cluster.engine.claim(caller, true).is_some() {
                return Err(format!("deposed: {caller:?} took the log back by itself"));
            }
        }
        self.counts.fenced += 1;
        old.fenced = true;
        Ok(())
    }

    /// Nothing goes wrong any more: what was on its way arrives, and every deposed server finds out.
    pub(crate) fn calm_cluster(&mut self) -> CheckResult {
        let Some(cluster) = &mut self.cluster else { return Ok(()) };
        cluster.engine.set_calm(true);
        cluster.unheard = false;
        (0..cluster.nodes).for_each(|node| cluster.engine.set_cut(node, false));
        while cluster.engine.arrive() {}
        for _ in 0..NOTICED_WITHIN {
            self.hear_deposed()?;
        }
        let left = self.cluster.as_ref().and_then(|cluster| cluster.deposed.first());
        match left {
            Some(old) => Err(format!("deposed: {:?} has not stepped down", old.caller)),
            // What slipped in behind the newest claim would still depose the server that has it.
            None => self.crash(false),
        }
    }
}
