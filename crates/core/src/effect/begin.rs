//! An asker wants to run an effect.

use alloc::vec::Vec;

use crate::delivery::Deliveries;
use crate::delivery::verdict::Authority;
use crate::effect::desk::EffectDesk;
use crate::ledger;
use crate::ledger::{Asked, Begun, Standing, Status};
use crate::log::effect::{BegunFact, EffectFact, Lent};
use crate::log::fact::Fact;
use crate::state::effect::record::Effect;
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::turn::timer::{Due, Spot};
use crate::words::action::{Answer, Output};
use crate::words::effect::{Abroad, BeginEffect, EffectAnswer, EffectLease, EffectReceipt, Urge};
use crate::words::id::{Ticket, Time};
use crate::words::input::{INPUT_ITEMS_MAX, LEASE_WAIT_MS_MAX};
use crate::words::receipt::Receipt;
use crate::words::reject::{Overload, Reject};

/// Effects that one call may begin.
pub const EFFECTS_PER_CALL_MAX: usize = 1_000;
/// Longest time for which an outcome may be remembered: ten years.
const TTL_MS_MAX: u64 = 3660 * 24 * 60 * 60 * 1000;

/// How the delivery to which an effect is tied stands.
enum Tie {
    /// There is none, or it says nothing any more: the effect's own clock decides.
    Loose,
    /// It is on loan until then.
    OnLoan(Time),
    /// A newer attempt has begun, or the message is settled without its holder.
    Fenced,
}

/// What becomes of a begin.
#[expect(clippy::large_enum_variant, reason = "it lives for a moment, and is nearly always the large one")]
enum Start {
    Told(EffectAnswer),
    /// It waits for the holder that runs it.
    Waits(u64),
}

impl EffectDesk {
    pub(crate) fn handle_begin_effect(
        &mut self,
        turn: &mut Turn,
        deliveries: &mut Deliveries,
        ticket: Ticket,
        ask: BeginEffect,
        out: &mut Output,
    ) {
        match self.begin_effect(turn, &ask, out) {
            Ok(Start::Told(answer)) => {
                let stranded = match &answer {
                    EffectAnswer::Unknown(view) => Some(view.number),
                    _ => None,
                };
                turn.journal.reply(out, ticket, Answer::Effect(answer));
                // Those who wait learn it as well: the timer of the lease will find nothing in progress any more.
                if let Some(number) = stranded {
                    self.pass_on(turn, deliveries, number, out);
                }
            }
            Ok(Start::Waits(number)) => self.wait_for_effect(turn, ticket, number, ask, out),
            Err(reject) => turn.journal.refuse(out, ticket, reject),
        }
    }

    /// Begins effects one after the other. They are answered together, when all that was given is durable; an asker
    /// that wants to wait for another holder asks for that effect alone.
    pub(crate) fn handle_begin_effects(
        &mut self,
        turn: &mut Turn,
        deliveries: &mut Deliveries,
        ticket: Ticket,
        mut asks: Vec<BeginEffect>,
        out: &mut Output,
    ) {
        if asks.len() > EFFECTS_PER_CALL_MAX {
            return turn.journal.refuse(out, ticket, Reject::Invalid("a call takes at most 1000 effects"));
        }
        if asks.iter().map(|ask| ask.expect.len()).sum::<usize>() > INPUT_ITEMS_MAX {
            let why = "a call takes at most 10000 entities in all its expect lists";
            return turn.journal.refuse(out, ticket, Reject::Invalid(why));
        }
        let mut stranded = Vec::new();
        let mut answers = Vec::with_capacity(asks.len());
        for ask in &mut asks {
            ask.wait_ms = 0;
            let answer = self.begin_effect(turn, ask, out).and_then(|turn| match turn {
                Start::Told(answer) => Ok(answer),
                // Without a time to wait, it does not wait.
                Start::Waits(_) => Err(Reject::EffectRunning),
            });
            if let Ok(EffectAnswer::Unknown(view)) = &answer {
                stranded.push(view.number);
            }
            answers.push(answer);
        }
        turn.journal.reply(out, ticket, Answer::Effects(answers));
        for number in stranded {
            self.pass_on(turn, deliveries, number, out);
        }
    }

