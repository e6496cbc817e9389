//! Commands that a build may be made without. They are listed all the same: a user who asks for one is told how to get
//! it.

use std::ffi::OsString;

use crate::{Exit, Fault};

/// Takes whatever is behind the name of such a command.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _all: Vec<OsString>,
}

/// Why `driftq <command>` does nothing, and what does.
#[must_use]
pub fn refusal(command: &str) -> Fault {
    Fault::new(Exit::Usage, format!("this build of driftq has no `{command}`"))
        .help("build all of driftq: cargo build --release --features full")
}
