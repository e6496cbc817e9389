//! Trials at the end, when all is settled: a window that can be filled to its edge, ranks that count, and a crowd of
//! retries beside a flood of fresh messages.

use std::cmp::Reverse;

use driftq_core::{
    Answer, Delivery, Input, LeaseRequest, Message, Order, OrderInput, Start, TopicId, TopicSettings,
};

use crate::asked::Asked;
use crate::clients::{GROUPS, TOPICS, UNDERTAKER};
use crate::oracle::{CheckResult, Receiver, Sent, Way, Word};
use crate::server::{PayloadRead, payload};
use crate::workers::loan;
use crate::world::World;

/// The topic in which retries and fresh messages meet.
const STORM: &str = "storm";
/// The topic in which priorities count.
const RANKS: &str = "ranks";
const PRIORITIES: [u8; 5] = [0, 3, 1, 3, 2];
/// The topic in which nothing is overtaken.
const STEADY: &str = "steady";
/// The topic in which a lease is extended.
const PROMISES: &str = "promises";
/// How long a lease of the trials is, and how long one is that was extended.
const LEASE_MS: u64 = 60_000;
const EXTENDED_MS: u64 = 10 * LEASE_MS;
/// Messages that fail whenever they are tried.
const POISONED: usize = 3;
/// No lease of the chaos before is longer.
const LEASES_OVER_MS: u64 = 10_000;
/// Deliveries in which both kinds stand ready.
const CONTESTS: usize = 40;

impl World {
    /// Everything that is tried when all is settled.
    pub(crate) fn trials(&mut self) -> CheckResult {
        self.dismiss_readers()?;
        // What was lent to askers that never heard of it is on loan until its lease is over.
        self.pass(LEASES_OVER_MS)?;
        for (name, _) in TOPICS {
            let Some(topic) = self.topics.get(name).map(|topic| topic.id) else { continue };
            for group in GROUPS {
                self.try_window(topic, group)?;
            }
        }
        self.try_ranks()?;
        self.try_move()?;
        self.try_storm()?;
        self.try_promise()
    }

    /// A new topic with one partition and one group.
    pub(crate) fn found(
        &mut self,
        name: &str,
        group: &str,
        settings: TopicSettings,
    ) -> Result<TopicId, String> {
        self.creating.insert(name.into(), settings);
        let ticket = self.ticket(Asked::Nothing);
        self.hand(Input::Order(OrderInput::CreateTopic {
            ticket,
            name: name.into(),
            partitions: 1,
            settings,
            tenant: None,
            exact: true,
        }))?;
        self.flush()?;
        let Some(topic) = self.topics.get(name).map(|topic| topic.id) else {
            return Err("trial: the topic was not published".into());
        };
        let since = self.oracle.meet(topic, group);
        self.lease_now(topic, group, 1)?;
        self.flush()?;
        self.oracle.join(topic, group, 1, since);
        Ok(topic)
    }

    /// Fresh messages go by priority, then by offset; and a stream whose credit came back gets the next one.
    fn try_ranks(&mut self) -> CheckResult {
        let group = GROUPS[0];
        let settings = TopicSettings { order: Order::Priority, ..TopicSettings::default() };
        let topic = self.found(RANKS, group, settings)?;
        for priority in PRIORITIES {
            self.store(topic, priority)?;
        }
        self.flush()?;
        let mut ranks = Vec::new();
        for _ in PRIORITIES {
            for delivery in self.lease_now(topic, group, 1)? {
                ranks.push((Reverse(delivery.priority), delivery.receipt.offset));
                self.settle_now(group, &delivery, Word::Ack)?;
            }
        }
        if !ranks.is_sorted() || ranks.len() != PRIORITIES.len() {
            return Err(format!("priority: {group} got {ranks:?}"));
        }
        self.try_credit(topic, group)
    }

