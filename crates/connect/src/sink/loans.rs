//! What a sink has on loan: borrowed, kept, settled.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use driftq_client::wire::{
    ExtendLease, LeaseRequest, NackLease, ReleaseLease, SETTLEMENTS_MAX, Settled, SettledStatus,
};
use driftq_client::{Client, Error, Unread};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval};

use super::message::{Lent, LentMessage, Message, lots_of};
use super::rows::{Batch, Shape};

/// How long a call waits for messages while there are none. A sink that is told to stop waits for its end.
const WAIT_MS: u64 = 1_000;
/// Most messages that one call borrows.
const LEASE_MAX: usize = driftq_client::wire::LEASE_MESSAGES_MAX as usize;
/// Calls that are under way at the same time.
const CALLS_AT_ONCE: usize = 3;
/// Most bytes of the reason in a dead letter.
const REASON_BYTES_MAX: usize = 2_000;

/// The loans of one sink.
pub(super) struct Loans {
    client: Client,
    topic: String,
    group: String,
    owner: String,
    lease: Duration,
    held: Mutex<Held>,
}

/// What is on loan. A batch has all messages of a call or none, so that nothing is looked up message by message.
#[derive(Default)]
struct Held {
    lots: BTreeMap<u64, Tokens>,
    /// The number of the next lot.
    next: u64,
    /// Tokens in the lots that are no longer worth anything.
    lost: HashSet<Arc<str>>,
}

/// What one call has lent, as long as it is on loan.
struct Tokens {
    tokens: Vec<Arc<str>>,
    /// Whether work on it has begun.
    is_begun: bool,
}

/// How large a batch is at the most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) rows: usize,
    pub(super) bytes: usize,
}

/// What one call has lent.
struct Lot {
    batch: Batch,
    bytes: usize,
    /// Whether it is less than was asked for.
    is_last: bool,
}

