//! The simulated disk, and the log on it.
#![allow(clippy::unwrap_used, reason = "an error here is a failed test")]

mod disk_crash;
mod disk_faults;
mod disk_flips;
mod disk_repair;
mod disk_script;
mod disk_self;
