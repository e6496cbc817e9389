//! Everything that can happen to a shard, drawn from small numbers, and what must hold whatever happens.

use std::collections::{BTreeMap, BTreeSet};

use driftq_core::{
    Action, Address, Answer, Burial, ConsumerId, Delivery, EffectReceipt, Fact, GroupId, Identity, Input,
    KeyHash, NewMessage, OrderInput, Payload, RetryPolicy, Settings, Start, Stored, Style, Ticket, Time,
    Token, TopicId, TopicSettings,
};
use proptest::prelude::{ProptestConfig, Strategy, any};

use super::model::Model;
use super::works::a_lineage;
use super::{Draft, Rig};

/// One thing that happens: what, and three numbers that say how.
pub(crate) type Step = (u8, u8, u8, u8);

pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(any::<Step>(), 1..most)
}

/// A property's configuration; `PROPTEST_CASES` asks for more of them. Failures are printed, not kept in files.
pub(crate) fn cases(count: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(count);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

pub(super) const TOPICS: [&str; 3] = ["a", "b", "dlq.a"];
pub(super) const GROUPS: [&str; 3] = ["g", "h", "i"];
pub(super) const OWNERS: [&str; 2] = ["o", "p"];

/// Limits and times small enough that every one of them is met.
pub(crate) fn settings(retention: bool) -> Settings {
    Settings {
        in_flight_max: 2,
        lease_in_flight_max: 4,
        stream_unwritten_max: 2,
        turn_steps_max: 3,
        lease_ms_default: 700,
        partition_messages_max: 12,
        partition_bytes_max: 200,
        idempotency_ttl_ms: 700,
        idempotency_records_max: 9,
        group_expiry_ms: 5000,
        retention_ms: retention.then_some(9000),
        retention_bytes: retention.then_some(60),
        kept_messages_max: 5,
        dead_letters_max: 3,
        groups_max: 3,
        effects_max: 5,
        effect_lease_ms_default: 700,
        effect_ttl_ms_default: 2000,
        effect_result_bytes_max: 120,
        commit_ttl_ms: 3000,
        commits_max: 3,
        outputs_max: 9,
        output_bytes_max: 1300,
        entities_max: 3,
        run_ttl_ms: 8000,
        run_entries_max: 20,
        retry: RetryPolicy { max_backoff_ms: 400, ..Settings::default().retry },
        ..Settings::default()
    }
}

/// What a ticket stands for.
pub(super) enum Asked {
    /// To a topic, of use until then.
    Produce(TopicId, Option<Time>),
    Settle {
        topic: TopicId,
        group: GroupId,
        partition: u32,
        offset: u64,
        ack: bool,
    },
    /// Acks by token, in the order of the answers.
    Tokens(Vec<(Message, bool)>),
    Lease(&'static str),
    /// An effect, by a call of this name.
    Effect(u64),
    Finish(EffectReceipt),
    Commit {
        name: Option<Identity>,
        acked: Vec<Message>,
    },
    Nothing,
}

/// A message as a group sees it.
pub(super) type Message = (TopicId, GroupId, u32, u64);

/// A rig, who is connected to it, and what it has promised.
pub(crate) struct World {
    pub(crate) rig: Rig,
    pub(crate) readers: Vec<ConsumerId>,
    pub(crate) fetches: Vec<Burial>,
    /// Everything that the shard ever asked for.
    pub(crate) history: Vec<Action>,
    pub(super) deliveries: Vec<(Delivery, &'static str)>,
    names: BTreeMap<ConsumerId, (&'static str, &'static str)>,
    pub(super) asked: BTreeMap<Ticket, Asked>,
    pub(super) stored: BTreeSet<(TopicId, u64)>,
    pub(super) acked: BTreeSet<Message>,
    /// Tokens that were out when their topic's groups were moved: that such a one acked before is no news.
    pub(super) outmoved: BTreeSet<Token>,
    tokens: BTreeSet<Token>,
    /// Leases of effects, and the names of the calls that got them.
    pub(super) leases: Vec<(EffectReceipt, u64)>,
    pub(super) ended: BTreeSet<EffectReceipt>,
    pub(super) committed: BTreeSet<Identity>,
    model: Model,
}

pub(super) fn pick<T>(list: &[T], number: u8) -> Option<&T> {
    // Counted from the end: what is new matters most.
    list.len().checked_sub(1).map(|last| &list[last - usize::from(number) % list.len()])
}

/// Settings of a topic, small enough that each of them counts.
pub(super) fn topic_settings(number: u8) -> TopicSettings {
    use driftq_core::Order;
    TopicSettings {
        order: [Order::Priority, Order::Key, Order::Fifo][usize::from(number) % 3],
        in_flight_max: (number >= 200).then_some(3),
        retry_share: number.is_multiple_of(4).then_some(50),
        retention_ms: (number == 250).then_some(4000),
        keep_ms: (number % 8 == 1).then_some(2500),
        keep_bytes: (number % 8 < 3).then_some(40),
        ..TopicSettings::default()
    }
}

impl World {
    pub(crate) fn new(settings: Settings) -> Self {
        let mut rig = Rig::new(settings);
        rig.topic("a", 2);
        Self {
            rig,
            readers: Vec::new(),
            fetches: Vec::new(),
            history: Vec::new(),
            deliveries: Vec::new(),
            names: BTreeMap::new(),
            asked: BTreeMap::new(),
            stored: BTreeSet::new(),
            acked: BTreeSet::new(),
            outmoved: BTreeSet::new(),
            tokens: BTreeSet::new(),
            leases: Vec::new(),
            ended: BTreeSet::new(),
            committed: BTreeSet::new(),
            model: Model::default(),
        }
    }

    pub(crate) fn play(&mut self, steps: &[Step]) {
        for step in steps {
            self.step(*step);
            self.listen();
        }
    }

    fn step(&mut self, (kind, a, b, c): Step) {
        match kind % 64 {
            0 => {
                let name = TOPICS[usize::from(a) % TOPICS.len()].to_owned();
                let (partitions, settings) = (u32::from(b % 3) + 1, topic_settings(c));
                // Some belong to a tenant, and with them their dead letters.
                let tenant = (b % 4 == 3).then(|| "tenant".to_owned());
                self.rig.ask(|ticket| {
                    let exact = false;
                    Input::Order(OrderInput::CreateTopic {
                        ticket,
                        name,
                        partitions,
                        settings,
                        tenant,
                        exact,
                    })
                });
            }
            1..=7 => self.produce(a, b, c),
            8 | 9 => self.subscribe(a, b, c),
            10 => {
                if let Some(&consumer) = pick(&self.readers, a) {
                    self.readers.retain(|reader| *reader != consumer);
                    self.rig.tell(Input::Unsubscribe { consumer });
                }
            }
            11 | 12 => {
                if let Some(&consumer) = pick(&self.readers, a) {
                    self.rig.tell(Input::Credit { consumer, count: u32::from(b % 4) });
                }
            }
            13..=17 => self.settle(a, b, c, true),
            18 | 19 => self.settle(a, b, c, false),
            20 => {
                let receipts: Vec<_> = self.deliveries.iter().rev().take(usize::from(a % 4)).collect();
                let receipts = receipts.iter().map(|(delivery, _)| delivery.receipt).collect();
                self.rig.tell(Input::Release { receipts });
            }
            21 | 22 => self.answer_fetch(a, b),
            23 => self.relocate(a),
            24 => self.rig.tell(Input::Space { roomy: !a.is_multiple_of(4) }),
            25 | 26 => self.rig.advance([0, 1, 10, 200, 900, 1100, 6000, 12_000][usize::from(a % 8)]),
            27 => drop(self.rig.write()),
            28 => {
                let written = self.rig.write();
                let synced = self.rig.log.synced;
                let unsynced = written - synced;
                self.rig.sync_first(synced + usize::from(a) % (unsynced + 1));
            }
            29 | 30 => self.rig.sync(),
            32..=46 => self.order(kind % 64, a, b, c),
            48..=62 => self.work(kind % 64, a, b, c),
            _ => {
                let (synced, written) = (self.rig.log.synced, self.rig.log.batches.len());
                self.crash(synced + usize::from(a) % (written - synced + 1));
            }
        }
    }

    fn produce(&mut self, a: u8, b: u8, c: u8) {
        let Some(topic) = self.a_topic(a) else { return };
        let mut draft =
            Draft::to(topic).partition(u32::from(a / 16 % 2)).value(&"x".repeat(usize::from(b % 16)));
        if b >= 160 {
            draft = draft.keyed(["k", "l", "m"][usize::from(b % 3)]);
        }
        let (max_attempts, backoff_ms) = (u32::from(c % 4), u64::from(c / 64) * 150);
        draft.retry = (!c.is_multiple_of(3)).then_some(RetryPolicy {
            max_attempts,
            backoff_ms,
            max_backoff_ms: 400,
            ..RetryPolicy::default()
        });
        draft.key = KeyHash(u64::from(c % 4));
        draft.priority = if c.is_multiple_of(5) { b % 10 } else { 0 };
        draft.native = b.is_multiple_of(2);
        draft.deadline = (b % 10 == 4).then(|| self.rig.now.after_ms(u64::from(c) * 9 + 1));
        draft.start = if a.is_multiple_of(6) { Start::After(u64::from(c) * 7) } else { Start::Now };
        let message = NewMessage { lineage: a_lineage(a / 8), ..draft.message() };
        let ticket = self.rig.ask(|ticket| Input::Produce { ticket, message });
        self.asked.insert(ticket, Asked::Produce(topic, draft.deadline.filter(|_| draft.native)));
    }

    pub(crate) fn subscribe(&mut self, a: u8, b: u8, c: u8) {
        let Some(topic) = self.a_topic(a) else { return };
        let (group, owner) = (GROUPS[usize::from(b) % 3], OWNERS[usize::from(b / 3) % 2]);
        let mut subscription = self.rig.subscription(topic, group, owner, u32::from(c % 5));
        subscription.style = if c >= 128 { Style::Borrowed } else { Style::Pushed };
        // A lapse gives credit back: with the shortest lease, borrowed deliveries would come every millisecond.
        let least = if c >= 128 { 300 } else { 1 };
        subscription.lease_ms = [Some(least), Some(300), Some(1000), None][usize::from(c / 5 % 4)];
        let consumer = subscription.consumer;
        self.readers.push(consumer);
        self.names.insert(consumer, (group, owner));
        self.rig.ask(|ticket| Input::Subscribe { ticket, subscription });
    }

    fn settle(&mut self, a: u8, b: u8, c: u8, ack: bool) {
        let Some((delivery, group)) = pick(&self.deliveries, a) else { return };
        let (receipt, group) = (delivery.receipt, (*group).to_owned());
        let offset = if b >= 250 { u64::from(c) } else { receipt.offset };
        let (topic, partition) = (receipt.topic, receipt.partition);
        let address = Address { topic, group, partition, offset };
        let owner = OWNERS[usize::from(b % 2)].to_owned();
        let ticket = self.rig.ask(|ticket| {
            if ack {
                Input::Ack { ticket, address, owner }
            } else {
                Input::Nack { ticket, address, owner, reason: format!("reason {c}") }
            }
        });
        // A group that was lost with its run may have left its number to another one.
        if receipt.token.epoch == self.rig.shard.state().epoch() {
            self.asked.insert(ticket, Asked::Settle { topic, group: receipt.group, partition, offset, ack });
        }
    }

    fn answer_fetch(&mut self, a: u8, b: u8) {
        let Some(burial) = pick(&self.fetches, a).cloned() else { return };
        let written = self.rig.log.read(burial.position, burial.length).is_some();
        if b < 100 || !written {
            self.rig.tell(Input::FetchFailed { receipt: burial.receipt });
        } else {
            self.rig.bury(&burial);
        }
    }

    fn relocate(&mut self, a: u8) {
        let segment = self.rig.shard.state().live_bytes().keys().nth(usize::from(a % 3)).copied();
        let pinned = segment.map(|segment| self.rig.shard.state().pinned_in(segment, 2)).unwrap_or_default();
        for pinned in pinned {
            let Some(bytes) = self.rig.log.read(pinned.position, pinned.length) else { continue };
            let payload = Payload { bytes: bytes.to_vec(), check: pinned.check, size: pinned.size };
            let (topic, partition, offset) = (pinned.topic, pinned.partition, pinned.offset);
            self.rig.tell(Input::Relocate { topic, partition, offset, from: pinned.position, payload });
        }
    }

    /// Loses everything but the first `kept` batches, and checks that no promise was among it.
    pub(crate) fn crash(&mut self, kept: usize) {
        let mut kept_messages = BTreeSet::new();
        for batch in &self.rig.log.batches[..kept] {
            kept_messages.extend(batch.facts().iter().filter_map(|fact| match fact {
                Fact::Appended(message) => Some((message.topic, message.offset)),
                _ => None,
            }));
        }
        assert!(self.stored.is_subset(&kept_messages), "an acknowledged message was lost");
        self.check_promises(kept);
        self.model.forget();
        self.readers.clear();
        self.fetches.clear();
        self.asked.clear();
        self.rig.reboot(kept);
    }

    /// Takes what the shard asks for, and holds it against what it said before.
    pub(crate) fn listen(&mut self) {
        let mut unread = Vec::new();
        for action in std::mem::take(&mut self.rig.actions) {
            match &action {
                Action::Reply { ticket, answer } => self.hear(*ticket, answer),
                Action::Deliver { consumer, delivery } => {
                    if self.readers.contains(consumer) {
                        let (group, _) = self.names[consumer];
                        self.receive(delivery, group);
                    } else {
                        // It waited for the disk, and its reader has left meanwhile.
                        unread.push(delivery.receipt);
                    }
                }
                Action::Close { consumer } => self.readers.retain(|reader| reader != consumer),
                Action::Fetch(burial) => self.fetches.push(burial.clone()),
                Action::Publish(_) | Action::Unpublish(_) | Action::Post { .. } => {}
            }
            self.history.push(action);
        }
        if !unread.is_empty() {
            self.rig.tell(Input::Release { receipts: unread });
        }
    }

    fn hear(&mut self, ticket: Ticket, answer: &Answer) {
        match (self.asked.remove(&ticket), answer) {
            (Some(Asked::Produce(topic, deadline)), Answer::Produced(Stored { offset, duplicate, .. })) => {
                self.stored.insert((topic, *offset));
                if let Some(deadline) = deadline.filter(|_| !duplicate && !self.is_letters(topic)) {
                    self.rig.deadlines.insert((topic, *offset), deadline);
                }
            }
            (Some(Asked::Settle { topic, group, partition, offset, ack: true }), Answer::Settled) => {
                self.acked.insert((topic, group, partition, offset));
            }
            (Some(Asked::Tokens(messages)), Answer::Settlements(outcomes)) => {
                let acked = messages
                    .iter()
                    .zip(outcomes)
                    .filter(|((_, ack), outcome)| *ack && **outcome == driftq_core::Outcome::Ok);
                self.acked.extend(acked.map(|((message, _), _)| *message));
            }
            (Some(Asked::Lease(group)), Answer::Leased(deliveries)) => {
                for delivery in deliveries {
                    self.receive(delivery, group);
                }
            }
            (Some(asked), answer) => self.hear_work(ticket, asked, answer),
            (None, _) => {}
        }
    }

    fn receive(&mut self, delivery: &Delivery, group: &'static str) {
        let receipt = delivery.receipt;
        let message = (receipt.topic, receipt.group, receipt.partition, receipt.offset);
        assert!(!self.acked.contains(&message), "acked and delivered again: {delivery:?}");
        assert!(delivery.due.is_none_or(|due| due <= self.rig.now), "early: {delivery:?}");
        // A lease request that is asked again is answered again: the same token, for the same delivery.
        let known = self.deliveries.iter().any(|(known, _)| known.receipt == receipt);
        assert!(self.tokens.insert(receipt.token) || known, "a token was handed out twice");
        self.deliveries.push((delivery.clone(), group));
    }

    /// Whether dead letters go there: they have no deadline.
    fn is_letters(&self, id: TopicId) -> bool {
        self.rig.shard.state().topics().any(|topic| topic.id == id && topic.name.starts_with("dlq."))
    }

    /// One of the topics that exist, now and then one that does not.
    pub(super) fn a_topic(&self, number: u8) -> Option<TopicId> {
        if number == 255 {
            return Some(TopicId(99));
        }
        let topics: Vec<TopicId> = self.rig.shard.state().topics().map(|topic| topic.id).collect();
        pick(&topics, number).copied()
    }

    /// Whether somebody has a message on loan that was cancelled: a restart ends it.
    pub(crate) fn has_cancelled(&mut self) -> bool {
        self.rig.write();
        self.model.fold(&self.rig);
        self.model.has_cancelled()
    }

    /// Compares the shard's numbers with books kept the slow way.
    pub(crate) fn audit(&mut self) {
        self.rig.write();
        self.model.audit(&mut self.rig);
        self.listen();
    }
}
