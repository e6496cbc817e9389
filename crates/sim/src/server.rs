//! A whole shard on a simulated disk: the real core and the real log under a shell that is as simple as can be.
//!
//! The shell does in single steps what threads do in production (fill a batch, write it, sync it, hear of it), so
//! that the simulator can crash between any two of them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use driftq_core::{
    Action, Answer, Burial, Committed, EffectInput, Identity, Input, Message, NewBlob, Output, Payload,
    Position, Settings, Shard, State, Ticket, Time,
};
use driftq_wal::{Cursor, Lsn, OpenError, Options};

use crate::disk::SimDisk;
use crate::engine::Caller;
use crate::seat::Seat;
use crate::store::{Progress, Store};

/// A batch on its way to the disk.
struct Batch {
    body: Vec<u8>,
    urgent: bool,
}

/// One life of the server, from start to crash.
pub struct Server {
    shard: Shard,
    out: Output,
    store: Store,
    cursor: Cursor,
    /// Sealed and not written yet; one at a time, as in production.
    writing: Option<Batch>,
    /// Synced, but the shard has not heard of it.
    durable: Option<Position>,
    roomy: bool,
    /// Where the log began in this life, if there was no snapshot.
    start: Lsn,
    seed: u64,
}

/// What broke the server; the world restarts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Its log failed.
    Failed,
    /// Another server has claimed its log.
    Fenced,
}

/// What lies where a payload should be.
#[derive(Debug)]
pub enum PayloadRead {
    /// The payload.
    Payload(Vec<u8>),
    /// Its segment was dropped.
    Gone,
    /// The disk cannot be read just now.
    Failed,
}

/// A server that cannot start from what is on disk.
#[derive(Debug)]
pub struct NoStart(pub String);

/// Layout for the simulator: small segments, so that rolling, recycling and dropping happen all the time.
fn options(seed: u64) -> Options {
    Options {
        segment_bytes: 4096,
        spares_max: 4,
        spares_ahead: 1,
        // Without any the log often waits for a segment, and what it has not written is lost in a crash.
        spares_for_acks: usize::try_from(seed % 3).unwrap_or_default(),
        reserve_bytes: 4096,
        salt: seed,
    }
}

/// The secret that a shard gets at its first start.
fn secret(seed: u64) -> [u8; 32] {
    let mut secret = [1; 32];
    secret[..8].copy_from_slice(&seed.to_le_bytes());
    secret
}

/// Checksum of a payload.
#[must_use]
pub fn check(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// A payload as the edge would hand it in.
#[must_use]
pub fn payload(message: &Message<'_>) -> Payload {
    let bytes = message.encode();
    let size = u32::try_from(message.size()).expect("simulated messages are small");
    Payload { check: check(&bytes), bytes, size }
}

/// Folds the log of a disk into a state.
fn fold(store: &Store, start: (Option<&[u8]>, Lsn), to: Option<Lsn>, seed: u64) -> Result<State, NoStart> {
    let (snapshot, from) = start;
    let mut state = match snapshot {
        Some(bytes) => State::decode(bytes, seed).map_err(|error| NoStart(format!("snapshot: {error:?}")))?,
        None => State::new(seed),
    };
    let mut fault = None;
    store.replay(from, to, &mut |lsn, body| match state.apply_batch(Position(lsn.0), body) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            fault = Some(format!("replay at {lsn:?}: {error:?}"));
            ControlFlow::Break(())
        }
    })?;
    fault.map_or(Ok(state), |fault| Err(NoStart(fault)))
}

/// A copy of a server in which everything is durable at once.
pub struct Probe {
    shard: Shard,
    out: Output,
    now: Time,
    tickets: u64,
    /// What was said about commits; asking for one does it.
    pub(crate) commits: BTreeMap<Identity, Committed>,
}

impl Probe {
    /// Bytes of facts that were written so far.
    pub(crate) const fn written(&self) -> usize {
        self.out.facts.len()
    }

    /// The answer to an input.
    pub(crate) fn ask(&mut self, input: impl FnOnce(Ticket) -> Input) -> Option<Answer> {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.out.actions.clear();
        self.shard.handle(self.now, input(ticket), &mut self.out);
        self.out.actions.drain(..).find_map(|action| match action {
            Action::Reply { ticket: to, answer } if to == ticket => Some(answer),
            _ => None,
        })
    }
}

impl Server {
    /// Starts from whatever the disk holds. `Ok(None)`: the disk failed on the way; try again.
    pub fn start(disk: &SimDisk, settings: &Settings, now: Time, seed: u64) -> Result<Option<Self>, NoStart> {
        let opened = match driftq_wal::open(disk.clone(), options(seed)) {
            Ok(opened) => opened,
            Err(OpenError::Io(_)) => return Ok(None),
            Err(error) => return Err(NoStart(error.to_string())),
        };
        let (writer, reader, keeper) = (opened.writer, opened.reader, opened.keeper);
        let store = Store::Files { writer, reader, keeper };
        let snapshot = opened.snapshot.as_ref().map(|snapshot| &snapshot.bytes[..]);
        Self::open(store, (snapshot, opened.start), opened.end, (settings, now, seed)).map(Some)
    }

