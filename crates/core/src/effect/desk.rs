//! What is under way with effects and not remembered.

use crate::effect::lapse::Sweep;
use crate::effect::waiting::Waiting;
use crate::words::id::Time;

/// Who waits for effects, and when the ledger is swept. A new run of the shard begins with nobody.
#[derive(Debug, Default)]
pub(crate) struct EffectDesk {
    /// Who waits for an effect that somebody else runs.
    pub(in crate::effect) waiting: Waiting,
    /// When the ledger is swept next.
    pub(in crate::effect) sweep_at: Option<Time>,
    pub(in crate::effect) sweep: Sweep,
}