    fn begin_effect(
        &mut self,
        turn: &mut Turn,
        ask: &BeginEffect,
        out: &mut Output,
    ) -> Result<Start, Reject> {
        turn.may_ask(ask)?;
        let (known, decided) = turn.decide_begin(ask)?;
        let known = known.as_ref().map(|(number, effect)| (*number, effect));
        let number = known.map_or(0, |(number, _)| number);
        if let Some(free) = told_free(ask, decided, known.map(|(_, effect)| effect)) {
            return Ok(Start::Told(free));
        }
        match decided {
            Begun::Conflict => return Err(Reject::KeyReused),
            Begun::Exhausted => return Err(Reject::AttemptsExhausted),
            Begun::First => {
                turn.may_take(ask, None)?;
                return turn.begin_first(ask, out).map(Start::Told);
            }
            Begun::Running if ask.wait_ms > 0 => {
                self.may_wait_for_effect(turn)?;
                return Ok(Start::Waits(number));
            }
            Begun::Retryable { left: Some(0) } if ask.urge == Urge::Reacquire => {
                return Err(Reject::AttemptsExhausted);
            }
            Begun::TakeOver { .. } => turn.may_take(ask, known.map(|(_, effect)| effect))?,
            Begun::Again | Begun::Replay | Begun::Running | Begun::Retryable { .. } | Begun::Unknown => {}
        }
        Ok(Start::Told(turn.tell(number, decided, ask, out).ok_or(Reject::EffectUnknown)?))
    }
}

impl Turn {
    /// What is decided about an asker, and the record that it is about.
    fn decide_begin(&self, ask: &BeginEffect) -> Result<(Option<(u64, Effect)>, Begun), Reject> {
        let known = self.journal.state.effects.find(&ask.identity);
        let effect = known.as_ref().map(|(_, effect)| effect);
        let standing = effect.map(|effect| self.effect_standing(effect));
        if ask.urge == Urge::Reacquire && standing.is_none_or(|standing| standing.is_over()) {
            return Err(Reject::EffectUnknown);
        }
        let decided = ledger::begin(standing.as_ref(), asked_of(effect, ask));
        Ok((known, decided))
    }

    /// Does what was decided about a record that exists, and says so. `None` if there is no such record.
    pub(crate) fn tell(
        &mut self,
        number: u64,
        decided: Begun,
        ask: &BeginEffect,
        out: &mut Output,
    ) -> Option<EffectAnswer> {
        let effect = &self.journal.state.effects.get(number)?;
        Some(match decided {
            Begun::TakeOver { epoch, attempt } => {
                let cap = ask.attempts_max.max(effect.attempts_max);
                let (before, raised) = (effect.until, effect.raised);
                let lent = self.lent(ask, epoch, attempt, cap);
                self.timers.cancel(before, Due::EffectLapse(number));
                self.journal.emit(Haste::Urgent, out, &Fact::Effect(EffectFact::Taken { number, lent }));
                if !raised {
                    self.raise_for_effect(ask, number, out);
                }
                self.watch_lease(number, &lent)
            }
            Begun::Again | Begun::First => EffectAnswer::Execute(lease_of(number, effect)),
            Begun::Running => EffectAnswer::Running {
                epoch: effect.epoch,
                attempt: effect.attempts,
                retry_after_ms: self.live_until(effect).unwrap_or(self.now).since_ms(self.now).max(1),
            },
            Begun::Replay => EffectAnswer::Replay(self.view_effect(number, effect)),
            Begun::Retryable { left } => {
                EffectAnswer::Retryable { view: self.view_effect(number, effect), left }
            }
            Begun::Exhausted | Begun::Conflict => return None,
            Begun::Unknown => {
                // An asker that is told so may rely on it: it holds for every asker from now on.
                if effect.status == Status::InProgress && self.live_until(effect).is_none() {
                    self.note_lapse(number, out);
                }
                let effect = &self.journal.state.effects.get(number)?;
                EffectAnswer::Unknown(self.view_effect(number, effect))
            }
        })
    }

