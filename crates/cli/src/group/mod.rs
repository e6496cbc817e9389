//! `driftq group …`.

mod delete;
mod describe;
mod list;
mod pause;
mod seek;

use anyhow::Result;

use super::Common;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// List the groups of a topic, or of all topics
    List(list::Args),
    /// Show where a group stands in each partition, who reads, and what waits for what
    Describe(describe::Args),
    /// Let a group read on from another place
    Seek(seek::Args),
    /// Stop lending messages to a group
    Pause(pause::Args),
    /// Lend messages to a group again
    Resume(pause::Args),
    /// Forget a group and its position
    Delete(delete::Args),
}

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    match command {
        Command::List(args) => list::run(common, args).await,
        Command::Describe(args) => describe::run(common, args).await,
        Command::Seek(args) => seek::run(common, args).await,
        Command::Pause(args) => pause::run(common, args, "pause").await,
        Command::Resume(args) => pause::run(common, args, "resume").await,
        Command::Delete(args) => delete::run(common, args).await,
    }
}