    /// A message that came back is moved within the log: until its copy is durable, those behind it wait with it.
    fn try_move(&mut self) -> CheckResult {
        let group = GROUPS[0];
        let settings = TopicSettings { order: Order::Fifo, ..TopicSettings::default() };
        let topic = self.found(STEADY, group, settings)?;
        for _ in 0..2 {
            self.store(topic, 0)?;
        }
        self.flush()?;
        let [first] = &self.lease_now(topic, group, 1)?[..] else {
            return Err("trial: a message that is ready does not come".into());
        };
        self.settle_now(group, first, Word::Release { delay_ms: 0 })?;
        let Some(server) = &self.server else { return Err("trial: the server is gone".into()) };
        let PayloadRead::Payload(bytes) = server.read(first.position, first.length, first.check)? else {
            return Err("trial: the payload is gone".into());
        };
        let message = Message::decode(&bytes).map_err(|error| format!("payload: {error:?}"))?;
        let Delivery { receipt, position: from, .. } = *first;
        let (partition, offset, payload) = (receipt.partition, receipt.offset, payload(&message));
        self.hand(Input::Relocate { topic, partition, offset, from, payload })?;
        let early = self.lease_now(topic, group, 1)?;
        self.flush()?;
        let then = self.lease_now(topic, group, 2)?;
        let offsets: Vec<u64> = early.iter().chain(&then).map(|delivery| delivery.receipt.offset).collect();
        if !early.is_empty() || offsets.len() != 2 || offsets[0] != offset {
            return Err(format!(
                "order: {offset} was moved, and {} came before, then {offsets:?}",
                early.len()
            ));
        }
        then.iter().try_for_each(|delivery| self.settle_now(group, delivery, Word::Ack))
    }

    /// A holder that was told of its longer lease has it over a power cut.
    fn try_promise(&mut self) -> CheckResult {
        let group = GROUPS[0];
        let topic = self.found(PROMISES, group, TopicSettings::default())?;
        self.store(topic, 0)?;
        self.flush()?;
        let [held] = &self.lease_now(topic, group, 1)?[..] else {
            return Err("trial: a message that is ready does not come".into());
        };
        self.settle_now(group, held, Word::Extend { lease_ms: EXTENDED_MS })?;
        self.crash(true)?;
        self.pass(LEASE_MS)?;
        let others = self.lease_now(topic, group, 1)?;
        if !others.is_empty() {
            return Err(format!("promise: {held:?} was on loan for longer, and {others:?} came"));
        }
        self.settle_now(group, held, Word::Ack)
    }

    /// A stream that may have one delivery at a time gets one after the other.
    fn try_credit(&mut self, topic: TopicId, group: &str) -> CheckResult {
        for priority in PRIORITIES {
            self.store(topic, priority)?;
        }
        self.flush()?;
        let consumer = self.borrow(topic, group)?;
        for _ in PRIORITIES {
            self.tell_written(consumer)?;
            let [loan] = &std::mem::take(&mut self.loans)[..] else {
                return Err(format!("credit: {consumer:?} has room for one delivery and does not get it"));
            };
            self.hand_settle(&[(loan.clone(), Word::Ack)])?;
            self.flush()?;
        }
        self.readers.remove(&consumer);
        self.hand(Input::Unsubscribe { consumer })
    }

    fn dismiss_readers(&mut self) -> CheckResult {
        let readers: Vec<_> = self.readers.keys().copied().collect();
        for consumer in readers {
            let Some(reader) = self.readers.remove(&consumer) else { continue };
            self.hand(Input::Unsubscribe { consumer })?;
            let receipts: Vec<_> = reader.inbox.iter().map(|delivery| delivery.receipt).collect();
            for receipt in &receipts {
                let (topic, offset, token) = (receipt.topic, receipt.offset, receipt.token);
                self.oracle.released(topic, &reader.group, offset, token, self.now);
            }
            self.hand(Input::Release { receipts })?;
        }
        // Askers that still wait for an answer would take what is meant for the trial.
        for ticket in self.waiting_leases() {
            self.forget_ticket(ticket);
            self.hand(Input::Forsake { ticket })?;
        }
        self.flush()
    }

