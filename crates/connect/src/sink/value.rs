//! One value, from the text of a JSON document to the bytes that PostgreSQL takes.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driftq_api::Moment;
use serde::Deserialize;
use tokio_postgres::types::Type;

/// Seconds from the Unix epoch to that of PostgreSQL, the first moment of the year 2000.
const POSTGRES_EPOCH_SECONDS: i64 = 946_684_800;
/// The first byte of a `jsonb`.
const JSONB_VERSION: u8 = 1;

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

    /// What goes over the wire: the type of an element, and of the array. A number of any length goes as its digits.
    pub(super) const fn wire(self) -> (Type, Type) {
        match self {
            Self::Text | Self::Numeric => (Type::TEXT, Type::TEXT_ARRAY),
            Self::Bigint => (Type::INT8, Type::INT8_ARRAY),
            Self::Integer => (Type::INT4, Type::INT4_ARRAY),
            Self::Double => (Type::FLOAT8, Type::FLOAT8_ARRAY),
            Self::Boolean => (Type::BOOL, Type::BOOL_ARRAY),
            Self::Timestamptz => (Type::TIMESTAMPTZ, Type::TIMESTAMPTZ_ARRAY),
            Self::Jsonb => (Type::JSONB, Type::JSONB_ARRAY),
            Self::Uuid => (Type::UUID, Type::UUID_ARRAY),
            Self::Bytea => (Type::BYTEA, Type::BYTEA_ARRAY),
        }
    }
}

/// Appends the value that stands in a document as `text`, which is JSON and not `null`.
pub(super) fn append_json(kind: Kind, text: &str, bytes: &mut Vec<u8>) -> Result<(), String> {
    match kind {
        Kind::Text => return append_text(&string(text)?, bytes),
        Kind::Bigint => bytes.extend(integer::<i64>(&digits(text)?)?.to_be_bytes()),
        Kind::Integer => bytes.extend(integer::<i32>(&digits(text)?)?.to_be_bytes()),
        Kind::Double => bytes.extend(double(text)?.to_be_bytes()),
        Kind::Numeric => {
            let digits = digits(text)?;
            if !is_number(&digits) {
                return Err(format!("{} is no number", shown(text)));
            }
            bytes.extend(digits.as_bytes());
        }
        Kind::Boolean => match text {
            "true" => bytes.push(1),
            "false" => bytes.push(0),
            _ => return Err(format!("{} is neither true nor false", shown(text))),
        },
        Kind::Timestamptz => {
            let string = string(text)?;
            let moment = Moment::parse(&string)
                .ok_or_else(|| format!("{} is no moment such as 2026-11-17T07:00:00Z", shown(text)))?;
            append_moment(moment, bytes);
        }
        Kind::Jsonb => append_jsonb(text, bytes),
        Kind::Uuid => {
            bytes.extend(uuid(&string(text)?).ok_or_else(|| format!("{} is no UUID", shown(text)))?)
        }
        Kind::Bytea => {
            let decoded = STANDARD.decode(string(text)?.as_bytes());
            bytes.extend(decoded.map_err(|_| format!("{} is not in base64", shown(text)))?);
        }
    }
    Ok(())
}

/// What is written for a message that does not have the value: checked once, when the file is read.
pub(super) fn default_bytes(kind: Kind, default: &toml::Value) -> Result<Vec<u8>, String> {
    let text = match default {
        toml::Value::Datetime(moment) => serde_json::to_string(&moment.to_string()),
        other => serde_json::to_string(other),
    };
    let text = text.map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    append_json(kind, &text, &mut bytes)?;
    Ok(bytes)
}

/// Appends text as it is.
pub(super) fn append_text(text: &str, bytes: &mut Vec<u8>) -> Result<(), String> {
    if text.contains('\0') {
        return Err("the text has a NUL, which PostgreSQL does not keep".to_owned());
    }
    bytes.extend(text.as_bytes());
    Ok(())
}

/// Appends a document as it is.
pub(super) fn append_jsonb(text: &str, bytes: &mut Vec<u8>) {
    bytes.push(JSONB_VERSION);
    bytes.extend(text.as_bytes());
}

/// Appends a moment, in microseconds; what is finer is cut off.
pub(super) fn append_moment(moment: Moment, bytes: &mut Vec<u8>) {
    let (seconds, nanos) = moment.parts();
    // A moment lies between the years 0 and 9999, so nothing here can overflow.
    let micros = (seconds - POSTGRES_EPOCH_SECONDS) * 1_000_000 + i64::from(nanos / 1_000);
    bytes.extend(micros.to_be_bytes());
}

/// The text of a JSON string.
fn string(text: &str) -> Result<Cow<'_, str>, String> {
    #[derive(Deserialize)]
    struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);
    if !text.starts_with('"') {
        return Err(format!("{} is no string", shown(text)));
    }
    let Borrowed(string) = serde_json::from_str(text).map_err(|error| format!("{}: {error}", shown(text)))?;
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

fn uuid(text: &str) -> Option<[u8; 16]> {
    let bytes = text.as_bytes();
    if bytes.len() != 36 {
        return None;
    }
    let mut digits = Vec::with_capacity(32);
    for (place, byte) in bytes.iter().enumerate() {
        match (place, byte) {
            (8 | 13 | 18 | 23, b'-') => {}
            (8 | 13 | 18 | 23, _) => return None,
            (_, byte) => digits.push(u8::try_from(char::from(*byte).to_digit(16)?).ok()?),
        }
    }
    let mut value = [0; 16];
    for (byte, pair) in value.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    Some(value)
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

    fn bytes(kind: Kind, text: &str) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        append_json(kind, text, &mut bytes).map(|()| bytes)
    }

    #[test]
    fn values_become_the_bytes_that_postgresql_takes() {
        for (kind, text, expected) in [
            (Kind::Text, r#""a\n\u00e9""#, "a\né".as_bytes().to_vec()),
            (Kind::Bigint, "9223372036854775807", i64::MAX.to_be_bytes().to_vec()),
            (Kind::Bigint, r#""-9223372036854775808""#, i64::MIN.to_be_bytes().to_vec()),
            (Kind::Integer, "-2147483648", i32::MIN.to_be_bytes().to_vec()),
            (Kind::Double, "1.5e3", 1500.0_f64.to_be_bytes().to_vec()),
            (Kind::Numeric, "12345678901234567890.10", b"12345678901234567890.10".to_vec()),
            (Kind::Numeric, r#""-0.1e-7""#, b"-0.1e-7".to_vec()),
            (Kind::Boolean, "true", vec![1]),
            (Kind::Timestamptz, r#""2000-01-01T01:00:00.000001+01:00""#, 1_i64.to_be_bytes().to_vec()),
            (Kind::Jsonb, "[1]", b"\x01[1]".to_vec()),
            (Kind::Uuid, r#""00112233-4455-6677-8899-AabbccddeefF""#, {
                (0..16).map(|n: u8| n << 4 | n).collect()
            }),
            (Kind::Bytea, r#""AAEC""#, vec![0, 1, 2]),
        ] {
            assert_eq!(bytes(kind, text).unwrap(), expected, "{text}");
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
            assert!(bytes(kind, text).is_err(), "{} {text}", kind.name());
        }
    }
}
