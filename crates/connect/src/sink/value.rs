//! One value, from the text of a JSON document to the text that PostgreSQL takes.
//!
//! Text, and not the binary form: a column may be of another type than the sink's that takes the same values, and it is
//! PostgreSQL that knows how.

use std::borrow::Cow;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driftq_api::Moment;
use serde::Deserialize;

use super::pick::Text;

const DAY_SECONDS: i64 = 86_400;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Text; from a string.
    Text,
    /// 64 bits; from an integer, or a string of one.
    Bigint,
    /// 32 bits; likewise.
    Integer,
    /// A float; from a number.
    Double,
    /// Any number of digits; from a number, or a string of one.
    Numeric,
    /// From true or false.
    Boolean,
    /// A moment; from a string in RFC 3339.
    Timestamptz,
    /// Any JSON.
    Jsonb,
    /// From a string of 32 digits with hyphens.
    Uuid,
    /// Bytes; from a string in base64.
    Bytea,
}

impl Kind {
    pub(super) const ALL: &'static [Self] = &[
        Self::Text,
        Self::Bigint,
        Self::Integer,
        Self::Double,
        Self::Numeric,
        Self::Boolean,
        Self::Timestamptz,
        Self::Jsonb,
        Self::Uuid,
        Self::Bytea,
    ];

    /// Its name in the file, and in SQL.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Bigint => "bigint",
            Self::Integer => "integer",
            Self::Double => "double",
            Self::Numeric => "numeric",
            Self::Boolean => "boolean",
            Self::Timestamptz => "timestamptz",
            Self::Jsonb => "jsonb",
            Self::Uuid => "uuid",
            Self::Bytea => "bytea",
        }
    }

    /// Its name in a `CREATE TABLE`.
    pub(super) const fn sql(self) -> &'static str {
        match self {
            Self::Double => "double precision",
            other => other.name(),
        }
    }

    /// The types of a table, as the catalogue calls them, that a value of this kind goes into without a loss.
    pub(super) const fn fitting(self) -> &'static [&'static str] {
        match self {
            Self::Text => &["text", "varchar", "bpchar", "citext"],
            Self::Bigint => &["int8", "numeric"],
            Self::Integer => &["int4", "int8", "numeric"],
            Self::Double => &["float8"],
            Self::Numeric => &["numeric"],
            Self::Boolean => &["bool"],
            Self::Timestamptz => &["timestamptz"],
            Self::Jsonb => &["jsonb"],
            Self::Uuid => &["uuid"],
            Self::Bytea => &["bytea"],
        }
    }

    /// Whether a type of a table, as the catalogue calls it, compares as this kind does.
    pub(super) fn is_same(self, catalogued: &str) -> bool {
        self.fitting().first() == Some(&catalogued) || self == Self::Text && catalogued == "varchar"
    }
}

/// Appends the value that stands in a document as `text`, which is JSON and not `null`.
pub(super) fn append_json(kind: Kind, text: &str, cells: &mut String) -> Result<(), String> {
    match kind {
        Kind::Text => return append_text(&string(text)?, cells),
        Kind::Bigint => append_shown(integer::<i64>(&digits(text)?)?, cells),
        Kind::Integer => append_shown(integer::<i32>(&digits(text)?)?, cells),
        // With an exponent where there are many zeros.
        Kind::Double => append_shown(format_args!("{:?}", double(text)?), cells),
        Kind::Numeric => {
            let digits = digits(text)?;
            if !is_number(&digits) {
                return Err(format!("{} is no number", shown(text)));
            }
            cells.push_str(&digits);
        }
        Kind::Boolean if matches!(text, "true" | "false") => cells.push_str(text),
        Kind::Boolean => return Err(format!("{} is neither true nor false", shown(text))),
        Kind::Timestamptz => {
            let string = string(text)?;
            let moment = Moment::parse(&string)
                .ok_or_else(|| format!("{} is no moment such as 2026-11-17T07:00:00Z", shown(text)))?;
            append_moment(moment, cells);
        }
        Kind::Jsonb => cells.push_str(text),
        Kind::Uuid => {
            let string = string(text)?;
            if !is_uuid(&string) {
                return Err(format!("{} is no UUID", shown(text)));
            }
            cells.push_str(&string);
        }
        Kind::Bytea => {
            let decoded = STANDARD.decode(string(text)?.as_bytes());
            append_bytea(&decoded.map_err(|_| format!("{} is not in base64", shown(text)))?, cells);
        }
    }
    Ok(())
}

