//! `driftq dlq redrive`.

use anyhow::{Context, Result};
use driftq_api::v2::{Job, Redrive, Topic};

use super::{letters_of, or_explain, selection::SelectionArgs};
use crate::{Common, client::Path, job, parse::owned, suggest};

#[derive(clap::Args)]
#[command(
    after_help = "The server does the work as a job. This command waits for it and shows how far it is; Ctrl-C ends only the \
waiting. A letter that goes back keeps its identity and starts with no attempts used up.

Examples:
  driftq dlq redrive orders --all --dry-run             # how many there are
  driftq dlq redrive orders --all --rate 100            # a hundred per second
  driftq dlq redrive orders --letter 0:12 --letter 0:15
  driftq dlq redrive orders --group billing --before 2030-01-31T12:00:00Z --no-wait
  driftq dlq redrive orders --label team=risk --target orders-repaired"
)]
pub(crate) struct Args {
    /// The topic that the letters come from
    topic: String,
    #[command(flatten)]
    selection: SelectionArgs,
    /// At most this many per second
    #[arg(long, value_name = "N")]
    rate: Option<u32>,
    /// Only count them
    #[arg(long)]
    dry_run: bool,
    /// Send them to this topic instead
    #[arg(long, value_name = "TOPIC")]
    target: Option<String>,
    #[command(flatten)]
    waiting: job::Waiting,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let request = Redrive {
        selection: args.selection.selection()?,
        rate_per_second: args.rate,
        dry_run: args.dry_run,
        target_topic: owned(args.target.as_ref()),
    };
    let mut session = common.client()?.session();
    let answer = session.post(letters_of(&args.topic).word("redrive").as_str(), &request).await;
    if let (Err(error), Some(target)) = (&answer, &args.target)
        && error.code() == "TOPIC_UNKNOWN"
    {
        // Either topic may be the one that is not there.
        let found = session.get::<Topic>(Path::topic(target).as_str()).await;
        suggest::or_explain(&mut session, target, found)
            .await
            .with_context(|| format!("--target {target}"))?;
    }
    let job: Job<'static> = or_explain(&mut session, &args.topic, answer).await?;
    job::follow(common, &mut session, job, &args.waiting).await
}
