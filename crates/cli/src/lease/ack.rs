//! `driftq lease ack`.

use anyhow::Result;
use driftq_api::v2::{Ack, Token};

use super::{settle, tokens::Tokens};
use crate::Common;

#[derive(clap::Args)]
#[command(after_help = "The same token again is no error: the work is done.

Examples:
  driftq lease ack \"$token\"
  driftq lease take orders billing --max 100 | tee work.ndjson | driftq lease ack -")]
pub(crate) struct Args {
    #[command(flatten)]
    tokens: Tokens,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let tokens = args.tokens.read()?;
    let ack = |token: &String| Token { token: token.clone().into() };
    settle::all(common, "/v2/leases/ack", &tokens, |tokens| Ack { leases: tokens.iter().map(ack).collect() })
        .await
}