/// What is written for a message that does not have the value: checked once, when the file is read.
pub(super) fn default_cell(kind: Kind, default: &toml::Value) -> Result<String, String> {
    let text = match default {
        toml::Value::Datetime(moment) => serde_json::to_string(&moment.to_string()),
        other => serde_json::to_string(other),
    };
    let text = text.map_err(|error| error.to_string())?;
    let mut cell = String::new();
    append_json(kind, &text, &mut cell)?;
    Ok(cell)
}

/// Appends text as it is.
pub(super) fn append_text(text: &str, cells: &mut String) -> Result<(), String> {
    if text.contains('\0') {
        return Err("the text has a NUL, which PostgreSQL does not keep".to_owned());
    }
    cells.push_str(text);
    Ok(())
}

/// Appends what shows itself as PostgreSQL reads it.
pub(super) fn append_shown(value: impl std::fmt::Display, cells: &mut String) {
    // Writing to a string cannot fail.
    let _ = write!(cells, "{value}");
}

/// Appends bytes in hexadecimal.
pub(super) fn append_bytea(value: &[u8], cells: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    cells.push_str("\\x");
    for byte in value {
        cells.push(char::from(DIGITS[usize::from(byte >> 4)]));
        cells.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

/// Appends a moment in UTC, to the microsecond; what is finer is cut off.
pub(super) fn append_moment(moment: Moment, cells: &mut String) {
    let (seconds, nanos) = moment.parts();
    let (year, month, day) = date(seconds.div_euclid(DAY_SECONDS));
    let second = seconds.rem_euclid(DAY_SECONDS);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    // There is no year 0: the one before the first is the first before Christ.
    let (year, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    append_shown(format_args!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"), cells);
    if nanos >= 1_000 {
        append_shown(format_args!(".{:06}", nanos / 1_000), cells);
    }
    cells.push_str("+00");
    cells.push_str(era);
}

/// Year, month and day, from days since the Unix epoch. Counted in eras of 400 years, which all have as many days, and
/// from March, so that a leap day is the last of its year.
const fn date(days: i64) -> (i64, i64, i64) {
    const ERA_DAYS: i64 = 146_097;
    const EPOCH_SINCE_MARCH_OF_YEAR_0: i64 = 719_468;
    let days = days + EPOCH_SINCE_MARCH_OF_YEAR_0;
    let (era, day) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    (year + era * 400, month, day)
}

/// The text of a JSON string.
fn string(text: &str) -> Result<Cow<'_, str>, String> {
    if !text.starts_with('"') {
        return Err(format!("{} is no string", shown(text)));
    }
    let Text(string) = serde_json::from_str(text).map_err(|error| format!("{}: {error}", shown(text)))?;
    Ok(string)
}

/// The digits of a number, which may stand in a string: some senders have no other way to write them all.
fn digits(text: &str) -> Result<Cow<'_, str>, String> {
    match text.as_bytes().first() {
        Some(b'"') => string(text),
        Some(b'-' | b'0'..=b'9') => Ok(Cow::Borrowed(text)),
        _ => Err(format!("{} is no number", shown(text))),
    }
}

fn integer<T: std::str::FromStr<Err = std::num::ParseIntError>>(digits: &str) -> Result<T, String> {
    let is_plain = digits.strip_prefix('-').unwrap_or(digits).bytes().all(|byte| byte.is_ascii_digit());
    if !is_plain {
        return Err(format!("{} is no integer", shown(digits)));
    }
    digits.parse().map_err(|error| format!("{}: {error}", shown(digits)))
}

fn double(text: &str) -> Result<f64, String> {
    if !is_number(text) {
        return Err(format!("{} is no number", shown(text)));
    }
    let number: f64 = text.parse().map_err(|_| format!("{} is no number", shown(text)))?;
    if number.is_finite() {
        return Ok(number);
    }
    Err(format!("{} is beyond what a double can be", shown(text)))
}

/// Whether it is written as JSON writes numbers.
fn is_number(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.strip_prefix(['+', '-']).unwrap_or(exponent)),
        None => (text, "0"),
    };
    let mantissa = mantissa.strip_prefix('-').unwrap_or(mantissa);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    [whole, fraction, exponent]
        .iter()
        .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Most characters of a value in a reason: the dead letter has all of it.
const SHOWN_CHARS_MAX: usize = 60;

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(kind: Kind, text: &str) -> Result<String, String> {
        let mut cell = String::new();
        append_json(kind, text, &mut cell).map(|()| cell)
    }

    #[test]
    fn values_become_the_text_that_postgresql_takes() {
        for (kind, text, expected) in [
            (Kind::Text, r#""a\n\u00e9""#, "a\né"),
            (Kind::Bigint, "9223372036854775807", "9223372036854775807"),
            (Kind::Bigint, r#""-09223372036854775808""#, "-9223372036854775808"),
            (Kind::Integer, "-2147483648", "-2147483648"),
            (Kind::Double, "1.5e3", "1500.0"),
            (Kind::Double, "1e-400", "0.0"),
            (Kind::Numeric, "12345678901234567890.10", "12345678901234567890.10"),
            (Kind::Numeric, r#""-0.1e-7""#, "-0.1e-7"),
            (Kind::Boolean, "true", "true"),
            (Kind::Timestamptz, r#""2000-01-01T01:00:00.0000019+01:00""#, "2000-01-01 00:00:00.000001+00"),
            (Kind::Timestamptz, r#""2024-02-29T23:59:59Z""#, "2024-02-29 23:59:59+00"),
            (Kind::Timestamptz, r#""1969-12-31T23:59:59.5Z""#, "1969-12-31 23:59:59.500000+00"),
            (Kind::Timestamptz, r#""0001-01-01T00:00:00+23:59""#, "0001-12-31 00:01:00+00 BC"),
            (Kind::Timestamptz, r#""9999-12-31T23:59:59-00:01""#, "10000-01-01 00:00:59+00"),
            (Kind::Jsonb, "[1]", "[1]"),
            (Kind::Uuid, r#""00112233-4455-6677-8899-AabbccddeefF""#, "00112233-4455-6677-8899-AabbccddeefF"),
            (Kind::Bytea, r#""AAH+""#, "\\x0001fe"),
        ] {
            assert_eq!(cell(kind, text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_not_bent() {
        for (kind, text) in [
            (Kind::Text, "1"),
            (Kind::Text, r#""a\u0000b""#),
            (Kind::Text, r#""\ud800""#),
            (Kind::Bigint, "9223372036854775808"),
            (Kind::Bigint, "1.0"),
            (Kind::Bigint, "1e3"),
            (Kind::Bigint, r#""""#),
            (Kind::Bigint, r#""+1""#),
            (Kind::Bigint, "true"),
            (Kind::Integer, "2147483648"),
            (Kind::Double, "1e400"),
            (Kind::Double, r#""NaN""#),
            (Kind::Numeric, r#""NaN""#),
            (Kind::Numeric, r#""1_000""#),
            (Kind::Numeric, r#""Infinity""#),
            (Kind::Numeric, r#"" 1""#),
            (Kind::Boolean, r#""true""#),
            (Kind::Timestamptz, r#""2026-11-17""#),
            (Kind::Timestamptz, "1763362800"),
            (Kind::Uuid, r#""00112233445566778899aabbccddeeff""#),
            (Kind::Bytea, r#""A""#),
        ] {
            assert!(cell(kind, text).is_err(), "{} {text}", kind.name());
        }
    }
}