    fn begin_first(&mut self, ask: &BeginEffect, out: &mut Output) -> Result<EffectAnswer, Reject> {
        let effects = &self.journal.state.effects;
        if effects.len() as u64 >= self.settings.effects_max {
            return Err(Reject::Overloaded(Overload::EffectRecords));
        }
        self.may_remember_effect(&ask.whose, ask.tenant)?;
        let number = effects.last + 1;
        let lent = self.lent(ask, 1, 1, ask.attempts_max);
        let steps = &self.journal.state.runs.steps;
        let in_step = |receipt: Receipt| steps.contains_key(&(receipt.topic, receipt.offset));
        let is_in_run = !ask.run.is_empty() || ask.delivery.is_some_and(in_step);
        if is_in_run {
            self.make_room_in_runs(out);
        }
        let fact = EffectFact::Begun(BegunFact {
            number,
            identity: ask.identity,
            request: ask.request,
            tenant: ask.tenant,
            scope: ask.scope,
            lent,
            run: &ask.run,
            // Told of a run alone: without one it would not be written, and the fact not be read back as it was.
            whose: if ask.run.is_empty() { "" } else { &ask.whose },
            check: ask.about.check,
            bytes: &ask.about.bytes,
        });
        self.journal.emit(Haste::Urgent, out, &Fact::Effect(fact));
        self.raise_for_effect(ask, number, out);
        if is_in_run && let Some(effect) = self.journal.state.effects.get(number) {
            self.watch_run(effect.run);
        }
        Ok(self.watch_lease(number, &lent))
    }

