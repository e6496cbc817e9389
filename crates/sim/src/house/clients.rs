//! What clients of a house do, and what they hear.

use driftq_core::{
    About, BeginEffect, Commit, Delivery, EffectAnswer, EffectInput, Identity, Input, LeaseRequest, Message,
    NewBlob, NewMessage, OrderInput, Ticket, TopicSettings, Urge,
};

use super::books::EffectKey;
use super::life::{Asked, Heard, Job};
use super::{CHAINS, HOPS, House};
use crate::effects::End;
use crate::oracle::CheckResult;
use crate::server::{PayloadRead, check, payload};

const GROUP: &str = "workers";
/// Messages that are on their way at a time.
const MESSAGES_MAX: u64 = 40;

impl House {
    /// The shard of a topic: the next one at every hop, and the same for all of the last chain.
    fn home_of(&self, chain: usize, hop: usize) -> usize {
        if chain + 1 == CHAINS { 0 } else { (chain + hop) % self.shards() }
    }

    pub(super) fn make_topics(&mut self) -> CheckResult {
        for chain in 0..CHAINS {
            for hop in 0..HOPS {
                let shard = self.home_of(chain, hop);
                let (ticket, name) = (Ticket(u64::MAX), format!("chain-{chain}-{hop}"));
                let settings = TopicSettings::default();
                let (partitions, tenant, exact) = (1, None, false);
                let order = OrderInput::CreateTopic { ticket, name, partitions, settings, tenant, exact };
                let now = self.now;
                let Some(server) = &mut self.life().shards[shard] else { continue };
                server.handle(now, Input::Order(order));
            }
        }
        for shard in 0..self.shards() {
            let now = self.now;
            let Some(server) = &mut self.life().shards[shard] else { continue };
            for _ in 0..100 {
                if server.is_quiet() {
                    break;
                }
                let written = server.keep(now).and_then(|_| {
                    server.seal();
                    server.write()
                });
                written.map_err(|broken| format!("set-up: {broken:?}"))?;
                server.confirm(now);
            }
            for topic in self.lives[0].shards[shard].iter().flat_map(|server| server.state().topics()) {
                let place = topic.name.rsplit('-').filter_map(|part| part.parse().ok()).collect::<Vec<_>>();
                if let [hop, chain] = place[..] {
                    self.topics.insert((chain, hop), topic.id);
                }
            }
        }
        match self.topics.len() {
            made if made == CHAINS * HOPS => Ok(()),
            made => Err(format!("set-up: {made} topics")),
        }
    }

    fn message(&self, chain: usize, hop: usize, value: u64) -> NewMessage {
        let text = value.to_string();
        let message = Message {
            key: Vec::new().into(),
            value: text.into_bytes().into(),
            envelope: None,
            routing: None,
            origin: None,
        };
        NewMessage { topic: self.topics[&(chain, hop)], payload: payload(&message), ..NewMessage::default() }
    }

    pub(super) fn produce(&mut self) {
        let value = self.books.sent.len() as u64;
        let under_way = (0..value).filter(|value| !self.books.has_arrived(*value)).count() as u64;
        if under_way >= MESSAGES_MAX {
            return;
        }
        let chain = usize::try_from(self.rng.below(CHAINS as u64)).expect("few chains");
        self.books.sent.insert(value, chain);
        let (message, shard) = (self.message(chain, 0, value), self.home_of(chain, 0));
        self.life().ask(shard, Asked::Produce(value), |ticket| Input::Produce { ticket, message });
    }

    pub(super) fn lease(&mut self) {
        let chain = usize::try_from(self.rng.below(CHAINS as u64)).expect("few chains");
        let hop = usize::try_from(self.rng.below(HOPS as u64)).expect("few hops");
        let request = LeaseRequest {
            topic: self.topics[&(chain, hop)],
            group: GROUP.into(),
            owner: "worker".into(),
            max: 1 + u32::try_from(self.rng.below(3)).expect("small"),
            lease_ms: Some(1000),
            wait_ms: 0,
            request: None,
        };
        let shard = self.home_of(chain, hop);
        self.life().ask(shard, Asked::Lease { chain, hop }, |ticket| Input::Lease { ticket, request });
    }

    /// A worker begins its effect, or commits what it did.
    pub(super) fn work(&mut self) -> CheckResult {
        let Some(mut job) = self.rng.take(&mut self.jobs) else { return Ok(()) };
        if let Some(commit) = job.commit.clone() {
            let mut heard = Vec::new();
            self.life().commit(Box::new(job), commit, &mut heard);
            return self.told(heard);
        }
        job.effect = None;
        let key = (job.value, job.hop);
        let ask = Box::new(BeginEffect {
            identity: effect_identity(key),
            about: NewBlob { check: check(&about(key)), bytes: about(key) },
            lease_ms: Some(700),
            on_lapse: driftq_core::ledger::OnLapse::Retry,
            urge: Urge::BeginOrReacquire,
            ..BeginEffect::default()
        });
        let shard = self.home_of_effect(key);
        self.life().ask(shard, Asked::Begin(Box::new(job)), |ticket| {
            Input::Effect(EffectInput::Begin { ticket, ask })
        });
        Ok(())
    }

