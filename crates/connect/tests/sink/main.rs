//! Sinks on a real PostgreSQL and a real server.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_rows;
mod bed;
mod checks;
mod copied;
mod copies;
mod faults;
mod fencing;
mod kills;
mod modes;
mod once;
mod page;
mod tls;
mod values;
