//! A shard with a clock that stands still, a log that syncs on demand, and a power switch.

pub(crate) mod books;
pub(crate) mod deeds;
pub(crate) mod hostile;
pub(crate) mod ledger;
pub(crate) mod ledger_facts;
pub(crate) mod log;
pub(crate) mod model;
pub(crate) mod orders;
pub(crate) mod post;
pub(crate) mod whims;
pub(crate) mod works;
pub(crate) mod world;

use std::collections::BTreeMap;

use driftq_core::{
    Action, Answer, Burial, ConsumerId, Delivery, Fact, Identity, Input, KeyHash, Message, NewMessage,
    Output, Payload, RequestHash, RetryPolicy, Settings, Shard, Start, State, Ticket, Time, TopicId,
    TopicInfo,
};
use log::Log;

/// What readers of these tests ask for, unless they say otherwise.
pub(crate) const LEASE_MS: u64 = 1000;
/// When every test begins.
pub(crate) const START: Time = Time(1_000_000);
const SEED: u64 = 7;
const SECRET: [u8; 32] = [7; 32];

pub(crate) struct Rig {
    pub(crate) shard: Shard,
    pub(crate) settings: Settings,
    pub(crate) now: Time,
    pub(crate) log: Log,
    /// How much of the history a restart takes from a snapshot; the rest it folds.
    pub(crate) snapshot_percent: usize,
    /// What the shard asked for and nobody looked at yet.
    pub(crate) actions: Vec<Action>,
    /// Messages that must not be pushed to anybody any more from a time on, as far as a test has said so.
    pub(crate) deadlines: BTreeMap<(TopicId, u64), Time>,
    out: Output,
    tickets: u64,
    consumers: u64,
}

/// A message to be produced.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) topic: TopicId,
    pub(crate) partition: u32,
    pub(crate) value: String,
    pub(crate) identity: Option<Identity>,
    pub(crate) retry: Option<RetryPolicy>,
    pub(crate) deadline: Option<Time>,
    pub(crate) native: bool,
    pub(crate) key: KeyHash,
    pub(crate) priority: u8,
    pub(crate) start: Start,
    pub(crate) request: RequestHash,
}

impl Draft {
    pub(crate) fn to(topic: TopicId) -> Self {
        Self {
            topic,
            partition: 0,
            value: "v".into(),
            identity: None,
            retry: None,
            deadline: None,
            native: false,
            key: KeyHash::NONE,
            priority: 0,
            start: Start::Now,
            request: RequestHash::NONE,
        }
    }

    pub(crate) fn partition(mut self, partition: u32) -> Self {
        self.partition = partition;
        self
    }

    pub(crate) fn value(mut self, value: &str) -> Self {
        self.value = value.into();
        self
    }

    pub(crate) fn keyed(mut self, key: &str) -> Self {
        self.identity = Some(Identity::of("tenant", &self.topic.0.to_string(), key));
        self
    }

    pub(crate) fn attempts(mut self, max_attempts: u32) -> Self {
        self.retry = Some(RetryPolicy { max_attempts, ..RetryPolicy::default() });
        self
    }

    /// As it comes over `/v2`.
    pub(crate) fn native(mut self) -> Self {
        self.native = true;
        self
    }

    /// Of use until then, as `/v2` understands it.
    pub(crate) fn until(mut self, deadline: Time) -> Self {
        self.deadline = Some(deadline);
        self.native()
    }

    pub(crate) fn message(&self) -> NewMessage {
        let message = Message { value: self.value.as_bytes().into(), ..Message::default() };
        let Self {
            topic, partition, deadline, retry, native, identity, key, priority, start, request, ..
        } = *self;
        NewMessage {
            topic,
            partition,
            deadline,
            retry,
            native,
            identity,
            request,
            key,
            priority,
            start,
            lineage: None,
            origin: None,
            payload: payload(&message),
            ..NewMessage::default()
        }
    }
}

/// A message as the edge hands it over.
pub(crate) fn payload(message: &Message<'_>) -> Payload {
    let bytes = message.encode();
    Payload { check: check(&bytes), size: message.size() as u32, bytes }
}

pub(crate) fn check(bytes: &[u8]) -> u32 {
    bytes.iter().fold(1, |sum: u32, byte| sum.wrapping_mul(31).wrapping_add(u32::from(*byte)))
}

