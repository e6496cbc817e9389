//! What people and their programs order.

pub(crate) mod manage;
