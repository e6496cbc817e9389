//! What was told about an effect is there after a crash, and what is there was asked for.

use driftq_core::ledger::{OnLapse, Status};
use driftq_core::{EffectReceipt, EffectView, Time};

use super::ledger::Known;
use super::tie::Tied;
use super::view::ensure;
use super::{CheckResult, Oracle};
use crate::effects::{Ask, End};

/// What was under way about one effect when the server ended: any of it may have happened.
#[derive(Debug, Default)]
pub(crate) struct Lost<'a> {
    pub(crate) begins: Vec<(&'a Ask, Time)>,
    /// Endings, by the lease that said so; none if a resolver did.
    pub(crate) endings: Vec<(Option<EffectReceipt>, &'a End, Time)>,
    pub(crate) renewals: Vec<(EffectReceipt, Time)>,
}

impl Lost<'_> {
    const fn is_nothing(&self) -> bool {
        self.begins.is_empty() && self.endings.is_empty() && self.renewals.is_empty()
    }

    /// How far the epoch may have risen.
    fn steps(&self) -> u32 {
        let found_out = self.endings.iter().filter(|(by, ..)| by.is_none()).count();
        u32::try_from(self.begins.len() + found_out).unwrap_or(u32::MAX)
    }

    /// Until when its holder may have it, if the longest renewal that was under way counts, or one before it does.
    fn renewed(&self, known: &Known) -> Option<Time> {
        let own = self.renewals.iter().filter(|(receipt, _)| *receipt == known.receipt());
        own.map(|(_, until)| *until).max().max(known.perhaps_until)
    }

    /// The ending that a view tells, if it was under way.
    fn ending(&self, view: &EffectView) -> Option<&End> {
        let told = view.ending.map(|blob| (blob.check, blob.length as usize));
        let mut fitting = self.endings.iter().filter(|(by, end, _)| {
            let by_holder = by.is_none_or(|by| (by.number, by.epoch) == (view.number, view.epoch));
            let same = Some((crate::server::check(&end.bytes), end.bytes.len())) == told;
            by_holder && same && end.status == view.status
        });
        fitting.next().map(|(_, end, _)| *end)
    }

    /// Whether what is left may have ended and been forgotten.
    fn may_be_forgotten(&self, known: &Known, now: Time) -> bool {
        let ttl_ms = known.ttl_ms.unwrap_or(0);
        let begun = self.begins.iter().map(|(ask, _)| ask.ttl_ms).min().unwrap_or(ttl_ms);
        let least = ttl_ms.min(begun);
        let ended = self.endings.iter().any(|(_, _, at)| at.after_ms(least) <= now);
        let lapsed = |(ask, at): &(&Ask, Time)| {
            ask.on_lapse == OnLapse::Retry && at.after_ms(ask.lease_ms).after_ms(ask.ttl_ms) <= now
        };
        ended || self.begins.iter().any(lapsed)
    }
}

impl Oracle {
    /// After a crash an effect stands like this.
    pub(crate) fn recovered(
        &mut self,
        key: u64,
        view: Option<&EffectView>,
        lost: &Lost<'_>,
        now: Time,
    ) -> CheckResult {
        let known = self.ledger.known.get(&key);
        let name = || format!("effect {key} is {view:?} after a crash; told: {known:?}, under way: {lost:?}");
        let Some(view) = view else {
            let gone = known.is_none_or(|known| known.may_be_over(now) || lost.may_be_forgotten(known, now));
            ensure(gone, || format!("durable: lost: {}", name()))?;
            // A record whose time is over is not shown, and its holder may still say how it ended, or has.
            if let Some(known) = self.ledger.known.get_mut(&key) {
                known.faded |= !lost.is_nothing();
            }
            return Ok(());
        };
        let same = known.filter(|known| known.number == view.number);
        match (known, same) {
            (_, Some(known)) => check_same(known, view, lost).map_err(|why| format!("{why}: {}", name()))?,
            (other, None) => {
                let newest = self.ledger.numbers.get(&key).copied().unwrap_or(0);
                let over =
                    other.is_none_or(|known| known.may_be_over(now) || lost.may_be_forgotten(known, now));
                ensure(over && view.number > newest && !lost.begins.is_empty(), || {
                    format!("durable: another record: {}", name())
                })?;
            }
        }
        let known =
            adopt(same, view, lost).ok_or_else(|| format!("durable: no answer said so: {}", name()))?;
        let strictest = self.ledger.caps.get(&key).copied();
        self.ledger.known.insert(key, Known { strictest, ..known });
        let newest = self.ledger.numbers.entry(key).or_default();
        *newest = view.number.max(*newest);
        Ok(())
    }
}