impl Rig {
    /// An open shard with nothing in it.
    pub(crate) fn new(settings: Settings) -> Self {
        let mut rig = Self::closed(settings, State::new(SEED), Log::new(), START);
        rig.open();
        rig.sync();
        rig
    }

    fn closed(settings: Settings, state: State, log: Log, now: Time) -> Self {
        let shard = Shard::new(settings.clone(), state);
        let (actions, out) = (Vec::new(), Output::default());
        let deadlines = BTreeMap::new();
        Self {
            shard,
            settings,
            now,
            log,
            snapshot_percent: 100,
            actions,
            deadlines,
            out,
            tickets: 0,
            consumers: 0,
        }
    }

    fn open(&mut self) {
        self.shard.open(self.now, self.log.base, SECRET, &mut self.out);
        self.absorb(false);
    }

    /// Tells the shard something.
    pub(crate) fn tell(&mut self, input: Input) {
        let released = matches!(input, Input::Durable { .. });
        self.shard.handle(self.now, input, &mut self.out);
        self.absorb(released);
    }

    /// Takes over what the shard wants, and checks what must hold for every delivery ever made.
    /// What was held for the disk may come late.
    fn absorb(&mut self, released: bool) {
        for action in &self.out.actions {
            if let Action::Deliver { delivery, .. } = action {
                assert!(
                    delivery.position < self.log.durable(),
                    "delivered before it was durable: {delivery:?}"
                );
                let bytes =
                    self.log.read(delivery.position, delivery.length).expect("a delivery can be read");
                assert_eq!(check(bytes), delivery.check, "{delivery:?} points at other bytes");
                assert!(delivery.expires > self.now || released);
                let deadline = self.deadlines.get(&(delivery.receipt.topic, delivery.receipt.offset));
                assert!(
                    deadline.is_none_or(|deadline| *deadline > self.now || released),
                    "too late: {delivery:?}"
                );
            }
        }
        self.actions.append(&mut self.out.actions);
    }

