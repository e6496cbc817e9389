//! One message seen from all sides: what it is, and what every group makes of it.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

use super::item::{Attempt, Item};
use super::retry_policy::RetryPolicy;
use crate::moment::Moment;

/// Where a message stands with one group, and so why it waits if it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// Nothing is in its way: the next reader gets it.
    Ready,
    /// Its time has not come.
    Scheduled,
    /// A worker holds it.
    InFlight,
    /// It failed and waits for its next attempt.
    Backoff,
    /// It waits for an effect that a holder runs, or whose outcome is unknown.
    Effect,
    /// An earlier message of its key is not done.
    KeyBusy,
    /// A message with the same idempotency key is being worked on.
    SameKeyRunning,
    /// The group holds as many messages as the topic allows.
    WindowFull,
    /// The topic or the group is paused.
    Paused,
    /// It is about to become a dead letter.
    Dying,
    /// Acked, dead or cancelled: the group is through with it.
    Done,
}

impl DeliveryState {
    /// All of them, by name.
    pub const WORDS: [(&'static str, Self); 11] = [
        ("ready", Self::Ready),
        ("scheduled", Self::Scheduled),
        ("in_flight", Self::InFlight),
        ("backoff", Self::Backoff),
        ("effect", Self::Effect),
        ("key_busy", Self::KeyBusy),
        ("same_key_running", Self::SameKeyRunning),
        ("window_full", Self::WindowFull),
        ("paused", Self::Paused),
        ("dying", Self::Dying),
        ("done", Self::Done),
    ];

    /// Its name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::WORDS[self as usize].0
    }
}

/// To `GET /v2/topics/{topic}/messages/{partition}/{offset}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MessageState<'a> {
    /// The message, without a lease.
    #[serde(flatten)]
    pub message: Item<'a>,
    /// Whether it was cancelled: no further attempt begins.
    pub cancelled: bool,
    /// How often and when it is tried again: its own policy, or its topic's or the server's at the time it was stored.
    #[serde(default)]
    #[schema(required = false)]
    pub retry_policy: RetryPolicy,
    /// What every group of the topic makes of it, in order of their names.
    pub groups: Vec<GroupState<'a>>,
}

/// Where a message stands with one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupState<'a> {
    /// The group.
    pub group: Cow<'a, str>,
    /// Where it stands.
    pub state: DeliveryState,
    /// Since when.
    pub since: Moment,
    /// Until when, where that is known: the end of a loan, of a backoff, or of a delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Moment>,
    /// The owner that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Cow<'a, str>>,
    /// Attempts that have begun.
    pub attempt: u32,
    /// Why the last one failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<Cow<'a, str>>,
    /// The attempts that are still known, oldest first.
    pub history: Vec<Attempt<'a>>,
}

/// To `DELETE /v2/topics/{topic}/messages/{partition}/{offset}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cancelled {
    /// Always `true`: no further attempt begins, also when it was cancelled before.
    pub cancelled: bool,
    /// Groups whose holder is still at work, and learns of it at the next heartbeat.
    pub running: Vec<String>,
}

/// To `POST /v2/topics/{topic}/messages/{partition}/{offset}/retry`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Retried {
    /// Groups in which it waited for its next attempt, which is due now; none if it waits for nothing of that kind.
    pub groups: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_wire() {
        for (name, state) in DeliveryState::WORDS {
            assert_eq!(serde_json::to_value(state).unwrap(), name);
            assert_eq!(state.name(), name);
        }
    }

    #[test]
    fn a_state_is_a_message_and_more() {
        let text = r#"{"topic":"t","partition":0,"offset":1,"value":"v","priority":3,"produced_at":"2025-12-21T12:00:00Z","cancelled":false,"retry_policy":{"jitter":"full"},"groups":[{"group":"g","state":"backoff","since":"2025-12-21T12:00:01Z","until":"2025-12-21T12:00:05Z","attempt":1,"last_error":"boom","history":[{"attempt":1,"owner":"w","error":"boom","leased_at":"2025-12-21T12:00:00Z","ended_at":"2025-12-21T12:00:01Z"}]}]}"#;
        let state: MessageState<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(state.message.priority, 3);
        assert_eq!(serde_json::to_string(&state).unwrap(), text);
    }
}
