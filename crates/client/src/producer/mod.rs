//! Sending many messages without waiting for each.

mod batch;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use driftq_api::v2::Produced;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::client::Client;
use crate::error::Error;
use crate::message::Outgoing;
use batch::Entry;

/// Most messages in one call.
pub const BATCH_MESSAGES_MAX: usize = 1000;
/// Most bytes of payloads and keys in one call, if it has more than one message.
pub const BATCH_BYTES_MAX: usize = 1 << 20;
/// Most messages that wait in a producer.
pub const BUFFER: usize = 10_000;

/// Sends messages in the background: what collects while a call is under way goes out in the next one.
///
/// Messages of one topic go out in the order in which they were sent, unless the server refuses one for now. When the
/// producer is dropped, what it took is still sent; [`close`](Self::close) waits for that.
///
/// ```no_run
/// # async fn example(client: driftq_client::Client) -> Result<(), driftq_client::Error> {
/// use driftq_client::{Producer, json};
///
/// let producer = Producer::new(&client);
/// let mut receipts = Vec::new();
/// for order in 0..1000 {
///     receipts.push(producer.send("orders", json(&order)).await?);
/// }
/// for receipt in receipts {
///     println!("stored at {}", receipt.await?.offset);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Producer {
    entries: mpsc::UnboundedSender<Entry>,
    /// One permit per message that was taken and not answered: this is what bounds the channel.
    room: Arc<Semaphore>,
    buffer: u32,
}

impl Producer {
    /// A producer in which up to [`BUFFER`] messages wait.
    #[must_use]
    pub fn new(client: &Client) -> Self {
        Self::with_buffer(client, BUFFER)
    }

    /// A producer in which up to this many messages wait; beyond that [`send`](Self::send) waits.
    #[must_use]
    pub fn with_buffer(client: &Client, messages: usize) -> Self {
        let buffer = u32::try_from(messages.clamp(1, Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        let (entries, taken) = mpsc::unbounded_channel();
        tokio::spawn(batch::deliver(client.clone(), taken));
        Self { entries, room: Arc::new(Semaphore::new(buffer as usize)), buffer }
    }

    /// Takes a message, and waits only if too many wait already. The receipt says later where it is stored, or why not;
    /// it need not be waited for.
    ///
    /// # Errors
    /// If the message cannot be sent at all.
    pub async fn send(&self, topic: impl Into<String>, message: Outgoing) -> Result<Receipt, Error> {
        let bytes = message.bytes();
        let message = message.safe_to_repeat()?;
        let room = self.room(1).await?;
        let (answer, receipt) = oneshot::channel();
        let entry = Entry { topic: topic.into(), message, bytes, answer, room, refused_since: None };
        self.entries.send(entry).map_err(|_| ended())?;
        Ok(Receipt(receipt))
    }

    /// Waits until everything that was sent before is answered, well or not.
    ///
    /// # Errors
    /// If the producer has ended.
    pub async fn flush(&self) -> Result<(), Error> {
        // Permits are given in the order in which they are asked for: all of them are free when nothing is on its way.
        self.room(self.buffer).await.map(drop)
    }

    /// Waits until everything that was sent is answered, and ends.
    ///
    /// # Errors
    /// If the producer has ended before.
    pub async fn close(self) -> Result<(), Error> {
        self.flush().await
    }

    async fn room(&self, permits: u32) -> Result<OwnedSemaphorePermit, Error> {
        Arc::clone(&self.room).acquire_many_owned(permits).await.map_err(|_| ended())
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("room", &self.room.available_permits()).finish_non_exhaustive()
    }
}

/// What becomes of one message. A future; dropped, the message is sent all the same.
#[derive(Debug)]
#[must_use = "it is the only way to learn that the message was refused"]
pub struct Receipt(oneshot::Receiver<Result<Produced<'static>, Error>>);

impl Future for Receipt {
    type Output = Result<Produced<'static>, Error>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(task).map(|answer| answer.unwrap_or_else(|_| Err(ended())))
    }
}

fn ended() -> Error {
    Error::Invalid("the producer ended with its runtime; close it before the runtime ends".to_owned())
}
