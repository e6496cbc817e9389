//! What the SDK does when things go wrong, and what no scenario says.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may end here")]

#[path = "../support/mod.rs"]
mod support;

mod aws;
mod drain;
mod effects;
mod failures;
mod producing;
mod restarts;
mod words;
mod workers;
