//! What became of spans.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why spans were dropped, as metrics name it.
pub(crate) const DROP_REASONS: [&str; 3] = ["queue_full", "not_taken", "too_many_open"];

/// Spans by what became of them.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    exported: AtomicU64,
    dropped: [AtomicU64; DROP_REASONS.len()],
}

impl Counts {
    pub(super) fn on_queue_full(&self) {
        self.dropped[0].fetch_add(1, Relaxed);
    }

    #[cfg(feature = "otlp")]
    pub(super) fn on_not_taken(&self, count: u64) {
        self.dropped[1].fetch_add(count, Relaxed);
    }

    pub(super) fn on_too_many_open(&self) {
        self.dropped[2].fetch_add(1, Relaxed);
    }

    #[cfg(feature = "otlp")]
    pub(super) fn on_exported(&self, count: u64) {
        self.exported.fetch_add(count, Relaxed);
    }

    pub(crate) fn exported(&self) -> u64 {
        self.exported.load(Relaxed)
    }

    /// By reason.
    pub(crate) fn dropped(&self) -> impl Iterator<Item = (&'static str, u64)> {
        DROP_REASONS.into_iter().zip(&self.dropped).map(|(reason, count)| (reason, count.load(Relaxed)))
    }
}
