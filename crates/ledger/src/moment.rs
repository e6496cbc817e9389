//! Points in time, to the microsecond.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A point in time in UTC, in whole microseconds: what PostgreSQL can keep, so that what is read back is what was
/// written. Anything finer is cut off, never rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(i64);

impl Moment {
    /// Microseconds since 1970.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970.
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1000))
    }

    /// Later by this much; the end of time if that is too much.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }

    /// How long it is from `earlier` to this one; nothing if it is the other way round.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// Whole microseconds of a duration.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

impl From<SystemTime> for Moment {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self(micros(after)),
            // Cut off towards the past here, too: the microsecond in which the time lies.
            Err(before) => {
                let before = before.duration();
                let part = i64::from(before.subsec_nanos() % 1000 != 0);
                Self(micros(before).saturating_add(part).saturating_neg())
            }
        }
    }
}

impl fmt::Display for Moment {
    /// As RFC 3339 has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(timestamp) => write!(f, "{timestamp}"),
            Err(_) => write!(f, "{} µs", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finer_than_a_microsecond_is_cut_off_and_never_rounded_up() {
        for (nanos, micros) in [(0, 0), (1, 0), (999, 0), (1000, 1), (1999, 1), (1_999_999, 1999)] {
            assert_eq!(Moment::from(UNIX_EPOCH + Duration::from_nanos(nanos)).micros(), micros, "{nanos} ns");
        }
        for (nanos, micros) in [(1, -1), (1000, -1), (1001, -2)] {
            assert_eq!(
                Moment::from(UNIX_EPOCH - Duration::from_nanos(nanos)).micros(),
                micros,
                "-{nanos} ns"
            );
        }
    }

    #[test]
    fn moments_are_shown_as_people_write_them() {
        assert_eq!(Moment::from_micros(1_766_318_400_000_001).to_string(), "2025-12-21T12:00:00.000001Z");
        assert_eq!(Moment::from_millis(5).since(Moment::from_millis(2)), Duration::from_millis(3));
        assert_eq!(Moment::from_millis(2).since(Moment::from_millis(5)), Duration::ZERO);
        assert_eq!(Moment::from_micros(i64::MAX).after(Duration::MAX), Moment::from_micros(i64::MAX));
    }
}
