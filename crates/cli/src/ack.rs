//! `driftq ack` and `driftq nack`: what became of a message, by its offset.

use anyhow::{Context, Result};
use serde::{Serialize, de::IgnoredAny};

use crate::{CallError, Common};

/// The owner that `consume`, `ack` and `nack` use when none is named, so that a session by hand needs no names.
pub(super) const OWNER: &str = "cli";

#[derive(clap::Args)]
#[command(after_help = "Examples:
  driftq consume orders --group billing --max 1    # prints PARTITION and OFFSET
  driftq ack orders 0 12 --group billing")]
pub(crate) struct AckArgs {
    #[command(flatten)]
    delivery: Delivery,
}

#[derive(clap::Args)]
#[command(
    after_help = "The message comes back after its backoff. If it has a retry policy and its attempts \
are used up, it goes to the topic dlq.TOPIC instead.

Examples:
  driftq nack orders 0 12 --group billing --reason 'card service timed out'"
)]
pub(crate) struct NackArgs {
    #[command(flatten)]
    delivery: Delivery,
    /// Why it failed; the next reader sees it as last_error
    #[arg(long, default_value = "nack")]
    reason: String,
}

/// Names one delivery.
#[derive(clap::Args)]
struct Delivery {
    /// The topic
    topic: String,
    /// The partition, as `consume` printed it
    partition: u32,
    /// The offset, as `consume` printed it
    offset: u64,
    /// The consumer group
    #[arg(short, long)]
    group: String,
    /// Who received the message
    #[arg(long, env = "DRIFTQ_OWNER", hide_env_values = true, default_value = OWNER)]
    owner: String,
}

/// `POST /v1/ack` and `POST /v1/nack`.
#[derive(Serialize)]
struct Settle<'a> {
    topic: &'a str,
    group: &'a str,
    partition: u32,
    offset: u64,
    owner: &'a str,
    /// Only for a nack.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

pub(super) async fn ack(common: &Common, args: &AckArgs) -> Result<()> {
    settle(common, "/v1/ack", &args.delivery, None).await
}

pub(super) async fn nack(common: &Common, args: &NackArgs) -> Result<()> {
    settle(common, "/v1/nack", &args.delivery, Some(&args.reason)).await
}

async fn settle(common: &Common, path: &str, delivery: &Delivery, reason: Option<&str>) -> Result<()> {
    let Delivery { topic, partition, offset, group, owner } = delivery;
    let settle = Settle { topic, group, partition: *partition, offset: *offset, owner, reason };
    let outcome = common.client()?.session().post::<IgnoredAny>(path, &settle).await;
    outcome.map_err(CallError::into_error).with_context(|| {
        let verb = if reason.is_some() { "nacking" } else { "acking" };
        format!("{verb} {topic} {partition}/{offset} for group {group}")
    })?;
    common.show(&settle, |_| String::new())
}
