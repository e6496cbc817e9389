//! A transaction of the caller's, by whatever library it talks to PostgreSQL.
//!
//! The ledger's statements and what they answer go through one small trait, in the binary format that PostgreSQL itself
//! has on the wire, so that no library has to know the ledger's types. Implemented for tokio-postgres and
//! deadpool-postgres; for sqlx with the feature `sqlx`; for diesel-async with the feature `diesel-async`.

#[cfg(feature = "diesel-async")]
mod diesel;
mod native;
mod row;
#[cfg(feature = "sqlx")]
mod sqlx;

use bytes::{Bytes, BytesMut};
use tokio_postgres::types::{IsNull, Type};

pub(super) use self::row::{Cells, Place};
pub use self::row::{Column, Row};

use super::link::Parameter;
use crate::{LedgerError, Pending};

/// A transaction of the caller's, which a call of the ledger joins.
///
/// Its statements see what the transaction has written, and what they write is there exactly if the transaction commits.
/// A connection outside a transaction is one in which each statement commits by itself.
///
/// For another library: run the statement with its values bound in binary format under their types, ask for binary
/// results, and translate errors of the database with [`refused`](super::refused).
pub trait Transaction: Send {
    /// Runs one statement.
    fn run<'a>(&'a mut self, statement: &'a str, values: &'a [Value]) -> Pending<'a, Vec<Row>>;
}

/// A value for a statement, as PostgreSQL has it on the wire.
#[derive(Clone, Debug)]
pub struct Value {
    kind: Type,
    bytes: Option<Bytes>,
}

impl Value {
    pub(super) fn of(&(value, ref kind): &Parameter<'_>) -> Result<Self, LedgerError> {
        let mut bytes = BytesMut::new();
        match value.to_sql_checked(kind, &mut bytes) {
            Ok(IsNull::No) => Ok(Self { kind: kind.clone(), bytes: Some(bytes.freeze()) }),
            Ok(IsNull::Yes) => Ok(Self { kind: kind.clone(), bytes: None }),
            Err(error) => Err(LedgerError::Invalid(format!("a value for the database: {error}"))),
        }
    }

    /// The number of its type, as in `pg_type`.
    #[must_use]
    pub fn type_oid(&self) -> u32 {
        self.kind.oid()
    }

    /// In binary format; `None` for `NULL`.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.bytes.as_deref()
    }
}
