//! A server that crashes, the clients around it, and what passes between them.

use std::collections::BTreeMap;

use driftq_core::{
    Action, Answer, ConsumerId, Delivery, Input, Message, Overload, Reject, Settings, Stored, Ticket, Time,
    TopicId, Undertaking,
};

use crate::clients::{Reader, Request, TOPICS, Work};
use crate::disk::SimDisk;
use crate::oracle::{Oracle, Verdict};
use crate::rng::Rng;
use crate::server::{Found, NoStart, Server};
use crate::trace::Trace;

/// Who waits for an answer, and for what.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    Topic,
    Reader(ConsumerId),
    Produce { id: u64, decided: Time },
    Ack { topic: TopicId, group: String, offset: u64 },
    Nack,
}

/// The simulated world.
pub struct World {
    pub(crate) rng: Rng,
    pub(crate) disk: SimDisk,
    pub(crate) settings: Settings,
    pub(crate) server: Option<Server>,
    pub(crate) now: Time,
    pub(crate) oracle: Oracle,
    pub(crate) trace: Trace,
    /// Requests under way; they arrive in any order.
    pub(crate) network: Vec<Request>,
    asked: BTreeMap<Ticket, Asked>,
    tickets: u64,
    pub(crate) consumers: u64,
    pub(crate) readers: BTreeMap<ConsumerId, Reader>,
    pub(crate) work: Vec<Work>,
    pub(crate) undertakings: Vec<Undertaking>,
    /// Topics by name, as far as they are published.
    pub(crate) topics: BTreeMap<String, TopicId>,
    /// Messages sent so far.
    pub(crate) messages: u64,
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

    pub(crate) fn ticket(&mut self, asked: Asked) -> Ticket {
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
                Action::Unpublish(topic) => {
                    self.topics.remove(&*topic.name);
                }
                Action::Close { consumer } => {
                    self.readers.remove(&consumer);
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
            (Asked::Produce { id, decided }, &Answer::Produced(Stored { offset, duplicate, .. })) => {
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
            // The power is gone: nobody gets to see this delivery, and the server ends here.
            Found::Failed => {
                self.server = None;
                return Ok(());
            }
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
}
