//! What a page of messages holds while it is put together.

use std::sync::Arc;

use driftq_api::Fault;
use driftq_engine::core::{Found, TopicId};
use driftq_engine::{Broker, Seen};

use crate::http::budget::{Budget, Charge};

/// A page with this many bytes of payloads is full; the cursor says where to go on. The message that fills it is the last
/// one on it, so that the largest can be looked at, too.
const PAGE_BYTES_MAX: usize = 8 << 20;

/// Messages that a page is going to show. The edge's budget is charged with them before they are read.
pub(super) struct Filled {
    pub(super) kept: Vec<Seen>,
    limit: usize,
    bytes: usize,
    charge: Charge,
}

impl Filled {
    pub(super) fn new(limit: usize, budget: &Arc<Budget>) -> Self {
        Self { kept: Vec::new(), limit, bytes: 0, charge: budget.open() }
    }

    /// Reads a message.
    pub(super) async fn see(&mut self, broker: &Broker, topic: TopicId, found: Found) -> Result<Seen, Fault> {
        self.charge.grow(self.bytes + found.length as usize).await?;
        Ok(broker.see(topic, found).await)
    }

    /// Keeps a message that was read.
    pub(super) fn keep(&mut self, seen: Seen) {
        self.bytes += seen.found.length as usize;
        self.kept.push(seen);
    }

    /// If it is full: where the next one goes on.
    pub(super) fn end(&self) -> Option<(u32, u64)> {
        let is_full = self.kept.len() >= self.limit || self.bytes >= PAGE_BYTES_MAX;
        self.kept.last().filter(|_| is_full).map(|seen| (seen.found.partition, seen.found.offset))
    }
}
