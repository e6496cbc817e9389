//! What a sink has on loan: borrowed, kept, settled.

use std::collections::{BTreeMap, HashMap};
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use driftq_client::wire::{
    ExtendLease, LeaseRequest, NackLease, ReleaseLease, SETTLEMENTS_MAX, Settled, SettledStatus,
};
use driftq_client::{Client, Error};
use tokio::task::{JoinError, JoinHandle, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval};

use super::message::Message;
use super::rows::{Batch, Shape};

/// How long a call waits for messages while there are none. A sink that is told to stop waits for its end.
const WAIT_MS: u64 = 1_000;
/// Most messages that one call borrows.
const LEASE_MAX: usize = driftq_client::wire::LEASE_MESSAGES_MAX as usize;
/// Most bytes of the reason in a dead letter.
const REASON_BYTES_MAX: usize = 2_000;

/// The loans of one sink.
pub(super) struct Loans {
    client: Client,
    topic: String,
    group: String,
    owner: String,
    lease: Duration,
    /// What is on loan, and whether work on it has begun.
    held: Mutex<HashMap<String, bool>>,
}

/// How large a batch is at the most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) rows: usize,
    pub(super) bytes: usize,
}

impl Loans {
    pub(super) fn new(
        client: Client,
        (topic, group): (String, String),
        owner: String,
        lease: Duration,
    ) -> Self {
        Self { client, topic, group, owner, lease, held: Mutex::new(HashMap::new()) }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<String, bool>> {
        // The map is consistent at every point, so a panic elsewhere does not invalidate it.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Borrows a batch: waits for the first messages, and takes what else is ready. While a call is under way, what the
    /// one before has brought becomes rows on a thread of its own.
    pub(super) async fn borrow(&self, limits: Limits, shape: &Arc<Shape>) -> Result<Batch, Error> {
        let mut shaping = None;
        let (mut count, mut bytes) = (0, 0);
        loop {
            let asked = (limits.rows - count).min(LEASE_MAX);
            let messages = match self.lease(asked, if count == 0 { WAIT_MS } else { 0 }).await {
                Ok(messages) => messages,
                // What is here is written first; the next call tells again.
                Err(_) if count > 0 => return Ok(shaped(shaping).await),
                Err(error) => return Err(error),
            };
            let is_last = messages.len() < asked;
            count += messages.len();
            bytes += messages.iter().map(Message::bytes).sum::<usize>();
            let (mut batch, shape) = (shaped(shaping).await, Arc::clone(shape));
            shaping = Some(spawn_blocking(move || {
                shape.add(&mut batch, messages);
                batch
            }));
            if is_last || count >= limits.rows || bytes >= limits.bytes {
                return Ok(shaped(shaping).await);
            }
        }
    }

    async fn lease(&self, max: usize, wait_ms: u64) -> Result<Vec<Message>, Error> {
        let request = LeaseRequest {
            owner: self.owner.as_str().into(),
            max: u32::try_from(max).unwrap_or(1),
            wait_ms,
            lease_ms: Some(self.lease.as_millis() as u64),
            request_id: None,
        };
        let items = self.client.lease(&self.topic, &self.group, request).await?;
        let messages: Vec<Message> = items.into_iter().map(Message::new).collect();
        self.held().extend(messages.iter().map(|message| (message.token().to_owned(), false)));
        Ok(messages)
    }

    /// Work on a batch begins. What is no longer this sink's is left out of it: another holder has it.
    pub(super) fn begin(&self, batch: &mut Batch) {
        let mut held = self.held();
        for message in &mut batch.messages {
            match held.get_mut(message.token()) {
                Some(is_begun) => *is_begun = true,
                None => message.is_held = false,
            }
        }
    }

    /// Extends everything on loan, for as long as it is polled.
    pub(super) async fn keep(&self) {
        let mut ticks = interval((self.lease / 3).max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let held: Vec<(String, bool)> =
                self.held().iter().map(|(token, is_begun)| (token.clone(), *is_begun)).collect();
            for part in held.chunks(SETTLEMENTS_MAX) {
                let extend = part.iter().map(|(token, is_begun)| ExtendLease {
                    token: token.as_str().into(),
                    lease_ms: None,
                    started: (!is_begun).then_some(false),
                });
                // A server that is away is seen by whoever borrows; a lapsed lease costs no row.
                if let Ok(results) = self.client.extend_all(extend.collect()).await {
                    self.forget_lost(part, &results);
                }
            }
        }
    }

    fn forget_lost(&self, part: &[(String, bool)], results: &[Settled]) {
        let mut held = self.held();
        for ((token, _), settled) in part.iter().zip(results) {
            if settled.cancelled || settled.status != SettledStatus::Ok {
                held.remove(token);
            }
        }
    }

    /// Says what became of a batch whose transaction has ended: dead letters for what is no row, acks for the rest.
    pub(super) async fn settle(&self, batch: &[Message], refused: &BTreeMap<usize, String>) {
        let (mut acks, mut nacks) = (Vec::new(), Vec::new());
        for (index, message) in batch.iter().enumerate().filter(|(_, message)| message.is_held) {
            match refused.get(&index) {
                None => acks.push(message.token()),
                Some(why) => nacks.push(NackLease {
                    token: message.token().into(),
                    delay_ms: None,
                    dead: true,
                    error: cut(why).into(),
                }),
            }
        }
        for part in acks.chunks(SETTLEMENTS_MAX) {
            note(self.client.ack_all(part).await.map(drop), "acked");
        }
        while !nacks.is_empty() {
            let rest = nacks.split_off(nacks.len().min(SETTLEMENTS_MAX));
            note(self.client.nack_all(std::mem::replace(&mut nacks, rest)).await.map(drop), "nacked");
        }
        self.forget(batch);
    }

    /// Gives a batch back: nothing of it was done, and no attempt counts.
    pub(super) async fn release(&self, batch: &[Message]) {
        for part in batch.chunks(SETTLEMENTS_MAX) {
            let leases = part.iter().map(|message| ReleaseLease {
                token: message.token().into(),
                delay_ms: None,
                effect: None,
            });
            note(self.client.release_all(leases.collect()).await.map(drop), "released");
        }
        self.forget(batch);
    }

    fn forget(&self, batch: &[Message]) {
        let mut held = self.held();
        for message in batch {
            held.remove(message.token());
        }
    }
}

/// The batch whose last messages become rows.
async fn shaped(shaping: Option<JoinHandle<Batch>>) -> Batch {
    let Some(shaping) = shaping else { return Batch::default() };
    match shaping.await.map_err(JoinError::try_into_panic) {
        Ok(batch) => batch,
        Err(Ok(panic)) => resume_unwind(panic),
        // The process ends.
        Err(Err(_)) => Batch::default(),
    }
}

/// A server that could not be told lends the messages again when their leases are over. Progress knows which are rows.
fn note(told: Result<(), Error>, what: &str) {
    if let Err(error) = told {
        tracing::warn!(%error, "messages could not be {what}; they come again, and no row is written twice");
    }
}

fn cut(reason: &str) -> &str {
    let end = (0..=REASON_BYTES_MAX.min(reason.len())).rev().find(|end| reason.is_char_boundary(*end));
    &reason[..end.unwrap_or(0)]
}
