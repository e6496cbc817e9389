//! Questions about the state, answered without changing it.

pub(crate) mod report;
pub(crate) mod survey;
pub(crate) mod why;

use crate::delivery::Deliveries;
use crate::effect::desk::EffectDesk;
use crate::turn::Turn;

/// What a question may look at.
pub(crate) struct View<'a> {
    pub(crate) turn: &'a Turn,
    pub(crate) deliveries: &'a Deliveries,
    pub(crate) effects: &'a EffectDesk,
}