    /// The lease that an asker gets now.
    fn lent<'a>(
        &self,
        ask: &'a BeginEffect,
        epoch: u32,
        attempt: u32,
        attempts_max: Option<u32>,
    ) -> Lent<'a> {
        let lease_ms = ask.lease_ms.unwrap_or(self.settings.effect_lease_ms_default);
        Lent {
            epoch,
            attempt,
            at: self.now,
            until: self.now.after_ms(lease_ms),
            ttl_ms: ask.ttl_ms.unwrap_or(self.settings.effect_ttl_ms_default),
            on_lapse: ask.on_lapse,
            attempts_max,
            caller: ask.caller,
            tie: ask.delivery,
            owner: &ask.owner,
        }
    }

    /// A holder has a lease from now on.
    fn watch_lease(&mut self, number: u64, lent: &Lent<'_>) -> EffectAnswer {
        self.timers.set(lent.until, Due::EffectLapse(number));
        let receipt = EffectReceipt { number, epoch: lent.epoch };
        EffectAnswer::Execute(EffectLease { receipt, attempt: lent.attempt, expires: lent.until })
    }

    fn may_ask(&self, ask: &BeginEffect) -> Result<(), Reject> {
        if ask.lease_ms.is_some_and(|ms| ms == 0 || ms > self.settings.lease_ms_max) {
            return Err(Reject::Invalid("lease_ms must be positive and at most the server's lease_ms_max"));
        }
        if ask.ttl_ms.is_some_and(|ms| ms == 0 || ms > TTL_MS_MAX) {
            return Err(Reject::Invalid("ttl_ms must be positive and at most ten years"));
        }
        if ask.attempts_max == Some(0) {
            return Err(Reject::Invalid("max_attempts must be positive"));
        }
        if ask.wait_ms > LEASE_WAIT_MS_MAX {
            return Err(Reject::Invalid("wait_ms must be at most 60000"));
        }
        Self::may_expect(&ask.whose, &ask.expect)
    }

    /// Whether an asker may have a lease: the first of a new record, or the next one of a record that is there. Any
    /// asker may be told how an effect went.
    pub(crate) fn may_take(&self, ask: &BeginEffect, known: Option<&Effect>) -> Result<(), Reject> {
        ask.delivery.map(|receipt| self.may_act_for(&receipt)).transpose()?;
        if !self.roomy {
            return Err(Reject::DiskFull);
        }
        // The record met what was expected when it was begun: an asker that goes on with it is part of the same effect.
        if known.is_some_and(|effect| effect.raised) {
            Ok(())
        } else {
            self.check_expected(&ask.whose, &ask.expect)
        }
    }

    /// Where a delivery is that is its holder's to act for.
    pub(crate) fn may_act_for(&self, receipt: &Receipt) -> Result<Spot, Reject> {
        match self.authority(receipt) {
            Authority::Current(spot) if !self.is_nacked(spot) => Ok(spot),
            Authority::Current(spot) => Err(Reject::LeaseStale(Some(self.pending_attempts(spot)))),
            Authority::Stale(attempt) => Err(Reject::LeaseStale(attempt)),
            Authority::Acked | Authority::Buried => Err(Reject::LeaseStale(None)),
            Authority::Unknown => Err(Reject::LeaseUnknown),
        }
    }

    /// How a record stands right now.
    pub(crate) fn effect_standing(&self, effect: &Effect) -> Standing {
        self.standing_under(effect, &self.tie_of(effect))
    }

    /// How a record stands for the holder of a lease, and whether the delivery that it is tied to is another's by now.
    pub(crate) fn standing_for_holder(&self, effect: &Effect) -> (Standing, bool) {
        let tie = self.tie_of(effect);
        (self.standing_under(effect, &tie), matches!(tie, Tie::Fenced))
    }

    fn standing_under(&self, effect: &Effect, tie: &Tie) -> Standing {
        Standing {
            status: effect.status,
            epoch: effect.epoch,
            attempts: effect.attempts,
            attempts_max: effect.attempts_max,
            on_lapse: effect.on_lapse,
            live: self.live_under(effect, tie).is_some(),
            expired: effect.expires() <= self.now && !self.may_be_repeated(effect),
            released: effect.released,
        }
    }

    /// Whether anything is kept that would ask for the effect again: its message, as it is, dead, or redriven.
    fn may_be_repeated(&self, effect: &Effect) -> bool {
        effect.message.is_some_and(|origin| self.journal.state.may_come_again(origin))
    }

    /// Until when the newest lease is live; `None` if it is not.
    pub(crate) fn live_until(&self, effect: &Effect) -> Option<Time> {
        self.live_under(effect, &self.tie_of(effect))
    }

    fn live_under(&self, effect: &Effect, tie: &Tie) -> Option<Time> {
        if effect.status != Status::InProgress || effect.released {
            return None;
        }
        let until = match tie {
            Tie::Loose => effect.until,
            Tie::OnLoan(expires) => effect.until.max(*expires),
            Tie::Fenced => return None,
        };
        Some(until).filter(|until| *until > self.now)
    }

    /// How the delivery that an effect is tied to stands. Where a restart has voided deliveries, as it did before
    /// leases outlived the broker, the holder may still be at it: the effect's own lease decides.
    fn tie_of(&self, effect: &Effect) -> Tie {
        let Some(receipt) = effect.tie.as_deref() else { return Tie::Loose };
        if receipt.token.epoch < self.journal.state.leases_kept_since {
            return Tie::Loose;
        }
        match self.authority(receipt) {
            Authority::Current(spot) => self.lease_of(spot).map_or(Tie::Loose, |(_, at)| Tie::OnLoan(at)),
            Authority::Acked => Tie::Loose,
            Authority::Buried | Authority::Stale(_) | Authority::Unknown => Tie::Fenced,
        }
    }
}

/// What a record makes of an asker.
pub(crate) fn asked_of(known: Option<&Effect>, ask: &BeginEffect) -> Asked {
    Asked {
        same_request: known.is_none_or(|effect| effect.request.agrees(ask.request)),
        same_call: ask.caller != 0 && known.is_some_and(|effect| effect.caller == ask.caller),
        reacquire: ask.urge != Urge::Begin,
        attempts_max: ask.attempts_max,
    }
}

/// What an asker is told that could have a lease now, while nobody has looked at what it rests on in another shard: that
/// shard is asked for nobody who is only told how the effect stands.
pub(crate) fn told_free(ask: &BeginEffect, decided: Begun, known: Option<&Effect>) -> Option<EffectAnswer> {
    let raised = match decided {
        _ if ask.abroad != Abroad::Unchecked => return None,
        Begun::First => false,
        Begun::TakeOver { .. } => known.is_some_and(|effect| effect.raised),
        _ => return None,
    };
    Some(EffectAnswer::Free { raised })
}

fn lease_of(number: u64, effect: &Effect) -> EffectLease {
    let receipt = EffectReceipt { number, epoch: effect.epoch };
    EffectLease { receipt, attempt: effect.attempts, expires: effect.until }
}
