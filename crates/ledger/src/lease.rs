//! The right to run an effect.

use std::time::Duration;

use crate::{Identity, Moment};

/// The epoch of the first lease of a record.
pub(crate) const EPOCH_FIRST: u32 = 1;

/// The right to run an effect, until a newer one is given out. Its holder says how the effect ended.
///
/// What fences is the number of the record and the epoch, not a time: a lapse only permits another caller to take over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Which effect.
    pub identity: Identity,
    /// Rises with every lease and every resolution of the record.
    pub epoch: u32,
    /// 1-based count of attempts.
    pub attempt: u32,
    /// When it lapses unless it is renewed, by the store's clock.
    pub expires_at: Moment,
    /// How long it lasted when it was given: what a caller, whose clock may be wrong, can reckon with.
    pub lasts: Duration,
    /// How long the outcome is to be remembered.
    pub ttl: Duration,
    /// What the store that gave it recognises it by.
    pub proof: Proof,
}

/// What a store recognises a lease by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The number of the record: one that is begun anew, after its time was over, has another.
    Record(i64),
    /// A sealed text.
    Token(String),
}