    /// Starts from a shared log that was claimed.
    pub(crate) fn join(seat: Seat, settings: &Settings, now: Time, seed: u64) -> Result<Self, NoStart> {
        let (snapshot, start, end) = (seat.snapshot(), seat.start(), seat.durable());
        let snapshot = snapshot.as_ref().map(|snapshot| &snapshot.bytes[..]);
        Self::open(Store::Shared(Box::new(seat)), (snapshot, start), end, (settings, now, seed))
    }

    fn open(
        store: Store,
        start: (Option<&[u8]>, Lsn),
        end: Lsn,
        (settings, now, seed): (&Settings, Time, u64),
    ) -> Result<Self, NoStart> {
        let state = fold(&store, start, Some(end), seed)?;
        let mut shard = Shard::new(settings.clone(), state);
        let cursor = store.cursor();
        let mut out = Output::default();
        shard.open(now, Position(cursor.next_body().0), secret(seed), &mut out);
        let start = start.1;
        Ok(Self { shard, out, store, cursor, writing: None, durable: None, roomy: true, start, seed })
    }

    /// Who it is to a shared log.
    pub(crate) const fn caller(&self) -> Option<Caller> {
        match &self.store {
            Store::Files { .. } => None,
            Store::Shared(seat) => Some(seat.caller()),
        }
    }

    /// Whether nothing waits to be written.
    pub(crate) const fn is_written(&self) -> bool {
        self.writing.is_none()
    }

    /// Its claim on a shared log.
    pub(crate) fn seat(&mut self) -> Option<&mut Seat> {
        self.store.seat()
    }

    /// Hands an input to the shard and gives back what it wants done.
    pub fn handle(&mut self, now: Time, input: Input) -> Vec<Action> {
        self.shard.handle(now, input, &mut self.out);
        std::mem::take(&mut self.out.actions)
    }

    /// What is decided and may not be told before it is durable.
    pub fn held(&self) -> impl Iterator<Item = &Action> {
        self.shard.held()
    }

    /// Bytes of facts in the batch that is being filled.
    #[must_use]
    pub const fn filled(&self) -> usize {
        self.out.facts.len()
    }

    /// A copy to ask what is there, without the server noticing.
    #[must_use]
    pub fn probe(&self, settings: &Settings, now: Time) -> Probe {
        let mut shard = Shard::new(settings.clone(), self.state().clone());
        let mut out = Output::default();
        shard.open(now, Position(self.cursor.next_body().0), secret(self.seed), &mut out);
        shard.handle(now, Input::Durable { upto: Position(u64::MAX) }, &mut out);
        Probe { shard, out, now, tickets: 0, commits: BTreeMap::new() }
    }

