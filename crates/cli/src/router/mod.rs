//! `driftq router …`: the brain that producers do not see.

mod status;
mod test;

use anyhow::Result;

use super::Common;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Show what kind of router is asked, and how it does
    #[command(after_help = "Examples:
  driftq router status
  driftq router status -o json | jq .breaker")]
    Status,
    /// Ask the router about a message without storing it
    Test(test::Args),
}

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    match command {
        Command::Status => status::run(common).await,
        Command::Test(args) => test::run(common, args).await,
    }
}
