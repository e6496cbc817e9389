//! Clients that retry, repeat, stall and come too late, around a server that crashes.

use std::collections::BTreeMap;

use driftq_core::{
    Action, Address, Answer, ConsumerId, Delivery, Envelope, Identity, Input, Message, NewMessage, Overload,
    Receipt, Reject, RetryPolicy, Settings, Subscription, Ticket, Time, TopicId, Undertaking,
    partition_of_key,
};

use crate::disk::SimDisk;
use crate::oracle::{Oracle, Sent, Verdict};
use crate::rng::Rng;
use crate::server::{Found, NoStart, Server, payload};
use crate::trace::Trace;

/// Names of the topics, and their partitions.
const TOPICS: [(&str, u32); 3] = [("orders", 1), ("mails", 2), ("steps", 3)];
/// Groups of every topic.
const GROUPS: [&str; 2] = ["alpha", "beta"];
/// Worker names; several workers share one.
const OWNERS: [&str; 3] = ["ann", "bob", "cy"];
/// The group that reads dead letters.
pub(crate) const UNDERTAKER: &str = "undertaker";

/// Who waits for an answer, and for what.
#[derive(Clone, Debug)]
enum Asked {
    Topic,
    Reader(ConsumerId),
    Produce { id: u64, decided: Time },
    Ack { topic: TopicId, group: String, offset: u64 },
    Nack,
}

/// A reader as it sees itself.
#[derive(Debug)]
struct Reader {
    topic: TopicId,
    group: String,
    owner: String,
    /// Received and not yet looked at.
    inbox: Vec<Delivery>,
    /// Looked at: credit to give back.
    owed_credit: u32,
}

/// Work in a worker's hands. It outlives the reader and the server.
#[derive(Clone, Debug)]
struct Work {
    topic: TopicId,
    group: String,
    owner: String,
    partition: u32,
    offset: u64,
}

/// A request on the wire.
#[derive(Clone, Debug)]
enum Request {
    Produce { id: u64 },
    Ack(Work),
    Nack(Work),
    Release { group: String, receipts: Vec<Receipt> },
}

/// The simulated world.
pub struct World {
    pub(crate) rng: Rng,
    pub(crate) disk: SimDisk,
    settings: Settings,
    pub(crate) server: Option<Server>,
    pub(crate) now: Time,
    pub(crate) oracle: Oracle,
    pub(crate) trace: Trace,
    /// Requests under way; they arrive in any order.
    network: Vec<Request>,
    asked: BTreeMap<Ticket, Asked>,
    tickets: u64,
    consumers: u64,
    readers: BTreeMap<ConsumerId, Reader>,
    work: Vec<Work>,
    undertakings: Vec<Undertaking>,
    /// Topics by name, as far as they are published.
    pub(crate) topics: BTreeMap<String, TopicId>,
    /// Names of topics by number, for dead letters.
    messages: u64,
    pub(crate) counts: crate::run::Totals,
}

impl World {
    /// An empty world.
    #[must_use]
    pub fn new(seed: u64, verbose: bool) -> Self {
        let mut rng = Rng::new(seed);
        let settings = Settings {
            in_flight_max: 1 + u32::try_from(rng.below(3)).expect("small"),
            partition_messages_max: 30,
            partition_bytes_max: 1500,
            idempotency_ttl_ms: 20_000,
            seed,
            ..Settings::default()
        };
        let oracle = Oracle::new(settings.in_flight_max, settings.idempotency_ttl_ms);
        Self {
            disk: SimDisk::new(seed),
            rng,
            settings,
            server: None,
            now: Time(1_000_000),
            oracle,
            trace: Trace::new(verbose),
            network: Vec::new(),
            asked: BTreeMap::new(),
            tickets: 0,
            consumers: 0,
            readers: BTreeMap::new(),
            work: Vec::new(),
            undertakings: Vec::new(),
            topics: BTreeMap::new(),
            messages: 0,
            counts: crate::run::Totals::default(),
        }
    }

    /// Starts or restarts the server from what is on disk.
    pub fn start(&mut self) -> Verdict {
        self.asked.clear();
        self.undertakings.clear();
        self.readers.clear();
        self.oracle.restart();
        self.oracle.elapsed(self.now);
        for _ in 0..8 {
            match Server::start(&self.disk, &self.settings, self.now, self.settings.seed) {
                Ok(Some(mut server)) => {
                    let actions = server.first_actions();
                    self.trace.note("started", &server.state().epoch());
                    self.check_topics(&server)?;
                    let topics = server.state().topics().map(|topic| (topic.name.to_string(), topic.id));
                    self.topics.extend(topics);
                    self.server = Some(server);
                    return self.execute(actions);
                }
                Ok(None) => self.disk.kill(),
                Err(NoStart(why)) => return Err(format!("recovery: {why}")),
            }
        }
        Err("recovery: the disk works again, yet the log does not open".into())
    }

    /// Topics that were ever published exist with the partitions they had.
    fn check_topics(&self, server: &Server) -> Verdict {
        let found: BTreeMap<String, u32> =
            server.state().topics().map(|topic| (topic.name.to_string(), topic.partitions)).collect();
        for name in self.topics.keys() {
            let source = name.strip_prefix("dlq.").unwrap_or(name);
            let wanted = TOPICS.iter().find(|(topic, _)| *topic == source).map(|(_, partitions)| partitions);
            if found.get(name) != wanted {
                return Err(format!("topics: {name} has {:?} partitions, not {wanted:?}", found.get(name)));
            }
        }
        Ok(())
    }

