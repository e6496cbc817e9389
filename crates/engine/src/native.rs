//! What `/v2` asks of a broker: topics with settings, leases with tokens, and orders about single messages.

use std::collections::VecDeque;
use std::sync::Arc;

use driftq_core::{
    Answer, Browse, Delivery, Description, Found, GroupPartition, Identity, Input, LeaseRequest,
    MessageDescription, Outcome, Query, Receipt, Reject, SeekTo, Settings, Settlement, Spotted, Stretch,
    Ticket, Time, TopicId, TopicPatch, TopicSettings,
};
use tokio::sync::oneshot;

use crate::broker::{Broker, INTERRUPTED, STOPPING, unexpected};
use crate::depot::{Lost, Place};
use crate::failure::Failure;
use crate::guard::read;
use crate::inbox::{Reply, Request};
use crate::request::{Glance, LeaseCall, Seen, Sight, TopicReady};
use crate::shared::Shared;
use crate::stream::Delivered;

impl Broker {
    /// Creates a topic, or confirms that it exists; with `exact`, only if it is as asked for.
    pub async fn put_topic(
        &self,
        name: &str,
        partitions: u32,
        settings: TopicSettings,
        exact: bool,
    ) -> Result<TopicReady, Failure> {
        let name = name.to_owned();
        let input = |ticket| Input::CreateTopic { ticket, name, partitions, settings, exact };
        match self.ask(0, true, input).await? {
            Answer::TopicReady { partitions, created } => Ok(TopicReady { partitions, created }),
            other => Err(unexpected(&other)),
        }
    }

    /// Changes settings of a topic; gives those before and after.
    pub async fn configure_topic(
        &self,
        topic: &str,
        patch: TopicPatch,
    ) -> Result<(TopicSettings, TopicSettings), Failure> {
        let topic = self.topic(topic)?;
        match self.ask(0, true, |ticket| Input::ConfigureTopic { ticket, topic, patch }).await? {
            Answer::Configured { before, after } => Ok((before, after)),
            other => Err(unexpected(&other)),
        }
    }

    /// Deletes a topic with everything in it.
    pub async fn delete_topic(&self, topic: &str) -> Result<(), Failure> {
        let topic = self.topic(topic)?;
        self.deleted(|ticket| Input::DeleteTopic { ticket, topic }).await
    }

    /// Forgets a group.
    pub async fn delete_group(&self, topic: &str, group: &str) -> Result<(), Failure> {
        let (topic, group) = (self.topic(topic)?, group.to_owned());
        self.deleted(|ticket| Input::DeleteGroup { ticket, topic, group }).await
    }

