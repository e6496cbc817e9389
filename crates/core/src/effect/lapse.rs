//! What time alone does to effects: leases lapse, records stop counting.

use alloc::vec::Vec;

use crate::delivery::Deliveries;
use crate::effect::desk::{EffectDesk, Sweep};
use crate::ledger::Status;
use crate::log::effect::EffectFact;
use crate::log::fact::Fact;
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::turn::timer::{Due, FORGET_SLACK_MS};
use crate::words::action::Output;
use crate::words::id::Time;

/// Records dropped by one fact: few enough that no other input waits noticeably.
pub(crate) const SWEPT_PER_FACT_MAX: usize = 256;
/// The next ones wait this long, so that a million records that end together go in the background: fifty thousand in a
/// second.
const SWEEP_PAUSE_MS: u64 = 5;
/// Records that one sweep looks at.
const LOOKED_PER_SWEEP_MAX: usize = 2 * SWEPT_PER_FACT_MAX;
/// A round that had to leave records, because their messages are kept, is followed by a rest of one millisecond per
/// this many of them: however many there are, looking at them in vain takes about a hundredth of the time.
const LEFT_PER_MS: u64 = 10;

impl EffectDesk {
    /// Sets the timers of effects at the start of a run.
    pub(crate) fn schedule_effects(&mut self, turn: &mut Turn) {
        let effects = &turn.journal.state.effects;
        let running: Vec<(Time, u64)> = effects
            .open_after(Status::InProgress, 0)
            .filter_map(|number| Some((effects.get(number)?.until, number)))
            .collect();
        for (until, number) in running {
            turn.timers.set(until, Due::EffectLapse(number));
        }
        self.schedule_sweep(turn);
    }

    /// The time of a lease is up, unless the delivery that it is tied to goes on.
    pub(crate) fn on_effect_lapse(
        &mut self,
        turn: &mut Turn,
        deliveries: &mut Deliveries,
        number: u64,
        out: &mut Output,
    ) {
        let Some(effect) = &turn.journal.state.effects.get(number) else { return };
        if effect.status != Status::InProgress {
            return;
        }
        if let Some(until) = turn.live_until(effect) {
            return turn.timers.set(until, Due::EffectLapse(number));
        }
        turn.give_up(number, out);
        self.pass_on(turn, deliveries, number, out);
        self.schedule_sweep(turn);
    }

    /// Sets the timer of the next sweep, unless one is set that comes no later.
    pub(crate) fn schedule_sweep(&mut self, turn: &mut Turn) {
        let Some((first, _)) = turn.journal.state.effects.first_to_go() else { return };
        let at = first.max(turn.now).after_ms(FORGET_SLACK_MS).max(self.sweep.rest_until);
        if self.sweep_at.is_some_and(|set| set <= at) {
            return;
        }
        if let Some(set) = self.sweep_at {
            turn.timers.cancel(set, Due::Sweep);
        }
        turn.timers.set(at, Due::Sweep);
        self.sweep_at = Some(at);
    }

    /// Drops records that no longer count, a few at a time.
    pub(crate) fn on_sweep(&mut self, turn: &mut Turn, out: &mut Output) {
        self.sweep_at = None;
        let (mut sweep, mut looked, mut numbers) = (self.sweep, 0, Vec::new());
        let gone = turn.journal.state.effects.gone_by(turn.now, sweep.past).take(LOOKED_PER_SWEEP_MAX);
        for (place, effect) in gone {
            (sweep.past, looked) = (place, looked + 1);
            if turn.effect_standing(&effect).is_over() {
                numbers.extend_from_slice(&place.1.to_le_bytes());
            } else {
                sweep.left += 1;
            }
            if numbers.len() / 8 == SWEPT_PER_FACT_MAX {
                break;
            }
        }
        let is_more = looked == LOOKED_PER_SWEEP_MAX || numbers.len() / 8 == SWEPT_PER_FACT_MAX;
        if !is_more {
            let rest_until = turn.now.after_ms(sweep.left / LEFT_PER_MS);
            sweep = Sweep { rest_until, ..Sweep::default() };
        }
        self.sweep = sweep;
        if !numbers.is_empty() {
            let fact = EffectFact::Swept { numbers: &numbers };
            turn.journal.emit(Haste::Lazy, out, &Fact::Effect(fact));
        }
        if is_more {
            let at = turn.now.after_ms(SWEEP_PAUSE_MS);
            turn.timers.set(at, Due::Sweep);
            self.sweep_at = Some(at);
        } else {
            self.schedule_sweep(turn);
        }
    }
}

impl Turn {
    /// Writes down that it is not known whether an effect happened, if that is so.
    fn give_up(&mut self, number: u64, out: &mut Output) {
        let effect = self.journal.state.effects.get(number);
        if effect.is_some_and(|effect| self.effect_standing(&effect).becomes_unknown()) {
            self.note_lapse(number, out);
        }
    }

    /// Writes down that it is not known whether an effect happened.
    pub(crate) fn note_lapse(&mut self, number: u64, out: &mut Output) {
        let fact = EffectFact::Lapsed { number, at: self.now };
        // Lost in a crash, it is noticed again.
        self.journal.emit(Haste::Lazy, out, &Fact::Effect(fact));
    }
}
