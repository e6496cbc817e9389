//! What clients do: produce, read, work, ack, nack, come and go.

use driftq_core::{
    Action, Address, Answer, ConsumerId, Delivery, Envelope, Identity, Input, Message, NewMessage, Receipt,
    Reject, RetryPolicy, Style, Subscription, Ticket, TopicId, TopicSettings, partition_of_key,
};

use crate::oracle::{Sent, Verdict};
use crate::server::payload;
use crate::world::{Asked, World};

/// Names of the topics, and their partitions.
pub(crate) const TOPICS: [(&str, u32); 3] = [("orders", 1), ("mails", 2), ("steps", 3)];
/// Groups of every topic.
const GROUPS: [&str; 2] = ["alpha", "beta"];
/// Worker names; several workers share one.
const OWNERS: [&str; 3] = ["ann", "bob", "cy"];
/// The group that reads dead letters.
const UNDERTAKER: &str = "undertaker";

/// A reader as it sees itself.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) topic: TopicId,
    pub(crate) group: String,
    pub(crate) owner: String,
    /// Received and not yet looked at.
    pub(crate) inbox: Vec<Delivery>,
    /// Looked at: credit to give back.
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
}

/// A request on the wire.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Produce { id: u64 },
    Ack(Work),
    Nack(Work),
    Release { group: String, receipts: Vec<Receipt> },
}

impl World {
    /// Topics and groups that everything else takes for granted.
    pub(crate) fn create_topics(&mut self) -> Verdict {
        for (name, partitions) in TOPICS {
            let ticket = self.ticket(Asked::Topic);
            self.hand(Input::CreateTopic {
                ticket,
                name: name.into(),
                partitions,
                settings: TopicSettings::default(),
                exact: false,
            })?;
        }
        Ok(())
    }

    pub(crate) fn create_groups(&mut self) -> Verdict {
        for (name, _) in TOPICS {
            for group in GROUPS {
                self.subscribe(name, group, 1000)?;
                if let Some(topic) = self.topics.get(name) {
                    self.oracle.join(*topic, group);
                }
            }
        }
        Ok(())
    }

    /// A reader comes.
    fn subscribe(&mut self, topic: &str, group: &str, lease_ms: u64) -> Verdict {
        let Some(&topic) = self.topics.get(topic) else { return Ok(()) };
        self.consumers += 1;
        let consumer = ConsumerId(self.consumers);
        let owner = (*self.rng.pick(&OWNERS)).to_string();
        let credit = 1 + u32::try_from(self.rng.below(4)).expect("small");
        let group = group.to_string();
        let reader =
            Reader { topic, group: group.clone(), owner: owner.clone(), inbox: Vec::new(), owed_credit: 0 };
        self.readers.insert(consumer, reader);
        let ticket = self.ticket(Asked::Reader(consumer));
        let subscription = Subscription {
            consumer,
            topic,
            group,
            owner,
            lease_ms: Some(lease_ms),
            credit,
            style: Style::Pushed,
        };
        self.hand(Input::Subscribe { ticket, subscription })
    }

    /// Somebody comes to read something.
    pub(crate) fn arrive(&mut self) -> Verdict {
        if self.readers.len() >= 12 {
            return Ok(());
        }
        let lease_ms = *self.rng.pick(&[20, 100, 400, 2000]);
        let names: Vec<String> = self.topics.keys().cloned().collect();
        let topic = self.rng.pick(&names).clone();
        let group = if topic.starts_with("dlq.") { UNDERTAKER } else { *self.rng.pick(&GROUPS) };
        self.subscribe(&topic, group, lease_ms)
    }

