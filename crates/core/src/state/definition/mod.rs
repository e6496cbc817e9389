//! Definitions, as they are kept.

pub(crate) mod record;
pub(crate) mod snapshot;
