//! The `idempotency-key` layer in front of a real tonic server, called by a real tonic client.

mod bed;
mod calls;
mod edges;
mod joined;
mod plain;

use crate::http::{moody, signals};
