//! What operators and their programs order: topics and groups made, set, paused and deleted; moves, cancellations,
//! removals, redrives.

pub(crate) mod cancel;
pub(crate) mod redrive;
pub(crate) mod seek;
pub(crate) mod topics;
