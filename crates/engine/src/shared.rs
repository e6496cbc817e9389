//! What the handles and the threads of one shard have in common.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use driftq_core::{
    Answer, ConsumerId, Delivery, Description, Input, Query, Settlement, ShardId, State, Ticket, Verdict,
};
use tokio::sync::{oneshot, watch};

use crate::broker::{INTERRUPTED, unexpected};
use crate::clock::Clock;
use crate::config::Config;
use crate::counters::Meters;
use crate::failure::{Failure, StartError};
use crate::house::{HOME, House};
use crate::inbox::{Attach, Inbox, Limits, Reply, Request};
use crate::payload_store::{Extent, PayloadStore};
use crate::status::StatusBoard;

pub(crate) struct Shared {
    /// Which of the shards it is.
    pub(crate) id: ShardId,
    pub(crate) house: Arc<House>,
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) inbox: Inbox,
    pub(crate) payload_store: Arc<PayloadStore>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) status_board: StatusBoard,
    /// True when the decide thread has ended.
    pub(crate) ended: watch::Sender<bool>,
    next_ticket: AtomicU64,
    next_consumer: AtomicU64,
    /// Counts the epochs of the shard that are over: what belongs to an earlier one is void.
    epochs_over: AtomicU64,
}

impl Shared {
    pub(crate) fn new(id: ShardId, house: Arc<House>, data: Option<PathBuf>, is_durable: bool) -> Self {
        let mut config = house.config.clone();
        config.settings.shard = id;
        let meters = Arc::new(Meters::default());
        Self {
            id,
            house,
            clock: Clock::start(),
            inbox: Inbox::new(Limits {
                requests_max: config.input_queue_max,
                request_bytes_max: config.input_queue_bytes_max,
            }),
            payload_store: Arc::new(PayloadStore::new(config.payload_cache_bytes, Arc::clone(&meters))),
            meters,
            status_board: StatusBoard::new(data, is_durable),
            ended: watch::Sender::new(false),
            next_ticket: AtomicU64::new(0),
            next_consumer: AtomicU64::new(0),
            epochs_over: AtomicU64::new(0),
            config,
        }
    }

    /// Refuses a state that belongs elsewhere: to another shard, or to another broker.
    pub(crate) fn may_be(&self, state: &State) -> Result<(), StartError> {
        if state.epoch() == 0 {
            return Ok(());
        }
        if state.shard() != self.id {
            let (found, wanted) = (state.shard().0, self.id.0);
            return Err(StartError::Damaged(format!(
                "this is the log of shard {found}, and it lies where that of shard {wanted} belongs: put every log \
                 back to its place"
            )));
        }
        let secret = self.house.seal.secret();
        if self.id != HOME && *state.secret() != secret {
            return Err(StartError::Damaged(format!(
                "the log of shard {} belongs to another broker than that of shard 0: put back the logs that belong \
                 together",
                self.id.0
            )));
        }
        // One that was never heard of by another is not missed.
        if let Some(lost) = state.farthest().filter(|lost| !self.house.has(*lost)) {
            return Err(StartError::Damaged(format!(
                "shard {} has had to do with shard {}, whose log is missing: put it back from a backup",
                self.id.0, lost.0
            )));
        }
        Ok(())
    }

    /// Asks the shard, and waits for what it says.
    pub(crate) async fn ask(
        &self,
        bytes: usize,
        writes: bool,
        input: impl FnOnce(Ticket) -> Input,
    ) -> Result<Answer, Failure> {
        self.ask_with(bytes, writes, None, input).await
    }

    pub(crate) async fn ask_with(
        &self,
        bytes: usize,
        writes: bool,
        stream: Option<Box<Attach>>,
        input: impl FnOnce(Ticket) -> Input,
    ) -> Result<Answer, Failure> {
        let ticket = self.ticket();
        let (reply, answer) = oneshot::channel();
        let request = Request { ticket, input: input(ticket), reply, bytes, writes, stream };
        if let Err(failure) = self.inbox.ask(request) {
            if failure == Failure::Busy {
                self.meters.requests_busy.one();
            }
            return Err(failure);
        }
        self.meters.requests.one();
        self.heard(answer.await)
    }

    /// A question about the shard's state.
    pub(crate) async fn describe(&self, query: Query) -> Result<Description, Failure> {
        match self.ask(0, false, |ticket| Input::Describe { ticket, query }).await? {
            Answer::Described(description) => Ok(description),
            other => Err(unexpected(&other)),
        }
    }

    /// What the decide thread said, with refusals as failures; it may have gone without a word.
    pub(crate) fn heard(&self, reply: Result<Reply, oneshot::error::RecvError>) -> Result<Answer, Failure> {
        match reply {
            Ok(Ok(Answer::Rejected(reject))) => {
                self.meters.rejected.one();
                Err(Failure::Reject(reject))
            }
            Ok(reply) => reply,
            Err(_) => Err(Failure::Unavailable(INTERRUPTED.into())),
        }
    }

    pub(crate) fn epochs_over(&self) -> u64 {
        self.epochs_over.load(Ordering::Acquire)
    }

    pub(crate) fn end_epoch(&self) {
        self.epochs_over.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn ticket(&self) -> Ticket {
        Ticket(self.next_ticket.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn consumer(&self) -> ConsumerId {
        ConsumerId(self.next_consumer.fetch_add(1, Ordering::Relaxed))
    }

    /// Has a delivery become a dead letter whose bytes are not those that were stored: it can never be handed out, and
    /// would keep what has the same key waiting. No caller waits for the answer.
    pub(crate) fn give_up_damaged(&self, delivery: &Delivery) {
        let error = Extent::from(delivery).damage();
        let verdict = Verdict::Nack { delay_ms: None, dead: true, error };
        let items = vec![Settlement { receipt: delivery.receipt, verdict }];
        self.inbox.input(Input::Settle { ticket: self.ticket(), items });
    }
}
