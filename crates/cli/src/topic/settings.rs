//! The settings of a topic: as flags, and in words.

use driftq_api::units::{bytes, duration, show_bytes, show_millis};
use driftq_api::v2::{Jitter, Ordering, RetryPolicy, TopicSettings, TopicSpec};
use serde_json::Value;

use crate::{Choice, Choices, parse::span};

pub(super) const ORDERINGS: Choices<Ordering> = &[
    ("fifo", "By offset, whatever the priority", Ordering::Fifo),
    ("priority", "By priority, then by offset", Ordering::Priority),
    ("key", "By offset within a key, and never two messages of a key at a time", Ordering::Key),
];

pub(crate) const JITTERS: Choices<Jitter> = &[
    ("full", "Anything from nothing to the whole wait", Jitter::Full),
    ("half", "Anything from half of the wait to the whole", Jitter::Half),
    ("none", "Exactly the wait", Jitter::None),
];

/// Settings that a new topic can be given; the server has defaults for all of them.
#[derive(clap::Args)]
#[command(next_help_heading = "Settings")]
pub(super) struct SettingArgs {
    /// In which order messages are delivered [default: priority]
    #[arg(long, value_parser = Choice(ORDERINGS), value_name = "ORDER")]
    ordering: Option<Ordering>,
    /// Drop messages that are older than this
    #[arg(long, value_name = "DURATION", value_parser = span)]
    retention: Option<u64>,
    /// Drop the oldest messages when the topic keeps more than this
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    retention_bytes: Option<u64>,
    /// Most messages that wait in a partition; more are refused
    #[arg(long, value_name = "N")]
    partition_messages_max: Option<u64>,
    /// Most bytes that wait in a partition; more are refused
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    partition_bytes_max: Option<u64>,
    /// Most messages on loan to one group
    #[arg(long, value_name = "N")]
    max_in_flight: Option<u32>,
    /// How long a message is on loan to readers that do not say
    #[arg(long, value_name = "DURATION", value_parser = span)]
    lease: Option<u64>,
    /// Deliveries before a message becomes a dead letter, where the message does not say
    #[arg(long, value_name = "N")]
    retry_max_attempts: Option<u32>,
    /// Wait before the first retry; doubles with each one
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    retry_backoff: Option<u64>,
    /// Longest wait between two tries
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    retry_max_backoff: Option<u64>,
    /// Which part of a wait is left to chance [default: full]
    #[arg(long, value_parser = Choice(JITTERS), value_name = "PART")]
    retry_jitter: Option<Jitter>,
    /// Percent of deliveries that due retries get while fresh messages wait [default: 20]
    #[arg(long, value_name = "PERCENT")]
    retry_share: Option<u8>,
    /// Keep what every group is done with until it is older than this, for groups that come later
    #[arg(long, value_name = "DURATION", value_parser = span)]
    keep: Option<u64>,
    /// Keep what every group is done with until a partition has more bytes of it than this
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    keep_bytes: Option<u64>,
}

impl SettingArgs {
    pub(super) fn spec(&self, partitions: u32) -> TopicSpec {
        let policy = RetryPolicy {
            max_attempts: self.retry_max_attempts,
            backoff_ms: self.retry_backoff,
            max_backoff_ms: self.retry_max_backoff,
            jitter: self.retry_jitter.unwrap_or_default(),
        };
        let is_given = self.retry_jitter.is_some() || policy != RetryPolicy::default();
        TopicSpec {
            partitions: Some(partitions),
            retention_ms: self.retention,
            retention_bytes: self.retention_bytes,
            partition_messages_max: self.partition_messages_max,
            partition_bytes_max: self.partition_bytes_max,
            retry_policy: is_given.then_some(policy),
            lease_ms: self.lease,
            max_in_flight: self.max_in_flight,
            ordering: self.ordering,
            retry_share_percent: self.retry_share,
            keep_ms: self.keep,
            keep_bytes: self.keep_bytes,
            tenant: None,
        }
    }
}

/// Name and value of every setting, in the order of the documentation; what is not limited says so.
pub(super) fn rows(settings: &TopicSettings) -> Vec<(&'static str, String)> {
    let value =
        |value: Option<u64>, show: fn(u64) -> String| value.map_or_else(|| "no limit".to_owned(), show);
    let keeps = settings.keep_ms.is_some() || settings.keep_bytes.is_some();
    let kept = |value: Option<u64>, show: fn(u64) -> String| match value {
        Some(value) => show(value),
        None if keeps => "no limit of its own".to_owned(),
        None => "nothing is kept".to_owned(),
    };
    vec![
        ("retention_ms", value(settings.retention_ms, show_millis)),
        ("retention_bytes", value(settings.retention_bytes, show_bytes)),
        ("partition_messages_max", value(settings.partition_messages_max, |count| count.to_string())),
        ("partition_bytes_max", value(settings.partition_bytes_max, show_bytes)),
        ("retry_policy", policy_words(&settings.retry_policy)),
        ("lease_ms", show_millis(settings.lease_ms)),
        ("max_in_flight", value(settings.max_in_flight.map(u64::from), |count| count.to_string())),
        ("ordering", word(&settings.ordering)),
        ("retry_share_percent", settings.retry_share_percent.to_string()),
        ("keep_ms", kept(settings.keep_ms, show_millis)),
        ("keep_bytes", kept(settings.keep_bytes, show_bytes)),
    ]
}

pub(crate) fn policy_words(policy: &RetryPolicy) -> String {
    let attempts = policy
        .max_attempts
        .map_or_else(|| "no limit of attempts".to_owned(), |max| format!("{max} attempts"));
    let backoff = match (policy.backoff_ms, policy.max_backoff_ms.filter(|max| *max > 0)) {
        (None, None) => "the server's backoff".to_owned(),
        (Some(first), None) => format!("backoff {}", show_millis(first)),
        (Some(first), Some(max)) => format!("backoff {} to {}", show_millis(first), show_millis(max)),
        (None, Some(max)) => format!("backoff up to {}", show_millis(max)),
    };
    format!("{attempts}, {backoff}, jitter {}", word(&policy.jitter))
}

/// The name that a value has on the wire.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(text)) => text,
        _ => String::new(),
    }
}

/// A value of a change in words, as [`rows`] would show it.
pub(super) fn change_words(setting: &str, value: &Value) -> String {
    match value {
        Value::Null if setting.starts_with("keep_") => "not set".to_owned(),
        Value::Null => "no limit".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_u64() {
            Some(amount) if setting.ends_with("_ms") => show_millis(amount),
            Some(amount) if setting.contains("bytes") => show_bytes(amount),
            _ => number.to_string(),
        },
        other => serde_json::from_value(other.clone())
            .map_or_else(|_| other.to_string(), |policy| policy_words(&policy)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_as_settings_are() {
        let policy = serde_json::json!({"max_attempts": 5, "backoff_ms": 250, "jitter": "full"});
        for (setting, value, text) in [
            ("retention_ms", Value::Null, "no limit"),
            ("keep_ms", Value::Null, "not set"),
            ("retention_ms", 86_400_000.into(), "1d"),
            ("retention_bytes", 1024.into(), "1KiB"),
            ("max_in_flight", 8.into(), "8"),
            ("ordering", "key".into(), "key"),
            ("retry_policy", policy, "5 attempts, backoff 250ms, jitter full"),
        ] {
            assert_eq!(change_words(setting, &value), text);
        }
    }
}
