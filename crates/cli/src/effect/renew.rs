//! `driftq effect renew`.

use std::borrow::Cow;

use anyhow::Result;
use driftq_api::v2::{EffectRenew, EffectRenewed};

use super::Holder;
use crate::{Common, call::patiently, output, parse::span, when::Now};

#[derive(clap::Args)]
#[command(
    after_help = "A heartbeat: call it well before the lease ends. A refusal (code 5) says that the effect is no longer \
yours: stop the work.

Examples:
  driftq effect renew \"$token\"
  driftq effect renew --lease 5m \"$token\""
)]
pub(crate) struct Args {
    #[command(flatten)]
    holder: Holder,
    /// For how long from now; as long as it was begun for if not given
    #[arg(long, value_name = "DURATION", value_parser = span)]
    lease: Option<u64>,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let request = EffectRenew { token: Cow::Borrowed(&args.holder.token), lease_ms: args.lease };
    let mut session = common.client()?.session();
    let answer = patiently(&mut session, "/v2/effects/renew", &request, 0).await;
    let renewed: EffectRenewed = answer.map_err(|error| error.into_error())?;
    output::print_one(common.output, &renewed, || {
        format!("yours until {} (attempt {})\n", Now::read().show(renewed.expires_at), renewed.attempt)
    })
}
