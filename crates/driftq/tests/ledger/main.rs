//! The ledger's commands on PostgreSQL, and its store on a server.
#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that is not as it should be")]

mod audit;
mod cli;
mod cli_faults;
#[path = "../support/command.rs"]
mod command;
mod remote;
mod schema;
#[path = "../support/mod.rs"]
mod support;
mod world;
