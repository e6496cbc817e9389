//! The HTTP edge: sockets, limits, and the words of `/v1` and `/v2` around the broker.
//!
//! Absent on purpose: decisions. A handler reads a request, calls the broker and puts its answer into words.

mod answer;
mod app;
mod audit;
mod body;
mod budget;
mod crowd;
mod descriptors;
pub(crate) mod door;
mod endpoint;
mod events;
mod failure;
mod front;
mod guard;
mod item;
mod lines;
mod live;
mod loan;
mod options;
mod overlong;
pub(crate) mod peer;
mod pulse;
mod relay;
mod request;
mod request_id;
mod secure;
mod server;
mod session;
mod standby;
mod sure;
mod tenancy;
mod turns;
mod ui;
mod v1;
mod v2;
mod wire;

pub(crate) use endpoint::Endpoint;
pub(crate) use failure::PRODUCE_REJECTIONS;
pub use front::{Beside, Front};
pub use options::Options;
pub(crate) use secure::examine as examine_tls;

/// The release.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The source that this binary was built from, if the build said so.
pub(crate) const COMMIT: &str = match option_env!("DRIFTQ_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};
