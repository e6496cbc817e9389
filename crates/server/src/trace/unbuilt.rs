//! What stands in for the exporter in a build that does not have it.

use std::convert::Infallible;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::counts::Counts;
use super::span::Span;

/// Never there.
pub(crate) enum Exporting {}

impl Exporting {
    pub(crate) async fn stop(self) {
        match self {}
    }
}

pub(crate) fn check_endpoint(_: &str) -> Result<Infallible, String> {
    Err("this build sends no traces; build it with `cargo build --release --features full`".to_owned())
}

pub(super) fn start(url: &str, _: String, _: Arc<Counts>) -> Result<(mpsc::Sender<Span>, Exporting), String> {
    match check_endpoint(url)? {}
}
