//! What a refused request gets.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// Reasons of an overload that clients of the first broker know.
const KNOWN_REASONS: [&str; 2] = ["partition_buffer_full", "partition_buffer_bytes_full"];
/// The reason of every other overload, as the specification has it; the message says which limit it was.
const OVERLOADED: &str = "overloaded";

/// The reason that `/v1` gives.
pub(crate) fn told_reason(reason: &'static str) -> &'static str {
    if KNOWN_REASONS.contains(&reason) { reason } else { OVERLOADED }
}

/// The body of every error of `/v1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody<'a> {
    /// The code.
    pub error: Cow<'a, str>,
    /// What happened, in words.
    pub message: Cow<'a, str>,
    /// Which limit was reached; only with `RESOURCE_EXHAUSTED`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'a, str>>,
    /// When to try again; only with `RESOURCE_EXHAUSTED`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}
