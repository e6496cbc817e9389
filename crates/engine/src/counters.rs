//! Numbers about the engine's own work, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// What the engine has done and holds, at one moment.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)+
        }

        impl Counters {
            /// These and those of another shard together. Shards recover beside each other: the longest counts.
            pub(crate) fn with(self, other: Self) -> Self {
                let recovery_ms = self.recovery_ms.max(other.recovery_ms);
                Self { recovery_ms, ..Self { $($name: self.$name + other.$name,)+ } }
            }
        }

        /// The live numbers behind [`Counters`].
        ///
        /// Relaxed everywhere: each number stands alone and nothing is decided by them.
        #[derive(Debug, Default)]
        pub(crate) struct Meters {
            $(pub(crate) $name: Meter,)+
        }

        impl Meters {
            pub(crate) fn read(&self) -> Counters {
                Counters { $($name: self.$name.get(),)+ }
            }
        }
    };
}

counters! {
    /// Requests that entered the input queue.
    requests,
    /// Requests turned away because the input queue was full.
    requests_busy,
    /// Messages stored.
    produced,
    /// Produces answered with an earlier message of the same identity.
    produced_duplicates,
    /// Deliveries handed to streams.
    delivered,
    /// Deliveries among them that were not the first attempt.
    redelivered,
    /// Acks accepted.
    acked,
    /// Nacks accepted.
    nacked,
    /// Settlements refused because their token was stale or unknown.
    stale,
    /// Effects that an asker was told to run.
    effects_executed,
    /// Effects answered with the outcome of an earlier run.
    effects_replayed,
    /// Effects whose outcome was written down.
    effects_finished,
    /// Outcomes refused because their lease was not the newest one.
    effects_stale,
    /// Commits done.
    commits,
    /// Commits refused.
    commits_refused,
    /// Deliveries given back because they never reached their reader.
    released,
    /// Dead letters written.
    buried,
    /// Requests refused by the shard.
    rejected,
    /// Batches handed to the log.
    batches,
    /// Syncs of the log.
    syncs,
    /// Bytes of facts written to the log.
    written_bytes,
    /// Payloads read from the cache.
    cache_hits,
    /// Payloads read from the log.
    cache_misses,
    /// Payloads whose checksum did not match; never delivered.
    payloads_damaged,
    /// Snapshots written.
    snapshots,
    /// Snapshots that could not be written.
    snapshots_failed,
    /// Segments given back for reuse.
    segments_dropped,
    /// Messages copied out of segments that only they kept.
    relocated,
    /// Times the shard was rebuilt after a failure.
    rebuilds,
    /// Requests waiting for the decide thread, now.
    queue_length,
    /// Bytes held by the payload cache, now.
    cache_bytes,
    /// Open streams, now.
    streams,
    /// Segment files in use, now.
    segments,
    /// Bytes of log that a start would replay, now.
    replay_bytes,
    /// How long the last recovery took.
    recovery_ms,
}

#[derive(Debug, Default)]
pub(crate) struct Meter(AtomicU64);

impl Meter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn one(&self) {
        self.add(1);
    }

    pub(crate) fn less(&self, count: u64) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
