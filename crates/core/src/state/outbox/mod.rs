//! What goes between shards: what is remembered, and its bytes.

pub(crate) mod record;
mod snapshot;
