//! Workers: they borrow messages, run handlers, and settle.
//!
//! What is decided is in [`book`] and [`verdict`], without clock and network; [`shell`] does what they say.

mod book;
#[cfg(test)]
mod book_tests;
mod call;
mod drain_deadline;
mod handler;
mod shell;
mod stop;
mod verdict;
mod wire;

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use book::Bounds;
use call::Lane;
pub use handler::Delivery;
use handler::{Batched, Handler, Raw, Typed};
pub use stop::Stopper;

use crate::client::{Client, reckoned};
use crate::context::Context;
use crate::error::Error;
use crate::outcome::Failure;
use crate::random;

/// Most messages that one call borrows.
pub(crate) const LEASE_MAX: usize = driftq_api::v2::LEASE_MESSAGES_MAX as usize;
/// Most messages that wait in a worker for a handler.
pub const PREFETCH_MAX: usize = 1000;
/// How long a message is on loan unless a heartbeat extends it.
pub const LEASE: Duration = Duration::from_secs(30);
/// How long what runs may go on after the worker was told to stop.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// By when the server must be there at the start.
pub const START_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a handler that was told to stop may take to do so before it is ended.
pub const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// What becomes of a message whose payload does not parse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BadPayload {
    /// A dead letter whose reason says why.
    #[default]
    Dead,
    /// It is tried again, as after any error: for topics whose senders and readers are updated at different times.
    Retry,
}

/// Borrows the messages of a group, runs the handlers of their topics, and settles.
///
/// ```no_run
/// # use driftq_client::{Client, Failure, Worker};
/// # #[derive(serde::Deserialize)] struct Order { id: String }
/// # async fn example() -> Result<(), driftq_client::Error> {
/// let client = Client::connect()?;
/// Worker::new(&client, "billing")
///     .concurrency(8)
///     .handle("orders", |order: Order, context| async move {
///         let charge: String =
///             context.effect("charge").key(&order.id).run(|| async { Ok("ch_1".to_owned()) }).await?;
///         println!("order {}: charge {charge}", order.id);
///         Ok(())
///     })
///     .run()
///     .await
/// # }
/// ```
#[must_use = "a worker does nothing until it is run"]
pub struct Worker {
    client: Client,
    group: String,
    owner: Option<String>,
    lanes: Vec<Lane>,
    concurrency: usize,
    prefetch: Option<usize>,
    lease: Duration,
    is_beating: bool,
    heeds_signals: bool,
    timeout: Option<Duration>,
    bad_payload: BadPayload,
    drain_timeout: Duration,
    start_timeout: Duration,
    stopper: Stopper,
    progress: watch::Sender<u64>,
    unheard: watch::Sender<u64>,
}

impl Worker {
    /// A worker of this group, without a handler yet.
    pub fn new(client: &Client, group: impl Into<String>) -> Self {
        Self {
            client: client.clone(),
            group: group.into(),
            owner: None,
            lanes: Vec::new(),
            concurrency: 1,
            prefetch: None,
            lease: LEASE,
            is_beating: true,
            heeds_signals: true,
            timeout: None,
            bad_payload: BadPayload::Dead,
            drain_timeout: DRAIN_TIMEOUT,
            start_timeout: START_TIMEOUT,
            stopper: Stopper::new(),
            progress: watch::Sender::new(0),
            unheard: watch::Sender::new(0),
        }
    }

    /// Handles the messages of a topic one by one, their payload read as JSON.
    pub fn handle<T, F, Fut>(self, topic: impl Into<String>, handler: F) -> Self
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(T, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.lane(topic.into(), Arc::new(Typed(handler, PhantomData)), None)
    }

    /// Handles the messages of a topic one by one, their payload as it came.
    pub fn handle_raw<F, Fut>(self, topic: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Bytes, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.lane(topic.into(), Arc::new(Raw(handler)), None)
    }

    /// Handles up to `batch` messages of a topic at a time: as many as are there at once. If it returns, all are done;
    /// an error is the error of all; [`Context::fail`] is for single ones.
    pub fn handle_batch<T, F, Fut>(self, topic: impl Into<String>, batch: usize, handler: F) -> Self
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(Vec<Delivery<T>>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.lane(topic.into(), Arc::new(Batched(handler, PhantomData)), Some(batch.min(LEASE_MAX)))
    }

    fn lane(mut self, topic: String, handler: Arc<dyn Handler>, batch: Option<usize>) -> Self {
        self.lanes.push(Lane {
            topic,
            handler,
            batch: batch.unwrap_or(1),
            is_batched: batch.is_some(),
            timeout: None,
            bad_payload: BadPayload::Dead,
        });
        self
    }