    async fn deleted(&self, input: impl FnOnce(Ticket) -> Input) -> Result<(), Failure> {
        match self.ask(0, true, input).await? {
            Answer::Deleted => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Stops or starts deliveries of a topic, or of one group of it; says since when they are stopped.
    pub async fn pause(
        &self,
        topic: &str,
        group: Option<&str>,
        paused: bool,
    ) -> Result<Option<Time>, Failure> {
        let (topic, group) = (self.topic(topic)?, group.map(str::to_owned));
        match self.ask(0, true, |ticket| Input::Pause { ticket, topic, group, paused }).await? {
            Answer::Paused(since) => Ok(since),
            other => Err(unexpected(&other)),
        }
    }

    /// Moves a group, in one partition or in all; says how it stands then.
    pub async fn seek(
        &self,
        topic: &str,
        group: &str,
        partition: Option<u32>,
        to: SeekTo,
    ) -> Result<Vec<GroupPartition>, Failure> {
        let (topic, group) = (self.topic(topic)?, group.to_owned());
        match self.ask(0, true, |ticket| Input::Seek { ticket, topic, group, partition, to }).await? {
            Answer::Sought(partitions) => Ok(partitions),
            other => Err(unexpected(&other)),
        }
    }

    /// Lends messages, once, with their payloads. Waits for the first one as long as the call says; dropping the future
    /// gives back what was lent and not read yet.
    pub async fn lease(&self, call: LeaseCall) -> Result<Vec<Delivered>, Failure> {
        let mut lent = self.lend(call).await?;
        let mut delivered = Vec::with_capacity(lent.len());
        while let Some(delivery) = lent.next().await {
            delivered.push(delivery);
        }
        Ok(delivered)
    }

    /// Lends messages, once, whose payloads stay in the log until they are asked for. Waits for the first one as long as
    /// the call says; dropping the future gives back what was lent.
    pub async fn lend(&self, call: LeaseCall) -> Result<Lent, Failure> {
        let shared = self.shared();
        let mut stopping = shared.stopping.subscribe();
        let topic = self.topic(&call.topic)?;
        let request = LeaseRequest {
            topic,
            group: call.group,
            owner: call.owner,
            max: call.max,
            lease_ms: call.lease_ms,
            wait_ms: call.wait_ms,
            request: call.request_id.map(|id| Identity::of_parts(&[id.as_bytes()])),
        };
        let ticket = shared.ticket();
        let (reply, answer) = oneshot::channel();
        let input = Input::Lease { ticket, request };
        shared.inbox.ask(Request { ticket, input, reply, bytes: 0, writes: false, stream: None })?;
        shared.meters.requests.one();
        let mut asked = Asked { shared, ticket, answer: Some(answer) };
        let lent = tokio::select! {
            biased;
            lent = asked.lent() => lent?,
            _ = stopping.wait_for(|stopping| *stopping) => return Err(Failure::Unavailable(STOPPING.into())),
        };
        Ok(Lent { shared: Arc::clone(shared), left: lent.into() })
    }

    /// Takes deliveries back that were lent by an answer that nobody got; no attempt is used.
    pub fn give_back(&self, receipts: Vec<Receipt>) {
        let shared = self.shared();
        shared.meters.released.add(receipts.len() as u64);
        shared.inbox.input(Input::Release { receipts });
    }

    /// The limits and times of the shard.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.shared().config.settings
    }

    /// The token of a delivery: opaque to whoever holds it, and made by nobody else.
    #[must_use]
    pub fn token(&self, receipt: &Receipt) -> String {
        self.shared().seal.seal(receipt)
    }

    /// The delivery that a token names; `None` if the broker never wrote it.
    #[must_use]
    pub fn receipt(&self, token: &str) -> Option<Receipt> {
        self.shared().seal.open(token)
    }

    /// What holders of tokens say, one answer each, in order.
    pub async fn settle(&self, items: Vec<Settlement>) -> Result<Vec<Outcome>, Failure> {
        let bytes = items.len() * size_of::<Settlement>();
        let verdicts: Vec<_> = items.iter().map(|item| counted(&item.verdict)).collect();
        match self.ask(bytes, true, |ticket| Input::Settle { ticket, items }).await? {
            Answer::Settlements(outcomes) => {
                let meters = &self.shared().meters;
                for (verdict, outcome) in verdicts.into_iter().zip(&outcomes) {
                    match (verdict, outcome) {
                        (_, Outcome::Stale { .. } | Outcome::Unknown) => meters.stale.one(),
                        (Counted::Ack, _) => meters.acked.one(),
                        (Counted::Nack, _) => meters.nacked.one(),
                        (Counted::Other, _) => {}
                    }
                }
                Ok(outcomes)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// No further attempt of a message; names the groups that work on it right now.
    pub async fn cancel(&self, topic: &str, partition: u32, offset: u64) -> Result<Vec<String>, Failure> {
        let message = Spotted { topic: self.topic(topic)?, partition, offset };
        match self.ask(0, true, |ticket| Input::Cancel { ticket, message }).await? {
            Answer::Cancelled { running } => Ok(running.iter().map(ToString::to_string).collect()),
            other => Err(unexpected(&other)),
        }
    }

    /// One message with its payload, and how every group stands to it.
    pub async fn look_at(
        &self,
        topic: &str,
        partition: u32,
        offset: u64,
    ) -> Result<(Seen, MessageDescription), Failure> {
        let message = Spotted { topic: self.topic(topic)?, partition, offset };
        match self.describe(Query::Message(message)).await? {
            Description::Message(Some(described)) => {
                let seen = self.see(message.topic, described.found).await;
                Ok((seen, described))
            }
            Description::Message(None) => Err(Failure::Reject(Reject::MessageUnknown)),
            other => Err(unexpected(&other)),
        }
    }

    /// A stretch of messages with their payloads. `browse` need not know the topic's number.
    pub async fn browse(&self, topic: &str, browse: Browse) -> Result<Sight, Failure> {
        let glance = self.glance(topic, browse).await?;
        let mut seen = Vec::with_capacity(glance.found.len());
        for found in glance.found {
            seen.push(self.see(glance.topic, found).await);
        }
        Ok(Sight { seen, scanned: glance.scanned, next: glance.next })
    }

    /// A stretch of messages whose payloads stay in the log; [`Broker::see`] reads them. `browse` need not know the
    /// topic's number.
    pub async fn glance(&self, topic: &str, browse: Browse) -> Result<Glance, Failure> {
        let topic = self.topic(topic)?;
        match self.describe(Query::Browse(Browse { topic, ..browse })).await? {
            Description::Browse(Stretch { found, scanned, next }) => {
                Ok(Glance { topic, found, scanned, next })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Where the message under an idempotency key was stored, as long as that is remembered.
    pub async fn whereabouts(
        &self,
        topic: &str,
        tenant: &str,
        key: &str,
    ) -> Result<Option<(String, u32, u64)>, Failure> {
        let identity = {
            let catalog = read(&self.shared().catalog);
            let info = catalog.find(topic).ok_or(Failure::Reject(Reject::TopicUnknown))?;
            Identity::in_topic(tenant, topic, info.incarnation(), key)
        };
        match self.describe(Query::Whereabouts(self.topic(topic)?, identity)).await? {
            Description::Whereabouts(place) => Ok(place.and_then(|place| {
                let name = read(&self.shared().catalog).name(place.topic).map(ToString::to_string);
                Some((name?, place.partition, place.offset))
            })),
            other => Err(unexpected(&other)),
        }
    }

    /// A message of a topic with its payload.
    pub async fn see(&self, topic: TopicId, found: Found) -> Seen {
        let place = Place { position: found.position, length: found.length, check: found.check };
        Seen { topic, payload: self.shared().depot.fetch(place).await.ok(), found }
    }
}

/// Under which name a settlement is counted.
enum Counted {
    Ack,
    Nack,
    Other,
}

const fn counted(verdict: &driftq_core::Verdict) -> Counted {
    match verdict {
        driftq_core::Verdict::Ack => Counted::Ack,
        driftq_core::Verdict::Nack { .. } => Counted::Nack,
        driftq_core::Verdict::Extend { .. }
        | driftq_core::Verdict::Release { .. }
        | driftq_core::Verdict::Await { .. } => Counted::Other,
    }
}

/// Messages that were lent to somebody who has not got them yet. What is still in here when it is dropped goes back, and
/// no attempt is used.
pub struct Lent {
    shared: Arc<Shared>,
    left: VecDeque<Delivery>,
}

impl Lent {
    /// How many are left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.left.len()
    }

    /// Whether none is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Bytes of the payloads that are left.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.left.iter().map(|delivery| delivery.length as usize).sum()
    }

    /// The next one, with its payload. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Delivered> {
        loop {
            let fetched = self.shared.depot.fetch(Place::from(self.left.front()?)).await;
            let delivery = self.left.pop_front()?;
            match fetched {
                Ok(payload) => {
                    let meters = &self.shared.meters;
                    meters.delivered.one();
                    if delivery.attempt > 1 {
                        meters.redelivered.one();
                    }
                    return Some(Delivered::new(delivery, payload));
                }
                // Left to its lease, or back at once if it only moved.
                Err(Lost::Gone) => {
                    self.shared.inbox.input(Input::Release { receipts: vec![delivery.receipt] });
                }
                Err(Lost::Damaged) => self.shared.give_up_damaged(&delivery),
                Err(lost) => {
                    tracing::warn!(offset = delivery.receipt.offset, %lost, "a delivery was skipped");
                }
            }
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if !self.left.is_empty() {
            let receipts: Vec<_> = self.left.iter().map(|delivery| delivery.receipt).collect();
            self.shared.meters.released.add(receipts.len() as u64);
            self.shared.inbox.input(Input::Release { receipts });
        }
    }
}

/// A question for messages under way. Dropped early, it gives back whatever was or will be lent.
struct Asked<'a> {
    shared: &'a Shared,
    ticket: Ticket,
    answer: Option<oneshot::Receiver<Reply>>,
}

impl Asked<'_> {
    async fn lent(&mut self) -> Result<Vec<Delivery>, Failure> {
        let Some(answer) = &mut self.answer else { return Ok(Vec::new()) };
        let answer = answer.await;
        self.answer = None;
        match answer {
            Ok(Ok(Answer::Leased(deliveries))) => Ok(deliveries),
            Ok(Ok(Answer::Rejected(reject))) => {
                self.shared.meters.rejected.one();
                Err(Failure::Reject(reject))
            }
            Ok(Ok(other)) => Err(unexpected(&other)),
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(Failure::Unavailable(INTERRUPTED.into())),
        }
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let Some(mut answer) = self.answer.take() else { return };
        // Closed first: an answer that comes from now on goes back to the decide thread.
        answer.close();
        match answer.try_recv() {
            Ok(Ok(Answer::Leased(deliveries))) => {
                let receipts: Vec<_> = deliveries.iter().map(|delivery| delivery.receipt).collect();
                self.shared.meters.released.add(receipts.len() as u64);
                self.shared.inbox.input(Input::Release { receipts });
            }
            _ => self.shared.inbox.input(Input::Forsake { ticket: self.ticket }),
        }
    }
}
