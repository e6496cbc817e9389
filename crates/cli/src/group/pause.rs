//! `driftq group pause` and `driftq group resume`.

use anyhow::Result;
use driftq_api::v2::Paused;

use crate::client::Path;
use crate::{Common, output, suggest};

#[derive(clap::Args)]
#[command(
    after_help = "A paused group gets nothing, over both APIs; what is on loan to it can be settled. Other groups of the \
topic read on. A pause survives restarts.

Examples:
  driftq group pause orders billing
  driftq group resume orders billing"
)]
pub(crate) struct Args {
    /// The topic
    topic: String,
    /// The group
    group: String,
}

pub(super) async fn run(common: &Common, args: &Args, word: &'static str) -> Result<()> {
    let mut session = common.client()?.session();
    let answer = session.post_bare(Path::group(&args.topic, &args.group).word(word).as_str()).await;
    let paused: Paused = suggest::or_explain_group(&mut session, &args.topic, &args.group, answer).await?;
    output::print_one(common.output, &paused, || match paused.paused_at {
        Some(at) => format!("group {} of {} gets nothing since {at}\n", args.group, args.topic),
        None => format!("group {} of {} is not paused\n", args.group, args.topic),
    })
}
