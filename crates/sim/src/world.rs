//! A server that crashes, the clients around it, and what passes between them.

use std::collections::{BTreeMap, BTreeSet};

use driftq_core::{
    Action, Answer, Burial, ConsumerId, Delivery, Input, Message, Origin, Receipt, Settings, Spotted, Style,
    Ticket, Time, Token, TopicId, TopicInfo, TopicSettings,
};

use crate::asked::Asked;
use crate::clients::{Reader, Request, UNDERTAKER, Work};
use crate::cluster::Cluster;
use crate::disk::SimDisk;
use crate::effects::{Ask, Lease};
use crate::operator::Letter;
use crate::oracle::{CheckResult, Gone, Oracle, Receiver, Way};
use crate::rng::Rng;
use crate::server::{NoStart, PayloadRead, Server};
use crate::trace::Trace;
use crate::workers::{LeaseCall, Loan, loan};

/// The simulated world.
pub struct World {
    pub(crate) rng: Rng,
    pub(crate) disk: SimDisk,
    pub(crate) settings: Settings,
    pub(crate) server: Option<Server>,
    /// Several nodes on one log, in place of one on its own disk.
    pub(crate) cluster: Option<Cluster>,
    pub(crate) now: Time,
    pub(crate) oracle: Oracle,
    pub(crate) trace: Trace,
    /// Requests under way; they arrive in any order.
    pub(crate) network: Vec<Request>,
    pub(crate) asked: BTreeMap<Ticket, Asked>,
    /// Tickets whose refusal is decided and known, and not told yet.
    pub(crate) foreseen: BTreeSet<Ticket>,
    /// Tickets of askers that no longer wait, and for which group they asked.
    pub(crate) forsaken: BTreeMap<Ticket, LeaseCall>,
    /// Deliveries that are decided and known, and not handed out yet; and whether they reach a reader.
    pub(crate) foretold: BTreeMap<Token, bool>,
    pub(crate) tickets: u64,
    pub(crate) consumers: u64,
    pub(crate) readers: BTreeMap<ConsumerId, Reader>,
    pub(crate) work: Vec<Work>,
    pub(crate) burials: Vec<Burial>,
    /// Deliveries in the hands of holders that know their tokens.
    pub(crate) loans: Vec<Loan>,
    /// Tokens kept to be used at the wrong time.
    pub(crate) keepsakes: Vec<Loan>,
    /// Requests for messages whose answer was lost.
    pub(crate) lost_calls: Vec<LeaseCall>,
    /// Leases of effects in the hands of workers.
    pub(crate) leases: Vec<Lease>,
    /// Leases of workers that were thought dead.
    pub(crate) old_leases: Vec<Lease>,
    /// Requests to run an effect whose answer was lost.
    pub(crate) lost_asks: Vec<Ask>,
    /// Numbers that tell calls and results apart.
    pub(crate) calls: u64,
    /// Dead letters that a reader has read.
    pub(crate) letters: Vec<Letter>,
    /// Topics by name, as far as they are published.
    pub(crate) topics: BTreeMap<String, TopicInfo>,
    /// Topics that were asked for and are not published yet, and how they are to be.
    pub(crate) creating: BTreeMap<String, TopicSettings>,
    /// Topics asked for so far.
    pub(crate) creations: usize,
    /// The topics are made: things go wrong from now on.
    pub(crate) set_up: bool,
    /// Nothing goes wrong any more.
    pub(crate) calm: bool,
    /// Messages sent so far.
    pub(crate) messages: u64,
    pub(crate) counts: crate::run::Totals,
}

