//! What the ledger could not do, with an exit code and what to do next.

use driftq_ledger::LedgerError;

use crate::exit::{Exit, Fault};

/// A failure of a call as this command line tells it.
pub(super) fn fault(error: &LedgerError) -> Fault {
    let fault = Fault::new(exit(error), error.to_string());
    match help(error) {
        Some(help) => fault.help(help),
        None => fault,
    }
}

const fn exit(error: &LedgerError) -> Exit {
    match error {
        LedgerError::Unavailable(_) | LedgerError::TimedOut(_) => Exit::Unreachable,
        LedgerError::Identity(_)
        | LedgerError::Invalid(_)
        | LedgerError::NotFound
        | LedgerError::TooLarge { .. }
        | LedgerError::Denied(_) => Exit::Invalid,
        LedgerError::Conflict(_)
        | LedgerError::Stale(_)
        | LedgerError::Exhausted { .. }
        | LedgerError::Running
        | LedgerError::Final => Exit::Conflict,
        LedgerError::Busy(_) => Exit::Overloaded,
        LedgerError::Full(_) | LedgerError::Corrupt(_) => Exit::ServerFault,
        _ => Exit::Failure,
    }
}

const fn help(error: &LedgerError) -> Option<&'static str> {
    Some(match error {
        LedgerError::Unavailable(_) | LedgerError::TimedOut(_) => {
            "check --store (or DRIFTQ_LEDGER_STORE) and whether the server or the database there is up"
        }
        LedgerError::NotFound => {
            "see `driftq ledger list`; what has ended is forgotten when its time is over, and may be swept"
        }
        LedgerError::Stale(_) => "look at it again with `driftq ledger show`, and decide anew",
        LedgerError::Running => {
            "`driftq ledger show` says when its lease ends; wait until it is finished or has lapsed"
        }
        LedgerError::Final => "that is final; see it with `driftq ledger show`",
        LedgerError::NotMigrated(_) => {
            "`driftq ledger migrate` makes the table; --table names it if it is not idempotency_keys"
        }
        LedgerError::ReadOnly(_) => "name the primary in --store; lists and counts work on a replica",
        LedgerError::Denied(_) => {
            "the user in --store needs rights on the table: SELECT, INSERT, UPDATE, DELETE, and CREATE to migrate"
        }
        LedgerError::Corrupt(_) => {
            "a newer version may have written it, or a hand; the row is left as it is, and other records work"
        }
        _ => return None,
    })
}
