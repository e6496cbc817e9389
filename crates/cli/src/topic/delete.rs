//! `driftq topic delete`.

use anyhow::Result;
use serde::Serialize;

use crate::client::Path;
use crate::{Common, confirm, output, suggest};

#[derive(clap::Args)]
#[command(
    after_help = "Its messages, its groups and their positions go with it. Its dead letters are a topic of their \
own, dlq.NAME, and stay.

Examples:
  driftq topic delete orders          # asks for the name
  driftq topic delete orders --yes    # for scripts"
)]
pub(crate) struct Args {
    /// The topic
    topic: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct Deleted<'a> {
    topic: &'a str,
    deleted: bool,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let mut session = common.client()?.session();
    confirm::by_name(args.yes, &format!("delete topic {} and all its messages", args.topic), &args.topic)?;
    let path = Path::topic(&args.topic).with("confirm", &args.topic);
    let answer = session.delete_empty(path.as_str()).await;
    suggest::or_explain(&mut session, &args.topic, answer).await?;
    let deleted = Deleted { topic: &args.topic, deleted: true };
    output::print_one(common.output, &deleted, || format!("topic {} is deleted\n", args.topic))
}
