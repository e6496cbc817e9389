//! `driftq lease extend`.

use anyhow::Result;
use driftq_api::v2::{Extend, ExtendLease};

use super::{settle, tokens::Tokens};
use crate::{Common, parse::span};

#[derive(clap::Args)]
#[command(
    after_help = "A heartbeat: call it well before the loan ends. The answer says when it ends now, whether the \
message was cancelled, and whether the server is about to stop.

Examples:
  driftq lease extend \"$token\" --lease 5m
  driftq lease extend \"$token\" -o json | jq '.[0].cancelled'"
)]
pub(crate) struct Args {
    #[command(flatten)]
    tokens: Tokens,
    /// For how long from now; as long as it was lent for if not given
    #[arg(long, value_name = "DURATION", value_parser = span)]
    lease: Option<u64>,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let tokens = args.tokens.read()?;
    let extend =
        |token: &String| ExtendLease { token: token.clone().into(), lease_ms: args.lease, started: None };
    settle::all(common, "/v2/leases/extend", &tokens, |tokens| Extend {
        leases: tokens.iter().map(extend).collect(),
    })
    .await
}
