//! The decide thread's loop: inputs in, actions out, batches to the log.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::mpsc::{Sender, SyncSender, TrySendError};
use std::time::Duration;

use driftq_core::{
    Action, Answer, Burial, ConsumerId, Delivery, EffectInput, INPUT_FACTS_BYTES_MAX, Input, Output,
    Position, Query, Shard, Ticket, Time, TopicInfo,
};
use driftq_wal::FRAME_BODY_BYTES_MAX;
use tokio::sync::{mpsc, oneshot};

use crate::broker::STOPPING;
use crate::failure::Failure;
use crate::forwarder::Posting;
use crate::inbox::{Admission, Broken, LogEvent, Notice, Reply, Request, Taken, Want};
use crate::locks::write;
use crate::log::{Cursor, Log};
use crate::log_writer::{Batch, Body, WriteQueue};
use crate::shared::Shared;
use crate::status::DISK_FULL;
use crate::ticket::TicketHasher;

/// A batch is sealed as soon as it holds this much; while one is under way, nothing is decided that would make the
/// next one larger.
pub(crate) const BATCH_BYTES_SOFT_MAX: usize = 1 << 20;
// A batch is below the bound above when its last input is handled, and all of it is one frame.
const _: () = assert!(BATCH_BYTES_SOFT_MAX + INPUT_FACTS_BYTES_MAX <= FRAME_BODY_BYTES_MAX as usize);
/// Requests handled before the log and the clock are looked at again.
const ROUND_REQUESTS_MAX: usize = 1_024;
/// Words of streams handled before requests get their turn: many streams that end at once must not hold up producers.
const ROUND_NOTICES_MAX: usize = 256;
/// Questions that may wait for their round; an asker that comes after that is told to come back.
const QUESTIONS_MAX: usize = 1_024;
/// Said to callers that wait for a batch that finds no room.
const UNSURE: &str =
    "the disk is full: nothing can be written until space returns; whether this took effect is not known";

/// Why the loop ended.
pub(crate) enum Ended {
    /// It was asked to stop; everything that was accepted is written.
    Stopped,
    /// The log takes nothing more.
    Broken(Broken),
}

/// Everything that the decide thread owns.
pub(crate) struct Decide<'a, L: Log> {
    pub(crate) shared: &'a Shared,
    pub(crate) shard: Shard,
    pub(crate) out: Output,
    pub(crate) cursor: Cursor,
    pub(crate) writes: WriteQueue<'a, L>,
    pub(crate) dead_letter_writer: SyncSender<Burial>,
    /// Not bounded here: the shard takes only so many parcels that have not arrived.
    pub(crate) forwarder: Sender<Posting>,
    pub(crate) tables: Tables,
    pub(crate) now: Time,
}

/// Which caller waits for what.
#[derive(Default)]
pub(crate) struct Tables {
    tickets: HashMap<Ticket, oneshot::Sender<Reply>, BuildHasherDefault<TicketHasher>>,
    consumers: HashMap<ConsumerId, mpsc::Sender<Delivery>>,
    taken: Taken,
    /// Questions that take long to answer: one a round, so that workers wait for one of them at most, however many
    /// askers look through messages or scrape.
    questions: VecDeque<Request>,
    /// Actions of the last call, taken out while they are done.
    actions: Vec<Action>,
    /// Inputs that doing the actions gave rise to.
    follow_ups: Vec<Input>,
    /// The buffer that is not being filled.
    buffer: Vec<u8>,
    /// The log thread waits for room.
    stuck: bool,
}

