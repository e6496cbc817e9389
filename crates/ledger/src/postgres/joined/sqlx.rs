//! Transactions and connections of sqlx.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgRow, PgTypeInfo};
use sqlx::{Column as _, Encode, PgConnection, Postgres, Row as _, Type, ValueRef as _};

use super::super::refused;
use super::{Column, Row, Transaction, Value};
use crate::{LedgerError, Pending};

impl Transaction for &mut PgConnection {
    fn run<'a>(&'a mut self, statement: &'a str, values: &'a [Value]) -> Pending<'a, Vec<Row>> {
        Box::pin(async move {
            // The text is the ledger's own; whatever comes from callers is a value. Not kept in the session: a pooler may
            // give that to another client.
            let statement = sqlx::query(sqlx::AssertSqlSafe(statement)).persistent(false);
            let statement = values.iter().fold(statement, |statement, value| statement.bind(Bound(value)));
            let rows = statement.fetch_all(&mut **self).await.map_err(fault)?;
            rows.iter().map(read).collect()
        })
    }
}

impl Transaction for &mut sqlx::Transaction<'_, Postgres> {
    fn run<'a>(&'a mut self, statement: &'a str, values: &'a [Value]) -> Pending<'a, Vec<Row>> {
        Box::pin(async move {
            let mut connection: &mut PgConnection = self;
            connection.run(statement, values).await
        })
    }
}

/// Goes to the database as it is.
struct Bound<'a>(&'a Value);

impl Type<Postgres> for Bound<'_> {
    /// Never asked for: each value says what it is.
    fn type_info() -> PgTypeInfo {
        <str as Type<Postgres>>::type_info()
    }
}

impl<'q> Encode<'q, Postgres> for Bound<'_> {
    fn encode_by_ref(&self, out: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let Some(bytes) = self.0.bytes() else { return Ok(IsNull::Yes) };
        out.extend_from_slice(bytes);
        Ok(IsNull::No)
    }

    fn produces(&self) -> Option<PgTypeInfo> {
        Some(PgTypeInfo::with_oid(Oid(self.0.type_oid())))
    }

    fn size_hint(&self) -> usize {
        self.0.bytes().map_or(0, <[u8]>::len)
    }
}

fn read(row: &PgRow) -> Result<Row, LedgerError> {
    let column = |(at, column): (usize, &sqlx::postgres::PgColumn)| {
        let strange = |error: &dyn std::fmt::Display| LedgerError::NotMigrated(error.to_string());
        let raw = row.try_get_raw(at).map_err(|error| strange(&error))?;
        let value = match raw.is_null() {
            true => None,
            false => Some(bytes::Bytes::copy_from_slice(raw.as_bytes().map_err(|error| strange(&error))?)),
        };
        let type_oid = column.type_info().oid().map_or(0, |oid| oid.0);
        Ok(Column { name: column.name().to_owned(), type_oid, value })
    };
    row.columns().iter().enumerate().map(column).collect::<Result<_, _>>().map(Row::new)
}

fn fault(error: sqlx::Error) -> LedgerError {
    match error {
        sqlx::Error::Database(said) => {
            let state = said.code().unwrap_or_default().into_owned();
            refused(&state, said.message())
        }
        // The connection ended, or its answer made no sense to sqlx.
        other => LedgerError::Unavailable(super::super::fault::spelled(&other)),
    }
}
