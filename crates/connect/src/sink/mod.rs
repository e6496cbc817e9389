//! Sinks: the messages of a topic become rows of a table in PostgreSQL, each exactly once.
//!
//! Rows and progress are committed in one transaction of the database. Progress is kept by where a message was born, so
//! a message that comes again, from a crash or from the dead letters, is never written twice; and it is acked only after
//! the commit, so none is lost.

mod config;
mod fault;
mod loans;
mod message;
mod pick;
mod progress;
mod pump;
mod rows;
mod statement;
mod table;
mod value;
mod write;

pub(crate) use config::check_all;
pub use config::{
    BATCH_BYTES, BATCH_BYTES_MAX, BATCH_ROWS, BATCH_ROWS_MAX, COLUMNS_MAX, Column, Mode, SINKS_MAX,
    SinkConfig,
};
pub use pump::{Progress, Sink};
pub use table::{Finding, Need};
pub use value::Kind;

/// Why a sink cannot run.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// A setting cannot work.
    #[error("sink `{sink}`: {why}")]
    Setting {
        /// Which sink.
        sink: String,
        /// Why, and what to do.
        why: String,
    },
    /// The table is not as the sink needs it.
    #[error("sink `{sink}`: {}", table::listed(needs))]
    Table {
        /// Which sink.
        sink: String,
        /// What is missing, and the SQL that makes it.
        needs: Vec<Need>,
    },
    /// The database cannot be used.
    #[error("sink `{sink}`: the database: {why}")]
    Database {
        /// Which sink.
        sink: String,
        /// What it said.
        why: String,
    },
    /// The server cannot be used.
    #[error("sink `{sink}`, topic `{topic}`: {error}")]
    Server {
        /// Which sink.
        sink: String,
        /// Its topic.
        topic: String,
        /// What it said.
        error: Box<driftq_client::Error>,
    },
}
