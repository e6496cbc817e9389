//! The `idempotency-key` layer in front of a real tonic server, called by a real tonic client.

#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that is not as it should be")]

mod bed;
mod calls;
mod edges;
mod plain;

use crate::http::{moody, signals};
