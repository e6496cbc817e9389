//! What can go wrong, and what to do then.

use std::time::Duration;

use thiserror::Error;

use crate::IdentityError;

/// What the ledger could not do. Nothing has changed unless the variant says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The identity names no effect.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Something in the request is not as it must be.
    #[error("{0}")]
    Invalid(String),
    /// The key was used for another request.
    #[error("the key was used before for another request; a new request needs a new key{}", hint(.0.as_deref()))]
    Conflict(Option<String>),
    /// The lease is not the newest one, or its holder said something else before. Whatever was done under it must not
    /// count: roll back.
    #[error("the lease is stale: {0}")]
    Stale(String),
    /// There is no record to work on.
    #[error("the ledger has no record of this effect; `begin` makes one")]
    NotFound,
    /// All attempts are used up.
    #[error("all {attempts} attempts are used up; `resolve` with a retryable end grants one more")]
    Exhausted {
        /// How many there were.
        attempts: u32,
    },
    /// A holder runs it right now, so it cannot be resolved.
    #[error("a holder runs it right now; resolve it when the lease has lapsed")]
    Running,
    /// It is over and stays what it is, so it cannot be resolved.
    #[error("it has ended, and stays what it is")]
    Final,
    /// The result is larger than the ledger keeps.
    #[error("the result has {bytes} bytes, more than {limit}; keep it elsewhere and store where it is")]
    TooLarge {
        /// How many it has.
        bytes: usize,
        /// How many it may have.
        limit: usize,
    },
    /// The stored answer cannot be opened by the ledger's [`Seal`](crate::Seal). How it ended is known to the store, and
    /// it is not run again.
    #[error("it has ended, and its stored answer cannot be opened: {0}")]
    Sealed(String),
    /// The store cannot be reached, or went away in the middle. The call may or may not have happened; it is safe to
    /// repeat with the same arguments.
    #[error("the store is not available: {0}; the call is safe to repeat")]
    Unavailable(String),
    /// No answer within the time that a call may take. As [`Unavailable`](Self::Unavailable).
    #[error("no answer within {0:?}; the call is safe to repeat")]
    TimedOut(Duration),
    /// Other callers changed the record at the same time, again and again. Or, within a transaction of the caller's:
    /// the database asks for the whole transaction to be run again.
    #[error("too much happened at the same time: {0}; try again")]
    Busy(String),
    /// The store has no room for more.
    #[error("the store is full: {0}")]
    Full(String),
    /// The table is not there, or not the one this version works with.
    #[error("the ledger's table is not as it must be: {0}; run `driftq ledger migrate`")]
    NotMigrated(String),
    /// A newer release has changed the table beyond what this one works with.
    #[error("the ledger's table is too new: {0}; deploy a newer release")]
    TooNew(String),
    /// The store cannot do that.
    #[error("{0}")]
    Unsupported(String),
    /// The database takes no writes.
    #[error("the database takes no writes: {0}; connect to the primary")]
    ReadOnly(String),
    /// The store refuses access.
    #[error("the store refuses: {0}")]
    Denied(String),
    /// What the store holds or says makes no sense. The record is left as it is.
    #[error("the store holds what this version does not understand: {0}")]
    Corrupt(String),
}

fn hint(more: Option<&str>) -> String {
    more.map(|more| format!(" ({more})")).unwrap_or_default()
}

impl LedgerError {
    /// Whether the same call may well succeed a little later.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::TimedOut(_) | Self::Busy(_) | Self::Full(_))
    }

    /// One word for it, for logs and counters.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Identity(_) | Self::Invalid(_) => "invalid",
            Self::Conflict(_) => "conflict",
            Self::Stale(_) => "stale",
            Self::NotFound => "not_found",
            Self::Exhausted { .. } => "exhausted",
            Self::Running => "running",
            Self::Final => "final",
            Self::TooLarge { .. } => "too_large",
            Self::Sealed(_) => "sealed",
            Self::Unavailable(_) => "unavailable",
            Self::TimedOut(_) => "timed_out",
            Self::Busy(_) => "busy",
            Self::Full(_) => "full",
            Self::NotMigrated(_) => "not_migrated",
            Self::TooNew(_) => "too_new",
            Self::Unsupported(_) => "unsupported",
            Self::ReadOnly(_) => "read_only",
            Self::Denied(_) => "denied",
            Self::Corrupt(_) => "corrupt",
        }
    }
}
