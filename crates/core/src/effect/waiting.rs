//! Askers that wait for the holder that runs the effect they want.

use crate::delivery::Deliveries;
use crate::effect::begin::{asked_of, told_free};
use crate::effect::desk::{EffectDesk, Waiter};
use crate::ledger;
use crate::ledger::{Begun, Standing};
use crate::turn::Turn;
use crate::turn::timer::Due;
use crate::words::action::{Action, Answer, Output};
use crate::words::effect::BeginEffect;
use crate::words::id::Ticket;
use crate::words::reject::Reject;

/// Askers that may wait for one effect; an asker that comes after them is told at once that it runs.
const WAITERS_PER_EFFECT_MAX: usize = 1_000;

impl EffectDesk {
    pub(crate) fn may_wait_for_effect(&self, turn: &Turn) -> Result<(), Reject> {
        if self.waiting.len() >= turn.settings.consumers_max as usize {
            return Err(Reject::Limit("waiting begin requests: there are as many as are allowed"));
        }
        Ok(())
    }

    /// Keeps an asker until the effect is over, its time to wait is over, or it gets the lease.
    pub(crate) fn wait_for_effect(
        &mut self,
        turn: &mut Turn,
        ticket: Ticket,
        number: u64,
        mut ask: BeginEffect,
        out: &mut Output,
    ) {
        let until = turn.now.after_ms(ask.wait_ms);
        if self.waiting.count(number) >= WAITERS_PER_EFFECT_MAX {
            return turn.tell_running(ticket, number, &ask, out);
        }
        // There is a record, which knows who it is.
        ask.about.bytes = alloc::vec::Vec::new();
        self.waiting.push(number, until, Waiter { ticket, ask });
        turn.timers.set(until, Due::EffectWaited(ticket));
    }

    /// An asker has waited long enough.
    pub(crate) fn on_effect_waited(&mut self, turn: &mut Turn, ticket: Ticket, out: &mut Output) {
        if let Some((number, _, waiter)) = self.waiting.remove(ticket) {
            turn.tell_running(ticket, number, &waiter.ask, out);
        }
    }

    /// The asker no longer waits.
    pub(crate) fn forsake_effect(&mut self, turn: &mut Turn, ticket: Ticket) {
        if let Some((_, until, _)) = self.waiting.remove(ticket) {
            turn.timers.cancel(until, Due::EffectWaited(ticket));
        }
    }

    /// An effect ended, or its lease did: its waiters are told, until one of them has the lease.
    pub(crate) fn pass_on(
        &mut self,
        turn: &mut Turn,
        deliveries: &mut Deliveries,
        number: u64,
        out: &mut Output,
    ) {
        while let Some(ticket) = self.waiting.first(number).map(|waiter| waiter.ticket) {
            let Some(effect) = &turn.journal.state.effects.get(number) else { break };
            let Some(waiter) = self.waiting.first(number) else { break };
            // A waiter wants it, so the record counts, even if heartbeats kept it for longer than its time: a waiter
            // takes it over, and none gets the lease that the holder before had.
            let standing = Standing { expired: false, ..turn.effect_standing(effect) };
            let decided = ledger::begin(Some(&standing), asked_of(Some(effect), &waiter.ask));
            if decided == Begun::Running {
                break;
            }
            self.answer_waiter(turn, ticket, decided, out);
        }
        deliveries.wake_for_effect(turn, number);
    }

    fn answer_waiter(&mut self, turn: &mut Turn, ticket: Ticket, decided: Begun, out: &mut Output) {
        let Some((number, until, Waiter { ask, .. })) = self.waiting.remove(ticket) else { return };
        turn.timers.cancel(until, Due::EffectWaited(ticket));
        let known = turn.journal.state.effects.get(number);
        if let Some(free) = told_free(&ask, decided, known.as_ref()) {
            return turn.journal.reply(out, ticket, Answer::Effect(free));
        }
        let may = match decided {
            Begun::TakeOver { .. } => turn.may_take(&ask, known.as_ref()),
            _ => Ok(()),
        };
        let answer = may.and_then(|()| match decided {
            Begun::Exhausted => Err(Reject::AttemptsExhausted),
            decided => turn.tell(number, decided, &ask, out).ok_or(Reject::EffectUnknown),
        });
        match answer {
            Ok(answer) => turn.journal.reply(out, ticket, Answer::Effect(answer)),
            Err(reject) => turn.journal.refuse(out, ticket, reject),
        }
    }
}

impl Turn {
    fn tell_running(&mut self, ticket: Ticket, number: u64, ask: &BeginEffect, out: &mut Output) {
        match self.tell(number, Begun::Running, ask, out) {
            // That another holder runs it rests on nothing that matters and that a crash could take back.
            Some(answer) => {
                out.actions.push(Action::Reply { ticket, answer: Answer::Effect(answer) });
            }
            None => self.journal.refuse(out, ticket, Reject::EffectUnknown),
        }
    }
}
