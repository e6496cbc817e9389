//! An outcome that was told stays what it is until its time is over.

use driftq_core::ledger::Status;
use driftq_core::{EffectReceipt, EffectView, Time};

use super::ledger::Span;
use super::view::ensure;
use super::{CheckResult, Oracle};
use crate::effects::{Ask, End};

/// The holder of a lease says how its effect ended.
#[derive(Clone, Debug)]
pub(crate) struct Finishing {
    pub(crate) key: u64,
    pub(crate) receipt: EffectReceipt,
    pub(crate) end: End,
    pub(crate) at: Time,
    /// The delivery that it is tied to has gone on without it, for certain.
    pub(crate) fenced: bool,
}

/// A resolver has found out how an effect ended.
#[derive(Clone, Debug)]
pub(crate) struct Resolving {
    pub(crate) key: u64,
    pub(crate) seen: Option<u32>,
    pub(crate) end: End,
    pub(crate) at: Time,
}

/// What was answered to either.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) already: bool,
    pub(crate) epoch: u32,
    pub(crate) attempt: u32,
    pub(crate) expires: Time,
}

impl Oracle {
    /// An asker was told how an effect ended.
    pub(crate) fn replayed(&self, ask: &Ask, view: &EffectView, span: Span) -> CheckResult {
        let known = self.effect(ask.key);
        let name = || format!("effect {}: {view:?} for {ask:?}, but it is {known:?}", ask.key);
        let Some(known) = known else { return Err(format!("outcome: {}", name())) };
        let is_final = matches!(view.status, Status::Succeeded | Status::FailedFinal);
        ensure(is_final && known.fits(view), || format!("outcome: another one: {}", name()))?;
        ensure(known.agrees(ask), || format!("outcome: of another request: {}", name()))?;
        ensure(known.may_count(span.from), || format!("outcome: its time is over: {}", name()))
    }

    /// An asker was told that an effect failed and may be tried again.
    pub(crate) fn retryable(
        &self,
        ask: &Ask,
        view: &EffectView,
        left: Option<u32>,
        span: Span,
    ) -> CheckResult {
        let known = self.effect(ask.key);
        let name = || format!("effect {}: {view:?}, {left:?} left, for {ask:?}: {known:?}", ask.key);
        let Some(known) = known else { return Err(format!("outcome: {}", name())) };
        let fits = view.status == Status::FailedRetryable && known.fits(view) && known.agrees(ask);
        ensure(fits && known.left(ask) == left, || format!("outcome: another one: {}", name()))?;
        let asks = ask.urge == driftq_core::Urge::Begin || left == Some(0);
        ensure(asks && known.may_count(span.from), || format!("outcome: it is to run again: {}", name()))
    }

    /// An ending was written down, or was before.
    pub(crate) fn finished(&mut self, finishing: &Finishing, told: Told) -> CheckResult {
        let Finishing { key, receipt, end, at, fenced } = finishing;
        let known = self.ledger.known.get_mut(key);
        let Some(known) = known.filter(|known| known.receipt() == *receipt) else {
            return Err(format!("stale: {finishing:?} was taken: {told:?}, but {:?}", self.effect(*key)));
        };
        let name = format!("{finishing:?} was answered {told:?}, after {known:?}");
        ensure((told.epoch, told.attempt) == (known.epoch, known.attempts), || format!("outcome: {name}"))?;
        if known.faded {
            known.end(receipt.epoch, end, told.expires);
            return Ok(());
        }
        if told.already {
            let same = known.is_ended_as(end) && known.may_expire(told.expires);
            return ensure(same, || format!("outcome: {name}"));
        }
        ensure(!known.is_ended(), || format!("outcome: it changes: {name}"))?;
        ensure(!fenced, || format!("stale: its delivery is fenced off: {name}"))?;
        let due = known.ttl_ms.is_none_or(|ttl_ms| at.after_ms(ttl_ms) == told.expires);
        ensure(due, || format!("outcome: remembered for another time: {name}"))?;
        known.end(receipt.epoch, end, told.expires);
        Ok(())
    }

    /// What a resolver found out was written down, or was before.
    pub(crate) fn resolved(&mut self, resolving: &Resolving, told: Told, now: Time) -> CheckResult {
        let Resolving { key, seen, end, at } = resolving;
        let Some(known) = self.ledger.known.get(key) else {
            return Err(format!("outcome: {resolving:?} was taken, and there is no such effect"));
        };
        let name = || format!("{resolving:?} was answered {told:?}, after {known:?}");
        if told.already {
            let same = known.is_ended_as(end) && known.epoch == told.epoch && known.may_expire(told.expires);
            return ensure(same, || format!("outcome: {}", name()));
        }
        let is_final = matches!(known.status, Status::Succeeded | Status::FailedFinal);
        ensure(!is_final, || format!("outcome: it changes: {}", name()))?;
        ensure(!self.is_surely_live(known, *at, now), || format!("stale: it runs: {}", name()))?;
        ensure(told.epoch == known.epoch + 1, || format!("stale: the epoch stays: {}", name()))?;
        ensure(seen.is_none_or(|seen| seen == known.epoch), || format!("stale: {}", name()))?;
        if let Some(known) = self.ledger.known.get_mut(key) {
            if end.status == Status::FailedRetryable {
                known.cap = known.cap.map(|cap| cap.max(known.attempts + 1));
            }
            known.end(told.epoch, end, told.expires);
        }
        Ok(())
    }

    /// A lease goes on.
    pub(crate) fn renewed(
        &mut self,
        (key, receipt): (u64, EffectReceipt),
        until: Time,
        fenced: bool,
        (epoch, expires): (u32, Time),
    ) -> CheckResult {
        let Some(known) = self.ledger.known.get_mut(&key) else {
            return Err(format!("stale: {receipt:?} was renewed, and there is no such effect"));
        };
        let current = known.receipt() == receipt && !known.is_ended() && epoch == known.epoch;
        // Never to an earlier time.
        let until = until.max(known.until);
        let fits =
            expires == until || known.perhaps_until.is_some_and(|perhaps| expires == until.max(perhaps));
        ensure(current && !fenced && fits, || {
            format!("stale: {receipt:?} goes on until {expires:?} (asked: {until:?}), after {known:?}")
        })?;
        known.until = expires;
        known.perhaps_until = None;
        known.status = Status::InProgress;
        known.faded = false;
        Ok(())
    }
}