    fn ticket(&mut self, asked: Asked) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.asked.insert(ticket, asked);
        ticket
    }

    /// Hands an input to the server and does what it wants done.
    pub(crate) fn hand(&mut self, input: Input) -> Verdict {
        let Some(server) = &mut self.server else { return Ok(()) };
        self.trace.note("input", &(self.now.0, &input));
        let actions = server.handle(self.now, input);
        self.execute(actions)
    }

    /// Topics and groups that everything else takes for granted.
    pub(crate) fn create_topics(&mut self) -> Verdict {
        for (name, partitions) in TOPICS {
            let ticket = self.ticket(Asked::Topic);
            self.hand(Input::CreateTopic { ticket, name: name.into(), partitions })?;
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
        let subscription = Subscription { consumer, topic, group, owner, lease_ms, credit };
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
            Some(RetryPolicy { max_attempts: 2, backoff_ms: 50, max_backoff_ms: 200 }),
            Some(RetryPolicy { max_attempts: 3, backoff_ms: 0, max_backoff_ms: 0 }),
            Some(RetryPolicy { max_attempts: 0, backoff_ms: 400, max_backoff_ms: 0 }),
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
            deadline: None,
            retry: sent.policy,
            identity,
            payload: payload(&message),
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

    /// Does what the server wants done.
    pub(crate) fn execute(&mut self, actions: Vec<Action>) -> Verdict {
        for action in actions {
            self.trace.note("action", &action);
            match action {
                Action::Reply { ticket, answer } => self.answered(ticket, &answer)?,
                Action::Deliver { consumer, delivery } => self.received(consumer, &delivery)?,
                Action::Fetch(undertaking) => self.undertakings.push(undertaking),
                Action::Publish(topic) => {
                    self.topics.insert(topic.name.to_string(), topic.id);
                }
            }
        }
        Ok(())
    }

    fn answered(&mut self, ticket: Ticket, answer: &Answer) -> Verdict {
        let Some(asked) = self.asked.remove(&ticket) else {
            return Err(format!("answers: {ticket:?} was answered twice"));
        };
        match (asked, answer) {
            (Asked::Produce { id, decided }, &Answer::Produced { offset, duplicate, .. }) => {
                self.counts.produced += u64::from(!duplicate);
                self.oracle.produced(id, offset, duplicate, decided)
            }
            (Asked::Produce { id, .. }, Answer::Rejected(reject)) => {
                // Refused and without a key: it was never stored and never will be.
                if self.oracle.sent[&id].key.is_none() {
                    self.oracle.sent.remove(&id);
                }
                match reject {
                    Reject::Overloaded(Overload::PartitionMessages | Overload::PartitionBytes)
                    | Reject::DiskFull => Ok(()),
                    other => Err(format!("produce: refused with {other:?}")),
                }
            }
            (Asked::Ack { topic, group, offset }, Answer::Settled) => {
                self.counts.acked += 1;
                self.oracle.ack_answered((topic, &group, offset));
                Ok(())
            }
            (Asked::Reader(consumer), Answer::Rejected(_)) => {
                self.readers.remove(&consumer);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A message arrived at a reader; or at where a reader was.
    fn received(&mut self, consumer: ConsumerId, delivery: &Delivery) -> Verdict {
        self.counts.delivered += 1;
        let Some(server) = &self.server else { return Ok(()) };
        let read = server.read(delivery.position, delivery.length, delivery.check);
        let bytes = match read.map_err(|error| format!("payload: {error}"))? {
            Found::Payload(bytes) => bytes,
            Found::Gone => {
                return Err(format!("payload: {:?} lies in a segment that is gone", delivery.receipt));
            }
            // The machine is going down; nobody gets to see this delivery.
            Found::Failed => return Ok(()),
        };
        let message = Message::decode(&bytes).map_err(|error| format!("payload: {error:?}"))?;
        let Some(reader) = self.readers.get_mut(&consumer) else { return Ok(()) };
        reader.inbox.push(delivery.clone());
        let (group, owner) = (reader.group.clone(), reader.owner.clone());
        if let Some(letter) = message.envelope.as_ref().and_then(|envelope| envelope.dead_letter.as_ref()) {
            self.counts.letters += u64::from(delivery.attempt == 1);
            let Some(&source) = self.topics.get(&*letter.topic) else {
                return Err(format!("letters: unknown source {}", letter.topic));
            };
            let (dlq, at) = (delivery.receipt.topic, delivery.receipt.offset);
            return self.oracle.letter(source, &letter.group, letter.offset, dlq, at);
        }
        let text = std::str::from_utf8(&message.value).unwrap_or_default();
        let id = text.strip_prefix("message ").and_then(|id| id.parse().ok());
        let Some(id) = id.filter(|id| self.oracle.sent.contains_key(id)) else {
            return Err(format!("payload: nobody sent {text:?}, or it was refused"));
        };
        self.oracle.delivered(&group, &owner, delivery, id, self.now)
    }

    /// Whether nothing is under way any more.
    pub(crate) fn is_idle(&self) -> bool {
        self.network.is_empty() && self.work.is_empty() && self.undertakings.is_empty()
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
