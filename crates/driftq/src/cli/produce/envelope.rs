//! The envelope as flags.

use crate::{
    cli::exit::{Exit, Fault},
    client::words::{Envelope, RetryPolicy},
};

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
    /// Names the operation: a second message of the same name is answered and not stored. With stdin, each line gets
    /// KEY:LINE-NUMBER
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Send it to this topic instead
    #[arg(long, value_name = "TOPIC")]
    target_topic: Option<String>,
    /// Send it to this partition instead of the key's
    #[arg(long, value_name = "N")]
    partition: Option<u32>,
    /// No use after this time (RFC 3339, for example 2030-01-31T12:00:00Z)
    #[arg(long, value_name = "TIME")]
    deadline: Option<String>,
    /// Deliveries before it goes to dlq.TOPIC
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Wait before the first retry; doubles with each one
    #[arg(long, value_name = "MS")]
    backoff_ms: Option<u64>,
    /// Longest wait between two tries
    #[arg(long, value_name = "MS")]
    max_backoff_ms: Option<u64>,
}

impl EnvelopeArgs {
    /// The envelope, or none if no flag was given.
    pub(super) fn envelope(self) -> Result<Option<Envelope>, Fault> {
        let retry_policy = match (self.max_attempts, self.backoff_ms.or(self.max_backoff_ms)) {
            (Some(max_attempts), _) => Some(RetryPolicy {
                max_attempts,
                backoff_ms: self.backoff_ms,
                max_backoff_ms: self.max_backoff_ms,
            }),
            (None, None) => None,
            (None, Some(_)) => {
                let fault = Fault::new(Exit::Usage, "a backoff needs --max-attempts");
                return Err(fault.help("for example --max-attempts 5 --backoff-ms 250"));
            }
        };
        let envelope = Envelope {
            run_id: self.run_id,
            step_id: self.step_id,
            parent_step_id: self.parent_step_id,
            tenant_id: self.tenant_id,
            idempotency_key: self.idempotency_key,
            target_topic: self.target_topic,
            partition_override: self.partition,
            deadline: self.deadline,
            retry_policy,
        };
        Ok((envelope != Envelope::default()).then_some(envelope))
    }
}
