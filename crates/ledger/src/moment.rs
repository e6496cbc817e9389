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
        let (days, micros) = (self.0.div_euclid(MICROS_PER_DAY), self.0.rem_euclid(MICROS_PER_DAY));
        let (year, month, day) = date(days);
        if !(0..=YEAR_MAX).contains(&year) {
            return write!(f, "{} µs", self.0);
        }
        let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if fraction > 0 {
            write!(f, ".{}", format!("{fraction:06}").trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

const MICROS_PER_DAY: i64 = 24 * 3600 * 1_000_000;
/// The last year that RFC 3339 can write.
const YEAR_MAX: i64 = 9999;
/// The Gregorian calendar repeats itself after 400 years.
const DAYS_PER_ERA: i64 = 146_097;
/// From 1 March of the year 0 to 1 January 1970. Years are counted from March here, so that a leap day is their last.
const DAYS_TO_1970: i64 = 719_468;

/// Year, month and day, so many days after 1 January 1970.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_TO_1970;
    let (era, day_of_era) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
    // Less the leap days so far: one in 4 years, none in 100, one in 400.
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // From March on, five months have 153 days, over and over.
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let is_next_year = month >= 10;
    let (year, month) =
        (era * 400 + year_of_era + i64::from(is_next_year), if is_next_year { month - 9 } else { month + 3 });
    (year, month, day)
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

    proptest::proptest! {
        /// Every day from the year 0 to 9999, at any microsecond of it.
        #[test]
        fn moments_are_shown_as_a_calendar_has_them(
            days in -719_528_i64..2_932_897,
            micros in 0..MICROS_PER_DAY,
            whole in proptest::sample::select(vec![1, 1000, 1_000_000, MICROS_PER_DAY]),
        ) {
            let moment = days * MICROS_PER_DAY + micros / whole * whole;
            let expected = jiff::Timestamp::from_microsecond(moment);
            // It ends a day early, so that every zone has a time for it.
            if let Ok(expected) = expected {
                proptest::prop_assert_eq!(Moment::from_micros(moment).to_string(), expected.to_string());
            }
        }
    }

    #[test]
    fn days_at_the_edge_of_years_are_right() {
        for (days, expected) in [
            (-719_528, (0, 1, 1)),
            (-1, (1969, 12, 31)),
            (0, (1970, 1, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
            (2_932_896, (9999, 12, 31)),
        ] {
            assert_eq!(date(days), expected, "{days}");
        }
        for odd in [i64::MIN, i64::MAX, -719_529 * MICROS_PER_DAY, 2_932_897 * MICROS_PER_DAY] {
            assert_eq!(Moment::from_micros(odd).to_string(), format!("{odd} µs"));
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
