//! One reader's deliveries.

use std::sync::Arc;

use bytes::Bytes;
use driftq_core::{ConsumerId, Delivery, Input, Position, Receipt, Style, Time, Waited};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, watch};

use crate::inbox::Notice;
use crate::payload_store::{Extent, Lost};
use crate::shared::Shared;

/// One message handed to a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The partition.
    pub partition: u32,
    /// The message's offset.
    pub offset: u64,
    /// 1-based count of deliveries of this message to this group.
    pub attempt: u32,
    /// Why the attempt before failed; empty at first.
    pub last_error: Arc<str>,
    /// The encoded message ([`driftq_core::Message::decode`]).
    pub payload: Bytes,
    /// When the lease lapses.
    pub expires: Time,
    /// When the message was stored.
    pub at: Time,
    /// Its priority.
    pub priority: u8,
    /// When it was to go out, if it was scheduled.
    pub due: Option<Time>,
    /// What it waited for, if that is told and was not told before.
    pub waited: Option<Box<Waited>>,
    /// Names this delivery; see [`crate::Broker::token`].
    pub receipt: Receipt,
}

impl Delivered {
    pub(crate) fn new(delivery: Delivery, payload: Bytes) -> Self {
        Self {
            partition: delivery.receipt.partition,
            offset: delivery.receipt.offset,
            attempt: delivery.attempt,
            last_error: delivery.last_error,
            payload,
            expires: delivery.expires,
            at: delivery.at,
            priority: delivery.priority,
            due: delivery.due,
            waited: delivery.waited,
            receipt: delivery.receipt,
        }
    }
}

/// The deliveries of one reader. Until a payload is about to be handed out it lies in the log: a reader that stalls
/// costs the metadata of its credit and nothing more.
///
/// Dropping the stream unsubscribes the reader; what it was not [`Stream::written`] is given back without using an
/// attempt.
pub struct Stream {
    shared: Arc<Shared>,
    consumer: ConsumerId,
    /// The epoch of the shard that it belongs to.
    epochs_over: u64,
    deliveries: mpsc::Receiver<Delivery>,
    stopping: watch::Receiver<bool>,
    /// Taken from the queue, its payload not yet read. Kept here so that a cancelled `next` loses nothing.
    current: Option<Delivery>,
    /// Handed out and not yet confirmed; never more than the credit.
    unconfirmed: Vec<Receipt>,
    /// Deliveries dealt with of which the shard was not told yet.
    spent: u32,
    /// Where a payload was last found missing.
    missing: Option<Position>,
    /// What gives credit back: being written out, or being settled. Either is told what is written out.
    style: Style,
    /// Whether the shard may know the reader.
    pub(crate) subscribed: bool,
}

impl Stream {
    pub(crate) fn new(
        shared: Arc<Shared>,
        consumer: ConsumerId,
        deliveries: mpsc::Receiver<Delivery>,
        style: Style,
    ) -> Self {
        shared.meters.streams.one();
        let (stopping, epochs_over) = (shared.house.stopping.subscribe(), shared.epochs_over());
        Self {
            shared,
            consumer,
            epochs_over,
            deliveries,
            stopping,
            current: None,
            unconfirmed: Vec::new(),
            spent: 0,
            missing: None,
            style,
            subscribed: true,
        }
    }

