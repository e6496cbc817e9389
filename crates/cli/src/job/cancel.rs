//! `driftq job cancel`.

use anyhow::Result;
use driftq_api::v2::Job;

use super::{path_of, words::text};
use crate::{Common, output};

#[derive(clap::Args)]
#[command(
    after_help = "What the job has done stays done; the rest stays where it is. A job that has ended stays as it ended.

Examples:
  driftq job cancel 1"
)]
pub(crate) struct Args {
    /// Its name, as `dlq redrive` or `job list` printed it
    id: String,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let mut session = common.client()?.session();
    let answer = session.delete(path_of(&args.id).as_str()).await;
    let job: Job<'static> = answer.map_err(|error| error.into_error())?;
    output::print_one(common.output, &job, || text(&job))
}
