//! What a worker holds and what it does next. No clock, no network: it is told everything from outside.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use driftq_api::v2::{SETTLEMENTS_MAX, Settled, SettledStatus};
use tokio::time::Instant;

use super::verdict::{Kind, Verdict};
use crate::signal::Reason;

/// Most bytes of reasons in one settling call: well below what a server takes.
const SETTLEMENT_BYTES_MAX: usize = 1 << 20;

/// The name of a delivery within this worker.
pub(crate) type Id = u64;

#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    /// Most calls of handlers at a time.
    pub(crate) concurrency: usize,
    /// Most deliveries that are held, in calls and waiting for one.
    pub(crate) capacity: usize,
    /// The largest call of each lane.
    pub(crate) batches: Vec<usize>,
}

/// One delivery that is held. `T` is what the shell needs to work on it.
#[derive(Clone, Debug)]
struct HeldDelivery<T> {
    lane: usize,
    token: String,
    cargo: T,
    /// When the lease is over unless it is extended, by this worker's clock.
    expires: Instant,
    phase: Phase,
    /// The server was told that no handler has begun with it.
    is_told_waiting: bool,
    /// Set when another worker has it or will get it, or when it was cancelled and no worker will.
    gone: Option<Reason>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    Running,
    Settling(Kind),
}

impl Phase {
    const fn is_settling(self) -> bool {
        matches!(self, Self::Settling(_))
    }
}

/// One call of a handler that is to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Start<T> {
    pub(crate) lane: usize,
    pub(crate) deliveries: Vec<(Id, T)>,
}

/// What one settling call says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) kind: Kind,
    pub(crate) leases: Vec<(Id, String, Verdict)>,
}

/// What a heartbeat says of one delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Beat {
    pub(crate) id: Id,
    pub(crate) token: String,
    /// Whether a handler has begun with it.
    pub(crate) is_begun: bool,
}

/// What a lane asks the server for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// How many messages at the most; 0: it does not ask.
    pub(crate) count: usize,
    /// Whether the server may wait for them. While it does, no other lane may use their room.
    pub(crate) waits: bool,
}

/// One way to settle: what waits for the next call, and whether one is under way.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(Id, Verdict)>,
    is_under_way: bool,
}

/// Everything that a worker holds.
#[derive(Debug)]
pub(crate) struct Book<T> {
    bounds: Bounds,
    held: BTreeMap<Id, HeldDelivery<T>>,
    waiting: Vec<VecDeque<Id>>,
    /// How many each lane has asked for and not got yet.
    asked: Vec<usize>,
    /// Whether the lane's topic had nothing when it was last asked.
    are_idle: Vec<bool>,
    calls: usize,
    /// The lane whose turn it is.
    turn: usize,
    queues: [Queue; 3],
    /// Begun since the server was told that they were not.
    begun: Vec<Id>,
    next_id: Id,
    settled: u64,
}

