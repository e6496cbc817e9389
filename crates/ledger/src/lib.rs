//! Side effects that are safe to retry, for a service that has a database and no broker.
//!
//! A handler asks the [`Ledger`] before it charges a card: run it, or here is its outcome, or keep off. The rules
//! are the broker's own (`driftq_rules`); the records are in PostgreSQL, in memory or on a DriftQ server.
//!
//! What holds for every store:
//! - Of all leases of a record one counts, the newest; the holder of an older one cannot write.
//! - What succeeded or failed for good never changes while its record is kept, and every caller that asks gets it.
//! - What may have happened is not run again unless its terms say that a lapsed lease may be (`OnLapse::Retry`).
//! - No clock but the store's decides anything, and no clock decides who owns a record.

mod asker;
mod audit;
pub mod cache;
mod check;
#[cfg(feature = "conformance")]
pub mod conformance;
mod decision;
mod error;
mod expiry;
#[cfg(feature = "grpc")]
pub mod grpc;
mod hash;
mod holder;
#[cfg(feature = "http")]
pub mod http;
mod identity;
#[cfg(any(feature = "grpc", feature = "http"))]
mod layers;
mod lease;
mod ledger;
mod lost;
pub mod memory;
mod moment;
mod observe;
mod outcome;
#[cfg(feature = "postgres")]
pub mod postgres;
mod record;
#[cfg(feature = "remote")]
pub mod remote;
mod run;
mod seal;
mod store;
mod terms;
pub mod words;

pub use audit::{AuditFilter, AuditPage, Event, Note};
pub use decision::{Decision, Finished};
pub use driftq_canonical::DEPTH_MAX;
pub use driftq_rules::{OnLapse, Status};
pub use error::LedgerError;
pub use expiry::Expiry;
pub use hash::{
    DIGEST_BYTES_MAX, RequestHash, VERSION_BYTES, VERSION_FOREIGN, VERSION_HTTP, VERSION_JSON,
    VERSION_PROTOBUF,
};
pub use identity::{IDENTITY_BYTES_MAX, Identity, IdentityError, Part};
pub use lease::{Lease, Proof};
pub use ledger::{Ledger, Settings};
pub use moment::Moment;
pub use observe::{Call, Counters, Observer, Silent};
pub use outcome::{
    ERROR_BYTES_MAX, End, Ending, HEADER_NAME_BYTES_MAX, HEADER_VALUE_BYTES_MAX, HEADERS_MAX, OMITTED,
    Outcome, Resolve, Resolver, Response,
};
pub use record::{Filter, PAGE_MAX, Page, Record, Stats, Sweep, Swept};
pub use run::{Class, Failed, Failure, Ran, RunError};
pub use seal::{KeptHeaders, SEALED, Seal};
pub use store::{Kept, Lost, Pending, Store};
pub use terms::{ATTEMPTS_MAX, Begin, LEASE_MAX, NOTE_BYTES_MAX, Reacquire, TTL_MAX, Terms};

/// The Rust examples of the page compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/ledger.md")]
mod page {}
