//! Bytes that the edge holds for its peers: bodies that are read or being handled, answers and lines that are not
//! written yet. One budget for all of them, because each alone is bounded and a thousand of them are not.
//!
//! What is small costs nothing ([`UNCHARGED_BYTES_MAX`]): the number of connections bounds it, and a small request goes
//! through however many slow peers hold everything else. Who finds nothing left waits a moment and is then told to come
//! back; whatever is larger than the whole budget is let in alone.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use driftq_api::{Code, Fault};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::options::Options;
use crate::metrics::Metrics;

/// A body, an answer or a line up to this size is not counted: as many as there are connections take no more than the
/// product of the two.
pub(crate) const UNCHARGED_BYTES_MAX: usize = 8 << 10;
// What is not counted stays well below what is.
const _: () = assert!(
    UNCHARGED_BYTES_MAX * Options::CONNECTIONS_MAX_DEFAULT <= Options::EDGE_BYTES_MAX_DEFAULT / 4,
    "what is free of charge must be the smaller part"
);

/// How long a request waits for others to give bytes back.
const PATIENCE: Duration = Duration::from_secs(1);

/// When a client should come back that found nothing left.
const RETRY_AFTER_MS: u64 = 1_000;

/// All bytes that may be held at once.
pub(crate) struct Budget {
    bytes_max: usize,
    left: Arc<Semaphore>,
    metrics: Metrics,
}

impl Budget {
    pub(crate) fn new(bytes_max: usize, metrics: Metrics) -> Arc<Self> {
        // What one request can hold is counted in 32 bits, and so is the most that it is charged with.
        let bytes_max = bytes_max.min(u32::MAX as usize >> 1);
        Arc::new(Self { bytes_max, left: Arc::new(Semaphore::new(bytes_max)), metrics })
    }

    /// A charge that can grow.
    pub(crate) fn open(self: &Arc<Self>) -> Charge {
        Charge { budget: Arc::clone(self), permit: None }
    }

    /// What a thing of this size is charged with.
    fn price(&self, bytes: usize) -> usize {
        if bytes <= UNCHARGED_BYTES_MAX { 0 } else { bytes.min(self.bytes_max) }
    }
}

/// Bytes that a request or an answer holds; they are given back when it is dropped.
pub(crate) struct Charge {
    budget: Arc<Budget>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Charge {
    fn held(&self) -> usize {
        self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    /// What is missing to hold this many bytes in all.
    fn missing(&self, bytes: usize) -> u32 {
        let missing = self.budget.price(bytes).saturating_sub(self.held());
        u32::try_from(missing).unwrap_or(u32::MAX)
    }

    fn add(&mut self, more: OwnedSemaphorePermit) {
        self.budget.metrics.on_edge_bytes(more.num_permits());
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            none => *none = Some(more),
        }
    }

    /// Holds this many bytes in all from now on, as soon as there are so many.
    pub(crate) async fn wait_for(&mut self, bytes: usize) {
        let missing = self.missing(bytes);
        // It is never closed.
        if missing > 0
            && let Ok(more) = Arc::clone(&self.budget.left).acquire_many_owned(missing).await
        {
            self.add(more);
        }
    }

    /// Holds this many bytes in all from now on, if there are so many now or in a moment.
    pub(crate) async fn grow(&mut self, bytes: usize) -> Result<(), Fault> {
        if self.try_grow(bytes) {
            return Ok(());
        }
        let waited = tokio::time::timeout(PATIENCE, self.wait_for(bytes)).await;
        waited.map_err(|_| self.budget.refusal())
    }

    /// Holds this many bytes in all from now on, if there are so many.
    pub(crate) fn try_grow(&mut self, bytes: usize) -> bool {
        let missing = self.missing(bytes);
        if missing == 0 {
            return true;
        }
        let more = Arc::clone(&self.budget.left).try_acquire_many_owned(missing);
        more.map(|more| self.add(more)).is_ok()
    }

    /// Holds this many bytes in all, or as many as are left: the work is done, and its answer must go out.
    pub(crate) fn overdraw(&mut self, bytes: usize) {
        let missing = self.missing(bytes) as usize;
        let possible = missing.min(self.budget.left.available_permits());
        if possible > 0
            && let Ok(possible) = u32::try_from(possible)
            && let Ok(more) = Arc::clone(&self.budget.left).try_acquire_many_owned(possible)
        {
            self.add(more);
        }
    }

    /// Holds no more than this many bytes in all.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let excess = self.held().saturating_sub(self.budget.price(bytes));
        if let Some(excess) = self.permit.as_mut().and_then(|permit| permit.split(excess)) {
            self.budget.metrics.on_edge_bytes_back(excess.num_permits());
        }
    }

