//! How often and when to try again.

use crate::ToSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::limits::{ATTEMPTS_MAX, DURATION_MS_MAX};
use super::read::{number, text};

/// How often and when a failed message is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// Deliveries before the message is given up; without it there is no limit.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, ATTEMPTS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 2_147_483_647)]
    pub max_attempts: Option<u32>,
    /// Wait before the first retry; it doubles with each further one.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 0, DURATION_MS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 0, maximum = 316_224_000_000_u64)]
    pub backoff_ms: Option<u64>,
    /// Longest wait; 0 or nothing means no limit of its own.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 0, DURATION_MS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 0, maximum = 316_224_000_000_u64)]
    pub max_backoff_ms: Option<u64>,
    /// How far a wait is moved at random, so that failures do not come back all at once; `full` if not given.
    #[serde(default, deserialize_with = "jitter")]
    #[schema(value_type = Option<Jitter>)]
    pub jitter: Jitter,
}

/// Which part of a wait is left to chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Jitter {
    /// All of it: anything from nothing to the whole wait.
    #[default]
    Full,
    /// The second half.
    Half,
    /// None: exactly the wait.
    None,
}

impl<'de> Deserialize<'de> for Jitter {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text::word(from, &[("full", Self::Full), ("half", Self::Half), ("none", Self::None)])
    }
}

fn jitter<'de, D: Deserializer<'de>>(from: D) -> Result<Jitter, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_defaults() {
        let policy: RetryPolicy =
            serde_json::from_str(r#"{"max_attempts":5,"backoff_ms":250,"jitter":"half"}"#).unwrap();
        let expected = RetryPolicy {
            max_attempts: Some(5),
            backoff_ms: Some(250),
            max_backoff_ms: None,
            jitter: Jitter::Half,
        };
        assert_eq!(policy, expected);
        let text = serde_json::to_string(&policy).unwrap();
        assert_eq!(text, r#"{"max_attempts":5,"backoff_ms":250,"jitter":"half"}"#);
        for text in ["{}", r#"{"max_attempts":null,"jitter":null}"#] {
            assert_eq!(serde_json::from_str::<RetryPolicy>(text).unwrap(), RetryPolicy::default());
        }
    }
}
