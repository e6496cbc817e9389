//! `driftq run …`: everything that carries the same run, put together again.

mod list;
mod show;
mod story;
mod tree;

use anyhow::Result;

use super::Common;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// List runs, the newest first
    List(list::Args),
    /// Tell what happened in a run: its steps, messages, attempts and effects
    Show(show::Args),
}

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    match command {
        Command::List(args) => list::run(common, args).await,
        Command::Show(args) => show::run(common, args).await,
    }
}
