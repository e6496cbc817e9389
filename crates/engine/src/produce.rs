//! From what a producer sends to what the shard stores: validated, routed and encoded, all outside the shard.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use driftq_core::{
    Answer, Catalog, Envelope, Identity, Input, KeyHash, Message, NewLineage, NewMessage, Origin, Payload,
    Reject, RequestHash, ShardId, Start, Stored, TopicInfo, named_topic, route, tenant_of, validate,
};

use crate::broker::{Broker, unexpected};
use crate::failure::Failure;
use crate::locks::read;
use crate::payload_store::check_of;
use crate::request::{Draft, Produced};
use crate::routing::{Reservation, Reserved, Turn};

/// Messages of one call go to the shard in parts of about this size, so that others get their turn in between and
/// a batch of the log stays small.
const PART_BYTES: usize = 1 << 20;
/// Messages for which a part has room from the beginning.
const PART_MESSAGES: usize = 1_000;

impl Broker {
    /// Stores a message that may have a priority and a time; answers when it is durable.
    pub async fn produce_draft(&self, topic: &str, mut draft: Draft<'_>) -> Result<Produced, Failure> {
        let (mut kept, mut reserved) = (None, Reserved::new());
        if let Some(router) = self.router_for(topic) {
            // Boxed: most topics have no router, and every request would be as large as if they had.
            let drafts = std::slice::from_mut(&mut draft);
            let turns = Box::pin(self.route_all(router, topic, drafts, &mut reserved)).await;
            for turn in turns {
                match turn {
                    Turn::Store(reservation) => kept = reservation,
                    Turn::Answered(answer) => return answer,
                }
            }
        }
        let (name, mut message) = self.prepare(&read(&self.house().catalog), topic, &draft)?;
        take_reserved(&mut message, kept.as_deref());
        let bytes = message.payload.bytes.len();
        let shard = self.at(message.topic);
        match shard.ask(bytes, true, |ticket| Input::Produce { ticket, message }).await? {
            Answer::Produced(stored) => Ok(self.count(name, stored)),
            other => Err(unexpected(&other)),
        }
    }

    /// Stores many messages in order; answers, one by one, when all of them are durable.
    pub async fn produce_many(
        &self,
        topic: &str,
        mut drafts: Vec<Draft<'_>>,
    ) -> Vec<Result<Produced, Failure>> {
        let mut reserved = Reserved::new();
        let turns = match self.router_for(topic) {
            None => Vec::new(),
            Some(router) => Box::pin(self.route_all(router, topic, &mut drafts, &mut reserved)).await,
        };
        let mut kept = Vec::new();
        let mut results: Results = Vec::with_capacity(drafts.len());
        let mut parts = Vec::new();
        {
            let catalog = read(&self.house().catalog);
            let mut turns = turns.into_iter();
            for (index, draft) in drafts.iter().enumerate() {
                let mut reservation = None;
                match turns.next() {
                    Some(Turn::Answered(answer)) => {
                        results.push(Some(answer));
                        continue;
                    }
                    Some(Turn::Store(reserved)) => reservation = reserved,
                    None => {}
                }
                match self.prepare(&catalog, topic, draft) {
                    Err(failure) => results.push(Some(Err(failure))),
                    Ok((name, mut message)) => {
                        results.push(None);
                        take_reserved(&mut message, reservation.as_deref());
                        kept.extend(reservation);
                        add(&mut parts, (index, drafts.len()), name, message);
                    }
                }
            }
        }
        // One after the other: their order is the order of the messages.
        for part in parts {
            self.store(part, &mut results).await;
        }
        let unanswered = || Err(Failure::Unavailable("internal fault: a message without an answer".into()));
        results.into_iter().map(|result| result.unwrap_or_else(unanswered)).collect()
    }

    async fn store(&self, Part { shard, places, messages, bytes }: Part, results: &mut Results) {
        let shard = self.shard(shard);
        match shard.ask(bytes, true, |ticket| Input::ProduceMany { ticket, messages }).await {
            Ok(Answer::ProducedMany(stored)) => {
                for ((place, name), result) in places.into_iter().zip(stored) {
                    let result = result.map(|stored| self.count(name, stored)).map_err(Failure::Reject);
                    results[place] = Some(result);
                }
            }
            Ok(other) => fill(results, &places, &unexpected(&other)),
            Err(failure) => fill(results, &places, &failure),
        }
    }

    pub(crate) fn count(&self, mut topic: Arc<str>, stored: Stored) -> Produced {
        let Stored { partition, offset, duplicate, .. } = stored;
        if duplicate && let Some(first) = stored.topic {
            // The first one may have been routed elsewhere.
            let name = read(&self.house().catalog).name(first).cloned();
            topic = name.unwrap_or(topic);
        }
        let meters = &self.home().meters;
        if duplicate {
            meters.produced_duplicates.one();
        } else {
            meters.produced.one();
        }
        Produced { topic, partition, offset, duplicate }
    }