    /// Asks something that has a ticket.
    pub(crate) fn ask(&mut self, input: impl FnOnce(Ticket) -> Input) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.tell(input(ticket));
        ticket
    }

    /// Asks, syncs and takes the answer.
    pub(crate) fn ask_durably(&mut self, input: impl FnOnce(Ticket) -> Input) -> Answer {
        let ticket = self.ask(input);
        self.sync();
        self.answer(ticket).expect("everything is answered once it is durable")
    }

    /// Ends the batch that is being filled; returns how many are written.
    pub(crate) fn write(&mut self) -> usize {
        if !self.out.facts.is_empty() {
            self.log.write(std::mem::take(&mut self.out.facts));
            self.shard.begin_batch(self.log.base);
        }
        self.out.urgent = false;
        self.log.batches.len()
    }

    /// Writes everything and syncs it.
    pub(crate) fn sync(&mut self) {
        let written = self.write();
        self.sync_first(written);
    }

    /// Syncs the first `count` batches.
    pub(crate) fn sync_first(&mut self, count: usize) {
        self.log.synced = self.log.synced.max(count);
        self.tell(Input::Durable { upto: self.log.durable() });
    }

    /// Whether somebody waits for a sync.
    pub(crate) fn is_urgent(&self) -> bool {
        self.out.urgent
    }

    /// Power off, power on: only what was synced is left.
    pub(crate) fn crash(&mut self) {
        self.crash_keeping(self.log.synced);
    }

    /// Power off, power on: everything that was written is left, synced or not.
    pub(crate) fn crash_lucky(&mut self) {
        self.crash_keeping(self.log.batches.len());
    }

    /// Power off, power on: the first `kept` batches are left. The new run is open and durable.
    pub(crate) fn crash_keeping(&mut self, kept: usize) {
        self.reboot(kept);
        self.sync();
    }

    /// As [`Rig::crash_keeping`], but the first fact of the new run is not durable yet.
    pub(crate) fn reboot(&mut self, kept: usize) {
        assert!(kept >= self.log.synced, "a sync is a promise");
        let percent = self.snapshot_percent;
        let state = self.recovered(kept, kept * percent / 100);
        let mut log = self.log.clone();
        log.lose(kept);
        let (tickets, consumers) = (self.tickets, self.consumers);
        let deadlines = std::mem::take(&mut self.deadlines);
        *self = Self { deadlines, ..Self::closed(self.settings.clone(), state, log, self.now) };
        (self.tickets, self.consumers, self.snapshot_percent) = (tickets, consumers, percent);
        self.open();
    }

    /// The state that the first `kept` batches make, by way of a snapshot after `snapshot` of them.
    pub(crate) fn recovered(&self, kept: usize, snapshot: usize) -> State {
        let mut whole = State::new(SEED);
        let mut resumed = None;
        for index in 0..=kept {
            if index == snapshot {
                resumed = Some(State::decode(&whole.encode(), SEED ^ 0xff).expect("a snapshot can be read"));
            }
            let Some(batch) = self.log.batches[..kept].get(index) else { break };
            for state in std::iter::once(&mut whole).chain(&mut resumed) {
                state.apply_batch(batch.base, &batch.bytes).expect("history can be folded");
            }
        }
        let resumed = resumed.expect("the snapshot lies within the history");
        assert!(resumed.encode() == whole.encode(), "a snapshot and the rest are the whole");
        resumed
    }

    /// Lets time pass; whatever is due is handled at its very moment, and durable before anything else happens.
    pub(crate) fn advance(&mut self, ms: u64) {
        self.pass(ms, true);
    }

    /// The same while the disk stands still.
    pub(crate) fn advance_unsynced(&mut self, ms: u64) {
        self.pass(ms, false);
    }

    fn pass(&mut self, ms: u64, syncs: bool) {
        let target = self.now.after_ms(ms);
        let mut ticks = 0;
        while let Some(due) = self.shard.next_deadline().filter(|due| *due <= target) {
            self.now = self.now.max(due);
            self.tell(Input::Tick);
            if syncs && self.is_urgent() {
                self.sync();
            }
            ticks += 1;
            assert!(ticks < 100_000, "ticks make progress");
        }
        self.now = target;
    }

    /// The answer to a ticket, if it has come.
    pub(crate) fn answer(&mut self, ticket: Ticket) -> Option<Answer> {
        let index = self
            .actions
            .iter()
            .position(|action| matches!(action, Action::Reply { ticket: asked, .. } if *asked == ticket))?;
        match self.actions.remove(index) {
            Action::Reply { answer, .. } => Some(answer),
            _ => None,
        }
    }

    /// Takes all deliveries made so far.
    pub(crate) fn deliveries(&mut self) -> Vec<(ConsumerId, Delivery)> {
        let deliveries = self.actions.extract_if(.., |action| matches!(action, Action::Deliver { .. }));
        let deliveries = deliveries.filter_map(|action| match action {
            Action::Deliver { consumer, delivery } => Some((consumer, delivery)),
            _ => None,
        });
        deliveries.collect()
    }

    /// Takes all deliveries made so far, as (partition, offset, attempt).
    pub(crate) fn delivered(&mut self) -> Vec<(u32, u64, u32)> {
        let deliveries = self.deliveries().into_iter();
        deliveries.map(|(_, d)| (d.receipt.partition, d.receipt.offset, d.attempt)).collect()
    }

    /// Takes all deliveries made so far, as offsets.
    pub(crate) fn offsets(&mut self) -> Vec<u64> {
        self.deliveries().into_iter().map(|(_, delivery)| delivery.receipt.offset).collect()
    }

    /// Takes all burials asked for so far.
    pub(crate) fn fetches(&mut self) -> Vec<Burial> {
        let fetches = self.actions.extract_if(.., |action| matches!(action, Action::Fetch(_)));
        let fetches = fetches.filter_map(|action| match action {
            Action::Fetch(burial) => Some(burial),
            _ => None,
        });
        fetches.collect()
    }

    /// Takes the topics told to the catalogue so far.
    pub(crate) fn published(&mut self) -> Vec<TopicInfo> {
        let published = self.actions.extract_if(.., |action| matches!(action, Action::Publish(_)));
        let published = published.filter_map(|action| match action {
            Action::Publish(topic) => Some(topic),
            _ => None,
        });
        published.collect()
    }

    /// All facts written since `mark` batches were.
    pub(crate) fn facts_since(&self, mark: usize) -> Vec<Fact<'_>> {
        self.log.batches[mark..].iter().flat_map(log::Batch::facts).collect()
    }
}
