//! The only place that asks what time it is.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use driftq_core::Time;

/// Milliseconds since the Unix epoch that never go back and never leap.
///
/// The wall clock is read once, at start; from then on the monotonic clock is added to it. Somebody who sets the
/// machine's clock an hour ahead would otherwise make every lease lapse and every idempotency key expire at once.
/// The price is that a corrected wall clock is only noticed at the next start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    wall: Duration,
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        // A clock before 1970 is a machine without a clock: zero is as good as any other start.
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { wall, start: Instant::now() }
    }

    pub(crate) fn now(&self) -> Time {
        Time(millis(self.wall + self.start.elapsed()))
    }

    /// How long it is until `time`; zero if it has passed.
    pub(crate) fn until(&self, time: Time) -> Duration {
        let now = self.wall + self.start.elapsed();
        // A deadline of "never" must not overflow whatever waits for it.
        Duration::from_millis(time.0).saturating_sub(now).min(WAIT_MAX)
    }
}

/// The longest single wait; afterwards the deadline is looked at again.
const WAIT_MAX: Duration = Duration::from_secs(60 * 60);

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_goes_back_and_never_waits_for_the_past() {
        let clock = Clock::start();
        let first = clock.now();
        assert!(clock.now() >= first);
        assert_eq!(clock.until(Time(0)), Duration::ZERO);
        assert_eq!(clock.until(Time::NEVER), WAIT_MAX);
    }
}
