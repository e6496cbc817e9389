//! The records of effects: few bytes each, found by name, number and time.

pub(crate) mod fold;
pub(crate) mod packed;
pub(crate) mod record;
pub(crate) mod snapshot;
