//! Connections of diesel-async, within a transaction of theirs.

use diesel::deserialize::{self, QueryableByName};
use diesel::pg::Pg;
use diesel::result::{DatabaseErrorInformation, DatabaseErrorKind, Error};
use diesel::row::{Field as _, NamedRow, Row as Fields};
use diesel::serialize::{self, IsNull, Output, ToSql};
use diesel::sql_types::{BigInt, Binary, Bool, Integer, SmallInt, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl as _};
use std::io::Write as _;
use tokio_postgres::types::Type;

use super::{Column, Row, Transaction, Value};
use crate::{LedgerError, Pending};

impl Transaction for &mut AsyncPgConnection {
    fn run<'a>(&'a mut self, statement: &'a str, values: &'a [Value]) -> Pending<'a, Vec<Row>> {
        Box::pin(async move {
            let mut query = diesel::sql_query(statement).into_boxed::<Pg>();
            for value in values {
                // Diesel knows types by their names in Rust.
                query = match value.kind {
                    Type::BOOL => query.bind::<Bool, _>(Bound(value.clone())),
                    Type::BYTEA => query.bind::<Binary, _>(Bound(value.clone())),
                    Type::INT2 => query.bind::<SmallInt, _>(Bound(value.clone())),
                    Type::INT4 => query.bind::<Integer, _>(Bound(value.clone())),
                    Type::INT8 => query.bind::<BigInt, _>(Bound(value.clone())),
                    Type::TEXT => query.bind::<Text, _>(Bound(value.clone())),
                    ref other => {
                        let why = format!("the ledger sends no value of the type {other} by diesel");
                        return Err(LedgerError::Invalid(why));
                    }
                };
            }
            let rows: Vec<Named> = query.load(&mut **self).await.map_err(|error| fault(&error))?;
            Ok(rows.into_iter().map(|row| Row::new(row.0)).collect())
        })
    }
}

/// Goes to the database as it is.
#[derive(Debug)]
struct Bound(Value);

macro_rules! bound {
    ($($kind:ty),*) => {$(
        impl ToSql<$kind, Pg> for Bound {
            fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
                let Some(bytes) = self.0.bytes() else { return Ok(IsNull::Yes) };
                out.write_all(bytes)?;
                Ok(IsNull::No)
            }
        }
    )*};
}

bound!(BigInt, Binary, Bool, Integer, SmallInt, Text);

struct Named(Vec<Column>);

impl QueryableByName<Pg> for Named {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> deserialize::Result<Self> {
        let column = |at: usize| {
            let field = Fields::get(row, at)?;
            let value = field.value();
            Some(Column {
                name: field.field_name().unwrap_or_default().to_owned(),
                type_oid: value.as_ref().map_or(0, |value| value.get_oid().get()),
                value: value.map(|value| bytes::Bytes::copy_from_slice(value.as_bytes())),
            })
        };
        Ok(Self((0..row.field_count()).map_while(column).collect()))
    }
}

/// Diesel names few errors, and does not pass on the database's code. Of all others, those that ask for the transaction to
/// be run again are told apart by their text where that is in English; the rest is told as it is.
fn fault(error: &Error) -> LedgerError {
    let Error::DatabaseError(kind, said) = error else {
        return LedgerError::Unavailable(super::super::fault::spelled(error));
    };
    let text = said.message();
    match kind {
        DatabaseErrorKind::SerializationFailure => LedgerError::Busy(text.to_owned()),
        DatabaseErrorKind::ReadOnlyTransaction => LedgerError::ReadOnly(text.to_owned()),
        DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::UnableToSendCommand => {
            LedgerError::Unavailable(text.to_owned())
        }
        _ => super::super::refused(state_of(&**said), text),
    }
}

/// The database's code, as far as it can be told from the text.
fn state_of(said: &(dyn DatabaseErrorInformation + Send + Sync)) -> &'static str {
    let text = said.message();
    match () {
        () if text.starts_with("deadlock detected") => "40P01",
        () if text.starts_with("current transaction is aborted") => "25P02",
        () if text.starts_with("canceling statement due to lock timeout") => "55P03",
        () if text.starts_with("canceling statement due to") => "57014",
        () if text.starts_with("permission denied") => "42501",
        () if text.ends_with("does not exist") => "42P01",
        () => "XX000",
    }
}
