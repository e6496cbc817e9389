//! `driftq ack`: a message is done.

use anyhow::{Context, Result};

use super::{Common, output};
use crate::client::words::Settle;

/// The owner that `consume`, `ack` and `nack` use when none is named, so that a session by hand needs no names.
pub(super) const OWNER: &str = "cli";

#[derive(clap::Args)]
#[command(after_help = "Examples:
  driftq consume orders --group billing --max 1    # prints PARTITION and OFFSET
  driftq ack orders 0 12 --group billing")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) address: Address,
}

/// Names one delivery.
#[derive(clap::Args)]
pub(crate) struct Address {
    /// The topic
    pub(super) topic: String,
    /// The partition, as `consume` printed it
    pub(super) partition: u32,
    /// The offset, as `consume` printed it
    pub(super) offset: u64,
    /// The consumer group
    #[arg(short, long)]
    pub(super) group: String,
    /// Who received the message
    #[arg(long, env = "DRIFTQ_OWNER", hide_env_values = true, default_value = OWNER)]
    pub(super) owner: String,
}

impl Address {
    pub(super) fn settle<'a>(&'a self, reason: Option<&'a str>) -> Settle<'a> {
        Settle {
            topic: &self.topic,
            group: &self.group,
            partition: self.partition,
            offset: self.offset,
            owner: &self.owner,
            reason,
        }
    }

    pub(super) fn words(&self) -> String {
        format!("{} {}/{} for group {}", self.topic, self.partition, self.offset, self.group)
    }
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let mut session = common.client()?.session();
    let settle = args.address.settle(None);
    let outcome = session.post_empty("/v1/ack", &settle).await;
    outcome
        .map_err(|error| error.into_error())
        .with_context(|| format!("acking {}", args.address.words()))?;
    output::print_one(common.output, &settle, String::new)
}
