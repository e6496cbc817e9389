//! Runs: which messages and effects belong together, and how each of them went, even after they are done.
//!
//! This is for display; nothing is decided by it. The oldest runs go when there are too many.

pub(crate) mod note;
pub(crate) mod view;