    /// The next message; `None` when the broker stops or has ended the stream. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Delivered> {
        loop {
            self.peek().await?;
            if let Some(delivered) = self.fetch().await {
                return Some(delivered);
            }
        }
    }

    /// Bytes of the next message, which stays where it is; `None` when the broker stops or has ended the stream.
    /// Dropping the future loses nothing.
    pub async fn peek(&mut self) -> Option<u32> {
        loop {
            if self.current.is_none() {
                self.current = Some(self.receive().await?);
            }
            // After a failure of the shard its leases are void and its places may hold other bytes.
            if *self.stopping.borrow() || self.shared.epochs_over() != self.epochs_over {
                return None;
            }
            let delivery = self.current.as_ref()?;
            if self.shared.clock.now() < delivery.expires {
                return Some(delivery.length);
            }
            // The shard has taken it back, or will in a moment: another reader may have it by now.
            self.current = None;
            self.spend(1);
        }
    }

    /// The message that was looked at with [`Stream::peek`]; `None` if it is gone by now, or cannot be read.
    pub async fn fetch(&mut self) -> Option<Delivered> {
        let delivery = self.current.as_ref()?;
        if self.shared.clock.now() >= delivery.expires || self.shared.epochs_over() != self.epochs_over {
            return None;
        }
        let fetched = self.shared.payload_store.fetch(Extent::from(delivery)).await;
        let delivery = self.current.take()?;
        match fetched {
            Ok(payload) => Some(self.hand_out(delivery, payload)),
            Err(lost) => {
                self.give_up(&delivery, lost);
                None
            }
        }
    }

    /// Waits until the broker stops.
    pub async fn stopped(&mut self) {
        // If no sender is left that could say it, it has stopped.
        let _ = self.stopping.wait_for(|stopping| *stopping).await;
    }

    /// Confirms that everything handed out so far was written to the reader; its credit is given back.
    pub fn written(&mut self) {
        let count = u32::try_from(self.unconfirmed.len()).unwrap_or(u32::MAX);
        self.unconfirmed.clear();
        self.spend(count);
    }

    async fn receive(&mut self) -> Option<Delivery> {
        match self.deliveries.try_recv() {
            Ok(delivery) => return Some(delivery),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => {}
        }
        // About to wait: whatever credit is left over must not be the reason why nothing comes. One that borrows has
        // told so much that at least half of what may be under way is free.
        if self.style == Style::Pushed {
            self.give_back_credit();
        }
        tokio::select! {
            biased;
            _ = self.stopping.wait_for(|stopping| *stopping) => None,
            delivery = self.deliveries.recv() => delivery,
        }
    }

    fn hand_out(&mut self, delivery: Delivery, payload: Bytes) -> Delivered {
        self.missing = None;
        self.unconfirmed.push(delivery.receipt);
        let meters = &self.shared.meters;
        meters.delivered.one();
        if delivery.attempt > 1 {
            meters.redelivered.one();
        }
        Delivered::new(delivery, payload)
    }

    /// A payload that has moved comes again from its new place at once, and a damaged one never. One that cannot be
    /// read, or is missing from the same place twice, is left to its lease: giving it back at once would loop without
    /// end.
    fn give_up(&mut self, delivery: &Delivery, lost: Lost) {
        let moved = lost == Lost::Gone && self.missing != Some(delivery.position);
        self.missing = Some(delivery.position);
        if moved {
            self.release(vec![delivery.receipt]);
        } else if lost == Lost::Damaged {
            self.shared.give_up_damaged(delivery);
        } else {
            let receipt = &delivery.receipt;
            tracing::warn!(partition = receipt.partition, offset = receipt.offset, %lost, "a delivery was skipped");
        }
        self.spend(1);
    }

    fn release(&self, receipts: Vec<Receipt>) {
        self.shared.meters.released.add(receipts.len() as u64);
        self.shared.inbox.input(Input::Release { receipts });
    }

    /// Tells what is written out in lots: one input for half of what may be under way instead of one for every message.
    fn spend(&mut self, count: u32) {
        self.spent += count;
        let config = &self.shared.config;
        let most = match self.style {
            Style::Pushed => config.stream_credit,
            Style::Borrowed => config.settings.stream_unwritten_max,
        };
        if self.spent >= most.div_ceil(2) {
            self.give_back_credit();
        }
    }

    fn give_back_credit(&mut self) {
        let (consumer, count) = (self.consumer, std::mem::take(&mut self.spent));
        if count > 0 {
            self.shared.inbox.input(match self.style {
                Style::Pushed => Input::Credit { consumer, count },
                Style::Borrowed => Input::Written { consumer, count },
            });
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Closed first: whatever the decide thread still wants to send comes back to it and is given back there.
        self.deliveries.close();
        let mut receipts = std::mem::take(&mut self.unconfirmed);
        receipts.extend(self.current.take().map(|delivery| delivery.receipt));
        while let Ok(delivery) = self.deliveries.try_recv() {
            receipts.push(delivery.receipt);
        }
        if self.subscribed {
            self.shared.meters.released.add(receipts.len() as u64);
            self.shared.inbox.notify(Notice::Left { consumer: self.consumer, receipts });
        }
        self.shared.meters.streams.less(1);
        self.shared.house.stream_ended.notify_waiters();
    }
}
