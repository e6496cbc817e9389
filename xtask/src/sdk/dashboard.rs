//! The dashboard: what is committed is what its sources give, and it works in a browser.

use std::process::Command;

use anyhow::Result;

use super::{Shop, typescript::QUIET};
use crate::{command::BROKER_BINARY, host, task::Log};

pub(super) fn has_browser() -> bool {
    host::has_chromium()
}

/// Installs what the sources need, builds them, and compares every byte with what the server includes.
pub(super) fn verify(shop: &Shop, log: &mut Log) -> Result<()> {
    log.expect_success(npm(shop, "ci").args(QUIET))?;
    log.expect_success(npm(shop, "run").args(["--silent", "check"]))?;
    log.expect_success(npm(shop, "run").args(["--silent", "verify"]))
}

/// Opens every page in a browser, against the built server.
pub(super) fn test(shop: &Shop, log: &mut Log) -> Result<()> {
    log.expect_success(npm(shop, "test").arg("--silent").env(BROKER_BINARY, &shop.broker))
}

fn npm(shop: &Shop, verb: &str) -> Command {
    let mut command = Command::new("npm");
    command.arg(verb).current_dir(shop.root.join("ui"));
    command
}
