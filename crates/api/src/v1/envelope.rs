//! The envelope that a producer may send.

use std::borrow::Cow;

use serde::Deserialize;

use super::natural;
use crate::fault::Fault;
use crate::moment::Moment;
use crate::object::Object;
use crate::query::Query;
use crate::text::{Text, trim};

/// Workflow identity, routing controls and policy. Empty texts mean "not given".
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Envelope<'a> {
    /// The workflow run.
    pub run_id: Cow<'a, str>,
    /// The step within the run.
    pub step_id: Cow<'a, str>,
    /// The step that caused it.
    pub parent_step_id: Cow<'a, str>,
    /// Whose it is.
    pub tenant_id: Cow<'a, str>,
    /// Names the operation.
    pub idempotency_key: Cow<'a, str>,
    /// Goes there instead.
    pub target_topic: Cow<'a, str>,
    /// Goes to this partition instead of the key's.
    pub partition_override: Option<u32>,
    /// No use after this.
    pub deadline: Option<Moment>,
    /// How often and when to try again.
    pub retry_policy: Option<RetryPolicy>,
}

/// How often and when to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RetryPolicy {
    /// Deliveries before it is given up; 0 means no limit.
    pub max_attempts: u32,
    /// Wait before the first retry.
    pub backoff_ms: u64,
    /// Longest wait; 0 means no limit of its own.
    pub max_backoff_ms: u64,
}

/// The envelope as JSON writes it. `labels` and `dlq` are words of the stream only, and refused here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw<'a> {
    #[serde(borrow, default)]
    run_id: Text<'a>,
    #[serde(borrow, default)]
    step_id: Text<'a>,
    #[serde(borrow, default)]
    parent_step_id: Text<'a>,
    #[serde(borrow, default)]
    tenant_id: Text<'a>,
    #[serde(borrow, default)]
    idempotency_key: Text<'a>,
    #[serde(borrow, default)]
    target_topic: Text<'a>,
    partition_override: Option<i64>,
    deadline: Option<Moment>,
    retry_policy: Option<Object<RawRetryPolicy>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRetryPolicy {
    max_attempts: Option<i64>,
    backoff_ms: Option<i64>,
    max_backoff_ms: Option<i64>,
}

impl<'a> Raw<'a> {
    pub(super) fn checked(self) -> Result<Envelope<'a>, Fault> {
        let retry_policy = match self.retry_policy {
            None => None,
            Some(Object(raw)) => Some(RetryPolicy {
                max_attempts: attempts("max_attempts", raw.max_attempts.unwrap_or(0))?,
                backoff_ms: natural("backoff_ms", raw.backoff_ms.unwrap_or(0))?,
                max_backoff_ms: natural("max_backoff_ms", raw.max_backoff_ms.unwrap_or(0))?,
            }),
        };
        Ok(Envelope {
            run_id: self.run_id.0,
            step_id: self.step_id.0,
            parent_step_id: self.parent_step_id.0,
            tenant_id: self.tenant_id.0,
            idempotency_key: self.idempotency_key.0,
            target_topic: self.target_topic.trimmed(),
            partition_override: self.partition_override.map(partition).transpose()?,
            deadline: self.deadline,
            retry_policy,
        })
    }
}

impl<'a> Envelope<'a> {
    /// The envelope in a query; `None` if no part of it is given.
    pub(super) fn from_query(query: &mut Query<'a>) -> Result<Option<Self>, Fault> {
        let partition_override = query.integer("partition_override")?.map(partition).transpose()?;
        let envelope = Self {
            partition_override,
            deadline: deadline_from_query(query)?,
            retry_policy: RetryPolicy::from_query(query)?,
            run_id: query.take("run_id"),
            step_id: query.take("step_id"),
            parent_step_id: query.take("parent_step_id"),
            tenant_id: query.take_any(&["tenant_id", "tenant"]),
            idempotency_key: query.take_any(&["idempotency_key", "idem_key"]),
            target_topic: trim(query.take("target_topic")),
        };
        Ok((envelope != Self::default()).then_some(envelope))
    }
}

impl RetryPolicy {
    fn from_query(query: &Query<'_>) -> Result<Option<Self>, Fault> {
        let number = |name: &str| natural(name, query.integer(name)?.unwrap_or(0));
        let max_attempts = attempts("retry_max_attempts", query.integer("retry_max_attempts")?.unwrap_or(0))?;
        let (backoff_ms, max_backoff_ms) = (number("retry_backoff_ms")?, number("retry_max_backoff_ms")?);
        let is_waiting =
            ["retry_backoff_ms", "retry_max_backoff_ms"].iter().any(|name| query.get(name).is_some());
        match (max_attempts, is_waiting) {
            (0, true) => Err(Fault::invalid(
                "retry_backoff_ms and retry_max_backoff_ms need retry_max_attempts greater than 0",
            )),
            (0, false) => Ok(None),
            _ => Ok(Some(Self { max_attempts, backoff_ms, max_backoff_ms })),
        }
    }
}

fn attempts(name: &str, number: i64) -> Result<u32, Fault> {
    let number = natural(name, number)?;
    u32::try_from(number).map_err(|_| Fault::invalid(format!("{name} is out of range")))
}

fn partition(number: i64) -> Result<u32, Fault> {
    u32::try_from(number).map_err(|_| Fault::invalid("partition_override out of range"))
}

fn deadline_from_query(query: &Query<'_>) -> Result<Option<Moment>, Fault> {
    for name in ["deadline", "deadline_rfc3339"] {
        if let Some(text) = query.get(name) {
            let moment = Moment::parse(text.trim());
            let refused =
                || Fault::invalid(format!("invalid {name}: expected RFC 3339, as in 2025-12-21T12:00:00Z"));
            return moment.map(Some).ok_or_else(refused);
        }
    }
    let Some(millis) = query.integer("deadline_ms")? else { return Ok(None) };
    natural("deadline_ms", millis)?;
    let moment = Moment::from_epoch_ms(millis);
    moment.map(Some).ok_or_else(|| Fault::invalid("invalid deadline_ms: beyond the year 9999"))
}
