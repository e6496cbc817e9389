//! Runs: which messages and effects belong together, and how each of them went, even after they are done.
//!
//! This is for display; nothing is decided by it. The oldest runs go when there are too many.

pub(crate) mod fact;
pub(crate) mod note;
pub(crate) mod record;
pub(crate) mod snapshot;
pub(crate) mod view;
pub(crate) mod words;

pub use fact::RunFact;
pub use words::{How, Lineage, RunEntry, RunGroup, RunList, RunMessage, RunPage, RunState, RunSummary};