    pub(super) fn home_of_effect(&self, (value, hop): (u64, usize)) -> usize {
        usize::try_from(value).unwrap_or_default().wrapping_mul(7).wrapping_add(hop * 2) % self.shards()
    }

    /// What a worker commits when its effect is run.
    fn commit_of(&mut self, job: &Job) -> Commit {
        let follows = job.hop + 1 < HOPS;
        // The last one of a way is asked about until somebody says what became of it.
        let name = (!follows || self.rng.chance(1, 2)).then(|| {
            self.names += 1;
            Identity::of_parts(&[b"commit", &self.names.to_le_bytes()])
        });
        let end = End::succeeded(format!("result of {}", job.value).as_bytes());
        Commit {
            name,
            acks: vec![job.receipt],
            finishes: job.effect.iter().map(|receipt| end.finish(*receipt)).collect(),
            messages: follows.then(|| self.message(job.chain, job.hop + 1, job.value)).into_iter().collect(),
            ..Commit::default()
        }
    }

    /// Clients hear what they were told.
    pub(super) fn told(&mut self, heard: Vec<Heard>) -> CheckResult {
        for heard in heard {
            self.trace.note("heard", &heard);
            match heard {
                Heard::Produced(value, stored) => {
                    let topic = self.topics[&(self.books.sent[&value], 0)];
                    self.books.lies(topic, value, stored.offset)?;
                    self.books.begun(value);
                    self.counts.produced += 1;
                }
                Heard::Leased { shard, chain, hop, deliveries } => {
                    for delivery in deliveries {
                        self.leased(shard, (chain, hop), &delivery)?;
                    }
                }
                Heard::Begun(mut job, answer) => {
                    match answer {
                        // Whoever hears of a lease when it is over runs nothing.
                        EffectAnswer::Execute(lease) if lease.expires <= self.now => continue,
                        EffectAnswer::Execute(lease) => {
                            let key = (job.value, job.hop);
                            self.books.runs(key, lease.expires, lease.receipt.epoch, self.now)?;
                            self.counts.effects += 1;
                        }
                        EffectAnswer::Replay(_) => {}
                        // Another one runs it: the message comes again.
                        _ => continue,
                    }
                    job.commit = Some(self.commit_of(&job));
                    self.jobs.push(*job);
                }
                Heard::Committed(job, Ok(done)) => {
                    self.counts.commits += 1;
                    let is_last = job.hop + 1 == HOPS;
                    self.books.committed((job.value, job.hop), is_last);
                    if let (false, Some(stored)) = (is_last, done.stored.first()) {
                        let topic = self.topics[&(job.chain, job.hop + 1)];
                        self.books.lies(topic, job.value, stored.offset)?;
                    }
                }
                // A named commit is said again under its name; the rest comes again by itself.
                Heard::Unknown(Asked::Commit(job)) => {
                    let is_named = job.commit.as_ref().is_some_and(|commit| commit.name.is_some());
                    self.jobs.extend(is_named.then_some(*job));
                }
                Heard::Committed(_, Err(_)) | Heard::Unknown(_) | Heard::Refused => {}
            }
        }
        Ok(())
    }

    /// A worker gets a message.
    fn leased(&mut self, shard: usize, (chain, hop): (usize, usize), delivery: &Delivery) -> CheckResult {
        // Every process reads the same log.
        let server = self.lives.iter().rev().find_map(|life| life.shards[shard].as_ref());
        let Some(server) = server else { return Ok(()) };
        let read = server.read(delivery.position, delivery.length, delivery.check)?;
        let PayloadRead::Payload(bytes) = read else { return Ok(()) };
        let message = Message::decode(&bytes).map_err(|error| format!("stored message: {error:?}"))?;
        let value = std::str::from_utf8(&message.value).ok().and_then(|text| text.parse().ok());
        let Some(value) = value else { return Err(format!("message: {message:?} was never sent")) };
        self.books.lies(delivery.receipt.topic, value, delivery.receipt.offset)?;
        self.books.begun(value);
        self.counts.delivered += 1;
        let receipt = delivery.receipt;
        self.jobs.push(Job { chain, hop, value, receipt, effect: None, commit: None });
        Ok(())
    }
}

pub(super) fn effect_identity((value, hop): EffectKey) -> Identity {
    Identity::of_parts(&[b"effect", &value.to_le_bytes(), &(hop as u64).to_le_bytes()])
}

fn about((value, hop): EffectKey) -> Vec<u8> {
    About { scope: "hops".into(), key: format!("{value}-{hop}").into(), ..About::default() }.encode()
}
