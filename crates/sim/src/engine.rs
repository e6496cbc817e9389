//! A log that several servers reach, in memory: a table of a database, or a stream.
//!
//! It stands for PostgreSQL and JetStream, and what it does to appends is what was seen there: an answer is lost, a
//! request is lost, a request arrives when its sender has long given it up, or after somebody else has claimed the log.
//! What the engine refuses is written down here once more, because the real thing is a statement or a server of its own;
//! what servers make of it is theirs ([`driftq_wal::claim`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use driftq_wal::claim::{Behind, Head, Looked, Marks, Row, Sent, may_claim};
use driftq_wal::{FRAME_HEADER_BYTES, Lsn, SEGMENT_HEADER_BYTES, Snapshot};

use crate::books::Books;
use crate::rng::Rng;

/// Where the first batch of a log begins.
pub(crate) const START: Lsn = Lsn::new(1, SEGMENT_HEADER_BYTES);

/// What the log is kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A table with a row per batch, and one that names the newest claim: every statement finds its own there.
    Rows,
    /// A stream in which claims stand between the batches: every message says with which one the stream must end.
    Stream,
}

/// A shared log. Clones are handles to the same one.
#[derive(Clone)]
pub(crate) struct Engine {
    state: Arc<Mutex<State>>,
}

/// A server, as the log knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) node: usize,
    /// Tells processes apart, also on the same node.
    pub(crate) process: u64,
}

/// One part of a batch on its way; a table takes batches whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
    /// The sequence that the stream must end with.
    pub(crate) expected: u64,
}

/// What a claim found.
pub(crate) struct Claim {
    pub(crate) epoch: u64,
    /// Its own sequence.
    pub(crate) sequence: u64,
    pub(crate) marks: Marks<Snapshot>,
    pub(crate) snapshot: Option<Snapshot>,
}

/// What became of a request, as far as its sender knows.
pub(crate) enum Reply {
    Now(Sent),
    /// The answer may come by this number.
    Later(u64),
}

enum Wire {
    Part {
        number: u64,
        part: Part,
    },
    /// A purge that its sender has seen to be allowed.
    Purge {
        segments: Vec<u32>,
        marks_below: u64,
    },
}

enum What {
    Claim { epoch: u64 },
    Snapshot { epoch: u64, snapshot: Snapshot },
    Batch(Part),
}

struct State {
    kind: Kind,
    rng: Rng,
    /// Nothing goes wrong any more.
    calm: bool,
    /// Nodes that do not reach the log.
    cut: BTreeSet<usize>,
    claim: u64,
    holder: Option<u64>,
    sequence: u64,
    /// In the order of their arrival.
    records: Vec<(u64, What)>,
    /// Of a table; in a stream a mark names it.
    snapshot: Option<Snapshot>,
    wire: Vec<Wire>,
    answers: BTreeMap<u64, Sent>,
    requests: u64,
    books: Books,
}

