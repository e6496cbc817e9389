//! What clients of the first kind do: read what is pushed, work, ack and nack by name, come and go.

use driftq_core::{Address, ConsumerId, Delivery, Input, Receipt, Style, Subscription, TopicId};

use crate::asked::Asked;
use crate::effects::{Ask, End, Lease};
use crate::oracle::{CheckResult, OutputOrder, Word};
use crate::workers::Loan;
use crate::world::World;

/// Names of the topics, and their partitions.
pub(crate) const TOPICS: [(&str, u32); 3] = [("orders", 1), ("mails", 2), ("steps", 3)];
/// Groups of every topic.
pub(crate) const GROUPS: [&str; 2] = ["alpha", "beta"];
/// Worker names; several workers share one.
pub(crate) const OWNERS: [&str; 3] = ["ann", "bob", "cy"];
/// The group that reads dead letters.
pub(crate) const UNDERTAKER: &str = "dead_letter_writer";

/// A reader as it sees itself.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) topic: TopicId,
    pub(crate) group: String,
    pub(crate) owner: String,
    pub(crate) style: Style,
    /// How much it may have: on the way for a pushed one, unsettled for a borrowed one.
    pub(crate) credit: u32,
    /// Received and not yet looked at.
    pub(crate) inbox: Vec<Delivery>,
    /// Looked at, or written out by a borrowed one: to be told.
    pub(crate) owed_credit: u32,
}

/// Work in a worker's hands. It outlives the reader and the server.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) topic: TopicId,
    pub(crate) group: String,
    pub(crate) owner: String,
    pub(crate) partition: u32,
    pub(crate) offset: u64,
    pub(crate) receipt: Receipt,
}

/// A request on the wire.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Produce {
        ids: Vec<u64>,
        reserved: bool,
    },
    Reserve {
        id: u64,
    },
    Ack(Work),
    Nack(Work),
    Settle(Vec<(Loan, Word)>),
    Release {
        group: String,
        receipts: Vec<Receipt>,
    },
    Begin(Ask),
    Finish(Lease, End),
    Renew(Lease, u64),
    Resolve {
        key: u64,
        seen: Option<u32>,
        end: End,
    },
    /// By number.
    Commit(usize),
    Order(OutputOrder),
}

impl World {
    pub(crate) fn create_topics(&mut self) -> CheckResult {
        (0..TOPICS.len()).try_for_each(|number| self.create_topic(number))
    }

    pub(crate) fn create_groups(&mut self) -> CheckResult {
        for (name, _) in TOPICS {
            for group in GROUPS {
                self.subscribe(name, group, 1000)?;
            }
        }
        Ok(())
    }

    /// A reader comes.
    fn subscribe(&mut self, topic: &str, group: &str, lease_ms: u64) -> CheckResult {
        let Some(topic) = self.topics.get(topic).map(|topic| topic.id) else { return Ok(()) };
        self.consumers += 1;
        let consumer = ConsumerId(self.consumers);
        let owner = (*self.rng.pick(&OWNERS)).to_string();
        let credit = 1 + u32::try_from(self.rng.below(4)).expect("small");
        let borrowed = group != UNDERTAKER && self.rng.chance(1, 2);
        let style = if borrowed { Style::Borrowed } else { Style::Pushed };
        let group = group.to_string();
        let since = if group == UNDERTAKER { 0 } else { self.oracle.meet(topic, &group) };
        let reader = Reader {
            topic,
            group: group.clone(),
            owner: owner.clone(),
            style,
            credit,
            inbox: Vec::new(),
            owed_credit: 0,
        };
        self.readers.insert(consumer, reader);
        let ticket = self.ticket(Asked::Reader { consumer, joined: self.messages + 1, since });
        let lease_ms = Some(lease_ms);
        let subscription = Subscription { consumer, topic, group, owner, lease_ms, credit, style };
        self.hand(Input::Subscribe { ticket, subscription })
    }

    /// A stream comes that never has more than one delivery unsettled.
    pub(crate) fn borrow(&mut self, topic: TopicId, group: &str) -> Result<ConsumerId, String> {
        self.consumers += 1;
        let (consumer, owner, credit, style) =
            (ConsumerId(self.consumers), OWNERS[0].to_string(), 1, Style::Borrowed);
        let group = group.to_string();
        let reader = Reader {
            topic,
            group: group.clone(),
            owner: owner.clone(),
            style,
            credit,
            inbox: Vec::new(),
            owed_credit: 0,
        };
        self.readers.insert(consumer, reader);
        let ticket = self.ticket(Asked::Nothing);
        let subscription =
            Subscription { consumer, topic, group, owner, lease_ms: Some(60_000), credit, style };
        self.hand(Input::Subscribe { ticket, subscription })?;
        self.flush()?;
        Ok(consumer)
    }

