//! `driftq message …`.

mod cancel;
mod get;
mod list;
pub(super) mod words;

use anyhow::Result;

use super::Common;

/// Names one message.
#[derive(clap::Args)]
pub(super) struct Place {
    /// The topic
    pub(super) topic: String,
    /// The partition
    pub(super) partition: u32,
    /// The offset
    pub(super) offset: u64,
}

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Show one message, where it stands with every group, and why it waits
    Get(get::Args),
    /// Look through the messages of a topic without a group
    List(list::Args),
    /// Let no further attempt of a message begin
    Cancel(cancel::Args),
}

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    match command {
        Command::Get(args) => get::run(common, args).await,
        Command::List(args) => list::run(common, args).await,
        Command::Cancel(args) => cancel::run(common, args).await,
    }
}
