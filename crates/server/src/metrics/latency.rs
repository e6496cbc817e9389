//! How long answers took, in buckets.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds in microseconds, from the fastest disk to a broker in trouble.
const BOUNDS_US: [u64; 14] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000,
    30_000_000,
];

/// A histogram without locks: the numbers may be a request apart from each other, which no dashboard can see.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    /// The last one takes what is above every bound.
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Latency {
    pub(crate) fn observe(&self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let place = BOUNDS_US.iter().position(|bound| micros <= *bound).unwrap_or(BOUNDS_US.len());
        self.buckets[place].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(micros, Relaxed);
    }

    /// Seconds in all, and per bucket its upper bound in seconds with how many fell into it.
    pub(crate) fn read(&self) -> (f64, [(f64, u64); BOUNDS_US.len() + 1]) {
        let mut buckets = [(f64::INFINITY, 0); BOUNDS_US.len() + 1];
        for (place, bucket) in self.buckets.iter().enumerate() {
            buckets[place].1 = bucket.load(Relaxed);
            if let Some(bound) = BOUNDS_US.get(place) {
                buckets[place].0 = seconds(*bound);
            }
        }
        (seconds(self.sum_us.load(Relaxed)), buckets)
    }
}

fn seconds(micros: u64) -> f64 {
    Duration::from_micros(micros).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_latency_falls_into_one_bucket() {
        let latency = Latency::default();
        for micros in [0, 100, 101, 30_000_001] {
            latency.observe(Duration::from_micros(micros));
        }
        let (sum, buckets) = latency.read();
        assert_eq!(buckets[0], (0.0001, 2));
        assert_eq!(buckets[1], (0.00025, 1));
        assert_eq!(buckets[14], (f64::INFINITY, 1));
        assert!((sum - 30.000_202).abs() < 1e-9, "{sum}");
    }
}
