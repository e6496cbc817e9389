//! Leases with tokens: messages are lent, given back and settled.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use driftq_core::{
    Answer, Delivery, Identity, Input, LeaseRequest, Outcome, Receipt, Settlement, ShardId, Ticket, Verdict,
};
use tokio::sync::oneshot;

use crate::broker::{Broker, STOPPING, unexpected};
use crate::failure::Failure;
use crate::inbox::{Reply, Request};
use crate::payload_store::{Extent, Lost};
use crate::request::LeaseCall;
use crate::shared::Shared;
use crate::stream::Delivered;

/// How often a worker looks at an effect that its message waits for and that lives in another shard.
const AWAIT_LOOK_MS: u64 = 1_000;

impl Broker {
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
        let topic = self.topic(&call.topic)?;
        let shared = self.at(topic);
        let mut stopping = shared.house.stopping.subscribe();
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

    /// Takes back deliveries that were lent by an answer that no asker got; no attempt is used.
    pub fn give_back(&self, receipts: Vec<Receipt>) {
        let mut of_shards: BTreeMap<ShardId, Vec<Receipt>> = BTreeMap::new();
        for receipt in receipts {
            of_shards.entry(receipt.topic.shard()).or_default().push(receipt);
        }
        for (shard, receipts) in of_shards {
            let shard = self.shard(shard);
            shard.meters.released.add(receipts.len() as u64);
            shard.inbox.input(Input::Release { receipts });
        }
    }

    /// The token of a delivery: opaque to its holder, and made by the broker alone.
    #[must_use]
    pub fn token(&self, receipt: &Receipt) -> String {
        self.house().seal.seal(receipt)
    }

    /// The delivery that a token names; `None` if the broker never wrote it.
    #[must_use]
    pub fn receipt(&self, token: &str) -> Option<Receipt> {
        self.house().seal.open(token)
    }

    /// What the holder of a delivery says whose work waits for an effect.
    #[must_use]
    pub fn awaiting(
        &self,
        delivery: Option<&Receipt>,
        (tenant, scope, key): (&str, &str, &str),
        delay_ms: Option<u64>,
    ) -> Verdict {
        let place = self.house().find_effect(tenant, scope, delivery);
        if delivery.is_none_or(|receipt| receipt.topic.shard() == place) {
            return Verdict::Await { effect: Identity::of(tenant, scope, key), delay_ms };
        }
        // The message's shard does not hear of what ends in another: its worker looks again every so often.
        Verdict::Release { delay_ms: delay_ms.map_or(AWAIT_LOOK_MS, |delay_ms| delay_ms.min(AWAIT_LOOK_MS)) }
    }

    /// What holders of tokens say, one answer each, in order.
    pub async fn settle(&self, items: Vec<Settlement>) -> Result<Vec<Outcome>, Failure> {
        let shard = |item: &Settlement| item.receipt.topic.shard();
        if let Some(first) = items.first().map(shard)
            && items.iter().all(|item| shard(item) == first)
        {
            return settle_in(self.shard(first), items).await;
        }
        let mut of_shards: BTreeMap<ShardId, (Vec<usize>, Vec<Settlement>)> = BTreeMap::new();
        let count = items.len();
        for (place, item) in items.into_iter().enumerate() {
            let (places, items) = of_shards.entry(shard(&item)).or_default();
            places.push(place);
            items.push(item);
        }
        let mut outcomes = vec![Outcome::Unknown; count];
        for (shard, (places, items)) in of_shards {
            // Settling again is harmless: a caller that hears of a failure here repeats all of it.
            for (place, outcome) in places.into_iter().zip(settle_in(self.shard(shard), items).await?) {
                outcomes[place] = outcome;
            }
        }
        Ok(outcomes)
    }
}

async fn settle_in(shard: &Shared, items: Vec<Settlement>) -> Result<Vec<Outcome>, Failure> {
    let bytes = items.len() * size_of::<Settlement>();
    let verdicts: Vec<_> = items.iter().map(|item| counted(&item.verdict)).collect();
    match shard.ask(bytes, true, |ticket| Input::Settle { ticket, items }).await? {
        Answer::Settlements(outcomes) => {
            let meters = &shard.meters;
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

/// Under which name a settlement is counted.
enum Counted {
    Ack,
    Nack,
    Other,
}

const fn counted(verdict: &Verdict) -> Counted {
    match verdict {
        Verdict::Ack => Counted::Ack,
        Verdict::Nack { .. } => Counted::Nack,
        Verdict::Extend { .. } | Verdict::Release { .. } | Verdict::Await { .. } => Counted::Other,
    }
}

/// Messages that were lent to an asker that has not got them yet. What is still in here when it is dropped goes back,
/// and no attempt is used.
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
            let fetched = self.shared.payload_store.fetch(Extent::from(self.left.front()?)).await;
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
        match self.shared.heard(answer)? {
            Answer::Leased(deliveries) => Ok(deliveries),
            other => Err(unexpected(&other)),
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
