//! Transactions of tokio-postgres, and of its pool.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::super::fault;
use super::{Row, Transaction, Value};
use crate::Pending;

/// Values are in the right format already.
impl ToSql for Value {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let Some(bytes) = self.bytes() else { return Ok(IsNull::Yes) };
        out.put_slice(bytes);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl Transaction for &tokio_postgres::Transaction<'_> {
    fn run<'a>(&'a mut self, statement: &'a str, values: &'a [Value]) -> Pending<'a, Vec<Row>> {
        Box::pin(async move {
            let parameters: Vec<(&(dyn ToSql + Sync), Type)> =
                values.iter().map(|value| (value as _, value.kind.clone())).collect();
            let rows = self.query_typed(statement, &parameters).await;
            let rows = rows.map_err(|error| fault::of_statement(&error))?;
            Ok(rows.into_iter().map(Row::from).collect())
        })
    }
}

impl Transaction for &deadpool_postgres::Transaction<'_> {
    fn run<'a>(&'a mut self, statement: &'a str, values: &'a [Value]) -> Pending<'a, Vec<Row>> {
        Box::pin(async move {
            let mut transaction: &tokio_postgres::Transaction<'_> = self;
            transaction.run(statement, values).await
        })
    }
}
