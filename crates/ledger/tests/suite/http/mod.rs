//! The `Idempotency-Key` layer over real sockets: axum, hyper, and a ledger in memory whose clock the tests move.

mod bed;
mod bodies;
mod failures;
mod joined;
mod keys;
mod meanings;
pub(crate) mod moody;
mod plain;
mod progress;
mod replays;
pub(crate) mod signals;
