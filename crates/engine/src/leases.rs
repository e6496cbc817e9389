//! Leases with tokens: messages are lent, given back and settled.

use std::collections::VecDeque;
use std::sync::Arc;

use driftq_core::{Answer, Delivery, Identity, Input, LeaseRequest, Outcome, Receipt, Settlement, Ticket};
use tokio::sync::oneshot;

use crate::broker::{Broker, STOPPING, heard, unexpected};
use crate::failure::Failure;
use crate::inbox::{Reply, Request};
use crate::payload_store::{Extent, Lost};
use crate::request::LeaseCall;
use crate::shared::Shared;
use crate::stream::Delivered;

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

    /// Takes back deliveries that were lent by an answer that no asker got; no attempt is used.
    pub fn give_back(&self, receipts: Vec<Receipt>) {
        let shared = self.shared();
        shared.meters.released.add(receipts.len() as u64);
        shared.inbox.input(Input::Release { receipts });
    }

    /// The token of a delivery: opaque to its holder, and made by the broker alone.
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
        match heard(self.shared, answer)? {
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
