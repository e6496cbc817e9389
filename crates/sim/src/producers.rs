//! Producers of all kinds: one message or many, keyed, scheduled, ranked, reserved, repeated.

use driftq_core::{
    Answer, Envelope, Identity, Input, Jitter, KeyHash, Message, NewMessage, Reject, RequestHash,
    RetryPolicy, Start, Stored, Time, partition_of_key,
};

use crate::asked::Asked;
use crate::clients::{Request, TOPICS};
use crate::oracle::{CheckResult, Sent};
use crate::server::payload;
use crate::world::World;

/// One message in a request, and whether its identity was kept for another one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) id: u64,
    blocked: bool,
    /// It may have been.
    kept: bool,
}

const fn policy(max_attempts: u32, backoff_ms: u64, jitter: Jitter) -> Option<RetryPolicy> {
    Some(RetryPolicy { max_attempts, backoff_ms, max_backoff_ms: 400, jitter })
}

const POLICIES: [Option<RetryPolicy>; 6] = [
    None,
    None,
    policy(2, 50, Jitter::Half),
    policy(3, 0, Jitter::Half),
    policy(0, 400, Jitter::None),
    policy(4, 100, Jitter::Full),
];

impl World {
    /// A message that does not exist yet, for one of the topics that do.
    pub(crate) fn compose(&mut self) -> Option<u64> {
        let (name, _) = *self.rng.pick(&TOPICS);
        let topic = self.topics.get(name)?.clone();
        let start = match self.rng.below(8) {
            0 => Start::At(self.now.after_ms(self.rng.below(3000))),
            1 => Start::After(self.rng.below(3000)),
            _ => Start::Now,
        };
        let key = self.rng.chance(1, 3).then(|| self.rng.below(40));
        let request =
            if self.rng.chance(1, 2) { RequestHash(1 + self.rng.below(2)) } else { RequestHash::NONE };
        let order_key = self.rng.chance(1, 2).then(|| self.rng.below(4));
        let priority = if self.rng.chance(1, 3) { self.rng.below(10) } else { 0 };
        let policy = *self.rng.pick(&POLICIES);
        self.messages += 1;
        let id = self.messages;
        let text = key_text(id, order_key);
        let sent = Sent {
            topic: topic.id,
            partition: partition_of_key(text.as_bytes(), topic.partitions),
            key,
            request,
            order_key,
            priority: u8::try_from(priority).expect("a digit"),
            start,
            policy,
            retry_until: self.now.after_ms(self.settings.idempotency_ttl_ms / 2),
            ..Sent::default()
        };
        self.oracle.sent.insert(id, sent);
        Some(id)
    }