impl<L: Log> Decide<'_, L> {
    /// Serves until the log fails or a stop is asked for.
    pub(crate) fn run(&mut self) -> Ended {
        loop {
            if let Err(broken) = self.round() {
                self.abandon(broken.why());
                return Ended::Broken(broken);
            }
            if self.tables.taken.stop {
                return match self.finish() {
                    Ok(()) => Ended::Stopped,
                    Err(broken) => {
                        self.abandon(broken.why());
                        Ended::Broken(broken)
                    }
                };
            }
        }
    }

    /// Takes what is there, handles it, and seals a batch if the log is free.
    fn round(&mut self) -> Result<(), Broken> {
        let want = if self.is_full() { Want::LogEvents } else { Want::All };
        let patience = self.patience(want);
        self.shared.inbox.take(want, patience, &mut self.tables.taken);
        self.now = self.now.max(self.shared.clock.now());
        while let Some(event) = self.tables.taken.events.pop_front() {
            self.on_event(event)?;
        }
        if self.shard.next_deadline().is_some_and(|due| due <= self.now) && !self.is_full() {
            self.handle(Input::Tick);
        }
        for _ in 0..ROUND_NOTICES_MAX {
            if self.is_full() {
                break;
            }
            let Some(notice) = self.tables.taken.notices.pop_front() else { break };
            self.on_notice(notice);
            self.seal_when_large()?;
        }
        for _ in 0..ROUND_REQUESTS_MAX {
            if self.is_full() {
                break;
            }
            let Some(request) = self.tables.taken.requests.pop_front() else { break };
            if takes_long(&request.input) {
                self.put_off(request);
                continue;
            }
            self.on_request(request);
            self.seal_when_large()?;
        }
        if !self.is_full()
            && let Some(question) = self.tables.questions.pop_front()
        {
            self.on_request(question);
        }
        if self.tables.stuck {
            self.refuse_while_stuck();
        }
        self.seal()
    }

    fn put_off(&mut self, question: Request) {
        if self.tables.questions.len() < QUESTIONS_MAX {
            self.tables.questions.push_back(question);
        } else {
            // An asker that has stopped waiting needs no answer.
            let _ = question.reply.send(Err(Failure::Busy));
        }
    }

    /// Nothing more may be decided before the log has caught up.
    fn is_full(&self) -> bool {
        self.writes.under_way && self.out.facts.len() >= BATCH_BYTES_SOFT_MAX
    }

    /// How long to sleep at most.
    fn patience(&self, want: Want) -> Option<Duration> {
        if want == Want::LogEvents {
            return None;
        }
        let taken = &self.tables.taken;
        let unfinished = !taken.requests.is_empty() || !taken.notices.is_empty();
        if unfinished
            || !self.tables.questions.is_empty()
            || (!self.out.facts.is_empty() && !self.writes.under_way)
        {
            return Some(Duration::ZERO);
        }
        self.shard.next_deadline().map(|due| self.shared.clock.until(due))
    }

    /// Hands one input to the shard and does what it asks for.
    pub(crate) fn handle(&mut self, input: Input) {
        self.shard.handle(self.now, input, &mut self.out);
        self.act();
        while let Some(input) = self.tables.follow_ups.pop() {
            self.shard.handle(self.now, input, &mut self.out);
            self.act();
        }
    }

    /// Does what the shard has asked for so far.
    fn act(&mut self) {
        if self.out.actions.is_empty() {
            return;
        }
        std::mem::swap(&mut self.out.actions, &mut self.tables.actions);
        // Published before any answer goes out: a caller that is told that a topic exists must find it.
        publish(self.shared, &self.tables.actions);
        let mut actions = std::mem::take(&mut self.tables.actions);
        for action in actions.drain(..) {
            match action {
                Action::Reply { ticket, answer } => self.reply(ticket, answer),
                Action::Deliver { consumer, delivery } => self.deliver(consumer, delivery),
                Action::Fetch(burial) => self.fetch(burial),
                // If the forwarder is gone the epoch ends, and the next one posts it again.
                Action::Post { to, parcel } => {
                    let settled = self.shard.outbox_settled();
                    drop(self.forwarder.send(Posting { to, parcel, settled }));
                }
                Action::Publish(_) | Action::Unpublish(_) => {}
                Action::Close { consumer } => drop(self.tables.consumers.remove(&consumer)),
            }
        }
        self.tables.actions = actions;
    }

    fn reply(&mut self, ticket: Ticket, answer: Answer) {
        // An asker that has stopped waiting needs no answer. What was lent to it is given back, even if it left while
        // its answer waited for the disk.
        let unheard = match self.tables.tickets.remove(&ticket) {
            Some(reply) => reply.send(Ok(answer)).err().and_then(Result::ok),
            None => Some(answer),
        };
        if let Some(Answer::Leased(deliveries)) = unheard
            && !deliveries.is_empty()
        {
            let receipts: Vec<_> = deliveries.iter().map(|delivery| delivery.receipt).collect();
            self.shared.meters.released.add(receipts.len() as u64);
            self.tables.follow_ups.push(Input::Release { receipts });
        }
    }

    fn deliver(&mut self, consumer: ConsumerId, delivery: Delivery) {
        let undelivered = match self.tables.consumers.get(&consumer) {
            None => delivery,
            Some(stream) => match stream.try_send(delivery) {
                Ok(()) => return,
                Err(error) => error.into_inner(),
            },
        };
        // The reader is gone, and the notice of that is still under way. It has to leave before the delivery comes
        // back, or it would be the next to get it.
        self.tables.consumers.remove(&consumer);
        self.shared.meters.released.one();
        self.tables.follow_ups.push(Input::Release { receipts: vec![undelivered.receipt] });
        self.tables.follow_ups.push(Input::Unsubscribe { consumer });
    }

    fn fetch(&mut self, burial: Burial) {
        match self.dead_letter_writer.try_send(burial) {
            Ok(()) => {}
            Err(TrySendError::Full(burial) | TrySendError::Disconnected(burial)) => {
                self.tables.follow_ups.push(Input::FetchFailed { receipt: burial.receipt });
            }
        }
    }

    fn on_request(&mut self, request: Request) {
        if let Some(attach) = request.stream {
            // A reader that left before it was seen: the notice of that may have come first, through the other lane.
            if attach.deliveries.is_closed() {
                return;
            }
            self.tables.consumers.insert(attach.consumer, attach.deliveries);
        }
        let lends = matches!(
            request.input,
            Input::Lease { .. }
                | Input::Effect(EffectInput::Begin { .. })
                | Input::Effect(EffectInput::BeginMany { .. })
        );
        // An asker that is gone by now would only keep others from what it was lent.
        if lends && request.reply.is_closed() {
            return;
        }
        self.tables.tickets.insert(request.ticket, request.reply);
        self.handle(request.input);
    }

    fn on_notice(&mut self, notice: Notice) {
        match notice {
            Notice::Input(input) => {
                if let Input::Forsake { ticket } = input {
                    self.tables.tickets.remove(&ticket);
                }
                self.handle(input);
            }
            Notice::Left { consumer, receipts } => {
                self.tables.consumers.remove(&consumer);
                self.handle(Input::Unsubscribe { consumer });
                if !receipts.is_empty() {
                    self.handle(Input::Release { receipts });
                }
            }
            Notice::RoomChanged => self.handle(Input::Space { roomy: !self.shared.status_board.is_scarce() }),
            Notice::CopiesEnd => self.writes.signal.end_copies(),
        }
    }

    fn on_event(&mut self, event: LogEvent) -> Result<(), Broken> {
        match event {
            LogEvent::Written { upto, buffer } => {
                self.writes.under_way = false;
                if let Some(buffer) = buffer {
                    self.tables.buffer = buffer;
                }
                if let Some(upto) = upto {
                    self.handle(Input::Durable { upto });
                }
            }
            LogEvent::Stuck { why } => self.on_stuck(&why),
            LogEvent::Unstuck => {
                tracing::info!("the log has space again");
                self.tables.stuck = false;
                self.shared.status_board.serving(self.shard.state().epoch());
                if !self.tables.taken.stop {
                    self.shared.inbox.set_admission(Admission::Open);
                }
            }
            LogEvent::Broken(broken) => return Err(broken),
        }
        Ok(())
    }

    /// There is no room for the batch under way. It stays with the log thread.
    fn on_stuck(&mut self, why: &str) {
        tracing::error!(%why, "the log is out of space");
        self.tables.stuck = true;
        self.shared.status_board.stuck(why);
        if self.tables.taken.stop {
            self.writes.signal.stop();
        } else {
            self.shared.inbox.set_admission(Admission::ReadOnly(why.into()));
        }
    }

    /// Callers that have no answer by now wait for the disk, and it is not known for how long.
    fn refuse_while_stuck(&mut self) {
        self.refuse_all(UNSURE);
        if self.is_full() {
            // Nothing more can be decided: not even a question would be answered.
            self.turn_away(DISK_FULL);
        }
    }

    fn seal_when_large(&mut self) -> Result<(), Broken> {
        if self.out.facts.len() >= BATCH_BYTES_SOFT_MAX { self.seal() } else { Ok(()) }
    }

    /// Hands the facts so far to the log, if it is free.
    fn seal(&mut self) -> Result<(), Broken> {
        if self.writes.under_way || self.out.facts.is_empty() {
            return Ok(());
        }
        let urgent = std::mem::take(&mut self.out.urgent);
        let empty = std::mem::take(&mut self.tables.buffer);
        let facts = std::mem::replace(&mut self.out.facts, empty);
        let base = Position(self.cursor.next_body().0);
        self.cursor.advance(facts.len());
        self.shard.begin_batch(Position(self.cursor.next_body().0));
        let (body, cached) = Body::of(facts);
        self.shared.payload_store.put(base, cached);
        match self.writes.start(Batch { body, urgent }, self.shared) {
            Some(event) => self.on_event(event),
            None => Ok(()),
        }
    }

    /// A graceful end: what is queued is handled, the last facts are synced.
    fn finish(&mut self) -> Result<(), Broken> {
        if self.tables.stuck {
            // There is no room for the batch under way: the log thread must not wait for it any longer.
            self.writes.signal.stop();
        }
        // Requests that are in are served, and no more come in.
        self.shared.inbox.set_admission(Admission::Shut(STOPPING.into()));
        self.drain()?;
        let synced = self.writes.log_writer.sync()?;
        self.handle(Input::Durable { upto: synced });
        // Durability may have released deliveries to readers that are gone, and they left facts again.
        self.drain()?;
        self.writes.log_writer.sync()?;
        self.refuse_all(STOPPING);
        Ok(())
    }

    /// Handles everything that is there and waits until all of it is written.
    fn drain(&mut self) -> Result<(), Broken> {
        loop {
            self.round_at_rest()?;
            let taken = &self.tables.taken;
            let questions = !self.tables.questions.is_empty();
            let at_hand = questions || !taken.requests.is_empty() || !taken.notices.is_empty();
            let written = self.out.facts.is_empty() && !self.writes.under_way;
            if written && !at_hand && self.shared.inbox.is_quiet() {
                return Ok(());
            }
        }
    }

    /// A round that sleeps only while the log is at work.
    fn round_at_rest(&mut self) -> Result<(), Broken> {
        if self.writes.under_way {
            self.shared.inbox.take(Want::LogEvents, None, &mut self.tables.taken);
            while let Some(event) = self.tables.taken.events.pop_front() {
                self.on_event(event)?;
            }
        }
        if self.shared.inbox.is_quiet()
            && self.tables.taken.requests.is_empty()
            && self.tables.taken.notices.is_empty()
            && self.tables.questions.is_empty()
        {
            return self.seal();
        }
        self.round()
    }

    /// Tells every caller that waits that there will be no answer.
    fn refuse_all(&mut self, why: &str) {
        for (_, reply) in self.tables.tickets.drain() {
            // A caller that has stopped waiting needs no answer.
            let _ = reply.send(Err(Failure::Unavailable(why.to_owned())));
        }
    }

    /// The shard is given up: no caller may wait for it any longer. Streams end because their senders go.
    fn abandon(&mut self, why: &str) {
        self.turn_away(why);
        self.refuse_all(why);
        self.tables.consumers.clear();
    }

    /// Shuts the gate and turns away requests that have not been heard yet.
    fn turn_away(&mut self, why: &str) {
        self.shared.inbox.turn_away(why);
        let questions = self.tables.questions.drain(..);
        for request in self.tables.taken.requests.drain(..).chain(questions) {
            let _ = request.reply.send(Err(Failure::Unavailable(why.to_owned())));
        }
    }
}

