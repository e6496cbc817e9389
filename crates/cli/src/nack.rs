//! `driftq nack`: a message failed and is to be tried again.

use anyhow::{Context, Result};

use super::{Common, ack::Address, output};

#[derive(clap::Args)]
#[command(
    after_help = "The message comes back after its backoff. If it has a retry policy and its attempts are used up, \
it goes to the topic dlq.TOPIC instead.

Examples:
  driftq nack orders 0 12 --group billing --reason 'card service timed out'"
)]
pub(crate) struct Args {
    #[command(flatten)]
    address: Address,
    /// Why it failed; the next reader sees it as last_error
    #[arg(long, default_value = "nack")]
    reason: String,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let mut session = common.client()?.session();
    let settle = args.address.settle(Some(&args.reason));
    let outcome = session.post_empty("/v1/nack", &settle).await;
    outcome
        .map_err(|error| error.into_error())
        .with_context(|| format!("nacking {}", args.address.words()))?;
    output::print_one(common.output, &settle, String::new)
}
