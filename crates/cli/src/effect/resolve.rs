//! `driftq effect resolve`.

use std::borrow::Cow;

use anyhow::Result;
use driftq_api::v2::{EffectFinished, EffectResolve};

use super::{Identity, ending::Ending, finish::remembered, words};
use crate::{Common, output};

#[derive(clap::Args)]
#[command(
    after_help = "For an effect that is unknown, whose lease has lapsed, or that failed and may be tried again. Find out \
first, at the other side, whether it happened. What succeeded or failed-final is final; failed-retryable says that it \
did not happen, and grants one more attempt if the cap was reached. Who decided and why is kept with the outcome.

Examples:
  driftq effect list --state unknown
  driftq effect resolve charge order-7 --status succeeded --why 'ch_1 is in the ledger of the bank'
  driftq effect resolve charge order-7 --status failed-retryable --by ann --why 'not there'"
)]
pub(crate) struct Args {
    #[command(flatten)]
    identity: Identity,
    #[command(flatten)]
    ending: Ending,
    /// Who decides it
    #[arg(long, env = "USER", hide_env_values = true, value_name = "NAME")]
    by: String,
    /// How it is known
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// Only if this is still the newest lease, as `effect get` shows it
    #[arg(long, value_name = "N")]
    epoch: Option<u64>,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let request = EffectResolve {
        tenant_id: Cow::Borrowed(&args.identity.tenant),
        scope: Cow::Borrowed(&args.identity.scope),
        key: Cow::Borrowed(&args.identity.key),
        result: args.ending.read()?,
        by: Cow::Borrowed(&args.by),
        why: Cow::Borrowed(&args.why),
        epoch: args.epoch,
    };
    let mut session = common.client()?.session();
    let answer = session.post("/v2/effects/resolve", &request).await;
    let finished: EffectFinished = answer.map_err(|error| error.into_error())?;
    output::print_one(common.output, &finished, || {
        let status = words::status(request.result.status);
        format!("{} is {status}{}", args.identity.words(), remembered(&finished))
    })
}