    /// The final topic, and what the shard is to store in it.
    pub(crate) fn prepare(
        &self,
        catalog: &Catalog,
        requested: &str,
        draft: &Draft<'_>,
    ) -> Result<(Arc<str>, NewMessage), Failure> {
        let message = &draft.message;
        validate(message).map_err(Failure::Reject)?;
        let turn = self.house().turns.fetch_add(1, Relaxed);
        let placed = route(catalog, requested, message, (draft.keyless, turn));
        let (info, partition) = placed.map_err(Failure::Reject)?;
        let envelope = message.envelope.as_deref();
        let message = NewMessage {
            deadline: envelope.and_then(|envelope| envelope.deadline).map(|deadline| deadline.time()),
            native: draft.native,
            identity: identity(catalog, requested, envelope),
            request: draft.request,
            priority: draft.priority,
            start: draft.start,
            ..self.new_message(info, partition, message)?
        };
        Ok((Arc::clone(&info.name), message))
    }

    /// What the shard stores of a message, wherever it comes from: all that the message itself says. Every field is
    /// named, so that no builder of messages forgets one.
    pub(crate) fn new_message(
        &self,
        topic: &TopicInfo,
        partition: u32,
        message: &Message<'_>,
    ) -> Result<NewMessage, Failure> {
        let mut adopted;
        let message = match &topic.tenant {
            None => message,
            Some(_) => {
                adopted = message.clone();
                topic.adopt(&mut adopted).map_err(Failure::Reject)?;
                &adopted
            }
        };
        let envelope = message.envelope.as_deref();
        Ok(NewMessage {
            topic: topic.id,
            partition,
            deadline: None,
            retry: envelope.and_then(|envelope| envelope.retry_policy),
            native: false,
            identity: None,
            reserved: false,
            request: RequestHash::NONE,
            key: KeyHash::of(&message.key),
            priority: 0,
            start: Start::Now,
            lineage: envelope.and_then(lineage),
            origin: message.origin.as_ref().map(Origin::place),
            payload: self.payload(message)?,
        })
    }

    fn payload(&self, message: &Message<'_>) -> Result<Payload, Failure> {
        let bytes = message.encode();
        if bytes.len() > self.house().config.message_bytes_max {
            return Err(Failure::Reject(Reject::Invalid("the message is larger than the broker accepts")));
        }
        let size = u32::try_from(message.size()).unwrap_or(u32::MAX);
        Ok(Payload { check: check_of(&bytes), size, bytes })
    }
}

/// Messages that go to the shard together, and their places in the call.
struct Part {
    shard: ShardId,
    places: Vec<(usize, Arc<str>)>,
    messages: Vec<NewMessage>,
    bytes: usize,
}

/// One answer per message, once it is known.
type Results = Vec<Option<Result<Produced, Failure>>>;

/// Adds the message at a place of so many to the last part for its shard, or to a new one if that is large enough.
fn add(parts: &mut Vec<Part>, (index, count): (usize, usize), name: Arc<str>, message: NewMessage) {
    let shard = message.topic.shard();
    let last = parts.iter().rposition(|part| part.shard == shard);
    let open = last.filter(|last| parts[*last].bytes < PART_BYTES);
    let at = open.unwrap_or_else(|| {
        // Most calls are one part.
        let left = (count - index).min(PART_MESSAGES);
        let (places, messages) = (Vec::with_capacity(left), Vec::with_capacity(left));
        parts.push(Part { shard, places, messages, bytes: 0 });
        parts.len() - 1
    });
    let part = &mut parts[at];
    part.bytes += message.payload.bytes.len();
    part.places.push((index, name));
    part.messages.push(message);
}

/// The identity that was kept for a message is its identity, wherever the router sent it.
pub(crate) fn take_reserved(message: &mut NewMessage, reservation: Option<&Reservation>) {
    if let Some(reservation) = reservation {
        message.identity = Some(reservation.identity);
        message.reserved = true;
    }
}

fn fill(results: &mut [Option<Result<Produced, Failure>>], places: &[(usize, Arc<str>)], failure: &Failure) {
    for (place, _) in places {
        results[*place] = Some(Err(failure.clone()));
    }
}

/// The run that a message belongs to.
fn lineage(envelope: &Envelope<'_>) -> Option<Box<NewLineage>> {
    let Envelope { run_id, step_id, parent_step_id, .. } = envelope;
    (!run_id.is_empty()).then(|| {
        Box::new(NewLineage {
            tenant: envelope.tenant_id.to_string(),
            run: run_id.to_string(),
            step: step_id.to_string(),
            parent: parent_step_id.to_string(),
        })
    })
}

/// The identity of a message. Its scope is the topic that the producer named: what a router makes of it does not change
/// its identity, or a second try that is routed elsewhere would be another message.
pub(crate) fn identity(
    catalog: &Catalog,
    requested: &str,
    envelope: Option<&Envelope<'_>>,
) -> Option<Identity> {
    let envelope = envelope.filter(|envelope| !envelope.idempotency_key.is_empty())?;
    let scope = named_topic(requested, Some(envelope));
    let incarnation = catalog.find(scope).and_then(TopicInfo::incarnation);
    let tenant = tenant_of(catalog, scope, Some(envelope));
    Some(Identity::in_topic(tenant, scope, incarnation, &envelope.idempotency_key))
}
