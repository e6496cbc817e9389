//! What it means that PostgreSQL refuses, or is not there.

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::database::{Unconnected, spelled};

/// What went wrong with the database.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    /// A row is refused: by its values, or by a constraint or a trigger of the table.
    #[error("refused by the table: {0}")]
    Row(String),
    /// Another transaction was in the way; the same again may succeed.
    #[error("{0}")]
    Busy(String),
    /// The database is away, or will do nothing for now.
    #[error("{0}")]
    Away(String),
    /// The table is not what it was when the sink began, or may not be written.
    #[error("{0}")]
    Table(String),
}

impl Fault {
    pub(super) fn of(error: &Error) -> Self {
        let Some(said) = error.as_db_error() else { return Self::Away(spelled(error)) };
        let code = said.code();
        let text = format!("{} ({})", said.message(), code.code());
        if [SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::QUERY_CANCELED].contains(code) {
            // A primary may follow, and a limit on time may be lifted.
            return Self::Away(text);
        }
        if *code == SqlState::LOCK_NOT_AVAILABLE {
            return Self::Busy(text);
        }
        // The first two characters are the class of a state.
        match code.code().get(..2) {
            Some("40") => Self::Busy(text),
            // Data, constraints, views with a check, limits of the program, functions and triggers; and a key that
            // stands in one statement twice, which two statements have no trouble with.
            Some("21" | "22" | "23" | "44" | "54" | "09" | "2F" | "38" | "39" | "P0") => Self::Row(text),
            Some("08" | "53" | "57" | "58" | "XX" | "28" | "3D" | "55" | "25") => Self::Away(text),
            _ => Self::Table(text),
        }
    }
}

impl From<Unconnected> for Fault {
    fn from(error: Unconnected) -> Self {
        match error {
            Unconnected::Refused(error) => Self::of(&error),
            Unconnected::Other(why) => Self::Away(why),
        }
    }
}
