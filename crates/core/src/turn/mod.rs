//! What every decision has at hand: the journal, the timers, the time.

pub(crate) mod hold;
pub(crate) mod journal;
pub(crate) mod look;
pub(crate) mod timer;
