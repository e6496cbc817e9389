//! `driftq topic pause` and `driftq topic resume`.

use anyhow::Result;
use driftq_api::v2::Paused;

use crate::client::Path;
use crate::{Common, output, suggest};

#[derive(clap::Args)]
#[command(
    after_help = "A paused topic lends nothing to any group, over both APIs; producing goes on, and what is on loan can be \
settled. A pause survives restarts.

Examples:
  driftq topic pause orders
  driftq topic resume orders"
)]
pub(crate) struct Args {
    /// The topic
    topic: String,
}

pub(super) async fn run(common: &Common, args: &Args, word: &'static str) -> Result<()> {
    let mut session = common.client()?.session();
    let answer = session.post_bare(Path::topic(&args.topic).word(word).as_str()).await;
    let paused: Paused = suggest::or_explain(&mut session, &args.topic, answer).await?;
    output::print_one(common.output, &paused, || match paused.paused_at {
        Some(at) => format!("topic {} lends nothing since {at}\n", args.topic),
        None => format!("topic {} is not paused\n", args.topic),
    })
}
