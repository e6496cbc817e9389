//! `driftq group delete`.

use anyhow::Result;
use serde::Serialize;

use crate::client::Path;
use crate::{Common, confirm, output, suggest};

#[derive(clap::Args)]
#[command(
    after_help = "Messages stay. A reader that comes back under this name starts at the oldest message kept.

Examples:
  driftq group delete orders billing          # asks for the name
  driftq group delete orders billing --yes    # for scripts"
)]
pub(crate) struct Args {
    /// The topic
    topic: String,
    /// The group
    group: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct Deleted<'a> {
    topic: &'a str,
    group: &'a str,
    deleted: bool,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let mut session = common.client()?.session();
    let what = format!("forget group {} of {} and where it stands", args.group, args.topic);
    confirm::by_name(args.yes, &what, &args.group)?;
    let path = Path::group(&args.topic, &args.group).with("confirm", &args.group);
    let answer = session.delete_empty(path.as_str()).await;
    suggest::or_explain_group(&mut session, &args.topic, &args.group, answer).await?;
    let deleted = Deleted { topic: &args.topic, group: &args.group, deleted: true };
    output::print_one(common.output, &deleted, || {
        format!("group {} of {} is forgotten\n", args.group, args.topic)
    })
}
