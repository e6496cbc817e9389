//! Connectors: users of DriftQ that touch the outside world, by the public SDK and nothing else.
//!
//! What they send, write and export is guarded by leases, effects and commits like the work of any other program, so
//! any number of copies may run, and any of them may be killed.
#![warn(missing_docs)]

#[cfg(feature = "export")]
pub mod backup;
pub mod config;
#[cfg(any(feature = "export", feature = "postgres"))]
pub mod database;
#[cfg(feature = "deliver")]
pub mod deliver;
#[cfg(feature = "export")]
pub mod export;
pub mod run;
#[cfg(feature = "deliver")]
pub mod secret;
#[cfg(feature = "postgres")]
pub mod sink;
