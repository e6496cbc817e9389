//! Two clocks that have to agree.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::Moment;

/// What the clocks of this machine say. The steady one is never set back, but stands still while the machine sleeps;
/// the wall clock goes on, but can be set. A time is over when either of them says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// By the clock that is never set back.
    pub steady: Instant,
    /// By the clock that goes on while the machine sleeps.
    pub wall: Moment,
}

/// Where readings come from; tests bring their own.
pub type Clock = Arc<dyn Fn() -> Reading + Send + Sync>;

impl Reading {
    /// What the clocks say now.
    #[must_use]
    pub fn now() -> Self {
        Self { steady: Instant::now(), wall: Moment::from(SystemTime::now()) }
    }

    /// This reading, later by `duration`; `None` if that is beyond what a clock can say.
    #[must_use]
    pub fn after(self, duration: Duration) -> Option<Self> {
        Some(Self { steady: self.steady.checked_add(duration)?, wall: self.wall.after(duration) })
    }

    /// How long it is from `now` to this one, by the clock that says less.
    #[must_use]
    pub fn left(self, now: Self) -> Duration {
        self.steady.saturating_duration_since(now.steady).min(self.wall.since(now.wall))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_that_says_less_counts() {
        let now = Reading::now();
        let second = Duration::from_secs(1);
        let until = now.after(10 * second).unwrap();
        assert_eq!(until.left(now), 10 * second);
        assert_eq!(until.left(Reading { steady: now.steady + 4 * second, ..now }), 6 * second);
        let asleep = Reading { wall: now.wall.after(7 * second), ..now };
        assert_eq!(until.left(asleep), 3 * second, "the steady clock stood still");
        let set_back = Reading { steady: now.steady + 11 * second, wall: Moment::from_micros(0) };
        assert_eq!(until.left(set_back), Duration::ZERO);
    }
}
