//! Outputs: pointers to what workers have written elsewhere, moved only by a commit.
//!
//! A reader sees what was committed and nothing else, can stay with one version, and is moved to another one at once.

pub(crate) mod manage;
pub(crate) mod view;
