//! Points in time as the wire writes them: RFC 3339.

use std::borrow::Cow;
use std::fmt;

use jiff::tz::TimeZone;
use jiff::{Timestamp, civil};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

/// A point in time with nanoseconds. Always inside the years that RFC 3339 can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Timestamp);

/// Where the parts of the date and time stand: digits are `0`, everything else stands for itself.
const SHAPE: &[u8; 19] = b"0000-00-00T00:00:00";

impl Moment {
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
        if !fits || second == b"60" || !zone_fits(zone) {
            return None;
        }
        text.parse().ok().or_else(|| end_of_time(text)).map(Self)
    }

    /// The moment `millis` after the Unix epoch; `None` beyond the year 9999.
    #[must_use]
    pub fn from_epoch_ms(millis: i64) -> Option<Self> {
        Timestamp::from_millisecond(millis).ok().map(Self)
    }

    /// The moment `millis` after the Unix epoch, or the last one that can be written.
    #[must_use]
    pub fn saturating_from_epoch_ms(millis: u64) -> Self {
        i64::try_from(millis).ok().and_then(Self::from_epoch_ms).unwrap_or(Self(Timestamp::MAX))
    }

    /// From whole seconds since the Unix epoch and nanoseconds within the second, clamped to what can be written.
    #[must_use]
    pub fn saturating_from_parts(seconds: i64, nanos: u32) -> Self {
        let limit = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
        let nanos = i32::try_from(nanos).unwrap_or(0);
        Self(Timestamp::new(seconds, nanos).unwrap_or(limit))
    }

    /// Whole seconds since the Unix epoch, rounded down, and nanoseconds within the second.
    #[must_use]
    pub fn parts(self) -> (i64, u32) {
        let (seconds, nanos) = (self.0.as_second(), self.0.subsec_nanosecond());
        // Before 1970 the library counts the fraction downwards.
        match u32::try_from(nanos) {
            Ok(nanos) => (seconds, nanos),
            Err(_) => (seconds - 1, (nanos + 1_000_000_000).unsigned_abs()),
        }
    }
}

/// The calendar library's instants end a day before the year 9999 does, and producers write its last second when
/// they mean "never": that becomes the last instant there is.
fn end_of_time(text: &str) -> Option<Timestamp> {
    let (date, rest) = text.split_at_checked("9999-12-31".len())?;
    // The rest must be a time and an offset that any other day could have.
    format!("2000-01-01{rest}").parse::<Timestamp>().ok()?;
    let last = Timestamp::MAX.to_zoned(TimeZone::UTC).date();
    (date.parse::<civil::Date>().ok()? >= last).then_some(Timestamp::MAX)
}

/// What follows the fraction, if the fraction is well-formed.
fn zone_of(tail: &[u8]) -> Option<&[u8]> {
    let Some(fraction) = tail.strip_prefix(b".") else { return Some(tail) };
    let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (1..=9).contains(&digits).then(|| &fraction[digits..])
}

fn zone_fits(zone: &[u8]) -> bool {
    match zone {
        [b'Z' | b'z'] => true,
        [b'+' | b'-', hour @ .., b':', m0, m1] => {
            hour.len() == 2 && hour.iter().chain([m0, m1]).all(u8::is_ascii_digit)
        }
        _ => false,
    }
}

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

impl ToSchema for Moment {}

impl fmt::Display for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
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

    #[test]
    fn the_last_second_of_the_calendar_means_never() {
        for text in ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999999999Z", "9999-12-31T00:00:00+01:00"] {
            assert_eq!(Moment::parse(text), Some(Moment(Timestamp::MAX)), "{text}");
        }
        for text in ["9999-12-32T00:00:00Z", "9999-12-31T25:00:00Z", "9999-12-31T00:00:00+99:99"] {
            assert_eq!(Moment::parse(text), None, "{text}");
        }
        assert_eq!(Moment::parse("2025-02-30T00:00:00Z"), None);
    }

    #[test]
    fn rfc_3339_and_nothing_else() {
        for (text, printed) in [
            ("2025-12-21T12:00:00Z", Some("2025-12-21T12:00:00Z")),
            ("2025-12-21t12:00:00z", Some("2025-12-21T12:00:00Z")),
            ("2025-12-21T12:00:00+02:00", Some("2025-12-21T10:00:00Z")),
            ("2025-12-21T12:00:00-07:30", Some("2025-12-21T19:30:00Z")),
            ("2025-12-21T12:00:00.5Z", Some("2025-12-21T12:00:00.5Z")),
            ("2025-12-21T12:00:00.123456789+01:00", Some("2025-12-21T11:00:00.123456789Z")),
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
            assert_eq!(Moment::parse(text).map(|moment| moment.to_string()).as_deref(), printed, "{text}");
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
        assert_eq!(Moment::saturating_from_epoch_ms(u64::MAX), Moment(Timestamp::MAX));
        assert_eq!(Moment::saturating_from_parts(i64::MAX, u32::MAX), Moment(Timestamp::MAX));
        assert_eq!(Moment::saturating_from_parts(i64::MIN, 0), Moment(Timestamp::MIN));
    }
}