    /// Most calls of handlers at a time; 1 if not given.
    pub fn concurrency(mut self, calls: usize) -> Self {
        self.concurrency = calls;
        self
    }

    /// How many more messages are borrowed than are worked on, so that the next one is there when one is done; as many
    /// as `concurrency` if not given, [`PREFETCH_MAX`] at the most.
    pub fn prefetch(mut self, messages: usize) -> Self {
        self.prefetch = Some(messages);
        self
    }

    /// How long a message is on loan unless a heartbeat extends it; 30 s if not given.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = reckoned(lease);
        self
    }

    /// Whether leases are extended while handlers are at work; only tests have a reason to turn that off.
    pub fn heartbeat(mut self, is_on: bool) -> Self {
        self.is_beating = is_on;
        self
    }

    /// How long a handler may take. Then it is told to stop, and the message is nacked. For ever if not given.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// What becomes of a message whose payload does not parse; a dead letter if not given.
    pub fn bad_payload(mut self, fate: BadPayload) -> Self {
        self.bad_payload = fate;
        self
    }

    /// How long what runs may go on after the worker was told to stop; 30 s if not given.
    pub fn drain_timeout(mut self, limit: Duration) -> Self {
        self.drain_timeout = reckoned(limit);
        self
    }

    /// By when the server must be there at the start; 10 s if not given.
    pub fn start_timeout(mut self, limit: Duration) -> Self {
        self.start_timeout = reckoned(limit);
        self
    }

    /// Whether SIGTERM and SIGINT stop the worker; they do if not given.
    pub fn signals(mut self, are_heeded: bool) -> Self {
        self.heeds_signals = are_heeded;
        self
    }

    /// The name under which it borrows, for people to read; a unique one if not given.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// A handle that stops this worker from elsewhere.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// How many deliveries the worker is done with, updated as it goes.
    pub fn progress(&self) -> watch::Receiver<u64> {
        self.progress.subscribe()
    }

    /// How many deliveries have ended without the server hearing of it, as far as that is certain: the server was away
    /// until the worker ended, or refused to hear of it. They come again when their leases are over.
    pub fn unheard(&self) -> watch::Receiver<u64> {
        self.unheard.subscribe()
    }

    /// Works until it is told to stop, and has drained.
    ///
    /// # Errors
    /// If a setting cannot work, the server cannot be reached at the start, or a topic does not exist. After the start,
    /// a server that goes away is waited for; only what cannot get better, such as a topic that was deleted, ends the
    /// worker.
    pub async fn run(mut self) -> Result<(), Error> {
        if let Some(mistake) = self.mistake() {
            return Err(Error::Invalid(mistake.to_owned()));
        }
        for lane in &mut self.lanes {
            lane.timeout = self.timeout;
            lane.bad_payload = self.bad_payload;
        }
        let owner = match self.owner.take() {
            Some(owner) => owner,
            None => format!("worker-{}-{}", std::process::id(), random::name(4)?),
        };
        shell::Shell::new(self, owner).run().await
    }

    /// Which setting cannot work, if one cannot.
    fn mistake(&self) -> Option<&'static str> {
        let is_least = |length: Duration| length >= Duration::from_millis(1);
        [
            (self.lanes.is_empty(), "the worker has no handler; give it one with `handle`"),
            (self.concurrency == 0, "with a concurrency of 0 no handler would ever run; the least is 1"),
            (self.lanes.iter().any(|lane| lane.batch == 0), "a batch of 0 is no batch; the least is 1"),
            (
                !is_least(self.lease),
                "a lease of nothing is over before the handler begins; the least is 1 ms",
            ),
            (
                self.timeout.is_some_and(|limit| !is_least(limit)),
                "a time-out of nothing ends every handler at once; the least is 1 ms",
            ),
        ]
        .into_iter()
        .find_map(|(is_wrong, mistake)| is_wrong.then_some(mistake))
    }

    #[cfg(feature = "testkit")]
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    #[cfg(feature = "testkit")]
    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    #[cfg(feature = "testkit")]
    pub(crate) fn topics(&self) -> Vec<String> {
        self.lanes.iter().map(|lane| lane.topic.clone()).collect()
    }

    fn bounds(&self) -> Bounds {
        let prefetch = self.prefetch.unwrap_or(self.concurrency).min(PREFETCH_MAX);
        let batches: Vec<usize> = self.lanes.iter().map(|lane| lane.batch).collect();
        // A batch can only be as large as what is held.
        let largest = batches.iter().copied().max().unwrap_or(1);
        let capacity = self.concurrency.saturating_mul(largest).saturating_add(prefetch);
        Bounds { concurrency: self.concurrency, capacity, batches }
    }
}
