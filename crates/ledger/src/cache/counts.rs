//! How a cache is doing.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often a cache helped, and how often it did not.
#[derive(Debug, Default)]
pub struct Counts {
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
    pub(super) puts: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) skipped: AtomicU64,
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counts {
    /// Answers from a copy.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Questions for which there was no valid copy.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// Copies kept.
    #[must_use]
    pub fn puts(&self) -> u64 {
        self.puts.load(Ordering::Relaxed)
    }

    /// Calls of the cache that failed or took too long.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Calls that were left out because the cache had just failed.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }
}

impl fmt::Display for Counts {
    /// In the text format of Prometheus.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = "driftq_ledger_cache_total";
        writeln!(f, "# HELP {name} What came of asking the cache of the ledger\n# TYPE {name} counter")?;
        for (result, count) in [
            ("hit", self.hits()),
            ("miss", self.misses()),
            ("put", self.puts()),
            ("failure", self.failures()),
            ("skipped", self.skipped()),
        ] {
            writeln!(f, "{name}{{result=\"{result}\"}} {count}")?;
        }
        Ok(())
    }
}
