//! Exports against a real server: every selection and format, kills, rivals, and object stores.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may end here")]

mod asked;
mod child;
mod formats;
mod kills;
mod queries;
mod rivals;
mod selections;
mod stores;
mod support;