    /// Stores a plain message and returns its number.
    pub(crate) fn store(&mut self, topic: TopicId, priority: u8) -> Result<u64, String> {
        self.messages += 1;
        let id = self.messages;
        let sent = Sent { topic, priority, start: Start::Now, ..Sent::default() };
        self.oracle.sent.insert(id, sent);
        self.hand_produce(&[id], false)?;
        Ok(id)
    }

    /// What a request for messages gets at once.
    pub(crate) fn lease_now(
        &mut self,
        topic: TopicId,
        group: &str,
        max: u32,
    ) -> Result<Vec<Delivery>, String> {
        let ticket = self.ticket(Asked::Nothing);
        let request = LeaseRequest {
            topic,
            group: group.into(),
            owner: "trial".into(),
            max,
            lease_ms: Some(LEASE_MS),
            wait_ms: 0,
            request: None,
        };
        let input = Input::Lease { ticket, request };
        self.trace.note("input", &(self.now.0, &input));
        let Some(server) = &mut self.server else { return Ok(Vec::new()) };
        let actions = server.handle(self.now, input);
        let leased = self.decided(&actions, ticket).find_map(|answer| match answer {
            Answer::Leased(leased) => Some(leased.clone()),
            _ => None,
        });
        self.execute(actions)?;
        // What supersedes a holder is told when it is durable.
        self.flush()?;
        let leased = leased.ok_or("trial: a request that does not wait got no answer")?;
        let to = Receiver { group: group.into(), owner: "trial".into(), way: Way::Leased };
        for delivery in &leased {
            self.receive(&to, delivery)?;
            self.oracle.seen(&delivery.receipt, group);
        }
        Ok(leased)
    }

    pub(crate) fn settle_now(&mut self, group: &str, delivery: &Delivery, word: Word) -> CheckResult {
        let to = Receiver { group: group.into(), owner: "trial".into(), way: Way::Leased };
        self.hand_settle(&[(loan(&to, delivery), word)])?;
        self.flush()
    }

    /// With nothing on loan, the whole window can be lent, and no more; in the order that the topic promises.
    fn try_window(&mut self, topic: TopicId, group: &str) -> CheckResult {
        let Some(window) = self.oracle.certain_window(topic, Way::Leased) else { return Ok(()) };
        let room = self.server.as_ref().is_some_and(|server| server.state().messages() < 12);
        if !room || !self.oracle.is_present(topic, group) {
            return Ok(());
        }
        for number in 0..=window {
            self.store(topic, u8::try_from(number % 3).expect("small"))?;
        }
        self.flush()?;
        // The calm did not wait for what was skipped or is uncertain: some of it may come along.
        let all = self.lease_now(topic, group, 100)?;
        let leased: Vec<Delivery> = all.iter().filter(|loan| loan.receipt.partition == 0).cloned().collect();
        if leased.len() != window as usize {
            return Err(format!("window: {} of {window} in {topic:?} can be lent to {group}", leased.len()));
        }
        let view = &self.oracle.topics[&topic];
        let is_fresh = leased.iter().all(|loan| loan.attempt == 1);
        let by_rank = |delivery: &Delivery| (Reverse(delivery.priority), delivery.receipt.offset);
        if view.order == Order::Priority && !view.reordered && is_fresh && !leased.is_sorted_by_key(by_rank) {
            return Err(format!("priority: {group} got {leased:?}"));
        }
        all.iter().try_for_each(|delivery| self.settle_now(group, delivery, Word::Ack))?;
        self.drain(topic, group)
    }

