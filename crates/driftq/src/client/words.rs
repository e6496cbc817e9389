//! Requests as the command line says them. Answers are heard in the words of `driftq_api`.

use serde::Serialize;

/// One line of `GET /v1/consume`.
pub(crate) type Item = driftq_api::v1::Item<'static>;

/// `POST /v1/topics`.
#[derive(Debug, Serialize)]
pub(crate) struct CreateTopic<'a> {
    pub(crate) name: &'a str,
    pub(crate) partitions: u32,
}

/// `POST /v1/produce`.
#[derive(Debug, Serialize)]
pub(crate) struct Produce<'a> {
    pub(crate) topic: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) key: &'a str,
    pub(crate) value: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) envelope: Option<Envelope>,
}

/// Metadata of a message; what is not given is not sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Envelope {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) step_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent_step_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idempotency_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target_topic: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) partition_override: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deadline: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_policy: Option<RetryPolicy>,
}

/// How often and when a failed message is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RetryPolicy {
    pub(crate) max_attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) backoff_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_backoff_ms: Option<u64>,
}

/// `POST /v1/ack` and `POST /v1/nack`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Settle<'a> {
    pub(crate) topic: &'a str,
    pub(crate) group: &'a str,
    pub(crate) partition: u32,
    pub(crate) offset: u64,
    pub(crate) owner: &'a str,
    /// Only for a nack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'a str>,
}
