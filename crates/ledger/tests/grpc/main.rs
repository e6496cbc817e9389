//! The `idempotency-key` layer in front of a real tonic server, called by a real tonic client.

mod bed;
mod calls;
mod edges;
#[path = "../http/moody.rs"]
mod moody;
#[path = "../http/signals.rs"]
mod signals;
