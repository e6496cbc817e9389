//! Bytes: facts, messages and dead letters as the log keeps them.

pub(crate) mod fact;
pub(crate) mod fact_bytes;
pub(crate) mod message_bytes;
