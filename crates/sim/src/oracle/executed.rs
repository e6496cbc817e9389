//! No effect is run twice, unless its policy allows it and the holder that ran it has lost it.

use std::collections::BTreeMap;

use driftq_core::ledger::{OnLapse, Status};
use driftq_core::{EffectLease, EffectReceipt, Time, Urge};

use super::ledger::{Known, Span};
use super::tie::Tied;
use super::view::ensure;
use super::{CheckResult, Oracle};
use crate::effects::{Ask, End};

/// What happened outside: every execution of every effect.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    /// The last execution of each identity.
    last: BTreeMap<u64, Execution>,
    /// When a holder or a resolver said how an effect ended, and whether it may run again then.
    endings: BTreeMap<u64, Vec<(Time, bool)>>,
    pub(crate) count: u64,
}

#[derive(Clone, Debug)]
struct Execution {
    receipt: EffectReceipt,
    caller: u64,
    hold: bool,
    tied: bool,
    ttl_ms: u64,
    /// When it was asked for.
    since: Time,
    /// When its lease lapses, if that was not put off by word that was lost.
    lapses: Time,
}

impl Outside {
    /// A worker runs an effect.
    pub(crate) fn execute(&mut self, ask: &Ask, lease: &EffectLease, since: Time, now: Time) -> CheckResult {
        let next = Execution {
            receipt: lease.receipt,
            caller: ask.caller,
            hold: ask.on_lapse == OnLapse::Hold,
            tied: ask.tie.is_some(),
            ttl_ms: ask.ttl_ms,
            since,
            lapses: lease.expires,
        };
        if let Some(last) = self.last.get(&ask.key) {
            if last.receipt == next.receipt {
                return ensure(last.caller == next.caller && next.caller != 0, || {
                    format!("executed: {last:?} and {next:?} run effect {} on one lease", ask.key)
                });
            }
            let lapsed = !last.hold && (last.lapses <= now || last.tied);
            let retry_forgotten = !last.hold && last.lapses.after_ms(last.ttl_ms) <= now;
            // What was said before the answer came counts as well.
            let said = self.endings.get(&ask.key).into_iter().flatten().filter(|(at, _)| *at >= last.since);
            let excused = said.into_iter().any(|(at, again)| *again || at.after_ms(last.ttl_ms) <= now);
            let allowed = excused || lapsed || retry_forgotten;
            ensure(allowed && last.receipt < next.receipt, || {
                format!("executed: effect {} ran as {last:?} and again at {now:?} as {next:?}", ask.key)
            })?;
        }
        self.count += 1;
        self.last.insert(ask.key, next);
        Ok(())
    }

    /// A holder or a resolver says how an effect ended; it may count.
    pub(crate) fn ending(&mut self, key: u64, end: &End, now: Time) {
        self.endings.entry(key).or_default().push((now, end.status == Status::FailedRetryable));
    }

    /// The lease may end at another time.
    pub(crate) fn renewal(&mut self, key: u64, receipt: EffectReceipt, until: Time, certain: bool) {
        if let Some(last) = self.last.get_mut(&key).filter(|last| last.receipt == receipt) {
            last.lapses = if certain { until } else { last.lapses.min(until) };
        }
    }
}

impl Oracle {
    /// A worker was told to run an effect.
    pub(crate) fn executes(&mut self, ask: &Ask, lease: &EffectLease, span: Span, now: Time) -> CheckResult {
        let told = self.ledger.numbers.entry(ask.key).or_default();
        let newest = std::mem::replace(told, lease.receipt.number.max(*told));
        let known = self.ledger.known.get(&ask.key);
        let name = || format!("effect {}: {lease:?} for {ask:?}, decided {span:?}, after {known:?}", ask.key);
        match known {
            Some(known) if known.receipt() == lease.receipt => return self.executes_again(known, ask, lease),
            Some(known) if known.number == lease.receipt.number => {
                self.check_takeover(known, ask, lease, span, now)?;
            }
            _ => {
                let first = (lease.receipt.epoch, lease.attempt) == (1, 1) && lease.receipt.number > newest;
                ensure(first, || format!("executed: not the first lease of a record: {}", name()))?;
                let over = known.is_none_or(|known| {
                    known.may_be_over(span.to) && !self.is_surely_live(known, span.to, now)
                });
                ensure(over, || format!("executed: the record still counts: {}", name()))?;
            }
        }
        let strictest = self.ledger.caps.get(&ask.key).copied();
        let known = Known { strictest, ..Known::lent(ask, lease, known) };
        self.ledger.known.insert(ask.key, known);
        Ok(())
    }

    /// The same call once more: the same lease.
    fn executes_again(&self, known: &Known, ask: &Ask, lease: &EffectLease) -> CheckResult {
        let same = ask.caller != 0 && known.caller.is_none_or(|caller| caller == ask.caller);
        let fits = known.status == Status::InProgress && known.attempts == lease.attempt;
        // Of one that a crash hid, the longer of the lease and of an unknown delivery is known.
        let hidden = known.tie.as_ref().is_some_and(Tied::is_unknown) && known.until > lease.expires;
        let told = known.until == lease.expires || known.perhaps_until == Some(lease.expires);
        ensure(same && fits && known.agrees(ask) && (told || hidden), || {
            format!("executed: {lease:?} was given to {ask:?}, but it is another one's: {known:?}")
        })
    }

    fn check_takeover(
        &self,
        known: &Known,
        ask: &Ask,
        lease: &EffectLease,
        span: Span,
        now: Time,
    ) -> CheckResult {
        let name = || format!("effect {}: {lease:?} for {ask:?}, decided {span:?}, after {known:?}", ask.key);
        let next = (lease.receipt.epoch, lease.attempt) == (known.epoch + 1, known.attempts + 1);
        ensure(next, || format!("executed: not the next lease: {}", name()))?;
        ensure(known.agrees(ask), || format!("executed: the key was used for another request: {}", name()))?;
        ensure(known.left(ask) != Some(0), || format!("executed: more often than allowed: {}", name()))?;
        let allowed = match known.status {
            Status::InProgress => {
                known.on_lapse == OnLapse::Retry && !self.is_surely_live(known, span.to, now)
            }
            Status::FailedRetryable => ask.urge != Urge::Begin,
            Status::Unknown | Status::Succeeded | Status::FailedFinal => false,
        };
        ensure(allowed, || format!("executed: nothing allows it: {}", name()))
    }
}