    /// Actions of the start itself.
    pub fn first_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.out.actions)
    }

    /// The shard keeps no parcel below this number.
    pub(crate) fn outbox_settled(&self) -> u64 {
        self.shard.outbox_settled()
    }

    /// When the shard wants a tick.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.shard.next_deadline()
    }

    /// What the shard believes.
    #[must_use]
    pub const fn state(&self) -> &State {
        self.shard.state()
    }

    /// Closes the batch that is being filled, if the log thread is free.
    pub fn seal(&mut self) {
        let idle = self.writing.is_none() && self.durable.is_none();
        if idle && !self.out.facts.is_empty() {
            let body = std::mem::take(&mut self.out.facts);
            self.cursor.advance(body.len());
            self.shard.begin_batch(Position(self.cursor.next_body().0));
            self.writing = Some(Batch { body, urgent: std::mem::take(&mut self.out.urgent) });
        }
    }

    /// The log thread's turn: write the sealed batch, and sync it if it is urgent.
    pub fn write(&mut self) -> Result<(), Broken> {
        let Some(batch) = self.writing.take() else { return Ok(()) };
        match self.store.write(&batch.body, batch.urgent)? {
            Progress::Waits => self.writing = Some(batch),
            Progress::Written(upto) => self.durable = upto.map(|upto| Position(upto.0)),
        }
        Ok(())
    }

    /// The shard hears how far the disk has got.
    pub fn confirm(&mut self, now: Time) -> Vec<Action> {
        match self.durable.take() {
            Some(upto) => self.handle(now, Input::Durable { upto }),
            None => Vec::new(),
        }
    }

    /// Whether everything decided is written, synced and known.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.out.facts.is_empty() && self.writing.is_none() && self.durable.is_none()
    }

    /// Housekeeping: the reserve, spare segments, and word about the room that is left.
    pub fn keep(&mut self, now: Time) -> Result<Vec<Action>, Broken> {
        let roomy = self.store.provide()?;
        if roomy == self.roomy {
            return Ok(Vec::new());
        }
        self.roomy = roomy;
        Ok(self.handle(now, Input::Space { roomy }))
    }

    /// Housekeeping: folds what is durable into a snapshot, drops segments that are no longer needed, and moves what
    /// little is left in others.
    pub fn snapshot(&mut self, now: Time) -> Result<Vec<Action>, NoStart> {
        let upto = self.store.durable();
        let previous = self.latest_snapshot()?;
        let state = fold(&self.store, (previous.0.as_deref(), previous.1), Some(upto), self.seed)?;
        if !self.store.put_snapshot(upto, &state.encode()) {
            return Ok(Vec::new());
        }
        let live = state.live_bytes();
        let segments = self.store.segments();
        let below = segments.iter().map(|segment| segment.number).filter(|number| *number < upto.segment());
        let unused: Vec<u32> = below.clone().filter(|number| !live.contains_key(number)).collect();
        if !self.store.drop_segments(&unused) {
            return Ok(Vec::new());
        }
        let mut actions = Vec::new();
        for segment in below.filter(|number| live.get(number).is_some_and(|bytes| *bytes < 800)) {
            for pinned in state.pinned_in(segment, 8) {
                let Ok(bytes) = self.store.read_at(Lsn(pinned.position.0), pinned.length) else { continue };
                let payload = Payload { bytes, check: pinned.check, size: pinned.size };
                let (topic, partition, offset) = (pinned.topic, pinned.partition, pinned.offset);
                let from = pinned.position;
                actions.extend(self.handle(now, Input::Relocate { topic, partition, offset, from, payload }));
            }
            for pinned in state.effects_pinned_in(segment, 8) {
                let (number, part, from) = (pinned.number, pinned.part, pinned.blob.position);
                let Ok(bytes) = self.store.read_at(Lsn(from.0), pinned.blob.length) else { continue };
                let copy = NewBlob { bytes, check: pinned.blob.check };
                actions.extend(
                    self.handle(now, Input::Effect(EffectInput::Relocate { number, part, from, copy })),
                );
            }
        }
        Ok(actions)
    }

    /// The newest snapshot on disk and where the log goes on from it.
    fn latest_snapshot(&self) -> Result<(Option<Vec<u8>>, Lsn), NoStart> {
        let snapshot = self.store.snapshot()?;
        Ok(snapshot.map_or((None, self.start), |snapshot| (Some(snapshot.bytes), snapshot.upto)))
    }

    /// Whether a fold of everything written gives the very state that the shard believes in.
    pub fn fold_differs(&self) -> Result<bool, NoStart> {
        let previous = self.latest_snapshot()?;
        let state = fold(&self.store, (previous.0.as_deref(), previous.1), None, self.seed)?;
        Ok(state.encode() != self.state().encode())
    }

    /// Segments of the log.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.store.segments().len()
    }

    /// Pieces of effects that the log keeps.
    #[must_use]
    pub fn effect_pieces(&self) -> usize {
        let segments = self.store.segments();
        segments.iter().map(|segment| self.state().effects_pinned_in(segment.number, usize::MAX).len()).sum()
    }

    /// The payload that lies there; an error if it is not the one that was stored.
    pub fn read(&self, position: Position, length: u32, sum: u32) -> Result<PayloadRead, String> {
        match self.store.read_at(Lsn(position.0), length) {
            Ok(bytes) if check(&bytes) == sum => Ok(PayloadRead::Payload(bytes)),
            Ok(_) => Err(format!("payload at {position:?} is not what was stored")),
            Err(driftq_wal::ReadError::Gone) => Ok(PayloadRead::Gone),
            Err(driftq_wal::ReadError::Io(_)) => Ok(PayloadRead::Failed),
            Err(error) => Err(format!("payload at {position:?}: {error}")),
        }
    }

    /// Writes the dead letter of a message, as the shell's dead-letter writer does.
    pub fn undertake(&self, burial: &Burial) -> Result<Input, String> {
        let receipt = burial.receipt;
        let (position, length) = (burial.position, burial.length);
        // A payload that was moved a moment ago may not be written yet: the shard asks again later.
        if self.store.read_at(Lsn(position.0), length).is_err() {
            return Ok(Input::FetchFailed { receipt });
        }
        let PayloadRead::Payload(bytes) = self.read(position, length, burial.check)? else {
            return Ok(Input::FetchFailed { receipt });
        };
        let message = Message::decode(&bytes).map_err(|error| format!("stored message: {error:?}"))?;
        let letter = message.into_dead_letter(burial.letter(), receipt.topic);
        Ok(Input::Bury { receipt, payload: payload(&letter) })
    }
}
