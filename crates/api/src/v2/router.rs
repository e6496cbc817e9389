//! The router: how it does, and what it would say.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

use super::labels::{self, Labels};
use super::limits::NAME_BYTES_MAX;
use super::message::Message;
use super::read::{self, text};
use crate::fault::Fault;

/// What kind of router is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RouterKind {
    /// None.
    None,
    /// A service over HTTP.
    Http,
    /// The server's own rules.
    Rules,
}

/// Whether the router is asked at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Breaker {
    /// It is asked.
    Closed,
    /// It failed too often and is left alone for a while.
    Open,
    /// It is asked once, to see whether it is back.
    HalfOpen,
}

/// What happens to a message for which the router has no good answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// It goes on without routing.
    Pass,
    /// It is refused with `ROUTER_REFUSED`.
    Reject,
}

/// To `GET /v2/router`. Counts begin when the server starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RouterStatus {
    /// What kind of router is asked.
    pub kind: RouterKind,
    /// Whether it is asked at all.
    pub breaker: Breaker,
    /// Questions to it, each about one message or several.
    pub asked: u64,
    /// Questions with a good answer.
    pub answered: u64,
    /// Questions that failed or were answered with nonsense.
    pub failed: u64,
    /// Questions without an answer in time.
    pub timed_out: u64,
    /// Messages that it was not asked about: the breaker was open, or too many questions were under way.
    pub refused: u64,
    /// Messages decided from the cache.
    pub cached: u64,
    /// What happens to a message without a good answer.
    pub on_error: OnError,
    /// Topics that it is asked about; all if empty.
    pub topics: Vec<String>,
}

/// `POST /v2/router/test`: ask the router, and store nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RouterTest<'a> {
    /// The topic that a producer would ask for.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, NAME_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 255)]
    pub topic: Cow<'a, str>,
    /// The message that it would send.
    #[serde(borrow)]
    pub message: Message<'a>,
}

impl<'a> RouterTest<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        read::object(body)
    }
}

/// To `POST /v2/router/test`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RouterTested<'a> {
    /// What the router says, if it says something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision<'a>>,
    /// The topic that the message would go to.
    pub topic: Cow<'a, str>,
    /// The partition that it would go to.
    pub partition: u32,
    /// How long the router took.
    pub took_ms: u64,
    /// What became of the question.
    pub outcome: RouterOutcome,
    /// Why there is no decision, if that is the router's fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Cow<'a, str>>,
}

/// What became of a question to the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RouterOutcome {
    /// There is no router for this topic.
    NotAsked,
    /// It answered.
    Answered,
    /// It had answered before.
    Cached,
    /// It failed, answered nonsense, or chose a place that does not exist.
    Failed,
    /// It did not answer in time.
    TimedOut,
    /// It was not asked: the breaker is open, or too many questions are under way.
    Refused,
}

/// What a router says about a message.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Decision<'a> {
    /// What the message is.
    pub label: Cow<'a, str>,
    /// Goes to this topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_topic: Option<Cow<'a, str>>,
    /// Goes to this partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_override: Option<u32>,
    /// More about it.
    #[serde(default, deserialize_with = "labels::stored", skip_serializing_if = "Labels::is_empty")]
    #[schema(value_type = std::collections::BTreeMap<String, String>, required = false)]
    pub meta: Labels<'a>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question() {
        let body = br#"{"topic":"t","message":{"value":"v"}}"#;
        let test = RouterTest::from_json(body).unwrap();
        assert_eq!((&*test.topic, &*test.message.value), ("t", &b"v"[..]));
        for (body, message) in [
            (r#"{"topic":"t"}"#, "missing field `message`"),
            (r#"{"topic":"","message":{"value":"v"}}"#, "topic: must have 1 to 255 bytes, has 0"),
            (
                r#"{"topic":"t","message":{"value":"v","priority":10}}"#,
                "message.priority: must be between 0 and 9",
            ),
            (r#"{"topic":"t","message":{}}"#, "message: one of value and value_b64 is required"),
        ] {
            assert_eq!(RouterTest::from_json(body.as_bytes()).unwrap_err().message, message, "{body}");
        }
    }
}
