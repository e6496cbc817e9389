//! A client that is refused has changed nothing, and no holder that has a say is refused.

use driftq_core::ledger::Status;
use driftq_core::{Reject, Time, Urge};

use super::ledger::Known;
use super::outcome::{Finishing, Resolving};
use super::tie::Tie;
use super::view::ensure;
use super::{CheckResult, Oracle};
use crate::effects::{Ask, Lease};

/// What a refusal left behind, and what is known at its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    pub(crate) reject: Reject,
    /// Bytes of facts that were written all the same.
    pub(crate) written: usize,
    /// Nothing about the effect is under way: what was told is how it stands.
    pub(crate) exact: bool,
}

/// Whether a holder was told that its lease has no say.
const fn is_stale(reject: Reject) -> bool {
    matches!(reject, Reject::EffectStale(_) | Reject::EffectFenced | Reject::EffectDiffers)
}

impl Refused {
    pub(crate) fn check(&self, what: &dyn std::fmt::Debug) -> CheckResult {
        ensure(self.written == 0, || {
            format!(
                "unchanged: {} bytes were written for {what:?}, which was refused: {:?}",
                self.written, self.reject
            )
        })
    }
}

impl Oracle {
    pub(crate) fn begin_refused(&self, ask: &Ask, refused: Refused, now: Time) -> CheckResult {
        refused.check(ask)?;
        let known = self.effect(ask.key).filter(|known| !known.may_be_over(now));
        let fits = match refused.reject {
            Reject::DiskFull => true,
            Reject::LeaseStale(_) | Reject::LeaseUnknown => {
                ask.tie.as_ref().is_some_and(|tied| !self.is_current(&tied.loan, now))
            }
            // Its time may be over, and need not be.
            Reject::KeyReused => {
                let told = self.effect(ask.key);
                let other = |known: &Known| known.faded || known.request.is_none() || !known.agrees(ask);
                !refused.exact || told.is_some_and(other)
            }
            Reject::EffectUnknown => {
                let waited = ask.wait_ms > 0;
                waited || (ask.urge == Urge::Reacquire && (known.is_none() || !refused.exact))
            }
            Reject::AttemptsExhausted => {
                let spent =
                    self.effect(ask.key).is_some_and(|known| known.faded || known.left(ask) == Some(0));
                // Also an asker that only begins, if it is its own cap that is used up and the effect may run again.
                let own = |known: &Known| known.status == Status::InProgress && known.cap < ask.cap;
                let wants = ask.urge == Urge::Reacquire || self.effect(ask.key).is_some_and(own);
                (wants && spent) || !refused.exact
            }
            _ => false,
        };
        ensure(fits, || format!("unchanged: {ask:?} was refused with {refused:?}: {known:?}"))
    }

    /// Whether the holder of a lease has a say for certain.
    fn has_a_say(&self, finishing: &Finishing, lease: &Lease, refused: Refused, now: Time) -> bool {
        let known = self.effect(finishing.key).filter(|_| refused.exact);
        let fenced = matches!(self.tie(lease.tie.as_ref(), now), Tie::Fenced | Tie::Unsure);
        known.is_some_and(|known| {
            let open = !known.is_ended() && !fenced;
            known.receipt() == finishing.receipt
                && !known.may_be_over(now)
                && (open || known.is_ended_as(&finishing.end))
        })
    }

    pub(crate) fn finish_refused(
        &self,
        finishing: &Finishing,
        lease: &Lease,
        refused: Refused,
        now: Time,
    ) -> CheckResult {
        refused.check(finishing)?;
        let stale = is_stale(refused.reject);
        ensure(stale && !self.has_a_say(finishing, lease, refused, now), || {
            let known = self.effect(finishing.key);
            format!("unchanged: {finishing:?} has a say and was refused: {refused:?}, {known:?}")
        })
    }

    pub(crate) fn renew_refused(&self, lease: &Lease, refused: Refused, now: Time) -> CheckResult {
        refused.check(lease)?;
        let known = self.effect(lease.key).filter(|_| refused.exact);
        let live = known
            .is_some_and(|known| known.receipt() == lease.receipt && self.is_surely_live(known, now, now));
        let stale = is_stale(refused.reject);
        ensure(stale && !live, || format!("unchanged: {lease:?} runs and was refused: {refused:?}"))
    }

    pub(crate) fn resolve_refused(&self, resolving: &Resolving, refused: Refused, now: Time) -> CheckResult {
        refused.check(resolving)?;
        let known = self.effect(resolving.key);
        let fits = match refused.reject {
            Reject::EffectUnknown => known.is_none_or(|known| known.may_be_over(now)),
            Reject::EffectRunning => known.is_some_and(|known| self.may_be_live(known, now)),
            Reject::EffectFinished => {
                known.is_some_and(|known| matches!(known.status, Status::Succeeded | Status::FailedFinal))
            }
            Reject::EffectStale(_) => {
                known.is_some_and(|known| resolving.seen.is_some_and(|seen| seen != known.epoch))
            }
            _ => false,
        };
        ensure(fits || !refused.exact, || {
            format!("unchanged: {resolving:?} was refused with {refused:?}: {known:?}")
        })
    }
}
