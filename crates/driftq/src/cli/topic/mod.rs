//! `driftq topic …`.

mod create;
mod describe;
mod list;

use anyhow::Result;

use super::Common;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Create a topic; creating it again changes nothing
    Create(create::Args),
    /// List the names of all topics
    List,
    /// Show partitions, counts and groups of a topic
    Describe(describe::Args),
}

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    match command {
        Command::Create(args) => create::run(common, args).await,
        Command::List => list::run(common).await,
        Command::Describe(args) => describe::run(common, args).await,
    }
}
