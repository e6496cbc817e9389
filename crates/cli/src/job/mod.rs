//! `driftq job …`: work that goes on in the server.

mod cancel;
mod get;
mod list;
mod wait;
mod words;

use anyhow::Result;
use driftq_api::v2::Job;

use super::Common;
use crate::client::{CallError, Path, Session};

pub(super) use wait::{Waiting, follow};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// List jobs, the newest first
    #[command(after_help = "Examples:
  driftq job list
  driftq job list -o ndjson | jq -r 'select(.state == \"running\") | .id'")]
    List,
    /// Show one job
    Get(get::Args),
    /// Stop a job; what was done stays done
    Cancel(cancel::Args),
    /// Wait until a job ends, and show how far it is
    Wait(wait::Args),
}

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    match command {
        Command::List => list::run(common).await,
        Command::Get(args) => get::run(common, args).await,
        Command::Cancel(args) => cancel::run(common, args).await,
        Command::Wait(args) => wait::run(common, args).await,
    }
}

fn path_of(id: &str) -> Path {
    Path::of("/v2/jobs").part(id)
}

async fn read(session: &mut Session, id: &str) -> Result<Job<'static>, CallError> {
    session.get(path_of(id).as_str()).await
}
