//! `driftq completions`: a script that teaches a shell our words.

use anyhow::Result;
use clap_complete::{Shell, generate};

use driftq_cli::output;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  driftq completions bash > /etc/bash_completion.d/driftq
  driftq completions zsh > \"${fpath[1]}/_driftq\"
  driftq completions fish > ~/.config/fish/completions/driftq.fish")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let mut script = Vec::new();
    generate(args.shell, &mut super::command(), "driftq", &mut script);
    output::write(&String::from_utf8(script)?)
}
