//! The envelope that a producer may send.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

use super::labels::Labels;
use super::limits::{IDENTITY_BYTES_MAX, NAME_BYTES_MAX, PARTITIONS_MAX, REQUEST_HASH_BYTES_MAX};
use super::read::{number, structure, text};
use super::retry_policy::RetryPolicy;
use crate::moment::Moment;

/// Highest number of a partition.
pub(super) const PARTITION_MAX: u64 = PARTITIONS_MAX - 1;

/// Workflow identity, routing controls and policy. Empty texts mean "not given", and are not taken as given.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Envelope<'a> {
    /// The workflow run.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::or_empty::<_, IDENTITY_BYTES_MAX>",
        skip_serializing_if = "str::is_empty"
    )]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 4096)]
    pub run_id: Cow<'a, str>,
    /// The step within the run.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::or_empty::<_, IDENTITY_BYTES_MAX>",
        skip_serializing_if = "str::is_empty"
    )]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 4096)]
    pub step_id: Cow<'a, str>,
    /// The step that caused it.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::or_empty::<_, IDENTITY_BYTES_MAX>",
        skip_serializing_if = "str::is_empty"
    )]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 4096)]
    pub parent_step_id: Cow<'a, str>,
    /// Whose it is.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::or_empty::<_, IDENTITY_BYTES_MAX>",
        skip_serializing_if = "str::is_empty"
    )]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 4096)]
    pub tenant_id: Cow<'a, str>,
    /// Free tags.
    #[serde(borrow, default, skip_serializing_if = "Labels::is_empty")]
    #[schema(value_type = Labels)]
    pub labels: Labels<'a>,
    /// Names the operation: the same key again is a duplicate and stores nothing.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::or_empty::<_, IDENTITY_BYTES_MAX>",
        skip_serializing_if = "str::is_empty"
    )]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 4096)]
    pub idempotency_key: Cow<'a, str>,
    /// A hash of what the key stands for: the same key with another hash is refused with `KEY_REUSED`.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::or_empty::<_, REQUEST_HASH_BYTES_MAX>",
        skip_serializing_if = "str::is_empty"
    )]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 256)]
    pub request_hash: Cow<'a, str>,
    /// Goes to this topic instead.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::or_empty::<_, NAME_BYTES_MAX>",
        skip_serializing_if = "str::is_empty"
    )]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 255)]
    pub target_topic: Cow<'a, str>,
    /// Goes to this partition instead of the key's.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 0, PARTITION_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 0, maximum = 4095)]
    pub partition_override: Option<u32>,
    /// No use after this; refused with `DEADLINE_EXCEEDED` if it has passed already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Moment>,
    /// How often and when to try again; the topic's if not given.
    #[serde(default, deserialize_with = "structure::optional", skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicy>,
}
