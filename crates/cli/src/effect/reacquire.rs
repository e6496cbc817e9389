//! `driftq effect reacquire`.

use anyhow::Result;
use driftq_api::v2::EffectDecision;

use super::{Identity, decision, terms::Terms};
use crate::{Common, call::patiently, exit::Exit};

const ABOUT: &str =
    "As `effect begin --reacquire`, but only for an effect that is there, and refused with code 5 \
when its attempts are used up.

Examples:
  driftq effect reacquire charge order-7
  driftq effect reacquire charge order-7 --lease 1m -o json | jq -r .lease.token";

#[derive(clap::Args)]
#[command(after_help = format!("{ABOUT}\n\n{}", Exit::decisions()))]
pub(crate) struct Args {
    #[command(flatten)]
    identity: Identity,
    #[command(flatten)]
    terms: Terms,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<Exit> {
    let request = args.terms.request(&args.identity)?;
    let mut session = common.client()?.session();
    let answer = patiently(&mut session, "/v2/effects/reacquire", &request, 0).await;
    let decision: EffectDecision<'static> = answer.map_err(|error| error.into_error())?;
    decision::print(common, &args.identity, &decision)
}
