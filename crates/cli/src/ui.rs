//! `driftq ui`: the dashboard, in a browser.

use std::process::{Command, Stdio};

use anyhow::Result;

use crate::output::write;
use crate::{Common, Exit, Fault, context};

/// What opens an address on this system, the first that is there.
#[cfg(target_os = "macos")]
const OPENERS: [&str; 1] = ["open"];
#[cfg(not(target_os = "macos"))]
const OPENERS: [&str; 3] = ["xdg-open", "wslview", "www-browser"];

#[derive(clap::Args)]
#[command(
    after_help = "The server serves the dashboard itself, at /ui. Where keys are asked for, it asks for one there.

Examples:
  driftq ui
  driftq ui --print
  driftq ui --context production --print"
)]
pub(crate) struct Args {
    /// Print the address and open nothing
    #[arg(long)]
    print: bool,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<()> {
    let server = context::choose(common)?.server;
    let address = format!("{}/ui/", server.trim_end_matches('/'));
    write(&format!("{address}\n"))?;
    if args.print || OPENERS.iter().any(|opener| opens(opener, &address)) {
        return Ok(());
    }
    let fault = Fault::new(Exit::Failure, "there is no browser to open the dashboard with");
    Err(fault.help("open the address above yourself, or say --print").into())
}

/// Whether a program was there and took the address.
fn opens(opener: &str, address: &str) -> bool {
    let quiet = || Stdio::null();
    let opened = Command::new(opener).arg(address).stdin(quiet()).stdout(quiet()).stderr(quiet()).status();
    opened.is_ok_and(|status| status.success())
}
