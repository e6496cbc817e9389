//! `driftq dlq purge`.

use anyhow::Result;
use driftq_api::v2::{Job, Purge};

use super::{letters_of, or_explain, selection::SelectionArgs};
use crate::{Common, confirm, job};

#[derive(clap::Args)]
#[command(
    after_help = "What is purged is gone. The server does the work as a job, and this command waits for it.

Examples:
  driftq dlq purge orders --all --dry-run                            # how many there are
  driftq dlq purge orders --before 2030-01-31T12:00:00Z              # asks for the name
  driftq dlq purge orders --letter 0:12 --yes                        # for scripts"
)]
pub(crate) struct Args {
    /// The topic that the letters come from
    topic: String,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Only count them
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    waiting: job::Waiting,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let request = Purge { selection: args.selection.selection()?, dry_run: args.dry_run };
    let mut session = common.client()?.session();
    let what = format!("throw away {} of {}", args.selection.words(), args.topic);
    confirm::by_name(args.yes || args.dry_run, &what, &args.topic)?;
    let answer = session.post(letters_of(&args.topic).word("purge").as_str(), &request).await;
    let job: Job<'static> = or_explain(&mut session, &args.topic, answer).await?;
    job::follow(common, &mut session, job, &args.waiting).await
}
