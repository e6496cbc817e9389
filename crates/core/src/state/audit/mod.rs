//! The audit, as it is kept.

pub(crate) mod record;
pub(crate) mod snapshot;
