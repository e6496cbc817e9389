//! Runs, as they are kept: messages, effects, and how each of them went.

pub(crate) mod record;
pub(crate) mod snapshot;
mod writes;
