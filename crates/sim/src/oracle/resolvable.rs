//! No asker waits for ever, and what no holder runs any more can be brought to an end.

use driftq_core::ledger::Status;
use driftq_core::{EffectView, Time};

use super::ledger::Span;
use super::view::ensure;
use super::{CheckResult, Oracle};
use crate::effects::Ask;

impl Oracle {
    /// An asker was told at once that another holder runs the effect.
    pub(crate) fn runs(&self, ask: &Ask, (epoch, attempt): (u32, u32), span: Span, now: Time) -> CheckResult {
        let known = self.effect(ask.key);
        let name = || format!("{ask:?} is told at {now:?} that lease {epoch} runs: {known:?}");
        let Some(known) = known else { return Err(format!("running: {}", name())) };
        let newest = (known.epoch, known.attempts) == (epoch, attempt);
        ensure(newest && self.may_be_live(known, span.from), || format!("running: {}", name()))
    }

    /// An asker has waited for the holder that runs the effect, and it still does. `exact` if nothing about it is under
    /// way.
    pub(crate) fn waited(&self, ask: &Ask, span: Span, exact: bool, now: Time) -> CheckResult {
        let until = span.from.after_ms(ask.wait_ms);
        let name = || format!("{ask:?} from {:?} until {now:?}: {:?}", span.from, self.effect(ask.key));
        ensure(now >= until, || format!("waiting: not long enough: {}", name()))?;
        let Some(known) = self.effect(ask.key) else { return Ok(()) };
        let over = match known.status {
            Status::Succeeded | Status::FailedFinal => !known.may_be_over(now),
            Status::FailedRetryable | Status::Unknown => exact && !known.may_be_over(now),
            // A waiter is told when the lease lapses.
            Status::InProgress => exact && known.tie.is_none() && known.until < until,
        };
        ensure(!over, || format!("waiting: no holder runs it, and no waiter was told: {}", name()))
    }

    /// An asker was told that it is not known whether an effect happened.
    pub(crate) fn unknown(&mut self, ask: &Ask, view: &EffectView, span: Span, now: Time) -> CheckResult {
        let known = self.effect(ask.key);
        let name = || format!("{ask:?} is told {view:?} at {now:?}: {known:?}");
        let Some(known) = known else { return Err(format!("unknown: {}", name())) };
        let newest = (known.number, known.epoch, known.attempts) == (view.number, view.epoch, view.attempts);
        let held = known.is_held();
        let stranded = match known.status {
            Status::Unknown => true,
            Status::InProgress => {
                !self.is_surely_live(known, span.to, now) && (held || known.left(ask) == Some(0))
            }
            Status::Succeeded | Status::FailedFinal | Status::FailedRetryable => false,
        };
        ensure(newest && stranded, || format!("unknown: {}", name()))?;
        if let Some(known) = self.ledger.known.get_mut(&ask.key) {
            known.status = Status::Unknown;
        }
        Ok(())
    }
}
