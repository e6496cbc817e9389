//! Requests as the command line says them. Answers are heard in the words of `driftq_api`.

use serde::Serialize;

/// One line of `GET /v1/consume`.
pub type Item = driftq_api::v1::Item<'static>;

/// `POST /v1/topics`.
#[derive(Debug, Serialize)]
pub struct CreateTopic<'a> {
    pub name: &'a str,
    pub partitions: u32,
}

/// `POST /v1/produce`.
#[derive(Debug, Serialize)]
pub struct Produce<'a> {
    pub topic: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub key: &'a str,
    pub value: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub envelope: Option<Envelope>,
}

/// Metadata of a message; what is not given is not sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Envelope {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_step_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_topic: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition_override: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicy>,
}

/// How often and when a failed message is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RetryPolicy {
    pub max_attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_backoff_ms: Option<u64>,
}

/// `POST /v1/ack` and `POST /v1/nack`.
#[derive(Clone, Debug, Serialize)]
pub struct Settle<'a> {
    pub topic: &'a str,
    pub group: &'a str,
    pub partition: u32,
    pub offset: u64,
    pub owner: &'a str,
    /// Only for a nack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
}
