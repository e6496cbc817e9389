//! Points in time as the wire writes them: RFC 3339.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

#[cfg(feature = "openapi")]
use crate::ToSchema;
use jiff::SignedDuration;
use jiff::civil::{self, DateTime};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
#[cfg(feature = "openapi")]
use utoipa::PartialSchema;
#[cfg(feature = "openapi")]
use utoipa::openapi::RefOr;
#[cfg(feature = "openapi")]
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};

/// A point in time with nanoseconds, and the offset from UTC in which it is written. Always inside the years that
/// RFC 3339 can write. Two of them are the same if they are the same instant, however they are written.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Whole seconds since the Unix epoch, rounded down.
    seconds: i64,
    /// Nanoseconds within the second.
    nanos: u32,
    offset_minutes: i16,
}

/// Where the parts of the date and time stand: digits are `0`, everything else stands for itself.
const SHAPE: &[u8; 19] = b"0000-00-00T00:00:00";
/// The last second of the year 9999, in UTC.
const SECONDS_MAX: i64 = 253_402_300_799;
/// The first second of the year 0, in UTC.
const SECONDS_MIN: i64 = -62_167_219_200;
const NANOS_MAX: u32 = 999_999_999;
/// Offsets are shorter than a day.
const OFFSET_MINUTES_MAX: u16 = 24 * 60 - 1;
const EPOCH: DateTime = civil::date(1970, 1, 1).at(0, 0, 0, 0);

impl Moment {
    const MAX: Self = Self { seconds: SECONDS_MAX, nanos: NANOS_MAX, offset_minutes: 0 };
    const MIN: Self = Self { seconds: SECONDS_MIN, nanos: 0, offset_minutes: 0 };

    /// Reads RFC 3339 with an offset and any number of fractional digits up to nine. Other ISO 8601 forms, which
    /// the calendar library would take, are not part of the contract.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (head, tail) = text.as_bytes().split_at_checked(SHAPE.len())?;
        let fits = head.iter().zip(SHAPE).all(|(byte, shape)| match shape {
            b'0' => byte.is_ascii_digit(),
            b'T' => matches!(byte, b'T' | b't'),
            other => byte == other,
        });
        let (second, zone) = (&head[17..], zone_of(tail)?);
        if !fits || second == b"60" {
            return None;
        }
        let offset_minutes = offset_of(zone)?;
        let local: DateTime = text[..text.len() - zone.len()].parse().ok()?;
        let since = local.duration_since(EPOCH);
        // The library counts the fraction downwards before 1970.
        let (seconds, nanos) = floored(since.as_secs(), since.subsec_nanos());
        Some(Self { seconds: seconds - i64::from(offset_minutes) * 60, nanos, offset_minutes })
    }

    /// The moment `millis` after the Unix epoch; `None` beyond the year 9999.
    #[must_use]
    pub fn from_epoch_ms(millis: i64) -> Option<Self> {
        let nanos = u32::try_from(millis.rem_euclid(1000)).ok()? * 1_000_000;
        let moment = Self { seconds: millis.div_euclid(1000), nanos, offset_minutes: 0 };
        (SECONDS_MIN..=SECONDS_MAX).contains(&moment.seconds).then_some(moment)
    }

    /// The moment `millis` after the Unix epoch, or the last one that can be written.
    #[must_use]
    pub fn saturating_from_epoch_ms(millis: u64) -> Self {
        i64::try_from(millis).ok().and_then(Self::from_epoch_ms).unwrap_or(Self::MAX)
    }

    /// From whole seconds since the Unix epoch and nanoseconds within the second, clamped to what can be written.
    #[must_use]
    pub fn saturating_from_parts(seconds: i64, nanos: u32) -> Self {
        Self { seconds, nanos: nanos.min(NANOS_MAX), offset_minutes: 0 }.clamp(Self::MIN, Self::MAX)
    }

    /// As [`Moment::saturating_from_parts`], written with an offset from UTC if it can be.
    #[must_use]
    pub fn saturating_at_offset(seconds: i64, nanos: u32, offset_minutes: i16) -> Self {
        let written = Self { seconds, nanos: nanos.min(NANOS_MAX), offset_minutes };
        let fits = offset_minutes.unsigned_abs() <= OFFSET_MINUTES_MAX
            && (SECONDS_MIN..=SECONDS_MAX).contains(&written.local_seconds());
        if fits { written } else { Self::saturating_from_parts(seconds, nanos) }
    }

    /// Whole seconds since the Unix epoch, rounded down, and nanoseconds within the second.
    #[must_use]
    pub const fn parts(self) -> (i64, u32) {
        (self.seconds, self.nanos)
    }

    /// The offset from UTC in which it is written, in minutes.
    #[must_use]
    pub const fn offset_minutes(self) -> i16 {
        self.offset_minutes
    }

    fn local_seconds(self) -> i64 {
        self.seconds.saturating_add(i64::from(self.offset_minutes) * 60)
    }
}

