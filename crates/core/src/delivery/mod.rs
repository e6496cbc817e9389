//! How messages come to readers: order of claims, leases, retries, dead letters, schedules.

pub(crate) mod bury;
pub(crate) mod deadline;
pub(crate) mod dispatch;
pub(crate) mod history;
pub(crate) mod lane;
pub(crate) mod lease;
pub(crate) mod produce;
pub(crate) mod retry;
pub(crate) mod schedule;
pub(crate) mod settle;
pub(crate) mod unbegun;
pub(crate) mod verdict;
