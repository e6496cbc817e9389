//! One way to the database for the time of one call.

use std::time::Duration;

use deadpool_postgres::{Object, Pool, PoolError};
use tokio::time::{Instant, sleep};
use tokio_postgres::types::{ToSql, Type};

use super::Statements;
use super::fault;
use super::joined::{Row, Transaction, Value};
use crate::LedgerError;

/// First pause before a database that refuses is asked for a connection again; it doubles.
const CONNECTION_PAUSE_FIRST: Duration = Duration::from_millis(10);
/// The longest such pause.
const CONNECTION_PAUSE_MAX: Duration = Duration::from_millis(250);

/// A value for a statement, and the type it goes as.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// One way to the database: a connection of the pool, where each statement is a transaction of its own, or a
/// transaction of the caller's.
#[expect(clippy::large_enum_variant, reason = "there is one per call, and it is nearly always the large one")]
pub(super) enum Link<'a> {
    Pooled(Borrowed, Statements),
    Joined(&'a mut (dyn Transaction + 'a)),
}

impl Link<'_> {
    pub(super) async fn pooled(
        pool: &Pool,
        statements: Statements,
        patience: Duration,
    ) -> Result<Self, LedgerError> {
        let object = connected(pool, patience).await?;
        Ok(Self::Pooled(Borrowed { object: Some(object), is_busy: false }, statements))
    }

    /// Runs a statement with its text, and plans it by what the table is now. Nothing is left behind in a session that a
    /// pooler may give to another client, and no plan that was good for another table; it costs one round trip all the
    /// same.
    pub(super) async fn query(
        &mut self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, LedgerError> {
        match self {
            Self::Joined(transaction) => {
                let values = parameters.iter().map(Value::of).collect::<Result<Vec<_>, _>>()?;
                transaction.run(statement, &values).await
            }
            Self::Pooled(borrowed, _) => {
                borrowed.is_busy = true;
                let result = borrowed.object().query_typed(statement, parameters).await;
                borrowed.is_busy = false;
                rows(result)
            }
        }
    }

    /// Runs a statement that has one row to give, or none.
    pub(super) async fn query_opt(
        &mut self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Option<Row>, LedgerError> {
        Ok(self.query(statement, parameters).await?.pop())
    }

    /// Calls a function, which has one row to give. Only such calls are prepared, if anything is: their plan reads no
    /// table, so that it fits whatever becomes of the table.
    pub(super) async fn call(
        &mut self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Option<Row>, LedgerError> {
        let Self::Pooled(borrowed, Statements::Prepared) = self else {
            return self.query_opt(statement, parameters).await;
        };
        borrowed.is_busy = true;
        let result = prepared(borrowed.object(), statement, parameters).await;
        borrowed.is_busy = false;
        Ok(rows(result)?.pop())
    }
}

fn rows(result: Result<Vec<tokio_postgres::Row>, tokio_postgres::Error>) -> Result<Vec<Row>, LedgerError> {
    let rows = result.map_err(|error| fault::of_statement(&error))?;
    Ok(rows.into_iter().map(Row::from).collect())
}

/// A connection of the pool. A database that restarts, or hands over to another, refuses for some seconds; nothing was
/// sent yet, so that it is tried again without further ado for as long as the store waits for a connection.
async fn connected(pool: &Pool, patience: Duration) -> Result<Object, LedgerError> {
    // A patience beyond what a clock can tell is one without an end.
    let until = Instant::now().checked_add(patience);
    let mut pause = CONNECTION_PAUSE_FIRST;
    loop {
        let error = match pool.get().await {
            Ok(object) => return Ok(object),
            Err(error) => error,
        };
        // The pool itself has waited for as long before it says that it has none to give.
        let is_refused = matches!(error, PoolError::Backend(_));
        let error = fault::of_pool(error);
        let is_worth_it = is_refused && matches!(error, LedgerError::Unavailable(_));
        if !is_worth_it || until.is_some_and(|until| Instant::now() + pause >= until) {
            return Err(error);
        }
        sleep(pause).await;
        pause = (pause * 2).min(CONNECTION_PAUSE_MAX);
    }
}

/// Runs a statement that stays prepared. If the session does not have it any more, or what it was prepared for has
/// changed, nothing has happened yet: it is prepared again and repeated, once.
async fn prepared(
    object: &Object,
    text: &str,
    parameters: &[Parameter<'_>],
) -> Result<Vec<tokio_postgres::Row>, tokio_postgres::Error> {
    let types: Vec<Type> = parameters.iter().map(|(_, kind)| kind.clone()).collect();
    let values: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|(value, _)| *value).collect();
    let statement = object.prepare_typed_cached(text, &types).await?;
    match object.query(&statement, &values).await {
        Err(error) if fault::is_outdated(&error) => {
            drop(object.statement_cache.remove(text, &types));
            let statement = object.prepare_typed_cached(text, &types).await?;
            object.query(&statement, &values).await
        }
        result => result,
    }
}

/// A connection of the pool. If it is dropped in the middle of a statement, because the caller had no time to wait for
/// the answer, it does not go back: the next caller would wait behind that statement.
pub(super) struct Borrowed {
    /// There until it is dropped.
    object: Option<Object>,
    is_busy: bool,
}

impl Borrowed {
    fn object(&self) -> &Object {
        self.object.as_ref().expect("a connection is taken out only when it is dropped")
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Some(object) = self.object.take()
            && self.is_busy
        {
            drop(Object::take(object));
        }
    }
}
