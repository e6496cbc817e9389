//! `driftq lease nack`.

use anyhow::Result;
use driftq_api::v2::{Nack, NackLease};

use super::{settle, tokens::Tokens};
use crate::Common;
use driftq_api::units::duration;

#[derive(clap::Args)]
#[command(
    after_help = "The message comes back after its backoff, or becomes a dead letter if its attempts are used up.

Examples:
  driftq lease nack \"$token\" --error 'card service timed out'
  driftq lease nack \"$token\" --delay 10m --error 'rate limit'
  driftq lease nack \"$token\" --dead --error 'no such account'"
)]
pub(crate) struct Args {
    #[command(flatten)]
    tokens: Tokens,
    /// Try again after this, whatever the retry policy says
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "dead")]
    delay: Option<u64>,
    /// Never try again: make it a dead letter now
    #[arg(long)]
    dead: bool,
    /// Why it failed; the next reader and the dead letter show it
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    error: String,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let tokens = args.tokens.read()?;
    let nack = |token: &String| NackLease {
        token: token.clone().into(),
        delay_ms: args.delay,
        dead: args.dead,
        error: args.error.clone().into(),
    };
    settle::all(common, "/v2/leases/nack", &tokens, |tokens| Nack {
        leases: tokens.iter().map(nack).collect(),
    })
    .await
}