impl Loans {
    pub(super) fn new(
        client: Client,
        (topic, group): (String, String),
        owner: String,
        lease: Duration,
    ) -> Self {
        Self { client, topic, group, owner, lease, held: Mutex::default() }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // What is held is consistent at every point, so a panic elsewhere does not invalidate it.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Borrows a batch: waits for the first messages, and takes what else is ready. Several calls are under way at once:
    /// while the server looks for the messages of one, those of another are read and become rows on a thread of their
    /// own.
    pub(super) async fn borrow(self: &Arc<Self>, limits: Limits, shape: &Arc<Shape>) -> Result<Batch, Error> {
        let mut lots = vec![self.lot(limits.rows.min(LEASE_MAX), WAIT_MS, shape).await?];
        let (mut asked, mut bytes) = (limits.rows.min(LEASE_MAX), lots[0].bytes);
        let mut is_over = lots[0].is_last;
        let mut calls = FuturesUnordered::new();
        loop {
            while !is_over && asked < limits.rows && bytes < limits.bytes && calls.len() < CALLS_AT_ONCE {
                let next = (limits.rows - asked).min(LEASE_MAX);
                asked += next;
                calls.push(self.lot(next, 0, shape));
            }
            match calls.next().await {
                Some(Ok(lot)) => {
                    is_over |= lot.is_last;
                    bytes += lot.bytes;
                    lots.push(lot);
                }
                // What is here is written first; the next call tells again.
                Some(Err(_)) => is_over = true,
                None => return Ok(joined(lots)),
            }
        }
    }

    /// What one call lends, as rows.
    async fn lot(self: &Arc<Self>, max: usize, wait_ms: u64, shape: &Arc<Shape>) -> Result<Lot, Error> {
        let unread = self.lease(max, wait_ms).await?;
        let (loans, shape) = (Arc::clone(self), Arc::clone(shape));
        let reading = spawn_blocking(move || loans.read(&unread, max, &shape));
        match reading.await.map_err(JoinError::try_into_panic) {
            Ok(lot) => lot,
            Err(Ok(panic)) => resume_unwind(panic),
            // The process ends.
            Err(Err(_)) => Ok(Lot { batch: Batch::default(), bytes: 0, is_last: true }),
        }
    }

    async fn lease(&self, max: usize, wait_ms: u64) -> Result<Unread, Error> {
        let request = LeaseRequest {
            owner: self.owner.as_str().into(),
            max: u32::try_from(max).unwrap_or(1),
            wait_ms,
            lease_ms: Some(self.lease.as_millis() as u64),
            request_id: None,
        };
        self.client.lease_unread(&self.topic, &self.group, request).await
    }

    /// Reads what was lent by a call that asked for so many.
    fn read(&self, unread: &Unread, asked: usize, shape: &Shape) -> Result<Lot, Error> {
        let Lent { messages } = unread.read()?;
        let bytes = messages.iter().map(LentMessage::bytes).sum();
        let is_last = messages.len() < asked;
        let number = {
            let mut held = self.held();
            held.next += 1;
            held.next
        };
        let batch = shape.batch(number, &messages);
        let tokens: Vec<_> = batch.messages.iter().map(|message| Arc::clone(&message.token)).collect();
        if !tokens.is_empty() {
            self.held().lots.insert(number, Tokens { tokens, is_begun: false });
        }
        Ok(Lot { batch, bytes, is_last })
    }

    /// Work on a batch begins. What is no longer this sink's is left out of it: another holder has it.
    pub(super) fn begin(&self, batch: &mut Batch) {
        let Held { lots, lost, .. } = &mut *self.held();
        for lot in lots_of(&batch.messages) {
            if let Some(lot) = lots.get_mut(&lot) {
                lot.is_begun = true;
            }
        }
        for message in &mut batch.messages {
            message.is_held = !lost.contains(&message.token);
        }
    }

    /// Extends everything on loan, for as long as it is polled.
    pub(super) async fn keep(&self) {
        let mut ticks = interval((self.lease / 3).max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let tokens = self.held().tokens();
            for part in tokens.chunks(SETTLEMENTS_MAX) {
                let extend = part.iter().map(|(token, is_begun)| ExtendLease {
                    token: Cow::Borrowed(token),
                    lease_ms: None,
                    started: (!is_begun).then_some(false),
                });
                // A server that is away is seen by whoever borrows; a lapsed lease costs no row.
                if let Ok(results) = self.client.extend_all(extend.collect()).await {
                    self.note_lost(part, &results);
                }
            }
        }
    }

    fn note_lost(&self, part: &[(Arc<str>, bool)], results: &[Settled]) {
        let is_lost = |settled: &Settled| settled.cancelled || settled.status != SettledStatus::Ok;
        let lost = part.iter().zip(results).filter(|(_, settled)| is_lost(settled));
        let mut lost: Vec<Arc<str>> = lost.map(|((token, _), _)| Arc::clone(token)).collect();
        if lost.is_empty() {
            return;
        }
        let mut held = self.held();
        // A batch may have been settled meanwhile: what is in no lot would never be forgotten.
        lost.retain(|token| held.lots.values().any(|lot| lot.tokens.contains(token)));
        held.lost.extend(lost);
    }

    /// Says what became of a batch whose transaction has ended: dead letters for what is no row, acks for the rest.
    pub(super) async fn settle(&self, batch: &[Message], refused: &BTreeMap<usize, String>) {
        let (mut acks, mut nacks) = (Vec::new(), Vec::new());
        let held = batch.iter().enumerate().filter(|(_, message)| message.is_held);
        for (index, message) in held {
            match refused.get(&index) {
                None => acks.push(&*message.token),
                Some(why) => nacks.push(NackLease {
                    token: Cow::Borrowed(&message.token),
                    delay_ms: None,
                    dead: true,
                    error: cut(why).into(),
                }),
            }
        }
        let mut calls = FuturesUnordered::new();
        for part in acks.chunks(SETTLEMENTS_MAX) {
            if calls.len() == CALLS_AT_ONCE {
                note(calls.next().await, "acked");
            }
            calls.push(self.client.ack_all(part));
        }
        while let Some(told) = calls.next().await {
            note(Some(told), "acked");
        }
        while !nacks.is_empty() {
            let rest = nacks.split_off(nacks.len().min(SETTLEMENTS_MAX));
            note(Some(self.client.nack_all(std::mem::replace(&mut nacks, rest)).await), "nacked");
        }
        self.forget(batch);
    }

    /// Gives a batch back: nothing of it was done, and no attempt counts.
    pub(super) async fn release(&self, batch: &[Message]) {
        for part in batch.chunks(SETTLEMENTS_MAX) {
            let leases = part.iter().map(|message| ReleaseLease {
                token: Cow::Borrowed(&message.token),
                delay_ms: None,
                effect: None,
            });
            note(Some(self.client.release_all(leases.collect()).await), "released");
        }
        self.forget(batch);
    }

    fn forget(&self, batch: &[Message]) {
        let Held { lots, lost, .. } = &mut *self.held();
        for lot in lots_of(batch) {
            for token in lots.remove(&lot).into_iter().flat_map(|lot| lot.tokens) {
                lost.remove(&token);
            }
        }
    }
}

impl Held {
    /// The tokens that are worth something, and whether work on their messages has begun.
    fn tokens(&self) -> Vec<(Arc<str>, bool)> {
        let all = self.lots.values().flat_map(|lot| lot.tokens.iter().map(|token| (token, lot.is_begun)));
        all.filter(|(token, _)| !self.lost.contains(*token))
            .map(|(token, is_begun)| (Arc::clone(token), is_begun))
            .collect()
    }
}

/// One batch of what several calls have lent. They may have been answered in another order than that of the messages,
/// and of rows with the same key the first counts.
fn joined(mut lots: Vec<Lot>) -> Batch {
    lots.sort_by_key(|lot| lot.batch.messages.first().map(|message| message.offset));
    let mut batches = lots.into_iter().map(|lot| lot.batch);
    let mut all = batches.next().unwrap_or_default();
    batches.for_each(|batch| all.append(batch));
    all
}

/// A server that could not be told lends the messages again when their leases are over. Progress knows which are rows.
fn note(told: Option<Result<Vec<Settled>, Error>>, what: &str) {
    if let Some(Err(error)) = told {
        tracing::warn!(%error, "messages could not be {what}; they come again, and no row is written twice");
    }
}

fn cut(reason: &str) -> &str {
    let end = (0..=REASON_BYTES_MAX.min(reason.len())).rev().find(|end| reason.is_char_boundary(*end));
    &reason[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::super::message::Place;
    use super::*;

    fn lot(offsets: std::ops::Range<i64>) -> Lot {
        let place = Arc::new(Place { topic: "t".to_owned(), incarnation: 1 });
        let message = |offset: i64| Message {
            place: Arc::clone(&place),
            offset,
            token: offset.to_string().into(),
            lot: 1,
            is_first_delivery: true,
            is_held: true,
        };
        let batch = Batch { messages: offsets.map(message).collect(), ..Batch::default() };
        Lot { batch, bytes: 0, is_last: false }
    }

    #[test]
    fn what_another_holder_has_is_left_out_of_a_batch() {
        let client = Client::new("http://127.0.0.1:9").unwrap();
        let lanes = ("t".to_owned(), "g".to_owned());
        let loans = Loans::new(client, lanes, "me".to_owned(), Duration::from_secs(1));
        let mut batch = lot(0..3).batch;
        let tokens: Vec<_> = batch.messages.iter().map(|message| Arc::clone(&message.token)).collect();
        loans.held().lots.insert(1, Tokens { tokens: tokens.clone(), is_begun: false });
        let part: Vec<_> = tokens.into_iter().map(|token| (token, false)).collect();
        let (ok, stale) = (Settled::new(SettledStatus::Ok), Settled::new(SettledStatus::Stale));
        let cancelled = Settled { cancelled: true, ..ok };
        loans.note_lost(&part, &[stale, ok, cancelled]);
        loans.begin(&mut batch);
        let held: Vec<bool> = batch.messages.iter().map(|message| message.is_held).collect();
        assert_eq!(held, [false, true, false]);
        loans.forget(&batch.messages);
        assert!(
            loans.held().lost.is_empty() && loans.held().lots.is_empty(),
            "nothing is remembered for ever"
        );
    }

    #[test]
    fn answers_that_overtook_each_other_are_put_in_the_order_of_their_messages() {
        let batch = joined(vec![lot(4..6), lot(7..7), lot(6..7), lot(0..4)]);
        let offsets: Vec<i64> = batch.messages.iter().map(|message| message.offset).collect();
        assert_eq!(offsets, [0, 1, 2, 3, 4, 5, 6]);
    }
}
