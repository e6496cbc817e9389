//! What the SDK does when things go wrong, and what no scenario says.

#[path = "../support/mod.rs"]
mod support;

mod drain;
mod effects;
mod failures;
mod producing;
mod restarts;
mod workers;
