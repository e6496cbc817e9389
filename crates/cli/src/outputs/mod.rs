//! `driftq output …`: where the results of work lie, and which version readers see.

mod current;
mod delete;
mod list;
mod look;
mod seal;

use anyhow::Result;

use super::Common;
use crate::client::Path;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// List datasets, the versions of one, or the outputs of a version
    List(list::Args),
    /// Let readers of a dataset see a version from now on
    Cutover(current::CutOverArgs),
    /// Let readers of a dataset see the version before again
    Rollback(current::RollBackArgs),
    /// Let nothing move in a version any more
    Seal(seal::Args),
    /// Forget a version of a dataset
    Delete(delete::Args),
}

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    match command {
        Command::List(args) => list::run(common, args).await,
        Command::Cutover(args) => current::cut_over(common, args).await,
        Command::Rollback(args) => current::roll_back(common, args).await,
        Command::Seal(args) => seal::run(common, args).await,
        Command::Delete(args) => delete::run(common, args).await,
    }
}

/// `/v2/outputs/{dataset}`.
fn dataset_of(dataset: &str) -> Path {
    Path::of("/v2/outputs").part(dataset)
}
