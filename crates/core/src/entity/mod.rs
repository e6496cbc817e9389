//! Entities: names with a version, so that something is done only if no other caller was there before.
//!
//! A caller that begins an effect or commits may say which version it expects each of some entities to have. All of
//! them are compared and raised by one in the decision that lets it through, in the batch of the log that says so; if
//! one differs, nothing is done and nothing is raised.
//!
//! A begin raises once for each record. The record remembers that it did: an asker that takes it over after a lapse, a
//! release or a failure goes on with the same effect, and is neither compared nor counted again. What is answered from
//! memory (an effect that is over or under way, a commit that was done before) compares and raises nothing.

pub(crate) mod check;
pub(crate) mod manage;
pub(crate) mod view;
