//! What a caller that wants to run an effect is told.

use std::time::Duration;

use crate::{Lease, Moment, Outcome};

/// What a caller that wants to run an effect is told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "only `Execute` allows the effect to be run"]
pub enum Decision {
    /// Run it, and finish with this lease.
    Execute(Lease),
    /// It is over; this is how it ended.
    Replay(Outcome),
    /// Another holder runs it.
    InProgress {
        /// When it is worth asking again.
        retry_after: Duration,
        /// The live lease.
        epoch: u32,
        /// The attempt under way.
        attempt: u32,
    },
    /// It failed and may be tried again by a caller that reacquires it.
    Retryable {
        /// How it failed.
        outcome: Outcome,
        /// How many attempts are left, if there is a cap.
        attempts_left: Option<u32>,
    },
    /// A lease lapsed, and whether it happened is not known: an operator has to find out and resolve it.
    Unknown {
        /// The lease under which it may have happened.
        epoch: u32,
        /// The attempt in which it may have happened.
        attempt: u32,
        /// Since when the outcome is unknown.
        since: Moment,
    },
}

impl Decision {
    /// One word for it, for logs and counters.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Execute(_) => "execute",
            Self::Replay(_) => "replay",
            Self::InProgress { .. } => "in_progress",
            Self::Retryable { .. } => "retryable",
            Self::Unknown { .. } => "unknown",
        }
    }
}

/// What a holder that says how an effect ended is told. A stale lease is an error instead, so that `?` undoes what must
/// not stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// It is written down.
    Committed,
    /// Exactly this was written down before.
    AlreadyCommitted,
}

impl Finished {
    /// One word for it, for logs and counters.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::AlreadyCommitted => "already_committed",
        }
    }
}
