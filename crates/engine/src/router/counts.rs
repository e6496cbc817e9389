//! Numbers about a router, for metrics.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::breaker::BreakerState;
use crate::counters::Meter;
use crate::locks::lock;

/// Labels that are counted one by one; the router chooses them, so their number must not grow with it.
pub const LABELS_COUNTED_MAX: usize = 100;
/// What all further labels are counted under.
pub const OTHER_LABEL: &str = "other";

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// What a router was asked and what came of it, at one moment.
        ///
        /// Every call ends as exactly one of answered, failed, timed out, nonsense and abandoned.
        #[derive(Clone, Debug, PartialEq, Eq, Default)]
        pub struct RouterCounts {
            $($(#[$doc])* pub $name: u64,)+
            /// Calls under way, now.
            pub in_flight: u64,
            /// Opinions in the cache, now.
            pub cache_entries: u64,
            /// Times the breaker opened.
            pub breaker_opened: u64,
            /// What the breaker does, now.
            pub breaker: BreakerState,
            /// Messages routed by label, sorted by label; those beyond [`LABELS_COUNTED_MAX`] labels under
            /// [`OTHER_LABEL`].
            pub routed: Vec<(String, u64)>,
        }

        /// The live numbers behind [`RouterCounts`].
        #[derive(Debug, Default)]
        pub(super) struct Meters {
            $(pub(super) $name: Meter,)+
            pub(super) in_flight: Meter,
            labels: Mutex<BTreeMap<String, u64>>,
        }

        impl Meters {
            pub(super) fn read(&self) -> RouterCounts {
                let routed = lock(&self.labels).iter().map(|(label, count)| (label.clone(), *count)).collect();
                RouterCounts {
                    $($name: self.$name.get(),)+
                    in_flight: self.in_flight.get(),
                    routed,
                    ..RouterCounts::default()
                }
            }
        }
    };
}

counts! {
    /// Calls made.
    asked,
    /// Calls answered with something usable for every message.
    answered,
    /// Calls that failed.
    failed,
    /// Calls that were cut off by the time-out.
    timed_out,
    /// Calls whose answer broke a rule, as a whole or for one of its messages.
    nonsense,
    /// Calls given up because their producer was gone.
    abandoned,
    /// Messages that the router had no opinion on.
    no_opinion,
    /// Messages not asked about because the breaker was open.
    refused_by_breaker,
    /// Messages not asked about because too many calls were open for too long.
    refused_by_limit,
    /// Messages sent by the router to a place that does not exist.
    misdirected,
    /// Messages that went on without routing after a failure of any kind.
    passed,
    /// Messages refused after a failure of any kind.
    rejected,
    /// Messages decided without a call.
    cache_hits,
    /// Messages that the cache knew nothing about.
    cache_misses,
}

impl Meters {
    /// A message was routed under this label.
    pub(super) fn on_routed(&self, label: &str) {
        let mut labels = lock(&self.labels);
        if let Some(count) = labels.get_mut(label) {
            *count += 1;
            return;
        }
        let known = if labels.len() < LABELS_COUNTED_MAX { label } else { OTHER_LABEL };
        *labels.entry(known.to_owned()).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_counted_up_to_a_bound() {
        let meters = Meters::default();
        for n in 0..LABELS_COUNTED_MAX + 50 {
            meters.on_routed(&format!("{n:03}"));
            meters.on_routed("000");
        }
        let routed = meters.read().routed;
        assert_eq!(routed.len(), LABELS_COUNTED_MAX + 1);
        assert_eq!(routed[0], ("000".to_owned(), 151));
        assert_eq!(routed[LABELS_COUNTED_MAX], (OTHER_LABEL.to_owned(), 50));
    }
}
