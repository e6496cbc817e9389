//! Messages that wait for an effect: put off by a worker that found it busy or uncertain, and due as soon as it is not.
//!
//! Which effect a message waits for is remembered with it ([`crate::DeliveryFact::SnoozedFor`]); this list is made from
//! that.

use alloc::vec::Vec;

use crate::delivery::Deliveries;
use crate::delivery::retry::DELAY_MS_MAX;
use crate::state::group::Pending;
use crate::turn::Turn;
use crate::turn::timer::{Due, Spot};
use crate::words::action::Output;
use crate::words::id::{Identity, Time};
use crate::words::receipt::Receipt;

/// Messages that may wait for one effect. Those beyond it wait for their time alone.
const SLEEPERS_PER_EFFECT_MAX: usize = 1_000;
/// What is put off for an effect that no asker has to wait for comes again after this: a worker that misjudges the
/// effect must not spin.
const AWAKE_MS: u64 = 100;

impl Deliveries {
    /// A delivery is to happen again when an effect has ended or is free, or after a delay, whichever is first.
    pub(crate) fn snooze_for(
        &mut self,
        turn: &mut Turn,
        spot: Spot,
        receipt: &Receipt,
        identity: &Identity,
        delay_ms: Option<u64>,
        out: &mut Output,
    ) {
        let delay_ms = delay_ms.unwrap_or(DELAY_MS_MAX);
        let known = turn.journal.state.effects.find(identity).map(|(number, _)| number);
        let Some(number) = known.filter(|number| turn.is_effect_open(*number)) else {
            self.snooze(turn, spot, receipt, (delay_ms.min(AWAKE_MS), 0), out);
            return;
        };
        let crowd = self.sleepers.of(number).take(SLEEPERS_PER_EFFECT_MAX).count();
        let number = if crowd < SLEEPERS_PER_EFFECT_MAX { number } else { 0 };
        if !self.snooze(turn, spot, receipt, (delay_ms, number), out) || number == 0 {
            return;
        }
        if turn.is_effect_open(number) {
            self.sleepers.add(number, spot);
        } else {
            // It was tied to this very delivery, and is free with it.
            turn.timers.set(turn.now.after_ms(delay_ms.min(AWAKE_MS)), Due::Retry(spot));
        }
    }

    /// A message that is not on loan waits for its time, and for an effect unless that is zero.
    pub(crate) fn put_to_wait(&mut self, turn: &mut Turn, spot: Spot, due: Time, effect: u64) {
        turn.timers.set(due, Due::Retry(spot));
        if effect > 0 {
            self.sleepers.add(effect, spot);
        }
    }

    /// An effect ended, or its lease did: what waits for it is due, unless it runs again or it is not known how it
    /// went.
    pub(crate) fn wake_for_effect(&mut self, turn: &mut Turn, number: u64) {
        if self.sleepers.by_effect.is_empty() || turn.is_effect_open(number) {
            return;
        }
        let spots: Vec<Spot> = self.sleepers.of(number).collect();
        for spot in spots {
            self.sleepers.remove(number, spot);
            if let Some(retry_at) = turn.pending(spot).map(|pending| pending.retry_at) {
                turn.timers.cancel(retry_at, Due::Retry(spot));
                turn.timers.set(turn.now, Due::Retry(spot));
            }
        }
    }
}

impl Turn {
    /// Whether an asker that wants an effect can do nothing but wait for it.
    fn is_effect_open(&self, number: u64) -> bool {
        let effect = self.journal.state.effects.get(number);
        effect.is_some_and(|effect| self.effect_standing(&effect).is_open())
    }

    /// When the next attempt of a message is due that is not on loan: at its time, or as soon as the effect that it
    /// waits for is over or free.
    pub(crate) fn due_at(&self, pending: &Pending) -> Time {
        let waits = pending.waits_for > 0 && !self.is_effect_open(pending.waits_for);
        if waits { pending.retry_at.min(self.now) } else { pending.retry_at }
    }
}
