//! `driftq effect finish`.

use std::borrow::Cow;

use anyhow::Result;
use driftq_api::v2::{CommitResult, EffectFinish, EffectFinished};

use super::{Holder, ending::Ending, words};
use crate::{Common, call::patiently, output, when::Now};

#[derive(clap::Args)]
#[command(
    after_help = "The outcome is kept and replayed to whoever begins the effect again. The same outcome again is no error; \
another one is refused with code 5, and so is a token that somebody else's lease has fenced off.

Examples:
  driftq effect finish --status succeeded --code 200 --body '{\"id\": \"ch_1\"}' \"$token\"
  ./charge.sh | driftq effect finish --status succeeded --body-file - \"$token\"
  driftq effect finish --status failed-retryable --error 'timed out' \"$token\"
  driftq effect finish --status failed-final --code 402 --error 'card declined' \"$token\""
)]
pub(crate) struct Args {
    #[command(flatten)]
    holder: Holder,
    #[command(flatten)]
    ending: Ending,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let request = EffectFinish { token: Cow::Borrowed(&args.holder.token), result: args.ending.read()? };
    let mut session = common.client()?.session();
    let answer = patiently(&mut session, "/v2/effects/finish", &request, 0).await;
    let finished: EffectFinished = answer.map_err(|error| error.into_error())?;
    output::print_one(common.output, &finished, || {
        format!("the effect is {}{}", words::status(request.result.status), remembered(&finished))
    })
}

/// How new that is, and how long it is remembered.
pub(super) fn remembered(finished: &EffectFinished) -> String {
    let before = match finished.result {
        CommitResult::Committed => "",
        CommitResult::AlreadyCommitted => ", as was said before",
    };
    let until = Now::read().show(finished.expires_at);
    format!("{before} (attempt {}); remembered until {until}\n", finished.attempt)
}
