//! The audit: what was done or refused is written down, and read again.

use std::time::Duration;

use driftq_core::{Answer, AuditEntry, AuditList, AuditPage, Description, Input, OrderInput, Query};
use tokio::time::{Instant, sleep, timeout_at};

use crate::broker::{Broker, INTERRUPTED, unexpected};
use crate::failure::Failure;

/// How long an entry waits for a place in the queue.
const RECORD_PATIENCE: Duration = Duration::from_secs(5);
/// How soon it is tried again.
const RECORD_PAUSE: Duration = Duration::from_millis(20);

impl Broker {
    /// Writes an entry down; answers with its number when it is durable.
    ///
    /// Detached from its asker: one that hangs up changes nothing about what is to be written.
    pub async fn record(&self, entry: AuditEntry, is_dispensable: bool) -> Result<u64, Failure> {
        let broker = self.clone();
        let record = async move {
            match broker.ask_to_record(entry, is_dispensable).await? {
                Answer::Recorded { sequence } => {
                    broker.house().audited.send_modify(|newest| *newest = sequence.max(*newest));
                    Ok(sequence)
                }
                other => Err(unexpected(&other)),
            }
        };
        tokio::spawn(record).await.unwrap_or_else(|_| Err(Failure::Unavailable(INTERRUPTED.into())))
    }

    /// A queue that is full now will not be for long, and what was done is not to go without its entry.
    async fn ask_to_record(&self, entry: AuditEntry, is_dispensable: bool) -> Result<Answer, Failure> {
        let deadline = Instant::now() + RECORD_PATIENCE;
        loop {
            let entry = entry.clone();
            let order = |ticket| Input::Order(OrderInput::Record { ticket, entry, is_dispensable });
            match self.home().ask(0, true, order).await {
                Err(Failure::Busy) if !is_dispensable && Instant::now() < deadline => {
                    sleep(RECORD_PAUSE).await
                }
                answer => return answer,
            }
        }
    }

    /// Some entries. If there are none, waits for one that fits, for so long.
    pub async fn audit(&self, mut list: AuditList, patience: Duration) -> Result<AuditPage, Failure> {
        let deadline = Instant::now() + patience;
        let mut newest = self.house().audited.subscribe();
        let mut stopping = self.stopping();
        loop {
            // Marked as seen before the question is asked: an entry that comes in between is not missed.
            newest.borrow_and_update();
            let page = match self.home().describe(Query::Audit(list.clone())).await? {
                Description::Audit(page) => page,
                other => return Err(unexpected(&other)),
            };
            if !page.entries.is_empty() || page.more || Instant::now() >= deadline {
                return Ok(page);
            }
            list.after = page.seen;
            let changed = async {
                tokio::select! {
                    changed = newest.changed() => changed.is_ok(),
                    _ = stopping.wait_for(|stopping| *stopping) => false,
                }
            };
            if !matches!(timeout_at(deadline, changed).await, Ok(true)) {
                return Ok(page);
            }
        }
    }
}
