//! Why the broker did not do what it was asked.

use driftq_core::{CommitPart, Expected, Reject};

/// Why a request failed. The edge maps each kind to one family of answers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The shard refused it; nothing changed.
    #[error("refused: {0:?}")]
    Reject(Reject),
    /// Part of a commit was refused; none of it happened.
    #[error("{1}")]
    Commit(CommitPart, Box<Self>),
    /// An entity has another version than was expected; nothing changed.
    #[error("{entity} is at version {version}")]
    Entity {
        /// Which.
        entity: String,
        /// The version that it has.
        version: u64,
    },
    /// The input queue is full; nothing happened, try again soon.
    #[error("the input queue is full")]
    Busy,
    /// The router said no, or said nothing and the configuration says that this means no.
    #[error("{0}")]
    Router(String),
    /// There is no job of that number, or it is forgotten.
    #[error("there is no such job")]
    JobUnknown,
    /// The broker cannot answer now: it is stopping, its log failed, its disk is full. Whether the request took
    /// effect is not known unless it never got in.
    #[error("{0}")]
    Unavailable(String),
}

impl Failure {
    /// A refusal by the shard. An entity that it gives by its place in `expect` is told by name.
    pub(crate) fn refused(reject: Reject, expect: &[Expected]) -> Self {
        let named = |place: u8| expect.get(usize::from(place)).map(|expected| expected.entity.clone());
        match reject {
            Reject::EntityDiffers { place, version } => {
                Self::Entity { entity: named(place).unwrap_or_default(), version }
            }
            reject => Self::Reject(reject),
        }
    }
}

/// Why the broker did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be used.
    #[error("cannot use the data directory {path}: {source}")]
    Directory {
        /// The directory.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Another process uses the data directory.
    #[error("the data directory {path} is in use by another driftq; stop it or choose another one")]
    Locked {
        /// The directory.
        path: String,
    },
    /// The log contradicts itself; the text names the file, the byte and the commands that help.
    #[error("{0}")]
    Damaged(String),
    /// The log could not be opened or written: the disk failed or is full, or a newer version wrote it.
    #[error("{0}")]
    Log(String),
    /// The log is intact, but it does not hold facts that this version understands.
    #[error("the log at {position} cannot be understood: {what}")]
    Facts {
        /// Where.
        position: String,
        /// Which part was being read.
        what: &'static str,
    },
    /// The database that holds the log cannot be used.
    #[error("{what}")]
    Database {
        /// What is wrong.
        what: String,
        /// What to do about it.
        help: String,
    },
    /// Another one has claimed the log since this one did.
    #[error("{0}")]
    Fenced(String),
    /// The log has more shards than were asked for.
    #[error(
        "{place} has {found} shards, and {wanted} were asked for: what lies in a shard stays there. \
         Start it with --shards {found}, or without --shards"
    )]
    Shards {
        /// Where it is.
        place: String,
        /// How many it has.
        found: u8,
        /// How many were asked for.
        wanted: u8,
    },
    /// A setting makes no sense.
    #[error("{0}")]
    Config(&'static str),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}
