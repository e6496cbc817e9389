//! `driftq lease release`.

use anyhow::Result;
use driftq_api::v2::{Release, ReleaseLease};

use super::{settle, tokens::Tokens};
use crate::Common;
use driftq_api::units::duration;

#[derive(clap::Args)]
#[command(
    after_help = "The next reader gets the messages, at once or when --delay is over, and the attempt does not count.

Examples:
  driftq lease release \"$token\"
  driftq lease release \"$token\" --delay 10m                  # not now, and nobody's failure
  driftq lease release - < unfinished.ndjson"
)]
pub(crate) struct Args {
    #[command(flatten)]
    tokens: Tokens,
    /// Not to be handed out again before this has passed
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    delay: Option<u64>,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let tokens = args.tokens.read()?;
    let release =
        |token: &String| ReleaseLease { token: token.clone().into(), delay_ms: args.delay, effect: None };
    settle::all(common, "/v2/leases/release", &tokens, |tokens| Release {
        leases: tokens.iter().map(release).collect(),
    })
    .await
}
