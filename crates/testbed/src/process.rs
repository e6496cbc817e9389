//! Processes of a test's own that stop for a while, as a machine does that is short of memory or about to move.

use std::process::Child;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

/// Stops a child where it stands, until it is [resumed](resume).
///
/// # Errors
/// If there is no such process any more.
pub fn pause(child: &Child) -> Result<()> {
    kill_process(Pid::from_child(child), Signal::STOP).context("stopping a process for a while")
}

/// Lets a child go on.
///
/// # Errors
/// If there is no such process any more.
pub fn resume(child: &Child) -> Result<()> {
    kill_process(Pid::from_child(child), Signal::CONT).context("letting a process go on")
}
