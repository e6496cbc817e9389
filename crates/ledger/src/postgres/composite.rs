//! A row that comes as one value.
//!
//! A function's answer is asked for as one value, not as a table: the database describes one column instead of twenty
//! with every answer, and makes no table of it.

use bytes::Bytes;
use tokio_postgres::types::{FromSql, Type, accepts};

use super::row::Stamp;
use crate::{LedgerError, Moment};

/// The fields of a row, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Composite {
    fields: Vec<Option<Bytes>>,
}

/// More fields than any function of this store has.
const FIELDS_MAX: usize = 64;

impl<'a> FromSql<'a> for Composite {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        parse(raw).ok_or_else(|| "a row that is cut off".into())
    }

    accepts!(RECORD);
}

/// What the two calls of every request are told, in bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// No record is there.
    Nothing,
    /// A record was made: its number, and when, by the database's clock.
    Made(i64, Moment),
    /// A record is there.
    There(Composite),
}

/// A number and a time.
const MADE_BYTES: usize = 16;

impl<'a> FromSql<'a> for Told {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        if *kind == Type::RECORD {
            return Composite::from_sql(kind, raw).map(Self::There);
        }
        if raw.is_empty() {
            return Ok(Self::Nothing);
        }
        match raw.split_first_chunk() {
            Some((record, at)) if raw.len() == MADE_BYTES => {
                let at = Stamp::from_sql(&Type::TIMESTAMPTZ, at)?;
                Ok(Self::Made(i64::from_be_bytes(*record), at.0))
            }
            _ => Composite::from_sql(&Type::RECORD, raw).map(Self::There),
        }
    }

    // The function of an older step answers a row.
    accepts!(BYTEA, RECORD);
}

/// How many there are, and for each its type, its length (-1 for none) and its bytes.
fn parse(raw: &[u8]) -> Option<Composite> {
    let (count, mut rest) = number(raw)?;
    let count = usize::try_from(count).ok().filter(|count| *count <= FIELDS_MAX)?;
    let mut fields = Vec::with_capacity(count);
    for _ in 0..count {
        let (_, after_type) = number(rest)?;
        let (length, after_length) = number(after_type)?;
        match usize::try_from(length) {
            Ok(length) => {
                fields.push(Some(Bytes::copy_from_slice(after_length.get(..length)?)));
                rest = &after_length[length..];
            }
            Err(_) => {
                fields.push(None);
                rest = after_length;
            }
        }
    }
    rest.is_empty().then_some(Composite { fields })
}

fn number(raw: &[u8]) -> Option<(i32, &[u8])> {
    let (bytes, rest) = raw.split_first_chunk()?;
    Some((i32::from_be_bytes(*bytes), rest))
}

impl Composite {
    /// A field as what it is, by the types that this store's functions declare.
    pub(super) fn get<'a, T: FromSql<'a>>(&'a self, at: usize, kind: &Type) -> Result<T, LedgerError> {
        let strange =
            || LedgerError::NotMigrated(format!("field {at} of an answer is not what it should be"));
        let field = self.fields.get(at).ok_or_else(strange)?;
        T::from_sql_nullable(kind, field.as_deref()).map_err(|_| strange())
    }

    /// A field of bytes, shared with the answer it came in.
    pub(super) fn bytes(&self, at: usize) -> Bytes {
        self.fields.get(at).cloned().flatten().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(fields: &[Option<&[u8]>]) -> Vec<u8> {
        let mut raw = i32::try_from(fields.len()).unwrap().to_be_bytes().to_vec();
        for field in fields {
            raw.extend(25_i32.to_be_bytes());
            match field {
                None => raw.extend((-1_i32).to_be_bytes()),
                Some(bytes) => {
                    raw.extend(i32::try_from(bytes.len()).unwrap().to_be_bytes());
                    raw.extend(*bytes);
                }
            }
        }
        raw
    }

    #[test]
    fn fields_come_out_as_they_went_in() {
        let whole = raw(&[Some(b"text"), None, Some(b""), Some(&7_i64.to_be_bytes())]);
        let row = Composite::from_sql(&Type::RECORD, &whole).unwrap();
        assert_eq!(row.get::<&str>(0, &Type::TEXT).unwrap(), "text");
        assert_eq!(row.get::<Option<&str>>(1, &Type::TEXT).unwrap(), None);
        assert_eq!(row.get::<Option<&str>>(2, &Type::TEXT).unwrap(), Some(""));
        assert_eq!(row.get::<i64>(3, &Type::INT8).unwrap(), 7);
        assert_eq!((row.bytes(0), row.bytes(1), row.bytes(9)), ("text".into(), Bytes::new(), Bytes::new()));
        for (at, error) in [(1, "field 1"), (4, "field 4")] {
            assert!(row.get::<&str>(at, &Type::TEXT).unwrap_err().to_string().contains(error));
        }
        assert!(row.get::<i64>(0, &Type::INT8).is_err(), "four bytes are no long number");
    }

    #[test]
    fn a_record_that_was_made_is_told_from_one_that_is_there() {
        let told = |raw: &[u8]| Told::from_sql(&Type::BYTEA, raw).unwrap();
        assert_eq!(told(&[]), Told::Nothing);
        let made: Vec<u8> = [7_i64.to_be_bytes(), 1_i64.to_be_bytes()].concat();
        assert_eq!(told(&made), Told::Made(7, Moment::from_micros(946_684_800_000_001)));
        let row = raw(&[Some(b"text"), None]);
        assert!(matches!(told(&row), Told::There(_)) && row.len() > MADE_BYTES);
        assert!(matches!(Told::from_sql(&Type::RECORD, &row).unwrap(), Told::There(_)));
        assert!(Told::from_sql(&Type::BYTEA, &made[..15]).is_err());
    }

    #[test]
    fn what_is_cut_off_or_too_long_is_no_row() {
        let whole = raw(&[Some(b"text"), None]);
        for end in 0..whole.len() {
            assert!(Composite::from_sql(&Type::RECORD, &whole[..end]).is_err(), "{end} bytes");
        }
        let mut longer = whole;
        longer.push(0);
        assert!(Composite::from_sql(&Type::RECORD, &longer).is_err());
        assert!(Composite::from_sql(&Type::RECORD, &i32::MAX.to_be_bytes()).is_err());
        assert!(Composite::from_sql(&Type::RECORD, &(-1_i32).to_be_bytes()).is_err());
    }
}
