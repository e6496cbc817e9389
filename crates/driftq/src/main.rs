//! One binary: the broker, its command line and its benchmark.

mod bench;
mod cli;
mod client;
mod config;
mod http;
mod log;
mod metrics;
mod router;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run().into()
}