    /// Retries and fresh messages stand ready all the time: each kind gets its share, to within one delivery.
    fn try_storm(&mut self) -> CheckResult {
        let share = *self.rng.pick(&[1_u8, 10, 20, 50, 90]);
        let settings =
            TopicSettings { retry_share: Some(share), order: Order::Fifo, ..TopicSettings::default() };
        let group = GROUPS[0];
        let topic = self.found(STORM, group, settings)?;
        for _ in 0..POISONED {
            self.store(topic, 0)?;
        }
        self.flush()?;
        for _ in 0..POISONED {
            self.fail_next(topic, group)?;
        }
        let mut retries = Vec::new();
        for _ in 0..CONTESTS {
            self.store(topic, 0)?;
            self.flush()?;
            self.hand(Input::Tick)?;
            let leased = self.lease_now(topic, group, 1)?;
            let [delivery] = &leased[..] else {
                return Err(format!("storm: both kinds stand ready, and {} came", leased.len()));
            };
            let is_retry = delivery.attempt > 1;
            let word = if is_retry { Word::Nack { delay_ms: Some(0), dead: false } } else { Word::Ack };
            self.settle_now(group, delivery, word)?;
            retries.push(is_retry);
        }
        check_share(&retries, share)?;
        self.try_redrive(topic, group)
    }

    /// A message dies, another one with its identity is done, and then the first is tried again: it comes.
    fn try_redrive(&mut self, topic: TopicId, group: &str) -> CheckResult {
        self.drain(topic, group)?;
        self.store_with_key(topic)?;
        self.flush()?;
        let dying = self.lease_now(topic, group, 1)?;
        for delivery in &dying {
            self.settle_now(group, delivery, Word::Nack { delay_ms: None, dead: true })?;
        }
        for _ in 0..100 {
            self.undertake()?;
            self.now = self.now.after_ms(100);
            self.hand(Input::Tick)?;
            self.flush()?;
        }
        // Until the identity is forgotten where messages are stored.
        self.now = self.now.after_ms(self.settings.idempotency_ttl_ms);
        self.store_with_key(topic)?;
        self.flush()?;
        self.drain(topic, group)?;
        self.letters.clear();
        let Some(grave) = self.topics.get(&format!("dlq.{STORM}")).map(|topic| topic.id) else {
            return Err("letters: the dead letter of the trial was not written".into());
        };
        self.lease_now(grave, UNDERTAKER, 1)?;
        self.redrive()?;
        self.flush()?;
        self.drain(topic, group)?;
        self.oracle.unfinished_copy().map_or(Ok(()), |owed| Err(format!("redrive: {owed}")))
    }

    fn store_with_key(&mut self, topic: TopicId) -> CheckResult {
        self.messages += 1;
        let id = self.messages;
        let retry_until = self.now.after_ms(1);
        self.oracle.sent.insert(id, Sent { topic, key: Some(99), retry_until, ..Sent::default() });
        self.hand_produce(&[id], false)
    }

    /// Everything that is ready is done.
    fn drain(&mut self, topic: TopicId, group: &str) -> CheckResult {
        for _ in 0..100 {
            self.hand(Input::Tick)?;
            let leased = self.lease_now(topic, group, 10)?;
            if leased.is_empty() {
                break;
            }
            leased.iter().try_for_each(|delivery| self.settle_now(group, delivery, Word::Ack))?;
        }
        Ok(())
    }

    fn fail_next(&mut self, topic: TopicId, group: &str) -> CheckResult {
        let leased = self.lease_now(topic, group, 1)?;
        let word = Word::Nack { delay_ms: Some(0), dead: false };
        leased.iter().try_for_each(|delivery| self.settle_now(group, delivery, word))
    }
}

/// In any stretch of deliveries the retries are as many as their share says, give or take one: neither kind ever
/// waits for longer than that.
fn check_share(retries: &[bool], share: u8) -> CheckResult {
    let share = usize::from(share);
    for from in 0..retries.len() {
        for to in from..retries.len() {
            let (count, length) =
                (retries[from..=to].iter().filter(|is_retry| **is_retry).count(), to + 1 - from);
            let least = length * share / 100;
            if count < least || count > least + 1 {
                return Err(format!("share: {count} retries of {length} deliveries at {share} percent"));
            }
        }
    }
    Ok(())
}
