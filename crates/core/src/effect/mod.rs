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

use crate::delivery::Deliveries;
use crate::effect::desk::EffectDesk;
use crate::turn::Turn;
use crate::words::action::Output;
use crate::words::effect::EffectInput;

impl EffectDesk {
    pub(crate) fn handle(
        &mut self,
        turn: &mut Turn,
        deliveries: &mut Deliveries,
        input: EffectInput,
        out: &mut Output,
    ) {
        match input {
            EffectInput::Begin { ticket, ask } => {
                self.handle_begin_effect(turn, deliveries, ticket, *ask, out)
            }
            EffectInput::BeginMany { ticket, asks } => {
                self.handle_begin_effects(turn, deliveries, ticket, asks, out)
            }
            EffectInput::Finish { ticket, finish } => {
                self.handle_finish_effect(turn, deliveries, ticket, &finish, out)
            }
            EffectInput::Renew { ticket, receipt, lease_ms } => {
                turn.handle_renew_effect(ticket, receipt, lease_ms, out);
            }
            EffectInput::Release { ticket, receipt, uncertain } => {
                self.handle_release_effect(turn, deliveries, ticket, receipt, uncertain, out);
            }
            EffectInput::Resolve { ticket, resolve } => {
                self.handle_resolve_effect(turn, deliveries, ticket, &resolve, out)
            }
            EffectInput::Relocate { number, part, from, copy } => {
                turn.handle_relocate_effect(number, part, from, &copy, out);
            }
        }
    }
}