impl World {
    /// An empty world with so many nodes.
    #[must_use]
    pub fn new(seed: u64, nodes: usize, verbose: bool) -> Self {
        let mut rng = Rng::new(seed);
        let settings = Settings {
            in_flight_max: 1 + u32::try_from(rng.below(3)).expect("small"),
            lease_in_flight_max: 2 + u32::try_from(rng.below(4)).expect("small"),
            partition_messages_max: 30,
            partition_bytes_max: 1500,
            idempotency_ttl_ms: 20_000,
            commit_ttl_ms: 30_000,
            stream_unwritten_max: 2,
            // Few enough that dispatch has to go on later now and then.
            turn_steps_max: 12 + u32::try_from(seed % 7).expect("small"),
            seed,
            ..Settings::default()
        };
        let windows = (settings.in_flight_max, settings.lease_in_flight_max);
        let oracle = Oracle::new(windows, settings.idempotency_ttl_ms, settings.commit_ttl_ms);
        Self {
            disk: SimDisk::new(seed),
            rng,
            settings,
            server: None,
            cluster: (nodes > 1).then(|| Cluster::new(nodes, seed)),
            now: Time(1_000_000),
            oracle,
            trace: Trace::new(verbose),
            network: Vec::new(),
            asked: BTreeMap::new(),
            foreseen: BTreeSet::new(),
            forsaken: BTreeMap::new(),
            foretold: BTreeMap::new(),
            tickets: 0,
            consumers: 0,
            readers: BTreeMap::new(),
            work: Vec::new(),
            burials: Vec::new(),
            loans: Vec::new(),
            keepsakes: Vec::new(),
            lost_calls: Vec::new(),
            leases: Vec::new(),
            old_leases: Vec::new(),
            lost_asks: Vec::new(),
            calls: 0,
            letters: Vec::new(),
            topics: BTreeMap::new(),
            creating: BTreeMap::new(),
            creations: 0,
            set_up: false,
            calm: false,
            messages: 0,
            counts: crate::run::Totals::default(),
        }
    }

    /// Starts or restarts the server from what is on disk.
    pub fn start(&mut self) -> CheckResult {
        self.appoint();
        let lost = std::mem::take(&mut self.asked);
        self.foreseen.clear();
        self.forsaken.clear();
        self.foretold.clear();
        self.burials.clear();
        self.readers.clear();
        self.oracle.restart(self.now);
        self.oracle.elapsed(self.now);
        for _ in 0..8 {
            match self.boot() {
                Ok(Some(mut server)) => {
                    let actions = server.first_actions();
                    self.trace.note("started", &server.state().epoch());
                    self.read_catalogue(&server)?;
                    self.recover(&mut server.probe(&self.settings, self.now), &lost)?;
                    self.ask_again(&lost);
                    self.server = Some(server);
                    return self.execute(actions);
                }
                Ok(None) => self.disk.kill(),
                Err(NoStart(why)) => {
                    self.check_books()?;
                    return Err(format!("recovery: {why}"));
                }
            }
            self.check_books()?;
        }
        Err("recovery: the disk works again, yet the log does not open".into())
    }

    /// Topics that were ever published exist as they were, and those whose end was answered do not.
    fn read_catalogue(&mut self, server: &Server) -> CheckResult {
        let found: BTreeMap<TopicId, TopicInfo> =
            server.state().topics().map(|topic| (topic.id, topic)).collect();
        for (id, view) in &mut self.oracle.topics {
            let kept = found.get(id).is_some_and(|topic| topic.partitions == view.partitions);
            match view.gone {
                Gone::No if !kept => return Err(format!("topics: {id:?} ({}) is lost", view.name)),
                Gone::Yes if kept => return Err(format!("deleted: {id:?} ({}) is back", view.name)),
                Gone::Asked => view.gone = if kept { Gone::No } else { Gone::Yes },
                Gone::No | Gone::Yes => {}
            }
        }
        self.topics.clear();
        for topic in found.values() {
            self.publish(topic);
        }
        self.creating.clear();
        Ok(())
    }

    /// Hands an input to the server and does what it wants done.
    pub(crate) fn hand(&mut self, input: Input) -> CheckResult {
        let Some(server) = &mut self.server else { return Ok(()) };
        self.trace.note("input", &(self.now.0, &input));
        let actions = server.handle(self.now, input);
        self.execute(actions)
    }

    /// An asker left while its answer waited for the disk: what it was lent is given back.
    fn give_back_unread(&mut self, group: &str, answer: &Answer) -> CheckResult {
        let Answer::Leased(deliveries) = answer else { return Ok(()) };
        for Delivery { receipt, .. } in deliveries {
            self.oracle.seen(receipt, group);
            self.oracle.released(receipt.topic, group, receipt.offset, receipt.token, self.now);
        }
        self.hand(Input::Release { receipts: deliveries.iter().map(|delivery| delivery.receipt).collect() })
    }

