//! What a refused request gets.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

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
