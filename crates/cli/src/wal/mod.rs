//! `driftq wal …`: the log on disk, without a server.

mod inspect;
mod repair;

use std::path::PathBuf;

use anyhow::Result;
use driftq_engine::tools::ToolError;

use crate::{Common, Exit, Fault};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Show what is in the log, damage included; changes nothing
    Inspect(inspect::Args),
    /// Cut damage out of the log, keeping a copy of everything that is cut
    Repair(repair::Args),
}

/// Where the log is.
#[derive(clap::Args)]
pub(crate) struct Directory {
    /// The data directory
    #[arg(
        long,
        env = "DRIFTQ_DATA",
        hide_env_values = true,
        default_value = "./driftq-data",
        value_name = "DIR"
    )]
    pub(crate) data: PathBuf,
}

pub(super) fn run(common: &Common, command: &Command) -> Result<()> {
    match command {
        Command::Inspect(args) => inspect::run(common, args),
        Command::Repair(args) => repair::run(common, args),
    }
}

fn explain(error: &ToolError) -> Fault {
    let message = error.to_string();
    match error {
        ToolError::NoDirectory(_) => {
            Fault::new(Exit::Invalid, message).help("name the directory of `driftq serve` with --data")
        }
        ToolError::Locked(_) => Fault::new(Exit::Locked, message),
        ToolError::Log(_) => Fault::new(Exit::Damaged, message),
    }
}
