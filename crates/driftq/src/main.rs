//! The binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    driftq::run().into()
}
