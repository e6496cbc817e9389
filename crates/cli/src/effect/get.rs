//! `driftq effect get`.

use std::borrow::Cow;

use anyhow::Result;
use driftq_api::v2::{Effect, EffectGet};

use super::{Identity, words};
use crate::{Common, message::words::aligned, output, when::Now};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  driftq effect get charge order-7
  driftq effect get charge order-7 --tenant acme -o json | jq -r .outcome.body")]
pub(crate) struct Args {
    #[command(flatten)]
    identity: Identity,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let request = EffectGet {
        tenant_id: Cow::Borrowed(&args.identity.tenant),
        scope: Cow::Borrowed(&args.identity.scope),
        key: Cow::Borrowed(&args.identity.key),
    };
    let mut session = common.client()?.session();
    let answer = session.post("/v2/effects/get", &request).await;
    let effect: Effect<'static> = answer.map_err(|error| error.into_error())?;
    output::print_one(common.output, &effect, || aligned(&words::facts(&effect, Now::read())))
}
