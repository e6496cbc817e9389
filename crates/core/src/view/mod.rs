//! Questions about the state, answered without changing it.

pub(crate) mod report;
pub(crate) mod survey;
pub(crate) mod why;
