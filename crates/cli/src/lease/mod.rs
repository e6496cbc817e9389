//! `driftq lease …`: messages on loan, one call at a time.

mod ack;
mod extend;
mod nack;
mod release;
mod settle;
mod take;
mod tokens;

use anyhow::Result;

use super::Common;
pub use tokens::sheltered;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Borrow messages, waiting for them if there are none
    Take(take::Args),
    /// Say that the work is done
    Ack(ack::Args),
    /// Say that the work failed
    Nack(nack::Args),
    /// Say that the work goes on, and learn whether it still should
    Extend(extend::Args),
    /// Give messages back that were not begun; no attempt is used up
    Release(release::Args),
}

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    match command {
        Command::Take(args) => take::run(common, args).await,
        Command::Ack(args) => ack::run(common, args).await,
        Command::Nack(args) => nack::run(common, args).await,
        Command::Extend(args) => extend::run(common, args).await,
        Command::Release(args) => release::run(common, args).await,
    }
}
