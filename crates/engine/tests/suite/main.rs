//! The engine with real threads and real files: one program, because each would link the engine again.
#![allow(clippy::unwrap_used, reason = "an error here is a failed test")]

mod broker;
mod browsers;
mod common;
mod damaged;
mod effects;
mod faults;
mod flips;
mod log;
mod migrate;
mod router_batch;
mod router_brain;
mod router_hook;
mod shards;
mod space;
mod streams;
mod tools;
mod transfer;
