//! An effect ends: by word of its holder, or of a resolver.

use crate::delivery::Deliveries;
use crate::effect::desk::EffectDesk;
use crate::ledger;
use crate::ledger::{Finished, Released, Resolved, Standing, Status};
use crate::log::effect::{EffectFact, EndedFact};
use crate::log::fact::Fact;
use crate::state::effect::record::Effect;
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::turn::timer::Due;
use crate::words::action::{Answer, Output};
use crate::words::blob::NewBlob;
use crate::words::effect::{EffectPart, EffectReceipt, FinishEffect, ResolveEffect};
use crate::words::id::{Position, Ticket};
use crate::words::reject::Reject;

/// The largest result that is still written down when the disk is full: what is left is for endings like this.
const FULL_DISK_RESULT_BYTES_MAX: usize = 4096;

impl EffectDesk {
    pub(crate) fn handle_finish_effect(
        &mut self,
        turn: &mut Turn,
        deliveries: &mut Deliveries,
        ticket: Ticket,
        finish: &FinishEffect,
        out: &mut Output,
    ) {
        let already = match turn.may_finish(finish) {
            Ok(Finished::Commit) => {
                self.finish_effect(turn, finish, out);
                false
            }
            Ok(Finished::Already) => true,
            Ok(Finished::Stale) => {
                return turn.journal.refuse(out, ticket, turn.stale_effect(finish.receipt));
            }
            Err(reject) => return turn.journal.refuse(out, ticket, reject),
        };
        turn.reply_ended(ticket, finish.receipt.number, already, out);
        self.pass_on(turn, deliveries, finish.receipt.number, out);
    }

    /// Writes down an ending that [`Turn::may_finish`] has let through. Its waiters are told afterwards, by
    /// [`EffectDesk::pass_on`].
    pub(crate) fn finish_effect(&mut self, turn: &mut Turn, finish: &FinishEffect, out: &mut Output) {
        let FinishEffect { receipt, status, ending, digest } = finish;
        let Some(effect) = turn.journal.state.effects.get(receipt.number) else { return };
        self.end_effect(turn, *receipt, &effect, (*status, effect.attempts_max), (ending, *digest), out);
    }

    fn end_effect(
        &mut self,
        turn: &mut Turn,
        receipt: EffectReceipt,
        effect: &Effect,
        (status, attempts_max): (Status, Option<u32>),
        (ending, digest): (&NewBlob, u64),
        out: &mut Output,
    ) {
        let EffectReceipt { number, epoch } = receipt;
        let expires = turn.now.after_ms(effect.ttl_ms);
        turn.timers.cancel(effect.until, Due::EffectLapse(number));
        let fact = EffectFact::Ended(EndedFact {
            number,
            epoch,
            status,
            attempts_max,
            at: turn.now,
            expires,
            digest,
            check: ending.check,
            bytes: &ending.bytes,
        });
        turn.journal.emit(Haste::Urgent, out, &Fact::Effect(fact));
        self.schedule_sweep(turn);
    }

    /// The holder of a lease gives it up, and the waiters for the effect are told at once: that it is free if nothing
    /// was sent, else what a lapse would have told.
    pub(crate) fn handle_release_effect(
        &mut self,
        turn: &mut Turn,
        deliveries: &mut Deliveries,
        ticket: Ticket,
        receipt: EffectReceipt,
        uncertain: bool,
        out: &mut Output,
    ) {
        let number = receipt.number;
        let effect = turn.journal.state.effects.get(number);
        let (standing, fenced) = effect.as_ref().map(|effect| turn.standing_for_holder(effect)).unzip();
        let fenced = fenced.unwrap_or(false);
        let already = match ledger::release(standing.as_ref(), receipt.epoch, fenced) {
            Released::Commit { epoch } => {
                let lapsed = standing.map(|standing| Standing { live: false, ..standing });
                let is_unknown =
                    |lapsed: Standing| lapsed.status == Status::Unknown || lapsed.becomes_unknown();
                let stranded = uncertain && lapsed.is_some_and(is_unknown);
                let before = effect.as_ref().map(|effect| (effect.until, effect.status));
                if let Some((until, _)) = before {
                    turn.timers.cancel(until, Due::EffectLapse(number));
                }
                if !stranded {
                    let fact = EffectFact::Released { number, epoch, at: turn.now };
                    turn.journal.emit(Haste::Urgent, out, &Fact::Effect(fact));
                    self.schedule_sweep(turn);
                } else if before.is_some_and(|(_, status)| status == Status::InProgress) {
                    turn.note_lapse(number, out);
                }
                false
            }
            Released::Already => true,
            Released::Stale => {
                let stale = turn.stale_effect(receipt);
                return turn.journal.refuse(out, ticket, stale);
            }
        };
        turn.journal.reply(out, ticket, Answer::EffectReleased { already });
        self.pass_on(turn, deliveries, number, out);
    }

