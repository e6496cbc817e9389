//! `driftq topic …`.

mod create;
mod delete;
mod describe;
mod list;
mod pause;
mod set;
pub(super) mod settings;

use anyhow::Result;

use super::Common;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Create a topic; creating it again changes nothing
    Create(create::Args),
    /// List the names of all topics
    #[command(after_help = "Examples:
  driftq topic list
  driftq topic list -o ndjson | jq -r .name")]
    List,
    /// Show settings, partitions, counts and groups of a topic
    Describe(describe::Args),
    /// Change settings of a topic
    Set(set::Args),
    /// Stop lending messages of a topic
    Pause(pause::Args),
    /// Lend messages of a topic again
    Resume(pause::Args),
    /// Delete a topic and all its messages
    Delete(delete::Args),
}

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    match command {
        Command::Create(args) => create::run(common, args).await,
        Command::List => list::run(common).await,
        Command::Describe(args) => describe::run(common, args).await,
        Command::Set(args) => set::run(common, args).await,
        Command::Pause(args) => pause::run(common, args, "pause").await,
        Command::Resume(args) => pause::run(common, args, "resume").await,
        Command::Delete(args) => delete::run(common, args).await,
    }
}