    /// A reader comes to read something.
    pub(crate) fn arrive(&mut self) -> CheckResult {
        // The operator may have deleted every topic.
        if self.readers.len() >= 12 || self.topics.is_empty() {
            return Ok(());
        }
        let lease_ms = *self.rng.pick(&[20, 100, 400, 2000]);
        let names: Vec<String> = self.topics.keys().cloned().collect();
        let topic = self.rng.pick(&names).clone();
        let group = if topic.starts_with("dlq.") { UNDERTAKER } else { *self.rng.pick(&GROUPS) };
        self.subscribe(&topic, group, lease_ms)
    }

    /// A reader goes; what it had not looked at goes back.
    pub(crate) fn leave(&mut self) -> CheckResult {
        let present: Vec<ConsumerId> = self.readers.keys().copied().collect();
        if present.is_empty() {
            return Ok(());
        }
        let consumer = *self.rng.pick(&present);
        let reader = self.readers.remove(&consumer).expect("it was just listed");
        let receipts: Vec<Receipt> = reader.inbox.iter().map(|delivery| delivery.receipt).collect();
        self.hand(Input::Unsubscribe { consumer })?;
        if !receipts.is_empty() {
            self.network.push(Request::Release { group: reader.group, receipts });
        }
        Ok(())
    }

    /// One request arrives, any one; some arrive twice.
    pub(crate) fn arrive_request(&mut self) -> CheckResult {
        if self.cluster.as_ref().is_some_and(|cluster| cluster.unheard) {
            return Ok(());
        }
        let Some(request) = self.rng.take(&mut self.network) else { return Ok(()) };
        let repeatable = match &request {
            Request::Produce { ids, reserved } => !reserved && self.may_repeat(ids),
            _ => true,
        };
        if repeatable && self.rng.chance(1, 8) {
            self.network.push(request.clone());
        }
        match request {
            Request::Produce { ids, reserved } => self.hand_produce(&ids, reserved),
            Request::Reserve { id } => self.hand_reserve(id),
            Request::Ack(work) => self.hand_ack(&work),
            Request::Nack(work) => self.hand_nack(&work),
            Request::Settle(items) => self.hand_settle(&items),
            Request::Begin(ask) => self.hand_begin(&ask),
            Request::Finish(lease, end) => self.hand_finish(&lease, &end),
            Request::Renew(lease, lease_ms) => self.hand_renew(&lease, lease_ms),
            Request::Resolve { key, seen, end } => self.hand_resolve(key, seen, &end),
            Request::Commit(number) => self.hand_commit(number),
            Request::Order(order) => self.hand_order(&order),
            Request::Release { group, receipts } => {
                for receipt in &receipts {
                    let (topic, offset) = (receipt.topic, receipt.offset);
                    self.oracle.released(topic, &group, offset, receipt.token, self.now);
                }
                self.hand(Input::Release { receipts })
            }
        }
    }

    fn address(work: &Work) -> Address {
        let group = work.group.clone();
        Address { topic: work.topic, group, partition: work.partition, offset: work.offset }
    }

    fn hand_ack(&mut self, work: &Work) -> CheckResult {
        let since = self.oracle.since(work.topic, &work.group);
        let asked = Asked::Ack { topic: work.topic, group: work.group.clone(), offset: work.offset, since };
        let ticket = self.ticket(asked);
        let input = Input::Ack { ticket, address: Self::address(work), owner: work.owner.clone() };
        self.trace.note("input", &(self.now.0, &input));
        let Some(server) = &mut self.server else { return Ok(()) };
        let actions = server.handle(self.now, input);
        let refusal = self.refusal(&actions, ticket);
        self.oracle.acked((work.topic, &work.group, work.offset), &work.owner, refusal, self.now)?;
        self.execute(actions)
    }

    fn hand_nack(&mut self, work: &Work) -> CheckResult {
        let ticket = self.ticket(Asked::Nothing);
        let (address, owner) = (Self::address(work), work.owner.clone());
        let input = Input::Nack { ticket, address, owner, reason: "no luck".into() };
        self.trace.note("input", &(self.now.0, &input));
        let Some(server) = &mut self.server else { return Ok(()) };
        let actions = server.handle(self.now, input);
        let refusal = self.refusal(&actions, ticket);
        self.oracle.nacked((work.topic, &work.group, work.offset), &work.owner, refusal, self.now)?;
        self.execute(actions)
    }

