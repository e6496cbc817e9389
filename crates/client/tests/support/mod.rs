//! What the tests share: the server that the workspace has built.

use std::path::PathBuf;

use driftq_client::Failure;
use driftq_client::testkit::{Launch, Server};

/// The program: `DRIFTQ_BIN`, else what the workspace has built beside this test.
pub(crate) fn program() -> PathBuf {
    let named = std::env::var_os("DRIFTQ_BIN").map(PathBuf::from);
    named.or_else(|| beside("driftq")).expect("a test is a file in a folder")
}

pub(crate) fn launch() -> Launch {
    Launch::default().binary(program())
}

/// A program or an example in the folder that this test was built into.
pub(crate) fn beside(name: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().ok()?;
    // The test is in `deps` of it.
    Some(test.parent()?.parent()?.join(name))
}

pub(crate) async fn server() -> Result<Server, Failure> {
    launch().start().await
}