    /// A reader goes; what it had not looked at goes back.
    pub(crate) fn leave(&mut self) -> Verdict {
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

    /// A producer sends something new.
    pub(crate) fn produce(&mut self) {
        self.messages += 1;
        let id = self.messages;
        let (name, partitions) = *self.rng.pick(&TOPICS);
        let Some(&topic) = self.topics.get(name) else { return };
        let key = self.rng.chance(1, 3).then(|| self.rng.below(40));
        let policies = [
            None,
            Some(RetryPolicy {
                max_attempts: 2,
                backoff_ms: 50,
                max_backoff_ms: 200,
                ..RetryPolicy::default()
            }),
            Some(RetryPolicy { max_attempts: 3, backoff_ms: 0, max_backoff_ms: 0, ..RetryPolicy::default() }),
            Some(RetryPolicy {
                max_attempts: 0,
                backoff_ms: 400,
                max_backoff_ms: 0,
                ..RetryPolicy::default()
            }),
        ];
        let policy = *self.rng.pick(&policies);
        let partition = partition_of_key(id.to_string().as_bytes(), partitions);
        let retry_until = self.now.after_ms(self.settings.idempotency_ttl_ms / 2);
        self.oracle.sent.insert(id, Sent { topic, partition, key, policy, retry_until, answered: None });
        self.network.push(Request::Produce { id });
    }

    /// A producer that got no answer asks again, if its key makes that safe.
    pub(crate) fn retry_produce(&mut self) {
        let lost =
            self.oracle.sent.iter().filter(|(_, sent)| {
                sent.answered.is_none() && sent.key.is_some() && sent.retry_until > self.now
            });
        let lost: Vec<u64> = lost.map(|(id, _)| *id).collect();
        if !lost.is_empty() {
            let id = *self.rng.pick(&lost);
            self.network.push(Request::Produce { id });
        }
    }

    /// One request arrives, any one; some arrive twice.
    pub(crate) fn arrive_request(&mut self) -> Verdict {
        let Some(request) = self.rng.take(&mut self.network) else { return Ok(()) };
        let repeatable = match &request {
            Request::Produce { id } => {
                let sent = &self.oracle.sent[id];
                if sent.key.is_some() && sent.retry_until <= self.now {
                    return Ok(());
                }
                sent.key.is_some()
            }
            _ => true,
        };
        if repeatable && self.rng.chance(1, 8) {
            self.network.push(request.clone());
        }
        match request {
            Request::Produce { id } => self.hand_produce(id),
            Request::Ack(work) => self.hand_ack(&work),
            Request::Nack(work) => self.hand_nack(&work),
            Request::Release { group, receipts } => {
                for receipt in &receipts {
                    let (topic, offset) = (receipt.topic, receipt.offset);
                    self.oracle.released(topic, &group, offset, receipt.token, self.now);
                }
                self.hand(Input::Release { receipts })
            }
        }
    }

    fn hand_produce(&mut self, id: u64) -> Verdict {
        let sent = self.oracle.sent[&id].clone();
        let decided = self.now;
        let ticket = self.ticket(Asked::Produce { id, decided });
        let key_text = sent.key.map(|key| key.to_string()).unwrap_or_default();
        let message = Message {
            key: id.to_string().into_bytes().into(),
            value: format!("message {id}").into_bytes().into(),
            envelope: Some(Envelope {
                idempotency_key: (&*key_text).into(),
                retry_policy: sent.policy,
                ..Envelope::default()
            }),
            routing: None,
        };
        let identity = sent.key.map(|_| Identity::of("", &sent.topic.0.to_string(), &key_text));
        let message = NewMessage {
            topic: sent.topic,
            partition: sent.partition,
            retry: sent.policy,
            identity,
            payload: payload(&message),
            ..NewMessage::default()
        };
        self.hand(Input::Produce { ticket, message })
    }

    fn address(work: &Work) -> Address {
        let group = work.group.clone();
        Address { topic: work.topic, group, partition: work.partition, offset: work.offset }
    }

    fn hand_ack(&mut self, work: &Work) -> Verdict {
        let asked = Asked::Ack { topic: work.topic, group: work.group.clone(), offset: work.offset };
        let ticket = self.ticket(asked);
        let input = Input::Ack { ticket, address: Self::address(work), owner: work.owner.clone() };
        self.trace.note("input", &(self.now.0, &input));
        let Some(server) = &mut self.server else { return Ok(()) };
        let actions = server.handle(self.now, input);
        let refusal = refusal(&actions, ticket);
        self.oracle.acked((work.topic, &work.group, work.offset), &work.owner, refusal, self.now)?;
        self.execute(actions)
    }

    fn hand_nack(&mut self, work: &Work) -> Verdict {
        let ticket = self.ticket(Asked::Nack);
        let (address, owner) = (Self::address(work), work.owner.clone());
        let input = Input::Nack { ticket, address, owner, reason: "no luck".into() };
        self.trace.note("input", &(self.now.0, &input));
        let Some(server) = &mut self.server else { return Ok(()) };
        let actions = server.handle(self.now, input);
        let refusal = refusal(&actions, ticket);
        self.oracle.nacked((work.topic, &work.group, work.offset), &work.owner, refusal, self.now)?;
        self.execute(actions)
    }

    /// A reader looks at something it received.
    pub(crate) fn look(&mut self) -> Verdict {
        let busy: Vec<ConsumerId> =
            self.readers.iter().filter(|(_, reader)| !reader.inbox.is_empty()).map(|(id, _)| *id).collect();
        if busy.is_empty() {
            return Ok(());
        }
        let reader = self.readers.get_mut(self.rng.pick(&busy)).expect("it was just listed");
        let delivery = reader.inbox.remove(0);
        reader.owed_credit += 1;
        // Its lease may have lapsed while it lay there: then it is not looked at, as in production.
        if delivery.expires > self.now {
            let receipt = delivery.receipt;
            let (group, owner) = (reader.group.clone(), reader.owner.clone());
            let (partition, offset) = (receipt.partition, receipt.offset);
            self.work.push(Work { topic: receipt.topic, group, owner, partition, offset });
        }
        Ok(())
    }

    /// A reader gives credit back.
    pub(crate) fn pay(&mut self) -> Verdict {
        let owing: Vec<ConsumerId> =
            self.readers.iter().filter(|(_, reader)| reader.owed_credit > 0).map(|(id, _)| *id).collect();
        if owing.is_empty() {
            return Ok(());
        }
        let consumer = *self.rng.pick(&owing);
        let count = std::mem::take(&mut self.readers.get_mut(&consumer).expect("listed").owed_credit);
        self.hand(Input::Credit { consumer, count })
    }

    /// A worker ends some work: well, badly, or not at all. `diligent` workers always succeed.
    pub(crate) fn finish_work(&mut self, diligent: bool) {
        let Some(work) = self.rng.take(&mut self.work) else { return };
        match self.rng.below(10) {
            _ if diligent => self.network.push(Request::Ack(work)),
            0..=5 => self.network.push(Request::Ack(work)),
            6..=8 => self.network.push(Request::Nack(work)),
            // It forgets, or somebody else tries in its place.
            _ if self.rng.chance(1, 2) => {
                let owner = (*self.rng.pick(&OWNERS)).to_string();
                self.network.push(Request::Ack(Work { owner, ..work }));
            }
            _ => {}
        }
    }

    /// The undertaker comes back with a dead letter.
    pub(crate) fn undertake(&mut self) -> Verdict {
        let Some(undertaking) = self.rng.take(&mut self.undertakings) else { return Ok(()) };
        let Some(server) = &self.server else { return Ok(()) };
        let input = if self.rng.chance(1, 10) {
            Input::FetchFailed { receipt: undertaking.receipt }
        } else {
            server.undertake(&undertaking).map_err(|error| format!("payload: {error}"))?
        };
        self.hand(input)
    }

    /// Readers for every topic and group, with long leases.
    pub(crate) fn staff(&mut self) -> Verdict {
        let names: Vec<String> = self.topics.keys().cloned().collect();
        for name in names {
            let topic = self.topics[&name];
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

/// Whether the ticket was refused at once.
fn refusal(actions: &[Action], ticket: Ticket) -> Option<Reject> {
    actions.iter().find_map(|action| match action {
        Action::Reply { ticket: answered, answer: Answer::Rejected(reject) } if *answered == ticket => {
            Some(*reject)
        }
        _ => None,
    })
}