    /// What is decided stays decided: the oracle knows of deliveries when they are, and not when they may be told.
    fn foretell(&mut self) -> CheckResult {
        let Some(server) = &self.server else { return Ok(()) };
        let mut news = Vec::new();
        for action in server.held() {
            match action {
                Action::Deliver { consumer, delivery } => {
                    news.extend(self.receiver(*consumer).map(|to| (to, delivery.clone())));
                }
                Action::Reply { ticket, answer: Answer::Leased(deliveries) } => {
                    if let Some(Asked::Lease(call)) = self.asked.get(ticket) {
                        news.extend(deliveries.iter().map(|delivery| (call.receiver(), delivery.clone())));
                    }
                }
                _ => {}
            }
        }
        for (to, delivery) in news {
            let token = delivery.receipt.token;
            if !self.foretold.contains_key(&token) && !self.oracle.was_handed_out(token) {
                let reaches = self.receive(&to, &delivery)?;
                self.foretold.insert(token, reaches);
            }
        }
        Ok(())
    }

    /// Does what the server wants done.
    pub(crate) fn execute(&mut self, actions: Vec<Action>) -> CheckResult {
        self.foretell()?;
        for action in actions {
            self.trace.note("action", &action);
            match action {
                Action::Reply { ticket, answer } => self.answered(ticket, &answer)?,
                Action::Deliver { consumer, delivery } => self.received(consumer, &delivery)?,
                Action::Fetch(burial) => self.burials.push(burial),
                // There is one shard: it has nobody to send anything to.
                Action::Post { .. } => unreachable!("a parcel for a shard that there is not"),
                Action::Publish(topic) => self.publish(&topic),
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

    fn answered(&mut self, ticket: Ticket, answer: &Answer) -> CheckResult {
        if self.foreseen.remove(&ticket) {
            return Ok(());
        }
        if let Some(call) = self.forsaken.remove(&ticket) {
            // No client heard it, but an asker that asks again under its name may have been answered the same
            // meanwhile.
            if let (Some(asker), Answer::Leased(deliveries)) = (call.asker(), answer) {
                self.oracle.note_request(asker, deliveries);
            }
            return self.give_back_unread(&call.group, answer);
        }
        let Some(asked) = self.asked.remove(&ticket) else {
            return Err(format!("answers: {ticket:?} was answered twice"));
        };
        match (&asked, answer) {
            (Asked::Produce { offers, decided }, _) => self.produce_answered(offers, *decided, answer),
            (Asked::Reserve { id, decided }, _) => self.reserve_answered(*id, *decided, answer),
            (Asked::Settle { said, joined }, _) => self.settle_answered(said, *joined, answer),
            (Asked::Lease(call), _) => self.lease_answered(call, answer),
            (Asked::Ack { topic, group, offset, since }, Answer::Settled) => {
                self.counts.acked += 1;
                // A group that was moved or deleted meanwhile starts over.
                if self.oracle.since(*topic, group) == *since {
                    self.oracle.ack_answered((*topic, group, *offset));
                }
                Ok(())
            }
            (Asked::Reader { consumer, .. }, Answer::Rejected(_)) => {
                self.readers.remove(consumer);
                Ok(())
            }
            (Asked::Reader { consumer, joined, since }, _) => {
                if let Some(reader) = self.readers.get(consumer).filter(|reader| reader.group != UNDERTAKER) {
                    self.oracle.join(reader.topic, &reader.group, *joined, *since);
                }
                Ok(())
            }
            (Asked::Commit(committing), _) => self.commit_answered(committing, answer),
            (Asked::Entity(about), _) => self.entity_answered(about, answer),
            (Asked::Begin { .. } | Asked::Finish(..) | Asked::Renew { .. } | Asked::Resolve(_), _) => {
                self.effect_answered(&asked, answer)
            }
            (Asked::Order(_) | Asked::Outputs(_) | Asked::Effect { .. }, _) => {
                self.outputs_answered(&asked, answer)
            }
            _ => self.order_answered(&asked, answer),
        }
    }

    /// A message arrived at a reader; or at where a reader was.
    fn received(&mut self, consumer: ConsumerId, delivery: &Delivery) -> CheckResult {
        let Some(to) = self.receiver(consumer) else { return Ok(()) };
        let way = to.way;
        let reaches = match self.foretold.remove(&delivery.receipt.token) {
            Some(reaches) => reaches,
            None => self.receive(&to, delivery)?,
        };
        self.oracle.seen(&delivery.receipt, &to.group);
        // A stream that borrows writes out at once, and says so some time later.
        if let (Way::Borrowed(..), Some(reader)) = (way, self.readers.get_mut(&consumer)) {
            reader.owed_credit += 1;
            let (unwritten, most) = (reader.owed_credit, self.settings.stream_unwritten_max);
            if unwritten > most {
                return Err(format!(
                    "unwritten: {consumer:?} got {unwritten} and has not said what is written"
                ));
            }
        }
        if reaches {
            match (way, self.readers.get_mut(&consumer)) {
                (Way::Pushed, Some(reader)) => reader.inbox.push(delivery.clone()),
                _ => self.loans.push(loan(&to, delivery)),
            }
        }
        Ok(())
    }

    /// A reader, as a receiver of messages.
    fn receiver(&self, consumer: ConsumerId) -> Option<Receiver> {
        let reader = self.readers.get(&consumer)?;
        let way = match reader.style {
            Style::Pushed => Way::Pushed,
            Style::Borrowed => Way::Borrowed(consumer, reader.credit),
        };
        Some(Receiver { group: reader.group.clone(), owner: reader.owner.clone(), way })
    }

    /// A receiver got a message. False if the power went off before it saw it.
    pub(crate) fn receive(&mut self, to: &Receiver, delivery: &Delivery) -> Result<bool, String> {
        self.counts.delivered += 1;
        let Some(server) = &self.server else { return Ok(false) };
        let read = server.read(delivery.position, delivery.length, delivery.check);
        let bytes = match read.map_err(|error| format!("payload: {error}"))? {
            PayloadRead::Payload(bytes) => bytes,
            PayloadRead::Gone => {
                return Err(format!("payload: {:?} lies in a segment that is gone", delivery.receipt));
            }
            // The power is gone: no client gets to see this delivery, and the server ends here.
            PayloadRead::Failed => {
                self.server = None;
                return Ok(false);
            }
        };
        let message = Message::decode(&bytes).map_err(|error| format!("payload: {error:?}"))?;
        let text = std::str::from_utf8(&message.value).unwrap_or_default();
        let id = text.strip_prefix("message ").and_then(|id| id.parse().ok());
        let Some(id) = id.filter(|id| self.oracle.sent.contains_key(id)) else {
            return Err(format!("payload: no producer sent {text:?}, or it was refused"));
        };
        let Receipt { topic, partition, offset, .. } = delivery.receipt;
        let own = Origin { incarnation: topic, partition, offset, ..Origin::default() };
        self.oracle.born(id, message.born(own, |_| None).place())?;
        if let Some(letter) = message.envelope.as_deref().and_then(|envelope| envelope.dead_letter.as_ref()) {
            let source = self.oracle.sent[&id].topic;
            let group = letter.group.to_string();
            // A letter names its topic, but not which of that name.
            if self.oracle.has_moved(id) {
                self.oracle.letter_of_moved(id, &group, letter.offset);
            } else {
                self.oracle.letter(source, &group, letter.offset, topic, offset)?;
            }
            if delivery.attempt == 1 {
                self.counts.letters += 1;
                let place = Spotted { topic, partition, offset };
                self.letters.push(Letter { place, id, group, bytes });
            }
            return Ok(true);
        }
        self.oracle.delivered(to, delivery, id, self.now)?;
        Ok(true)
    }

    /// Whether nothing is under way any more.
    pub(crate) fn is_idle(&self) -> bool {
        let hands = self.work.is_empty() && self.loans.is_empty();
        hands && self.network.is_empty() && self.burials.is_empty()
    }
}