impl Engine {
    pub(crate) fn new(kind: Kind, seed: u64) -> Self {
        let state = State {
            kind,
            rng: Rng::new(seed),
            calm: false,
            cut: BTreeSet::new(),
            claim: 0,
            holder: None,
            sequence: 0,
            records: Vec::new(),
            snapshot: None,
            wire: Vec::new(),
            answers: BTreeMap::new(),
            requests: 0,
            books: Books::new(START),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn kind(&self) -> Kind {
        self.state().kind
    }

    /// Looks something up in the simulator's own books.
    pub(crate) fn books<R>(&self, look: impl FnOnce(&mut Books) -> R) -> R {
        look(&mut self.state().books)
    }

    /// Whether a node reaches the log from now on.
    pub(crate) fn set_cut(&self, node: usize, cut: bool) {
        let mut state = self.state();
        if cut {
            state.cut.insert(node)
        } else {
            state.cut.remove(&node)
        };
    }

    pub(crate) fn is_cut(&self, node: usize) -> bool {
        self.state().cut.contains(&node)
    }

    /// Whether things go wrong from now on.
    pub(crate) fn set_calm(&self, calm: bool) {
        self.state().calm = calm;
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.state().calm
    }

    /// Something that was on its way arrives; false if nothing was.
    pub(crate) fn arrive(&self) -> bool {
        let mut state = self.state();
        let State { rng, wire, .. } = &mut *state;
        match rng.take(wire) {
            None => return false,
            Some(Wire::Purge { segments, marks_below }) => state.purge(&segments, marks_below),
            Some(Wire::Part { number, part }) => {
                let sent = state.take(part);
                state.answers.insert(number, sent);
            }
        }
        true
    }

    /// Claims the log; `None` if this process had it, and somebody else has it now.
    pub(crate) fn claim(&self, caller: Caller, has_had_it: bool) -> Option<Claim> {
        let mut state = self.state();
        if !may_claim(has_had_it, state.holder == Some(caller.process)) {
            return None;
        }
        state.claim += 1;
        state.holder = Some(caller.process);
        let epoch = state.claim;
        state.books.claimed(epoch);
        if state.kind == Kind::Stream {
            state.push(What::Claim { epoch });
        }
        let marks = state.marks();
        let snapshot = match state.kind {
            Kind::Rows => state.snapshot.clone(),
            Kind::Stream => marks.snapshot().cloned(),
        };
        Some(Claim { epoch, sequence: state.sequence, marks, snapshot })
    }

    /// Sends a part of a batch.
    pub(crate) fn send(&self, caller: Caller, part: &Part) -> Reply {
        let mut state = self.state();
        let fate = if state.calm { 0 } else { state.rng.below(100) };
        if state.cut.contains(&caller.node) {
            return Reply::Now(Sent::Unknown);
        }
        match fate {
            0..70 => Reply::Now(state.take(part.clone())),
            // The answer is lost.
            70..78 => {
                state.take(part.clone());
                Reply::Now(Sent::Unknown)
            }
            // The request is lost.
            78..83 => Reply::Now(Sent::Unknown),
            // It is late: its sender has given it up, or waits for it.
            _ => {
                state.requests += 1;
                let number = state.requests;
                state.wire.push(Wire::Part { number, part: part.clone() });
                if fate < 92 { Reply::Now(Sent::Unknown) } else { Reply::Later(number) }
            }
        }
    }

    /// The answer that a sender waits for; sooner or later it gives up.
    pub(crate) fn answer(&self, number: u64) -> Option<Sent> {
        let mut state = self.state();
        let given_up = state.rng.chance(1, 6) || state.calm;
        let answer = state.answers.remove(&number);
        answer.or_else(|| given_up.then_some(Sent::Unknown))
    }

    /// What stands where a part should be; `None` if there is no answer.
    pub(crate) fn look(&self, caller: Caller, part: &Part) -> Option<Looked> {
        let mut state = self.state();
        let lost = state.rng.chance(1, 8) && !state.calm;
        if lost || state.cut.contains(&caller.node) {
            return None;
        }
        Some(match state.kind {
            Kind::Rows => state.row(&part.head).looked(part.head.epoch, part.head.previous),
            Kind::Stream => state.behind(part).looked(part.expected),
        })
    }

    /// Whether a claim is the newest; `None` if there is no answer.
    pub(crate) fn is_newest(&self, caller: Caller, epoch: u64) -> Option<bool> {
        let state = self.state();
        (!state.cut.contains(&caller.node)).then_some(state.claim == epoch)
    }

    /// Names a snapshot; false if it was refused.
    pub(crate) fn put_snapshot(&self, caller: Caller, epoch: u64, expected: u64, snapshot: Snapshot) -> bool {
        let mut state = self.state();
        if state.cut.contains(&caller.node) {
            return false;
        }
        let (kind, is_last) = (state.kind, state.sequence == expected);
        match kind {
            Kind::Rows if state.claim == epoch => state.snapshot = Some(snapshot),
            Kind::Rows => return false,
            // One that slips in behind the claim is not answered: readers have to drop it.
            Kind::Stream => {
                if is_last || state.slips_in(epoch) {
                    state.push(What::Snapshot { epoch, snapshot });
                }
                return is_last;
            }
        }
        true
    }

    /// Removes segments. A table does so under the claim; a stream is told to by a server that had looked at its claim
    /// before, and the next claim may come in between.
    pub(crate) fn trim(&self, caller: Caller, epoch: u64, segments: &[u32], marks: &Marks<Snapshot>) -> bool {
        let mut state = self.state();
        if state.cut.contains(&caller.node) || state.claim != epoch {
            return false;
        }
        let marks_below = match state.kind {
            Kind::Rows => 0,
            Kind::Stream => state.first_batch(segments).map_or(0, |first| marks.needed_from(first)),
        };
        if state.kind == Kind::Stream && !state.calm && state.rng.chance(1, 4) {
            state.wire.push(Wire::Purge { segments: segments.to_vec(), marks_below });
            return true;
        }
        state.purge(segments, marks_below);
        true
    }

    /// Every part that stands in the log, as a reader finds it.
    pub(crate) fn parts(&self) -> Vec<(u64, Part)> {
        let state = self.state();
        let mut parts: Vec<_> = state.batches().map(|(sequence, part)| (sequence, part.clone())).collect();
        if state.kind == Kind::Rows {
            parts.sort_by_key(|(_, part)| part.head.frame);
        }
        parts
    }
}

impl State {
    fn push(&mut self, what: What) {
        self.sequence += 1;
        self.records.push((self.sequence, what));
    }

    fn batches(&self) -> impl Iterator<Item = (u64, &Part)> {
        self.records.iter().filter_map(|(sequence, what)| match what {
            What::Batch(part) => Some((*sequence, part)),
            What::Claim { .. } | What::Snapshot { .. } => None,
        })
    }

    fn marks(&self) -> Marks<Snapshot> {
        let mut marks = Marks::default();
        for (sequence, what) in &self.records {
            match what {
                What::Claim { epoch } => marks.push(*sequence, *epoch, None),
                What::Snapshot { epoch, snapshot } => marks.push(*sequence, *epoch, Some(snapshot.clone())),
                What::Batch(_) => {}
            }
        }
        marks
    }

    /// Takes a part into the log, or refuses it.
    fn take(&mut self, part: Part) -> Sent {
        let may = self.is_held(&part.head) && self.is_expected(&part);
        if !may && !self.slips_in(part.head.epoch) {
            return Sent::Refused;
        }
        self.books.arrived(&part.head, &part.body, self.kind == Kind::Stream);
        let expected = part.expected;
        self.push(What::Batch(part));
        match self.kind {
            Kind::Stream if self.sequence != expected + 1 => Sent::Elsewhere,
            Kind::Stream | Kind::Rows => Sent::Taken,
        }
    }

    /// The statement of an append finds its own claim. In a stream it is the claim that moves the end.
    fn is_held(&self, head: &Head) -> bool {
        self.kind == Kind::Stream || self.claim == head.epoch
    }

    /// The log ends where the sender expects it to.
    fn is_expected(&self, part: &Part) -> bool {
        let row = self.row(&part.head);
        match self.kind {
            Kind::Rows => row.there.is_none() && row.before == part.head.previous,
            Kind::Stream => self.sequence == part.expected,
        }
    }

    /// A stream that takes a message of a deposed server against its own promise: no reader relies on that alone.
    fn slips_in(&mut self, epoch: u64) -> bool {
        self.kind == Kind::Stream && self.claim != epoch && !self.calm && self.rng.chance(1, 6)
    }

    fn row(&self, head: &Head) -> Row {
        let there = self.batches().find(|(_, part)| part.head.frame == head.frame);
        let before = self.batches().map(|(_, part)| &part.head).filter(|other| other.frame < head.frame);
        Row {
            claim: self.claim,
            there: there.map(|(_, part)| part.head.epoch),
            before: before.max_by_key(|other| other.frame).map_or(START, |other| other.ended),
        }
    }

    /// What stands behind the end that a server knew; a replica may lag behind.
    fn behind(&mut self, part: &Part) -> Behind {
        let lags = !self.calm && self.rng.chance(1, 8);
        let next = self.records.iter().find(|(sequence, _)| *sequence > part.expected);
        match next.filter(|_| !lags) {
            None => Behind::Last(self.sequence),
            Some((_, what)) => Behind::Record { ours: matches!(what, What::Batch(there) if there == part) },
        }
    }

    /// The sequence of the first batch that stays when these segments go.
    fn first_batch(&self, gone: &[u32]) -> Option<u64> {
        let stays = |(_, part): &(u64, &Part)| !gone.contains(&part.head.frame.segment());
        self.batches().filter(stays).map(|(sequence, _)| sequence).min()
    }

    fn purge(&mut self, segments: &[u32], marks_below: u64) {
        self.records.retain(|(sequence, what)| match what {
            What::Batch(part) => !segments.contains(&part.head.frame.segment()),
            What::Claim { .. } | What::Snapshot { .. } => *sequence >= marks_below,
        });
        self.books.trim(segments);
    }
}

/// Where the bytes of a batch lie that begins at `frame`.
pub(crate) const fn body_at(frame: Lsn) -> Lsn {
    Lsn::new(frame.segment(), frame.offset() + FRAME_HEADER_BYTES)
}
