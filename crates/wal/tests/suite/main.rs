//! The log on real files.
#![allow(clippy::unwrap_used, reason = "an error here is a failed test")]

mod files;
mod golden;
mod guard;
mod real;
mod speed;
