//! Bytes: facts, messages and dead letters as the log keeps them.

pub(crate) mod codec;
pub(crate) mod fact;
pub(crate) mod fact_bytes;
pub(crate) mod letter;
pub(crate) mod message;
pub(crate) mod message_bytes;
pub(crate) mod origin;