    /// A reader looks at something it received.
    pub(crate) fn look(&mut self) -> CheckResult {
        let busy: Vec<ConsumerId> =
            self.readers.iter().filter(|(_, reader)| !reader.inbox.is_empty()).map(|(id, _)| *id).collect();
        if busy.is_empty() {
            return Ok(());
        }
        let reader = self.readers.get_mut(self.rng.pick(&busy)).expect("it was just listed");
        let delivery = reader.inbox.remove(0);
        reader.owed_credit += 1;
        if reader.group == UNDERTAKER && !self.calm && self.rng.chance(3, 4) {
            // Left for an operator that wants to try it again.
            return Ok(());
        }
        // Its lease may have lapsed while it lay there: then it is not looked at, as in production.
        if delivery.expires > self.now {
            let receipt = delivery.receipt;
            let (group, owner) = (reader.group.clone(), reader.owner.clone());
            let (partition, offset) = (receipt.partition, receipt.offset);
            self.work.push(Work { topic: receipt.topic, group, owner, partition, offset, receipt });
        }
        Ok(())
    }

    /// A reader gives credit back; one that borrows asks for more.
    pub(crate) fn pay(&mut self) -> CheckResult {
        if self.rng.chance(1, 40) {
            return self.raise_credit();
        }
        let owing: Vec<ConsumerId> =
            self.readers.iter().filter(|(_, reader)| reader.owed_credit > 0).map(|(id, _)| *id).collect();
        if owing.is_empty() {
            return Ok(());
        }
        let consumer = *self.rng.pick(&owing);
        self.tell_written(consumer)
    }

    /// A reader says what it has written out.
    pub(crate) fn tell_written(&mut self, consumer: ConsumerId) -> CheckResult {
        let Some(reader) = self.readers.get_mut(&consumer) else { return Ok(()) };
        let count = std::mem::take(&mut reader.owed_credit);
        let input = match reader.style {
            Style::Pushed => Input::Credit { consumer, count },
            Style::Borrowed => Input::Written { consumer, count },
        };
        self.hand(input)
    }

    /// A borrowed stream may have more unsettled from now on.
    fn raise_credit(&mut self) -> CheckResult {
        let borrowed = self.readers.iter_mut().find(|(_, reader)| reader.style == Style::Borrowed);
        let Some((&consumer, reader)) = borrowed.filter(|(_, reader)| reader.credit < 6) else {
            return Ok(());
        };
        reader.credit += 1;
        self.hand(Input::Credit { consumer, count: 1 })
    }

    /// A worker ends some work: well, badly, or not at all. `diligent` workers always succeed.
    pub(crate) fn finish_work(&mut self, diligent: bool) {
        let Some(work) = self.rng.take(&mut self.work) else { return };
        match self.rng.below(10) {
            _ if diligent => self.network.push(Request::Ack(work)),
            // A holder that acks by name has a token, too.
            0 => {
                let Work { receipt, group, owner, .. } = work;
                self.network.push(Request::Settle(vec![(Loan { receipt, group, owner }, Word::Ack)]));
            }
            1..=5 => self.network.push(Request::Ack(work)),
            6..=8 => self.network.push(Request::Nack(work)),
            // It forgets, or another owner tries in its place.
            _ if self.rng.chance(1, 2) => {
                let owner = (*self.rng.pick(&OWNERS)).to_string();
                self.network.push(Request::Ack(Work { owner, ..work }));
            }
            _ => {}
        }
    }

    /// The dead-letter writer comes back with a dead letter.
    pub(crate) fn undertake(&mut self) -> CheckResult {
        let Some(burial) = self.rng.take(&mut self.burials) else { return Ok(()) };
        let Some(server) = &self.server else { return Ok(()) };
        let input = if self.rng.chance(1, 10) {
            Input::FetchFailed { receipt: burial.receipt }
        } else {
            server.undertake(&burial).map_err(|error| format!("payload: {error}"))?
        };
        self.hand(input)
    }

    /// Readers for every topic and group, with long leases.
    pub(crate) fn staff(&mut self) -> CheckResult {
        let names: Vec<String> = self.topics.keys().cloned().collect();
        for name in names {
            let topic = self.topics[&name].id;
            let groups: &[&str] = if name.starts_with("dlq.") { &[UNDERTAKER] } else { &GROUPS };
            for group in groups {
                let staffed = self.readers.values().any(|r| r.topic == topic && r.group == **group);
                if !staffed {
                    self.subscribe(&name, group, 60_000)?;
                }
            }
        }
        Ok(())
    }
}
