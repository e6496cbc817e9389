//! Bytes: facts, messages and dead letters as the log keeps them.

pub(crate) mod audit;
pub(crate) mod commit;
pub(crate) mod definition;
pub(crate) mod delivery;
pub(crate) mod effect;
pub(crate) mod entity;
pub(crate) mod fact;
pub(crate) mod fact_bytes;
pub(crate) mod header;
pub(crate) mod key;
pub(crate) mod message_bytes;
pub(crate) mod order;
pub(crate) mod outbox;
pub(crate) mod output;
pub(crate) mod run;
pub(crate) mod tenant;