    pub(crate) fn handle_resolve_effect(
        &mut self,
        turn: &mut Turn,
        deliveries: &mut Deliveries,
        ticket: Ticket,
        resolve: &ResolveEffect,
        out: &mut Output,
    ) {
        if let Err(reject) = turn.may_end(resolve.status, &resolve.ending) {
            return turn.journal.refuse(out, ticket, reject);
        }
        let known = turn.journal.state.effects.find(&resolve.identity);
        let known = known.as_ref().map(|(number, effect)| (*number, effect));
        let standing = known.map(|(_, effect)| turn.effect_standing(effect));
        let same = known
            .is_some_and(|(_, effect)| (effect.status, effect.digest) == (resolve.status, resolve.digest));
        let Some((number, effect)) = known else {
            return turn.journal.refuse(out, ticket, Reject::EffectUnknown);
        };
        let already = match ledger::resolve(standing.as_ref(), resolve.seen, same) {
            Resolved::Commit { epoch } => {
                // An operator has decided that it may run once more.
                let cap = effect.attempts_max.map(|most| match resolve.status {
                    Status::FailedRetryable => most.max(effect.attempts.saturating_add(1)),
                    _ => most,
                });
                let receipt = EffectReceipt { number, epoch };
                let ending = (&resolve.ending, resolve.digest);
                self.end_effect(turn, receipt, effect, (resolve.status, cap), ending, out);
                false
            }
            Resolved::Already => true,
            Resolved::Nothing => return turn.journal.refuse(out, ticket, Reject::EffectUnknown),
            Resolved::Running => return turn.journal.refuse(out, ticket, Reject::EffectRunning),
            Resolved::Final => return turn.journal.refuse(out, ticket, Reject::EffectFinished),
            Resolved::Stale => {
                return turn.journal.refuse(out, ticket, Reject::EffectStale(Some(effect.epoch)));
            }
        };
        turn.reply_ended(ticket, number, already, out);
        self.pass_on(turn, deliveries, number, out);
    }
}

impl Turn {
    /// What becomes of an ending; nothing is changed yet.
    pub(crate) fn may_finish(&self, finish: &FinishEffect) -> Result<Finished, Reject> {
        self.may_end(finish.status, &finish.ending)?;
        let effect = self.journal.state.effects.get(finish.receipt.number);
        let effect = effect.as_ref();
        let (standing, fenced) = effect.map(|effect| self.standing_for_holder(effect)).unzip();
        let fenced = fenced.unwrap_or(false);
        let same =
            effect.is_some_and(|effect| (effect.status, effect.digest) == (finish.status, finish.digest));
        Ok(ledger::finish(standing.as_ref(), finish.receipt.epoch, fenced, same))
    }

    fn may_end(&self, status: Status, ending: &NewBlob) -> Result<(), Reject> {
        if matches!(status, Status::InProgress | Status::Unknown) {
            return Err(Reject::Invalid("status must be succeeded, failed_final or failed_retryable"));
        }
        if ending.bytes.len() > self.settings.effect_result_bytes_max as usize {
            return Err(Reject::ResultTooLarge);
        }
        if !self.roomy && ending.bytes.len() > FULL_DISK_RESULT_BYTES_MAX {
            return Err(Reject::DiskFull);
        }
        Ok(())
    }

    pub(crate) fn handle_renew_effect(
        &mut self,
        ticket: Ticket,
        receipt: EffectReceipt,
        lease_ms: Option<u64>,
        out: &mut Output,
    ) {
        if lease_ms.is_some_and(|ms| ms == 0 || ms > self.settings.lease_ms_max) {
            let why = "lease_ms must be positive and at most the server's lease_ms_max";
            return self.journal.refuse(out, ticket, Reject::Invalid(why));
        }
        let number = receipt.number;
        let effect = self.journal.state.effects.get(number);
        let effect = effect.as_ref();
        let (standing, fenced) = effect.map(|effect| self.standing_for_holder(effect)).unzip();
        let fenced = fenced.unwrap_or(false);
        let Some(effect) = effect.filter(|_| ledger::renew(standing.as_ref(), receipt.epoch, fenced)) else {
            return self.journal.refuse(out, ticket, self.stale_effect(receipt));
        };
        let (before, attempt) = (effect.until, effect.attempts);
        let lease_ms = lease_ms.unwrap_or(self.settings.effect_lease_ms_default);
        let until = self.now.after_ms(lease_ms).max(before);
        self.timers.cancel(before, Due::EffectLapse(number));
        // Urgent, unlike a delivery's: a restart does not void the lease, so that what was promised must hold.
        self.journal.emit(Haste::Urgent, out, &Fact::Effect(EffectFact::Renewed { number, until }));
        self.timers.set(until, Due::EffectLapse(number));
        self.journal.reply(
            out,
            ticket,
            Answer::EffectRenewed { epoch: receipt.epoch, attempt, expires: until },
        );
    }

    /// Why a lease has no say any more.
    pub(crate) fn stale_effect(&self, receipt: EffectReceipt) -> Reject {
        match self.journal.state.effects.get(receipt.number) {
            None => Reject::EffectStale(None),
            Some(effect) if effect.epoch != receipt.epoch => Reject::EffectStale(Some(effect.epoch)),
            Some(effect) if effect.status == Status::InProgress || effect.status == Status::Unknown => {
                Reject::EffectFenced
            }
            Some(_) => Reject::EffectDiffers,
        }
    }

    fn reply_ended(&mut self, ticket: Ticket, number: u64, already: bool, out: &mut Output) {
        let Some(effect) = self.journal.state.effects.get(number) else { return };
        let answer = Answer::EffectEnded {
            already,
            epoch: effect.epoch,
            attempt: effect.attempts,
            expires: effect.expires(),
        };
        self.journal.reply(out, ticket, answer);
    }

    /// Writes bytes of an effect again, if they still lie where they were read.
    pub(crate) fn handle_relocate_effect(
        &mut self,
        number: u64,
        part: EffectPart,
        from: Position,
        copy: &NewBlob,
        out: &mut Output,
    ) {
        let blob = self.journal.state.effects.get(number).and_then(|effect| effect.blob(part));
        let in_place = blob.is_some_and(|blob| {
            blob.position == from && blob.check == copy.check && blob.length as usize == copy.bytes.len()
        });
        if in_place && self.roomy {
            let fact = EffectFact::Moved { number, part, bytes: &copy.bytes };
            self.journal.emit(Haste::Urgent, out, &Fact::Effect(fact));
        }
    }
}
