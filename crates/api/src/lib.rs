//! The wire words of DriftQ: what requests and answers look like, and the catalogue of everything that can go
//! wrong. Server, command line and SDKs share them.
//!
//! Absent on purpose: sockets, runtimes, and decisions. A word here is parsed or printed; whether a message may be
//! stored is decided by the broker's core, of which this crate knows nothing.

mod catalogue;
mod fault;
mod moment;
mod ndjson;
mod object;
mod query;
mod schema;
pub mod shown;
mod text;
pub mod units;
pub mod v1;
pub mod v2;
pub mod when;

use schema::ToSchema;

pub use catalogue::{Code, Entry};
pub use driftq_canonical as canonical;
pub use fault::Fault;
pub use moment::Moment;
pub use ndjson::end_line;
pub use query::{PAIRS_MAX, Query, decode_segment};

/// Content type of every JSON answer of `/v1`, and of the successful ones of `/v2`.
pub const JSON: &str = "application/json; charset=utf-8";
/// Content type of streams: one JSON object per line.
pub const NDJSON: &str = "application/x-ndjson; charset=utf-8";
/// Content type of the errors of `/v2`.
pub const PROBLEM: &str = "application/problem+json";
