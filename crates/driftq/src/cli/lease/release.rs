//! `driftq lease release`.

use anyhow::Result;
use driftq_api::v2::{Release, Token};

use super::{settle, tokens::Tokens};
use crate::cli::Common;

#[derive(clap::Args)]
#[command(after_help = "The next reader gets the messages at once, and the attempt does not count.

Examples:
  driftq lease release \"$token\"
  driftq lease release - < unfinished.ndjson")]
pub(crate) struct Args {
    #[command(flatten)]
    tokens: Tokens,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let tokens = args.tokens.read()?;
    let release = |token: &String| Token { token: token.clone().into() };
    settle::all(common, "/v2/leases/release", &tokens, |tokens| Release {
        leases: tokens.iter().map(release).collect(),
    })
    .await
}
