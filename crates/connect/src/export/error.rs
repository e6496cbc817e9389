//! Everything that can keep an export from ending well. Every text says what to do next.

use std::io;
use std::time::Duration;

use driftq_client::Error;

use super::part::PARTS_MAX;

/// Why there is no export.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// What was asked for makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// The server refused, or cannot be reached.
    #[error(transparent)]
    Server(#[from] Error),
    /// The id stands for another export.
    #[error(
        "export {id:?} was begun with another selection, format, place or pointer; choose another id, or ask for the \
         same as before"
    )]
    Reused {
        /// The id.
        id: String,
    },
    /// Another process runs it.
    #[error(
        "another process runs export {id:?}; wait for it, or ask again: its lease ends within {} s unless it is \
         renewed",
        retry_after.as_secs() + 1
    )]
    Busy {
        /// The id.
        id: String,
        /// When its lease ends at the latest.
        retry_after: Duration,
    },
    /// Another process has taken it over.
    #[error(
        "another process has taken over export {id:?}, or its message was delivered again; nothing of this one is \
         visible, so leave it to that one"
    )]
    Overtaken {
        /// The id.
        id: String,
    },
    /// It ended before in a way that is no export.
    #[error("export {id:?} has ended before without a manifest ({why}); choose another id")]
    Ended {
        /// The id.
        id: String,
        /// How it ended.
        why: String,
    },
    /// The caller wanted it to end.
    #[error("stopped; nothing is visible, and the same export again continues at once")]
    Stopped,
    /// The place cannot be used.
    #[error("{place}: {why}")]
    Place {
        /// Where the files should be.
        place: String,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// The place takes what it should refuse.
    #[error(
        "{place} ignores conditions: it let one name be created twice. An export needs a store that honours \
         If-None-Match; use another one, or a newer version of it"
    )]
    Unconditional {
        /// The place.
        place: String,
    },
    /// The values of messages are not shown to this key.
    #[error(
        "the server hides the values of messages from this key, so the files would lack them; use a key that allows \
         read_payload"
    )]
    Hidden,
    /// The database refuses the query: the same again is refused again.
    #[error("the database refuses the query: {0}")]
    Query(String),
    /// The database cannot be asked for now.
    #[error("the database: {0}")]
    Database(String),
    /// A manifest would be too long.
    #[error("more than {PARTS_MAX} parts; make them larger, or export a smaller range")]
    TooManyParts,
    /// A row cannot be written.
    #[error("writing a part: {0}")]
    Write(#[from] io::Error),
    /// A row has no form in this format.
    #[error("writing a part: {0}")]
    Encode(String),
}

impl ExportError {
    /// Whether the same export again would fail in the same way.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::Server(error) => !error.is_transient(),
            Self::Invalid(_)
            | Self::Reused { .. }
            | Self::Ended { .. }
            | Self::Unconditional { .. }
            | Self::Hidden
            | Self::TooManyParts
            | Self::Query(_)
            | Self::Encode(_) => true,
            Self::Busy { .. }
            | Self::Overtaken { .. }
            | Self::Stopped
            | Self::Place { .. }
            | Self::Database(_)
            | Self::Write(_) => false,
        }
    }
}

impl From<parquet::errors::ParquetError> for ExportError {
    fn from(error: parquet::errors::ParquetError) -> Self {
        Self::Encode(error.to_string())
    }
}

impl From<csv::Error> for ExportError {
    fn from(error: csv::Error) -> Self {
        Self::Encode(error.to_string())
    }
}