    /// Bytes that give the charge back when their last holder drops them.
    pub(crate) fn carried_by(self, bytes: Bytes) -> Bytes {
        if self.permit.is_none() { bytes } else { Bytes::from_owner(Carried { bytes, _charge: self }) }
    }
}

impl Budget {
    /// What a client is told when nothing is left for it.
    pub(crate) fn refusal(&self) -> Fault {
        self.metrics.on_edge_refused();
        Fault {
            reason: Some("edge_bytes_full"),
            retry_after_ms: Some(RETRY_AFTER_MS),
            ..Fault::new(
                Code::Unavailable,
                "the server holds as many bytes for its clients as it may (edge_bytes_max); nothing was done",
            )
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.metrics.on_edge_bytes_back(self.held());
    }
}

struct Carried {
    bytes: Bytes,
    _charge: Charge,
}

impl AsRef<[u8]> for Carried {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1 << 10;

    fn budget(kib: usize) -> Arc<Budget> {
        Budget::new(kib * KIB, Metrics::default())
    }

    fn used(budget: &Budget) -> usize {
        let used = budget.bytes_max - budget.left.available_permits();
        assert_eq!(budget.metrics.edge_bytes(), used as u64, "the metric says what is held");
        used
    }

    #[tokio::test]
    async fn what_is_held_is_counted_and_given_back() {
        let budget = budget(100);
        let mut charge = budget.open();
        assert!(charge.try_grow(UNCHARGED_BYTES_MAX));
        assert_eq!(used(&budget), 0, "what is small is free");
        assert!(charge.try_grow(20 * KIB) && charge.try_grow(60 * KIB));
        assert_eq!(used(&budget), 60 * KIB, "a charge grows to a size, not by it");
        let mut other = budget.open();
        assert!(!other.try_grow(41 * KIB) && other.try_grow(40 * KIB));
        assert_eq!(used(&budget), 100 * KIB);
        charge.shrink(30 * KIB);
        assert_eq!(used(&budget), 70 * KIB);
        let carried = other.carried_by(Bytes::from(vec![1; 40 * KIB]));
        let rest = carried.slice(5..9);
        drop((carried, charge));
        assert_eq!(used(&budget), 40 * KIB, "a slice is still held, and with it all");
        drop(rest);
        assert_eq!(used(&budget), 0);
    }

    #[tokio::test]
    async fn whoever_is_larger_than_everything_gets_in_alone() {
        let budget = budget(100);
        let mut large = budget.open();
        assert!(large.try_grow(usize::MAX));
        assert_eq!(used(&budget), 100 * KIB);
        assert!(budget.open().try_grow(UNCHARGED_BYTES_MAX), "what is small goes through");
        drop(large);
        assert_eq!(used(&budget), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_finds_nothing_waits_and_is_then_told_to_come_back() {
        let budget = budget(100);
        let (mut first, mut second) = (budget.open(), budget.open());
        assert!(first.try_grow(90 * KIB));
        let refused = second.grow(20 * KIB).await.unwrap_err();
        assert_eq!((refused.entry().status, refused.retry_after_ms), (503, Some(RETRY_AFTER_MS)));
        assert_eq!(budget.metrics.edge_refused(), 1);
        let late = async {
            tokio::time::sleep(PATIENCE / 2).await;
            drop(first);
        };
        let (grown, ()) = tokio::join!(second.grow(20 * KIB), late);
        assert!(grown.is_ok(), "it was given back in time");
        assert_eq!((used(&budget), budget.metrics.edge_refused()), (20 * KIB, 1));
    }

    #[tokio::test]
    async fn an_answer_that_must_go_out_takes_what_is_left() {
        let budget = budget(100);
        let (mut first, mut second) = (budget.open(), budget.open());
        assert!(first.try_grow(90 * KIB));
        second.overdraw(20 * KIB);
        assert_eq!(used(&budget), 100 * KIB);
        drop((first, second));
        assert_eq!(used(&budget), 0);
    }
}