impl<T: Clone> Book<T> {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let lanes = bounds.batches.len();
        Self {
            bounds,
            held: BTreeMap::new(),
            waiting: vec![VecDeque::new(); lanes],
            asked: vec![0; lanes],
            are_idle: vec![true; lanes],
            calls: 0,
            turn: 0,
            queues: Default::default(),
            begun: Vec::new(),
            next_id: 0,
            settled: 0,
        }
    }

    /// How many messages the lane may borrow now. A lane whose topic is empty keeps a place for one call and waits; the
    /// others share what is left, and do not wait at the server with the room of many.
    pub(crate) fn ask(&mut self, lane: usize) -> Ask {
        let batches = &self.bounds.batches;
        let is_alone = batches.len() == 1;
        let is_idle = self.are_idle[lane] && !is_alone;
        let want = if is_idle { batches[lane] } else { self.share(lane) };
        let taken = self.held.len() + self.asked.iter().sum::<usize>();
        let room = self.bounds.capacity.max(batches.len()).saturating_sub(taken);
        let count = want.min(room).min(super::LEASE_MAX);
        self.asked[lane] = count;
        Ask { count, waits: is_idle || is_alone }
    }

    /// What a lane with work may still take of the room that it shares with others like it.
    pub(super) fn share(&self, lane: usize) -> usize {
        let others = (0..self.asked.len()).filter(|&other| other != lane);
        let (idle, busy): (Vec<usize>, Vec<usize>) = others.partition(|&other| self.are_idle[other]);
        let kept: usize = idle.into_iter().map(|other| self.bounds.batches[other]).sum();
        let share = (self.bounds.capacity.saturating_sub(kept) / (busy.len() + 1)).max(1);
        share.saturating_sub(self.held.values().filter(|held| held.lane == lane).count())
    }

    /// What the lane asked for is here, `count` messages of it, or will not come.
    pub(crate) fn answered(&mut self, lane: usize, count: usize) {
        self.asked[lane] = 0;
        self.are_idle[lane] = count == 0;
    }

    pub(crate) fn borrowed(&mut self, lane: usize, token: String, cargo: T, expires: Instant) -> Id {
        let id = self.next_id;
        self.next_id += 1;
        let (phase, gone, is_told_waiting) = (Phase::Waiting, None, false);
        self.held.insert(id, HeldDelivery { lane, token, cargo, expires, phase, is_told_waiting, gone });
        self.waiting[lane].push_back(id);
        id
    }

    /// The next call of a handler, if there is room for one and something to work on. Lanes take turns.
    pub(crate) fn start(&mut self) -> Option<Start<T>> {
        if self.calls >= self.bounds.concurrency {
            return None;
        }
        let lanes = self.waiting.len();
        let lane =
            (0..lanes).map(|step| (self.turn + step) % lanes).find(|&lane| !self.waiting[lane].is_empty())?;
        self.turn = (lane + 1) % lanes;
        let count = self.waiting[lane].len().min(self.bounds.batches[lane]);
        let ids: Vec<Id> = self.waiting[lane].drain(..count).collect();
        self.calls += 1;
        let mut deliveries = Vec::with_capacity(ids.len());
        for id in ids {
            if let Some(held) = self.held.get_mut(&id) {
                held.phase = Phase::Running;
                if std::mem::take(&mut held.is_told_waiting) {
                    self.begun.push(id);
                }
                deliveries.push((id, held.cargo.clone()));
            }
        }
        Some(Start { lane, deliveries })
    }

    /// A call has ended; what became of each of its deliveries.
    pub(crate) fn ended(&mut self, verdicts: Vec<(Id, Verdict)>) {
        self.calls = self.calls.saturating_sub(1);
        for (id, verdict) in verdicts {
            self.conclude(id, verdict);
        }
    }

    fn conclude(&mut self, id: Id, verdict: Verdict) {
        let Some(held) = self.held.get_mut(&id) else { return };
        let verdict = match (held.gone, verdict) {
            // It is settled already.
            (_, Verdict::Done) => return self.forget(id),
            // Another worker has it or will get it: what the handler says is dropped.
            (Some(Reason::LeaseLost), _) => return self.forget(id),
            // No worker will get it any more: this one only has to let go of it.
            (Some(Reason::Cancelled), _) => Verdict::Release { delay: None },
            (_, verdict) => verdict,
        };
        let kind = verdict.kind();
        held.phase = Phase::Settling(kind);
        self.queues[kind as usize].waiting.push_back((id, verdict));
    }

    /// The next settling call, if something waits for one and none of its kind is under way.
    pub(crate) fn settle(&mut self, kind: Kind) -> Option<Batch> {
        let queue = &mut self.queues[kind as usize];
        if queue.is_under_way || queue.waiting.is_empty() {
            return None;
        }
        queue.is_under_way = true;
        let mut bytes = 0;
        let fits = |(_, verdict): &&(Id, Verdict)| {
            bytes += verdict.bytes();
            bytes <= SETTLEMENT_BYTES_MAX
        };
        let count = queue.waiting.iter().take(SETTLEMENTS_MAX).take_while(fits).count().max(1);
        let mut leases = Vec::with_capacity(count);
        for (id, verdict) in queue.waiting.drain(..count) {
            if let Some(held) = self.held.get(&id) {
                leases.push((id, held.token.clone(), verdict));
            }
        }
        Some(Batch { kind, leases })
    }

    /// A settling call is over, whether it succeeded or not: these are no longer held.
    pub(crate) fn settled(&mut self, kind: Kind, ids: impl IntoIterator<Item = Id>) {
        self.queues[kind as usize].is_under_way = false;
        for id in ids {
            self.forget(id);
        }
    }

    fn forget(&mut self, id: Id) {
        self.settled += u64::from(self.held.remove(&id).is_some());
    }

    /// Everything that a heartbeat extends: what runs and what waits, but not what is being settled.
    pub(crate) fn heartbeat(&mut self) -> Vec<Beat> {
        self.begun.clear();
        let beating =
            self.held.iter_mut().filter(|(_, held)| !held.phase.is_settling() && held.gone.is_none());
        let beats = beating.map(|(id, held)| {
            held.is_told_waiting = held.phase == Phase::Waiting;
            Beat { id: *id, token: held.token.clone(), is_begun: !held.is_told_waiting }
        });
        beats.collect()
    }

    /// What the server believes is not begun, but is: told between two heartbeats, so that a message that takes its
    /// worker down is counted.
    pub(crate) fn begun(&mut self) -> Vec<Beat> {
        let begun = std::mem::take(&mut self.begun).into_iter();
        let running = begun.filter_map(|id| {
            let held =
                self.held.get(&id).filter(|held| held.phase == Phase::Running && held.gone.is_none())?;
            Some(Beat { id, token: held.token.clone(), is_begun: true })
        });
        running.collect()
    }

    /// What the heartbeat learned. Returns the deliveries whose handlers are to be told.
    pub(crate) fn extended(
        &mut self,
        results: impl IntoIterator<Item = (Id, Settled)>,
        sent: Instant,
        lease: Duration,
    ) -> Vec<(T, Reason)> {
        let mut told = Vec::new();
        for (id, settled) in results {
            let Some(held) = self.held.get_mut(&id) else { continue };
            match settled.status {
                SettledStatus::Ok if settled.cancelled => told.extend(self.lose(id, Reason::Cancelled)),
                SettledStatus::Ok => held.expires = sent + lease,
                SettledStatus::Stale | SettledStatus::Unknown => {
                    told.extend(self.lose(id, Reason::LeaseLost))
                }
            }
        }
        told
    }

    /// No heartbeat came through: leases that are over by now are lost. Returns the deliveries whose handlers are to be
    /// told.
    pub(crate) fn lapsed(&mut self, now: Instant) -> Vec<(T, Reason)> {
        let is_over =
            |held: &HeldDelivery<T>| held.expires <= now && !held.phase.is_settling() && held.gone.is_none();
        let over: Vec<Id> = self.held.iter().filter(|(_, held)| is_over(held)).map(|(id, _)| *id).collect();
        over.into_iter().filter_map(|id| self.lose(id, Reason::LeaseLost)).collect()
    }

    /// It is not this worker's any more. What waits is not begun; the handler of what runs is to be told.
    fn lose(&mut self, id: Id, reason: Reason) -> Option<(T, Reason)> {
        let held = self.held.get_mut(&id)?;
        match held.phase {
            // Its settlement is on the way, and will be told the same.
            Phase::Settling(_) => None,
            Phase::Running => {
                held.gone = Some(reason);
                Some((held.cargo.clone(), reason))
            }
            Phase::Waiting => {
                held.gone = Some(reason);
                for lane in &mut self.waiting {
                    lane.retain(|waiting| *waiting != id);
                }
                self.conclude(id, Verdict::Release { delay: None });
                None
            }
        }
    }

    /// Gives back what was not begun.
    pub(crate) fn drain(&mut self) {
        let waiting: Vec<Id> = self.waiting.iter_mut().flat_map(|lane| lane.drain(..)).collect();
        for id in waiting {
            self.conclude(id, Verdict::Release { delay: None });
        }
    }

    /// The deliveries whose handlers run.
    pub(crate) fn running(&self) -> impl Iterator<Item = &T> {
        self.held.values().filter(|held| held.phase == Phase::Running).map(|held| &held.cargo)
    }

    /// How many have ended, well or not, without the server knowing. What is only given back does not count.
    pub(crate) fn unheard(&self) -> usize {
        let is_unheard =
            |held: &&HeldDelivery<T>| matches!(held.phase, Phase::Settling(Kind::Ack | Kind::Nack));
        self.held.values().filter(is_unheard).count()
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Deliveries that this worker is through with.
    pub(crate) fn settled_count(&self) -> u64 {
        self.settled
    }
}
