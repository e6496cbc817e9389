//! What the handles and the threads of one broker have in common.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use driftq_core::{Catalog, ConsumerId, Delivery, Input, Settlement, Ticket, Verdict};
use tokio::sync::{Notify, watch};

use crate::clock::Clock;
use crate::config::Config;
use crate::counters::Meters;
use crate::inbox::{Inbox, Limits};
use crate::jobs::Jobs;
use crate::keys::Rings;
use crate::payload_store::{Extent, PayloadStore};
use crate::scrape::Scraped;
use crate::seal::Seal;
use crate::status::StatusBoard;

pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) inbox: Inbox,
    pub(crate) payload_store: Arc<PayloadStore>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) status_board: StatusBoard,
    /// The topics that are durable. A lock and not a copy per change: creating ten thousand topics one by one would
    /// otherwise copy fifty million entries. It is held for one lookup or one insert.
    pub(crate) catalog: RwLock<Catalog>,
    /// Turns receipts into tokens and back.
    pub(crate) seal: Seal,
    /// Long work under way.
    pub(crate) jobs: Jobs,
    /// Keys as requests look them up.
    pub(crate) rings: Rings,
    /// The number of the newest entry of the audit of which this run knows.
    pub(crate) audited: watch::Sender<u64>,
    /// Counts the changes of definitions that were asked of this run.
    pub(crate) defined: watch::Sender<u64>,
    /// What the last scrape was told.
    pub(crate) scraped: Scraped,
    /// True as soon as the broker begins to stop.
    pub(crate) stopping: watch::Sender<bool>,
    /// Another server has the log.
    pub(crate) fenced: watch::Sender<bool>,
    /// True when the decide thread has ended.
    pub(crate) ended: watch::Sender<bool>,
    /// Rung whenever a stream ends.
    pub(crate) stream_ended: Notify,
    /// Counts messages on their way in: those without a key are spread by it.
    pub(crate) turns: AtomicU64,
    next_ticket: AtomicU64,
    next_consumer: AtomicU64,
    /// Counts the epochs of the shard that are over: what belongs to an earlier one is void.
    epochs_over: AtomicU64,
}

impl Shared {
    pub(crate) fn new(config: Config, data: Option<std::path::PathBuf>, is_durable: bool) -> Self {
        let meters = Arc::new(Meters::default());
        Self {
            clock: Clock::start(),
            inbox: Inbox::new(Limits {
                requests_max: config.input_queue_max,
                request_bytes_max: config.input_queue_bytes_max,
            }),
            payload_store: Arc::new(PayloadStore::new(config.payload_cache_bytes, Arc::clone(&meters))),
            meters,
            status_board: StatusBoard::new(data, is_durable),
            catalog: RwLock::new(Catalog::default()),
            seal: Seal::default(),
            jobs: Jobs::default(),
            rings: Rings::default(),
            audited: watch::Sender::new(0),
            defined: watch::Sender::new(0),
            scraped: Scraped::default(),
            stopping: watch::Sender::new(false),
            fenced: watch::Sender::new(false),
            ended: watch::Sender::new(false),
            stream_ended: Notify::new(),
            turns: AtomicU64::new(0),
            next_ticket: AtomicU64::new(0),
            next_consumer: AtomicU64::new(0),
            epochs_over: AtomicU64::new(0),
            config,
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
