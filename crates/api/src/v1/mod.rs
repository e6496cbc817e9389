//! The words of `/v1`. Frozen: existing clients depend on every one of them.

mod answer;
mod consume;
mod create_topic;
mod envelope;
mod error_body;
mod item;
mod mend;
mod produce;
mod settle;

pub use answer::{Created, Health, Produced, Topics, Version};
pub use consume::Consume;
pub use create_topic::CreateTopic;
pub use envelope::{Envelope, RetryPolicy};
pub use error_body::ErrorBody;
pub(crate) use error_body::told_reason;
pub use item::{DeadLetter, Item, ItemEnvelope, Pairs, Routing};
pub use mend::mended;
pub use produce::Produce;
pub use settle::{Ack, DEFAULT_NACK_REASON, Nack};

use crate::fault::Fault;

/// The header of a refusal that has its code in the catalogue. The bodies of `/v1` name less, and what clients of the
/// first broker read in them does not change.
pub const CODE_HEADER: &str = "x-driftq-code";

/// Lease of a consumer that asks for none.
pub const DEFAULT_LEASE_MS: u64 = 2000;

/// A number that must not be negative.
fn natural(name: &str, number: i64) -> Result<u64, Fault> {
    u64::try_from(number).map_err(|_| Fault::invalid(format!("{name} cannot be negative")))
}