/// Whether an input is a question that looks through much of the state.
const fn takes_long(input: &Input) -> bool {
    let Input::Describe { query, .. } = input else { return false };
    match query {
        Query::Groups(_)
        | Query::Slowest(_)
        | Query::Message(_)
        | Query::Browse(_)
        | Query::Tally
        | Query::Effects(_)
        | Query::Datasets(..)
        | Query::Dataset(_)
        | Query::Outputs(_)
        | Query::Keys
        | Query::Tenants
        | Query::Definitions(_)
        | Query::Audit(_)
        | Query::Entities(_)
        | Query::Runs(_)
        | Query::Run(..) => true,
        Query::Topic(_)
        | Query::Group(..)
        | Query::Payloads(_)
        | Query::Whereabouts(..)
        | Query::Commit(_)
        | Query::Entity(_)
        | Query::Tenant(_)
        | Query::Definition(..)
        | Query::Lease(_)
        | Query::Effect(_) => false,
    }
}

/// Tells the catalogue which topics became durable and which are gone, all at once.
fn publish(shared: &Shared, actions: &[Action]) {
    let tells = |action: &&Action| matches!(action, Action::Publish(_) | Action::Unpublish(_));
    let mut news = actions.iter().filter(tells).peekable();
    if news.peek().is_none() {
        return;
    }
    let mut catalog = write(&shared.house.catalog);
    for action in news {
        match action {
            Action::Publish(topic) => catalog.insert(TopicInfo::clone(topic)),
            Action::Unpublish(topic) => catalog.remove(topic),
            _ => {}
        }
    }
}
