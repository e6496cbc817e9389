//! What can go wrong with PostgreSQL and the way to it, as the ledger's errors.

use deadpool_postgres::PoolError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::LedgerError;

/// What a statement's failure means.
pub(super) fn of_statement(error: &Error) -> LedgerError {
    match error.as_db_error() {
        Some(said) => of_state(said.code(), said.message().to_owned()),
        // The connection ended, before or in the middle.
        None => LedgerError::Unavailable(spelled(error)),
    }
}

/// Whether a prepared statement is not there any more, or not for the table that is there now. The database says so
/// before it runs anything.
pub(super) fn is_outdated(error: &Error) -> bool {
    let Some(said) = error.as_db_error() else { return false };
    // "cached plan must not change result type", in whatever language. The state alone says many things.
    let has_changed =
        *said.code() == SqlState::FEATURE_NOT_SUPPORTED && said.routine() == Some("RevalidateCachedQuery");
    has_changed || *said.code() == SqlState::INVALID_SQL_STATEMENT_NAME
}

/// What it means that the database refuses a statement: for an implementation of
/// [`Transaction`](super::Transaction). `state` is the five characters of the database's code (`SQLSTATE`).
#[must_use]
pub fn refused(state: &str, message: &str) -> LedgerError {
    of_state(&SqlState::from_code(state), message.to_owned())
}

fn of_state(code: &SqlState, text: String) -> LedgerError {
    let known = [
        (SqlState::UNDEFINED_TABLE, LedgerError::NotMigrated as fn(String) -> LedgerError),
        (SqlState::UNDEFINED_FUNCTION, LedgerError::NotMigrated),
        (SqlState::UNDEFINED_COLUMN, LedgerError::NotMigrated),
        (SqlState::UNDEFINED_OBJECT, LedgerError::NotMigrated),
        (SqlState::INVALID_SCHEMA_NAME, LedgerError::NotMigrated),
        (SqlState::DATATYPE_MISMATCH, LedgerError::NotMigrated),
        (SqlState::READ_ONLY_SQL_TRANSACTION, LedgerError::ReadOnly),
        (SqlState::T_R_SERIALIZATION_FAILURE, LedgerError::Busy),
        (SqlState::T_R_DEADLOCK_DETECTED, LedgerError::Busy),
        (SqlState::LOCK_NOT_AVAILABLE, LedgerError::Busy),
        (SqlState::QUERY_CANCELED, LedgerError::Unavailable),
        (SqlState::ADMIN_SHUTDOWN, LedgerError::Unavailable),
        (SqlState::CRASH_SHUTDOWN, LedgerError::Unavailable),
        (SqlState::CANNOT_CONNECT_NOW, LedgerError::Unavailable),
        (SqlState::TOO_MANY_CONNECTIONS, LedgerError::Unavailable),
        (SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT, LedgerError::Unavailable),
        (SqlState::DISK_FULL, LedgerError::Full),
        (SqlState::INSUFFICIENT_PRIVILEGE, LedgerError::Denied),
        // By a trigger or a rule of the operator's own: the ledger raises none.
        (SqlState::RAISE_EXCEPTION, LedgerError::Denied),
        (SqlState::IN_FAILED_SQL_TRANSACTION, aborted),
    ];
    if let Some((_, meaning)) = known.iter().find(|(state, _)| state == code) {
        return meaning(text);
    }
    // The first two characters are the class of a state.
    match code.code().get(..2) {
        Some("08") => LedgerError::Unavailable(text),
        // Bad authorization, an unknown database.
        Some("28" | "3D") => LedgerError::Denied(text),
        Some("53" | "57" | "58") => LedgerError::Unavailable(text),
        Some("40" | "55") => LedgerError::Busy(text),
        _ => LedgerError::Corrupt(format!("{text} ({})", code.code())),
    }
}

/// A statement of the caller's own has failed in its transaction before, and whatever follows is refused.
fn aborted(_: String) -> LedgerError {
    LedgerError::Invalid(
        "a statement before this one has failed in this transaction; roll it back, nothing of it has happened"
            .to_owned(),
    )
}

/// What it means that the pool has no connection.
pub(super) fn of_pool(error: PoolError) -> LedgerError {
    match error {
        PoolError::Backend(error) if is_refused_by_us(&error) => {
            LedgerError::Denied(format!("the database at the other end is not trusted: {}", spelled(&error)))
        }
        PoolError::Backend(error) => match of_statement(&error) {
            // What fails while a connection is made has nothing to do with the table.
            LedgerError::Corrupt(text) => LedgerError::Unavailable(text),
            other => other,
        },
        PoolError::Timeout(_) => {
            LedgerError::Unavailable("no connection in time; the pool may be too small".to_owned())
        }
        other => LedgerError::Unavailable(other.to_string()),
    }
}

/// Whether TLS is asked for, and what is at the other end cannot be trusted. That stays so however often it is asked.
#[cfg(feature = "tls")]
fn is_refused_by_us(error: &Error) -> bool {
    let speaks_none = std::error::Error::source(error)
        .is_some_and(|behind| behind.to_string().contains("does not support TLS"));
    speaks_none || driftq_tls::is_untrusted(error)
}

#[cfg(not(feature = "tls"))]
const fn is_refused_by_us(_: &Error) -> bool {
    false
}

/// An error with what is behind it: that of a broken connection says little itself. Neither carries a password.
pub(super) fn spelled(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut behind = error.source();
    while let Some(error) = behind {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        behind = error.source();
    }
    text
}
