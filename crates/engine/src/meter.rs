//! Quotas that are about time: how much of something a key may take in a second.
//!
//! One number says all: the moment at which everything that was taken would be paid for at the rate. Whoever is ahead of
//! the clock by more than a second waits. What is taken may be more than a second's worth, so that a large body gets
//! through: the next one waits for as long as it took.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use driftq_core::KeyLimits;

/// How far ahead of the clock a key may be: so much may come at once after a pause.
const BURST: Duration = Duration::from_secs(1);

/// What one key has taken, and with it those that hang on it.
#[derive(Debug)]
pub struct Meter {
    begun: Instant,
    limits: KeyLimits,
    /// Nanoseconds after `begun` at which all requests so far are paid for.
    requests: AtomicU64,
    /// The same for bytes.
    bytes: AtomicU64,
    /// Streams and waits that are open.
    waits: AtomicU32,
}

/// A quota that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedUp {
    /// Its name.
    pub quota: &'static str,
    /// How much of it there is.
    pub limit: u32,
    /// When to come back; `None` when something that is open ends.
    pub wait: Option<Duration>,
}

/// A stream or a wait that is counted for as long as this lives.
#[derive(Debug)]
pub struct OpenWait(Vec<std::sync::Arc<Meter>>);

impl Meter {
    /// Nothing is taken yet.
    #[must_use]
    pub fn new(limits: KeyLimits, now: Instant) -> Self {
        Self {
            begun: now,
            limits,
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            waits: AtomicU32::new(0),
        }
    }

    /// What it counts against.
    #[must_use]
    pub const fn limits(&self) -> KeyLimits {
        self.limits
    }

    /// Takes one request.
    pub fn take_request(&self, now: Instant) -> Result<(), UsedUp> {
        self.take(&self.requests, self.limits.requests_per_second, 1, now)
            .map_err(|wait| UsedUp { quota: "requests_per_second", ..wait })
    }

    /// Takes the bytes of a body.
    pub fn take_bytes(&self, bytes: usize, now: Instant) -> Result<(), UsedUp> {
        self.take(&self.bytes, self.limits.bytes_per_second, bytes, now)
            .map_err(|wait| UsedUp { quota: "bytes_per_second", ..wait })
    }

    fn take(&self, paid: &AtomicU64, rate: u32, amount: usize, now: Instant) -> Result<(), UsedUp> {
        if rate == 0 {
            return Ok(());
        }
        let now = nanos(now.saturating_duration_since(self.begun));
        let price = u64::try_from(amount as u128 * 1_000_000_000 / u128::from(rate)).unwrap_or(u64::MAX);
        let latest = now.saturating_add(nanos(BURST));
        let next = |paid: u64| (paid < latest).then(|| paid.max(now).saturating_add(price));
        match paid.fetch_update(Relaxed, Relaxed, next) {
            Ok(_) => Ok(()),
            Err(paid) => {
                let wait = Duration::from_nanos((paid - latest).saturating_add(1));
                Err(UsedUp { quota: "", limit: rate, wait: Some(wait) })
            }
        }
    }

    fn open(&self) -> Result<(), UsedUp> {
        let limit = self.limits.waits;
        let next = |open: u32| (limit == 0 || open < limit).then(|| open.saturating_add(1));
        let opened = self.waits.fetch_update(Relaxed, Relaxed, next);
        opened.map(|_| ()).map_err(|_| UsedUp { quota: "waits", limit, wait: None })
    }
}

impl OpenWait {
    /// Counts a stream or a wait on all of these.
    pub fn open(meters: &[std::sync::Arc<Meter>]) -> Result<Self, UsedUp> {
        // What is counted so far is given back if one of them has no room.
        let mut open = Self(Vec::with_capacity(meters.len()));
        for meter in meters {
            meter.open()?;
            open.0.push(std::sync::Arc::clone(meter));
        }
        Ok(open)
    }
}

impl Drop for OpenWait {
    fn drop(&mut self) {
        for meter in &self.0 {
            meter.waits.fetch_sub(1, Relaxed);
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const LIMITS: KeyLimits = KeyLimits { requests_per_second: 10, bytes_per_second: 1000, waits: 2 };

    fn after(begun: Instant, millis: u64) -> Instant {
        begun + Duration::from_millis(millis)
    }

    #[test]
    fn a_second_may_come_at_once_and_then_the_rate_holds() {
        let begun = Instant::now();
        let meter = Meter::new(LIMITS, begun);
        let taken = (0..100).filter(|_| meter.take_request(begun).is_ok()).count();
        assert_eq!(taken, 10);
        let used_up = meter.take_request(begun).unwrap_err();
        assert_eq!((used_up.quota, used_up.limit), ("requests_per_second", 10));
        let wait = used_up.wait.unwrap();
        assert!(wait <= Duration::from_millis(100), "{wait:?}");
        assert!(meter.take_request(begun + wait).is_ok(), "whoever waits as told is let in");
        let taken = (0..10_000).filter(|step| meter.take_request(after(begun, 1000 + step)).is_ok()).count();
        assert!((100..=110).contains(&taken), "{taken} in ten seconds");
    }

    #[test]
    fn a_pause_does_not_buy_more_than_a_second() {
        let begun = Instant::now();
        let meter = Meter::new(LIMITS, begun);
        let later = after(begun, 60_000);
        assert_eq!((0..100).filter(|_| meter.take_request(later).is_ok()).count(), 10);
    }

    #[test]
    fn what_is_larger_than_a_second_is_let_in_and_paid_for() {
        let begun = Instant::now();
        let meter = Meter::new(LIMITS, begun);
        assert!(meter.take_bytes(5000, begun).is_ok());
        let used_up = meter.take_bytes(1, after(begun, 3000)).unwrap_err();
        let wait = used_up.wait.unwrap();
        assert_eq!(used_up.quota, "bytes_per_second");
        assert!(wait > Duration::from_millis(900) && wait < Duration::from_millis(1100), "{wait:?}");
        assert!(meter.take_bytes(1, after(begun, 4001)).is_ok());
    }

    #[test]
    fn what_has_no_limit_is_never_used_up() {
        let begun = Instant::now();
        let meter = Meter::new(KeyLimits::default(), begun);
        assert!(
            (0..10_000)
                .all(|_| meter.take_request(begun).is_ok() && meter.take_bytes(1 << 30, begun).is_ok())
        );
    }

    #[test]
    fn waits_are_counted_while_they_are_open_on_every_key_of_the_line() {
        let now = Instant::now();
        let wide = Arc::new(Meter::new(KeyLimits { waits: 3, ..LIMITS }, now));
        let [first, second] = [0, 1].map(|_| vec![Arc::clone(&wide), Arc::new(Meter::new(LIMITS, now))]);
        let open = [&first, &first, &second].map(|line| OpenWait::open(line).unwrap());
        let used_up = UsedUp { quota: "waits", limit: 3, wait: None };
        assert_eq!(OpenWait::open(&second).unwrap_err(), used_up, "the key above is full");
        drop(open);
        assert_eq!(wide.waits.load(Relaxed), 0);
        let _open = [&first, &first].map(|line| OpenWait::open(line).unwrap());
        assert_eq!(OpenWait::open(&first).unwrap_err().limit, 2);
        assert_eq!(wide.waits.load(Relaxed), 2, "what was refused below is not counted above");
    }
}