/// Whether a record that was told can have become what it is.
fn check_same(known: &Known, view: &EffectView, lost: &Lost<'_>) -> CheckResult {
    let is_final = matches!(known.status, Status::Succeeded | Status::FailedFinal);
    ensure(view.epoch >= known.epoch, || "durable: an older lease".into())?;
    ensure(view.epoch - known.epoch <= lost.steps(), || "durable: a newer lease".into())?;
    if view.epoch > known.epoch {
        return ensure(!is_final, || "outcome: it changed".into());
    }
    if known.is_ended() {
        let kept = known.fits(view) && view.expires.is_some_and(|expires| known.may_expire(expires));
        return ensure(kept, || "outcome: it changed".into());
    }
    if matches!(view.status, Status::InProgress | Status::Unknown) {
        // What is shown is the longer of the lease and the delivery that it is tied to.
        let renewed = lost.renewals.contains(&(known.receipt(), view.until))
            || known.tie.as_ref().is_some_and(|tied| tied.is_unknown() || view.until > known.until);
        // That it lapsed may be forgotten, and is noticed again.
        let still = view.attempts == known.attempts
            && (view.status == Status::InProgress || known.is_held() || known.status == Status::Unknown);
        return ensure((view.until == known.until || renewed) && still, || "durable: another lease".into());
    }
    Ok(())
}

/// What is known from now on; `None` if no client ever said so.
fn adopt(same: Option<&Known>, view: &EffectView, lost: &Lost<'_>) -> Option<Known> {
    let ended = !matches!(view.status, Status::InProgress | Status::Unknown);
    let told =
        same.filter(|known| known.fits(view) && known.is_ended()).and_then(|known| known.ending.clone());
    let ending = match view.ending {
        None => None,
        // An ending from before the newest lease.
        Some(_) if !ended => lost
            .endings
            .iter()
            .find(|(_, end, _)| is_ending(view, &end.bytes))
            .map(|(_, end, _)| end.bytes.clone())
            .or_else(|| same.and_then(|known| known.ending.clone()).filter(|bytes| is_ending(view, bytes))),
        Some(_) => told.or_else(|| lost.ending(view).map(|end| end.bytes.clone())),
    };
    if view.ending.is_some() != ending.is_some() {
        return None;
    }
    let newest = same.filter(|known| known.epoch == view.epoch);
    let mut fitting = lost.begins.iter().filter(|(ask, at)| {
        let shown = at.after_ms(ask.lease_ms) == view.until || ask.tie.is_some();
        // A waiter may have got it at once, or any time later.
        *at <= view.begun && shown && ask.on_lapse == view.on_lapse && (*at == view.begun || ask.wait_ms > 0)
    });
    // If it may have been one or the other, no client knows which.
    let born = match (fitting.next(), fitting.next()) {
        (Some(only), None) if only.0.wait_ms == 0 => Some(only),
        _ => None,
    };
    let tie = match (newest, born) {
        (Some(known), _) => known.tie.clone(),
        (None, Some((ask, _))) => ask.tie.clone(),
        // A waiter got it, and no client knows which.
        (None, None) => lost.begins.iter().any(|(ask, _)| ask.tie.is_some()).then(Tied::unknown),
    };
    let until = match (newest, born) {
        (Some(known), _) if tie.is_some() && view.until > known.until => known.until,
        (None, Some((ask, at))) if tie.is_some() => at.after_ms(ask.lease_ms),
        _ => view.until,
    };
    let retry = view.status == Status::InProgress;
    let own = tie.is_none();
    let counted = view.expires.filter(|_| retry && own).map(|expires| expires.since_ms(view.until));
    Some(Known {
        number: view.number,
        epoch: view.epoch,
        attempts: view.attempts,
        cap: view.attempts_max,
        strictest: same.and_then(|known| known.strictest),
        status: view.status,
        on_lapse: view.on_lapse,
        until,
        perhaps_until: newest.filter(|_| until != view.until).and_then(|known| lost.renewed(known)),
        expires: view.expires.filter(|_| ended).unwrap_or(Time::NEVER),
        ttl_ms: newest
            .map_or_else(|| counted.or_else(|| born.map(|(ask, _)| ask.ttl_ms)), |known| known.ttl_ms),
        request: same.and_then(|known| known.request),
        caller: newest.and_then(|known| known.caller),
        tie,
        ending,
        faded: false,
        of_message: view.message.is_some()
            || same.is_some_and(|known| known.of_message)
            || lost.begins.iter().any(|(ask, _)| ask.tie.is_some()),
    })
}

fn is_ending(view: &EffectView, bytes: &[u8]) -> bool {
    let told = view.ending.map(|blob| (blob.check, blob.length as usize));
    told == Some((crate::server::check(bytes), bytes.len()))
}