/// Seconds rounded down, and what is left in nanoseconds.
fn floored(seconds: i64, nanos: i32) -> (i64, u32) {
    match u32::try_from(nanos) {
        Ok(nanos) => (seconds, nanos),
        Err(_) => (seconds - 1, (nanos + 1_000_000_000).unsigned_abs()),
    }
}

impl PartialEq for Moment {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

/// What follows the fraction, if the fraction is well-formed.
fn zone_of(tail: &[u8]) -> Option<&[u8]> {
    let Some(fraction) = tail.strip_prefix(b".") else { return Some(tail) };
    let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (1..=9).contains(&digits).then(|| &fraction[digits..])
}

/// The offset that a zone names, in minutes.
fn offset_of(zone: &[u8]) -> Option<i16> {
    let number = |tens: &u8, ones: &u8| {
        let digits = tens.is_ascii_digit() && ones.is_ascii_digit();
        digits.then(|| i16::from(tens - b'0') * 10 + i16::from(ones - b'0'))
    };
    match zone {
        [b'Z' | b'z'] => Some(0),
        [sign @ (b'+' | b'-'), h0, h1, b':', m0, m1] => {
            let (hours, minutes) = (number(h0, h1)?, number(m0, m1)?);
            let offset = hours * 60 + minutes;
            (hours < 24 && minutes < 60).then_some(if *sign == b'-' { -offset } else { offset })
        }
        _ => None,
    }
}

#[cfg(feature = "openapi")]
impl PartialSchema for Moment {
    fn schema() -> RefOr<Schema> {
        let shape = "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-5][0-9](\\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})$";
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .pattern(Some(shape))
            .description(Some("A time in RFC 3339. Answers are in UTC. There are no leap seconds."))
            .examples([serde_json::json!("2025-12-21T12:00:00Z")])
            .into()
    }
}

#[cfg(feature = "openapi")]
impl ToSchema for Moment {}

impl fmt::Display for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // In UTC, the last hours of the last year and the first of the first may lie beyond what can be written.
        let seconds = self.local_seconds().clamp(SECONDS_MIN, SECONDS_MAX);
        let since = SignedDuration::new(seconds, i32::try_from(self.nanos).unwrap_or(0));
        let local = EPOCH.checked_add(since).unwrap_or(DateTime::MAX);
        local.fmt(formatter)?;
        match self.offset_minutes {
            0 => formatter.write_str("Z"),
            offset => {
                let (sign, offset) = (if offset < 0 { '-' } else { '+' }, offset.abs());
                write!(formatter, "{sign}{:02}:{:02}", offset / 60, offset % 60)
            }
        }
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            de::Error::invalid_value(
                de::Unexpected::Str(&text),
                &"an RFC 3339 time such as 2025-12-21T12:00:00Z",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str) -> Option<String> {
        Moment::parse(text).map(|moment| moment.to_string())
    }

    #[test]
    fn the_ends_of_the_calendar_come_back_as_they_were_given() {
        for text in [
            "9999-12-31T23:59:59Z",
            "9999-12-31T23:59:59.999999999Z",
            "9999-12-31T23:59:59-11:00",
            "9999-12-31T00:00:00+01:00",
            "0000-01-01T00:00:00Z",
            "0000-01-01T00:00:00.5+14:00",
        ] {
            assert_eq!(printed(text).as_deref(), Some(text));
        }
        for text in ["9999-12-32T00:00:00Z", "9999-12-31T25:00:00Z", "9999-12-31T00:00:00+99:99"] {
            assert_eq!(printed(text), None, "{text}");
        }
        assert_eq!(printed("2025-02-30T00:00:00Z"), None);
        let (seconds, nanos) = Moment::parse("9999-12-31T23:59:59.25-11:00").unwrap().parts();
        assert_eq!(Moment::saturating_from_parts(seconds, nanos), Moment::MAX, "UTC has no such year");
        let text = Moment::saturating_at_offset(seconds, nanos, -660).to_string();
        assert_eq!(text, "9999-12-31T23:59:59.25-11:00");
    }

