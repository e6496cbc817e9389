//! Effects: what happens outside is run once, its outcome is kept and replayed, and a holder that is too late is shut
//! out.
//!
//! [`crate::ledger`] has the rules and knows no store; this folder asks them for the store that a shard is.

pub(crate) mod begin;
pub(crate) mod desk;
pub(crate) mod finish;
pub(crate) mod lapse;
pub(crate) mod view;
pub(crate) mod waiting;
