//! The Rust SDK of DriftQ.
//!
//! - [`Client`] is the connection to a server: topics, messages, effects, commits, runs.
//! - [`Worker`] borrows messages, runs handlers, keeps leases alive, and settles.
//! - [`Context`] is what a handler knows: its message, its effects, what it sends with the ack.
//! - [`Producer`] sends many messages without waiting for each.
//! - [`Effect`] carries something out once, and returns its result from then on.
//!
//! What every SDK of DriftQ does is written down once for all of them, in `docs/sdk.md` of the repository.
//!
#![doc = include_str!("../README.md")]

mod aws;
mod canonical;
mod client;
mod context;
mod effect;
mod error;
mod message;
mod outcome;
mod producer;
mod random;
mod signal;
#[cfg(feature = "testkit")]
pub mod testkit;
mod text;
mod trace;
mod worker;

pub use aws::{AwsCredentials, AwsRole, STS_ANSWER_BYTES_MAX, STS_AUDIENCE, STS_TIMEOUT};
pub use canonical::{canonical, sha256_hex};
pub use client::{
    ANSWER_BYTES_MAX, ANSWER_TIMEOUT, CONNECT_TIMEOUT, Client, ClientBuilder, KEPT_MAX, PATIENCE, Unread,
};
pub use context::Context;
pub use driftq_api::{Code, Moment, v2 as wire};
pub use driftq_http::escape;
pub use effect::{EFFECT_LEASE, EFFECT_WAIT, Effect, Found, Guarded, Run, current_effect, guarded};
pub use error::{EffectName, Error, Refusal, StsRefusal};
pub use message::{Outgoing, json, raw};
pub use outcome::{Dead, Failure, Final, NotDone, NotSent, Retry, Snooze};
pub use producer::{BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, BUFFER, Producer, Receipt};
pub use signal::{Reason, Signal};
pub use trace::Trace;
pub use worker::{
    BadPayload, CANCEL_GRACE, DRAIN_TIMEOUT, Delivery, LEASE, PREFETCH_MAX, START_TIMEOUT, Stopper, Worker,
};

/// The idempotency store of a service without a worker, kept by the server.
#[cfg(feature = "ledger")]
pub use driftq_ledger as ledger;

/// The context of the handler that calls this, if one does.
#[must_use]
pub fn current() -> Option<Context> {
    context::CURRENT.try_with(|home| home.context.clone()).ok().flatten()
}
