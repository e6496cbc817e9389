//! Errors as RFC 9457 problem details.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

/// The body of every error of `/v2`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem<'a> {
    /// The code, from the catalogue.
    pub code: Cow<'a, str>,
    /// The HTTP status.
    pub status: u16,
    /// What it is, in a few words; the same for every problem of this code.
    pub title: Cow<'a, str>,
    /// What happened to this request.
    pub detail: Cow<'a, str>,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// When to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// What to do about it.
    pub help: Cow<'a, str>,
    /// Names the kind of problem: `urn:driftq:problem:` and the code.
    #[serde(default, rename = "type", skip_serializing_if = "str::is_empty")]
    #[schema(required = true)]
    pub kind: Cow<'a, str>,
    /// Names this very problem, where the server has a name for it: the request's `X-Request-Id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<Cow<'a, str>>,
    /// The attempt that is current now, with `STALE_LEASE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The entity that has another version than was expected, with `PRECONDITION_FAILED`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity: Option<Cow<'a, str>>,
    /// The version that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// The part of a commit that was refused, such as `ack[0]`, `effects[2]`, `produce[1]`, `outputs[0]` or `expect[0]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Cow<'a, str>>,
    /// Which limit was reached, with `OVERLOADED`, `QUOTA_EXCEEDED` and other codes that are about several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'a, str>>,
}