    /// A producer sends something new; sometimes several at once, sometimes after having its identity reserved.
    pub(crate) fn produce(&mut self) {
        let count = if self.rng.chance(1, 8) { 2 + self.rng.below(3) } else { 1 };
        let ids: Vec<u64> = (0..count).filter_map(|_| self.compose()).collect();
        match ids[..] {
            [] => {}
            [id] if self.oracle.sent[&id].key.is_some() && self.rng.chance(1, 4) => {
                self.network.push(Request::Reserve { id });
            }
            _ => self.network.push(Request::Produce { ids, reserved: false }),
        }
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
            self.network.push(Request::Produce { ids: vec![id], reserved: false });
        }
    }

    /// Whether it is safe to hand all of them over once more.
    pub(crate) fn may_repeat(&self, ids: &[u64]) -> bool {
        ids.iter().all(|id| self.oracle.sent.get(id).is_some_and(|sent| sent.key.is_some()))
    }

    pub(crate) fn identity(&self, sent: &Sent) -> Option<Identity> {
        let topic = self.oracle.topics.get(&sent.topic)?;
        // As the edge makes it: the catalogue says whether the topic's number is part of it.
        let known = self.topics.get(&topic.name).filter(|info| info.id == sent.topic);
        let incarnation = known.map_or(Some(sent.topic), driftq_core::TopicInfo::incarnation);
        sent.key.map(|key| Identity::in_topic("", &topic.name, incarnation, &key.to_string()))
    }

    /// The message as the edge hands it to the shard.
    pub(crate) fn new_message(&self, id: u64, reserved: bool) -> NewMessage {
        let sent = &self.oracle.sent[&id];
        let idempotency_key = sent.key.map(|key| key.to_string()).unwrap_or_default();
        let message = Message {
            key: key_text(id, sent.order_key).into_bytes().into(),
            value: format!("message {id}").into_bytes().into(),
            envelope: Some(Box::new(Envelope {
                idempotency_key: idempotency_key.into(),
                retry_policy: sent.policy,
                ..Envelope::default()
            })),
            routing: None,
            origin: None,
        };
        NewMessage {
            topic: sent.topic,
            partition: sent.partition,
            retry: sent.policy,
            identity: self.identity(sent),
            reserved,
            request: sent.request,
            key: sent.order_key.map_or(KeyHash::NONE, |key| KeyHash::of(key_text(id, Some(key)).as_bytes())),
            priority: sent.priority,
            start: sent.start,
            payload: payload(&message),
            ..NewMessage::default()
        }
    }

    /// Messages arrive at the server.
    pub(crate) fn hand_produce(&mut self, ids: &[u64], reserved: bool) -> CheckResult {
        // A producer whose time is up does not try again: the gate may have forgotten it.
        let fresh = |id: &u64| {
            self.oracle.sent.get(id).is_some_and(|sent| sent.key.is_none() || sent.retry_until > self.now)
        };
        let ids: Vec<u64> = ids.iter().copied().filter(fresh).collect();
        if ids.is_empty() || self.server.is_none() {
            return Ok(());
        }
        let mut messages: Vec<NewMessage> = ids.iter().map(|id| self.new_message(*id, reserved)).collect();
        let now = self.now;
        let mut offer = |id: &u64| {
            let (blocked, kept) = self.oracle.offering(*id, reserved, now);
            Offer { id: *id, blocked, kept }
        };
        let offers: Vec<Offer> = ids.iter().map(&mut offer).collect();
        let ticket = self.ticket(Asked::Produce { offers, decided: now });
        let single = messages.len() == 1;
        match messages.pop().filter(|_| single) {
            Some(message) => self.hand(Input::Produce { ticket, message })?,
            None => {
                let messages = ids.iter().map(|id| self.new_message(*id, reserved)).collect();
                self.hand(Input::ProduceMany { ticket, messages })?;
            }
        }
        // Some forget to give the identity back: then it becomes free by itself.
        if reserved && self.rng.chance(7, 8) {
            self.hand_unreserve(ids[0])?;
        }
        Ok(())
    }

    /// A producer wants an identity kept while its message is being routed.
    pub(crate) fn hand_reserve(&mut self, id: u64) -> CheckResult {
        let Some(sent) = self.oracle.sent.get_mut(&id).filter(|sent| sent.retry_until > self.now) else {
            return Ok(());
        };
        // It may be told that it is stored already.
        sent.repeated |= sent.handed;
        let sent = &self.oracle.sent[&id];
        let (Some(identity), request) = (self.identity(sent), sent.request) else { return Ok(()) };
        let ticket = self.ticket(Asked::Reserve { id, decided: self.now });
        self.hand(Input::Reserve { ticket, identity, request })
    }

    fn hand_unreserve(&mut self, id: u64) -> CheckResult {
        let Some(identity) = self.identity(&self.oracle.sent[&id]) else { return Ok(()) };
        self.oracle.unreserved(id);
        self.hand(Input::Unreserve { identity })
    }

    /// The answer to a reservation.
    pub(crate) fn reserve_answered(&mut self, id: u64, decided: Time, answer: &Answer) -> CheckResult {
        match answer {
            Answer::Reserved => {
                self.network.push(Request::Produce { ids: vec![id], reserved: true });
                self.oracle.reserved(id, decided)
            }
            Answer::Produced(stored) => {
                self.stored(Offer { id, blocked: false, kept: false }, *stored, decided)
            }
            Answer::Rejected(reject) => self.oracle.refused(id, *reject, false),
            other => Err(format!("answers: a reservation was answered with {other:?}")),
        }
    }

    /// The answer to a produce.
    pub(crate) fn produce_answered(
        &mut self,
        offers: &[Offer],
        decided: Time,
        answer: &Answer,
    ) -> CheckResult {
        match (answer, offers) {
            (Answer::Produced(stored), [offer]) => self.stored(*offer, *stored, decided),
            (Answer::Rejected(reject), [offer]) => self.refused(*offer, *reject),
            (Answer::ProducedMany(results), _) if results.len() == offers.len() => {
                for (result, offer) in results.iter().zip(offers) {
                    match result {
                        Ok(stored) => self.stored(*offer, *stored, decided)?,
                        Err(reject) => self.refused(*offer, *reject)?,
                    }
                }
                Ok(())
            }
            (other, _) => Err(format!("answers: {offers:?} was answered with {other:?}")),
        }
    }

    fn stored(&mut self, offer: Offer, stored: Stored, decided: Time) -> CheckResult {
        self.counts.produced += u64::from(!stored.duplicate);
        self.oracle.produced(offer.id, stored.offset, stored.duplicate, decided, offer.blocked)
    }

    fn refused(&mut self, Offer { id, kept, .. }: Offer, reject: Reject) -> CheckResult {
        self.oracle.refused(id, reject, kept)?;
        // Refused and without a key: it was never stored and never will be.
        if self.oracle.sent[&id].key.is_none() {
            self.oracle.sent.remove(&id);
        }
        Ok(())
    }
}

fn key_text(id: u64, order_key: Option<u64>) -> String {
    order_key.map_or_else(|| id.to_string(), |key| format!("k{key}"))
}