    #[test]
    fn one_instant_is_one_moment_however_it_is_written() {
        let (here, there) = ("2025-12-21T12:00:00.5+02:00", "2025-12-21T02:30:00.5-07:30");
        let (here, there) = (Moment::parse(here).unwrap(), Moment::parse(there).unwrap());
        assert_eq!((here, here.cmp(&there)), (there, Ordering::Equal));
        let (seconds, nanos) = here.parts();
        for (offset, text) in [
            (there.offset_minutes(), "2025-12-21T02:30:00.5-07:30"),
            (0, "2025-12-21T10:00:00.5Z"),
            (i16::MIN, "2025-12-21T10:00:00.5Z"),
        ] {
            assert_eq!(Moment::saturating_at_offset(seconds, nanos, offset).to_string(), text);
        }
    }

    #[test]
    fn rfc_3339_and_nothing_else() {
        for (text, expected) in [
            ("2025-12-21T12:00:00Z", Some("2025-12-21T12:00:00Z")),
            ("2025-12-21t12:00:00z", Some("2025-12-21T12:00:00Z")),
            ("2025-12-21T12:00:00+02:00", Some("2025-12-21T12:00:00+02:00")),
            ("2025-12-21T12:00:00-07:30", Some("2025-12-21T12:00:00-07:30")),
            ("2025-12-21T12:00:00.500-00:00", Some("2025-12-21T12:00:00.5Z")),
            ("2025-12-21T12:00:00+24:00", None),
            ("2025-12-21T12:00:00+02:60", None),
            ("2025-12-21T12:00:00.5Z", Some("2025-12-21T12:00:00.5Z")),
            ("2025-12-21T12:00:00.123456789+01:00", Some("2025-12-21T12:00:00.123456789+01:00")),
            ("0001-01-01T00:00:00Z", Some("0001-01-01T00:00:00Z")),
            ("2025-12-21T12:00:00", None),
            ("2025-12-21T12:00Z", None),
            ("2025-12-21 12:00:00Z", None),
            ("2025-12-21T12:00:00 02:00", None),
            ("2025-12-21T12:00:00+0200", None),
            ("2025-12-21T12:00:00+02", None),
            ("2025-12-21T12:00:00.Z", None),
            ("2025-12-21T12:00:00.1234567890Z", None),
            ("2025-12-21T12:00:60Z", None),
            ("2025-13-21T12:00:00Z", None),
            ("2025-02-29T12:00:00Z", None),
            ("2025-12-21T12:00:00Z[Europe/Berlin]", None),
            ("+002025-12-21T12:00:00Z", None),
            ("20251221T120000Z", None),
            ("tomorrow", None),
            ("", None),
            ("2025-12-21T12:00:0é", None),
        ] {
            assert_eq!(printed(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn parts_and_milliseconds_agree() {
        for (text, parts) in [
            ("1970-01-01T00:00:01.25Z", (1, 250_000_000)),
            ("1969-12-31T23:59:59.75Z", (-1, 750_000_000)),
            ("1969-12-31T23:59:59Z", (-1, 0)),
        ] {
            let moment = Moment::parse(text).unwrap();
            assert_eq!(moment.parts(), parts, "{text}");
            assert_eq!(Moment::saturating_from_parts(parts.0, parts.1), moment, "{text}");
        }
        assert_eq!(Moment::from_epoch_ms(1_500).unwrap().to_string(), "1970-01-01T00:00:01.5Z");
        assert_eq!(Moment::from_epoch_ms(i64::MAX), None);
        assert_eq!(Moment::saturating_from_epoch_ms(u64::MAX), Moment::MAX);
        assert_eq!(Moment::saturating_from_parts(i64::MAX, u32::MAX), Moment::MAX);
        assert_eq!(Moment::saturating_from_parts(i64::MIN, 0), Moment::MIN);
    }
}
