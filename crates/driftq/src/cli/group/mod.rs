//! `driftq group …`.

mod describe;
mod list;

use anyhow::Result;

use super::Common;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// List the groups of a topic, or of all topics
    List(list::Args),
    /// Show where a group stands in each partition
    Describe(describe::Args),
}

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    match command {
        Command::List(args) => list::run(common, args).await,
        Command::Describe(args) => describe::run(common, args).await,
    }
}
