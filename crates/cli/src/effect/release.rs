//! `driftq effect release`.

use std::borrow::Cow;

use anyhow::Result;
use driftq_api::v2::{EffectRelease, EffectReleased, ReleaseResult};

use super::Holder;
use crate::{Common, call::patiently, output};

#[derive(clap::Args)]
#[command(
    after_help = "For work that failed before anything was sent: the attempt does not count, and whoever waits for the \
effect has it at once. A refusal (code 5) says that the effect is no longer yours.

Examples:
  driftq effect release \"$token\"
  driftq effect release --uncertain \"$token\""
)]
pub(crate) struct Args {
    #[command(flatten)]
    holder: Holder,
    /// It may have happened: what was begun with `--on-lapse hold` is unknown from now on
    #[arg(long)]
    uncertain: bool,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let request = EffectRelease { token: Cow::Borrowed(&args.holder.token), uncertain: args.uncertain };
    let mut session = common.client()?.session();
    let answer = patiently(&mut session, "/v2/effects/release", &request, 0).await;
    let released: EffectReleased = answer.map_err(|error| error.into_error())?;
    output::print_one(common.output, &released, || {
        let words = match (released.result, args.uncertain) {
            (ReleaseResult::Released, false) => "given up: the next one who asks may carry it out",
            (ReleaseResult::Released, true) => "given up: it may have happened",
            (ReleaseResult::AlreadyReleased, _) => "given up before",
        };
        format!("{words}\n")
    })
}
