//! The simulated disk, and the log on it.

mod disk_crash;
mod disk_faults;
mod disk_flips;
mod disk_repair;
mod disk_script;
mod disk_self;
