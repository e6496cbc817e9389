//! The envelope as flags.

use std::borrow::Cow;

use driftq_api::Moment;
use driftq_api::v2::{Envelope, Jitter, RetryPolicy};

use crate::{Choice, Exit, Fault, parse, topic::settings::JITTERS};

#[derive(clap::Args)]
#[command(next_help_heading = "Envelope")]
pub(super) struct EnvelopeArgs {
    /// The workflow run that the message belongs to
    #[arg(long, value_name = "ID")]
    run_id: Option<String>,
    /// The step within the run
    #[arg(long, value_name = "ID")]
    step_id: Option<String>,
    /// The step that caused it
    #[arg(long, value_name = "ID")]
    parent_step_id: Option<String>,
    /// Whose it is
    #[arg(long, value_name = "ID")]
    tenant_id: Option<String>,
    /// A free tag; can be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse::pair)]
    label: Vec<(String, String)>,
    /// Names the operation: a second message of the same name is answered and not stored. With lines, each gets
    /// KEY:LINE-NUMBER
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// A hash of what the idempotency key stands for: the same key with another hash is refused
    #[arg(long, value_name = "HASH")]
    request_hash: Option<String>,
    /// Send it to this topic instead
    #[arg(long, value_name = "TOPIC")]
    target_topic: Option<String>,
    /// Send it to this partition instead of the key's
    #[arg(long, value_name = "N")]
    partition: Option<u32>,
    /// No use after this time (RFC 3339, for example 2030-01-31T12:00:00Z)
    #[arg(long, value_name = "TIME", value_parser = parse::moment)]
    deadline: Option<Moment>,
    /// Deliveries before it goes to dlq.TOPIC
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Wait before the first retry; doubles with each one
    #[arg(long, value_name = "MS")]
    backoff_ms: Option<u64>,
    /// Longest wait between two tries
    #[arg(long, value_name = "MS")]
    max_backoff_ms: Option<u64>,
    /// Which part of a wait is left to chance, so that failures do not come back all at once
    #[arg(long, value_parser = Choice(JITTERS), default_value = "half", value_name = "PART")]
    jitter: Jitter,
}

impl EnvelopeArgs {
    /// The envelope; an empty one if no flag was given.
    pub(super) fn envelope(self) -> Result<Envelope<'static>, Fault> {
        let retry_policy = match (self.max_attempts, self.backoff_ms.or(self.max_backoff_ms)) {
            (Some(max_attempts), _) => Some(RetryPolicy {
                max_attempts: Some(max_attempts),
                backoff_ms: self.backoff_ms,
                max_backoff_ms: self.max_backoff_ms,
                jitter: self.jitter,
            }),
            (None, None) => None,
            (None, Some(_)) => {
                let fault = Fault::new(Exit::Usage, "a backoff needs --max-attempts");
                return Err(fault.help("for example --max-attempts 5 --backoff-ms 250"));
            }
        };
        let text = |text: Option<String>| text.map(Cow::Owned).unwrap_or_default();
        Ok(Envelope {
            run_id: text(self.run_id),
            step_id: text(self.step_id),
            parent_step_id: text(self.parent_step_id),
            tenant_id: text(self.tenant_id),
            labels: parse::labels(&self.label)?,
            idempotency_key: text(self.idempotency_key),
            request_hash: text(self.request_hash),
            target_topic: text(self.target_topic),
            partition_override: self.partition,
            deadline: self.deadline,
            retry_policy,
        })
    }
}
