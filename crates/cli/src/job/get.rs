//! `driftq job get`.

use anyhow::Result;

use super::{read, words::text};
use crate::{Common, output};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  driftq job get 1
  driftq job get 1 -o json | jq .state")]
pub(crate) struct Args {
    /// Its name, as `dlq redrive` or `job list` printed it
    id: String,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let mut session = common.client()?.session();
    let job = read(&mut session, &args.id).await.map_err(|error| error.into_error())?;
    output::print_one(common.output, &job, || text(&job))
}
