//! Effects as their callers know them: one record per identity, as of the last answer.
//!
//! Answers come in the order in which they were decided, so that what they say, one after the other, is the whole
//! story; only refusals overtake. What a crash took back is learnt from what is left ([`super::Oracle::recovered`]).

use std::collections::BTreeMap;

use driftq_core::ledger::{OnLapse, Status};
use driftq_core::{EffectLease, EffectReceipt, EffectView, RequestHash, Time};

use super::tie::{Tie, Tied};
use super::view::ensure;
use super::{CheckResult, Oracle};
use crate::effects::{Ask, End};

/// An effect as far as clients were told.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) number: u64,
    pub(crate) epoch: u32,
    pub(crate) attempts: u32,
    pub(crate) cap: Option<u32>,
    /// The least cap that any asker brought along: where it is reached, the record may say that it is not known.
    pub(super) strictest: Option<u32>,
    pub(crate) status: Status,
    pub(crate) on_lapse: OnLapse,
    /// When the newest lease lapses by its own clock.
    pub(crate) until: Time,
    /// It may lapse only then: a renewal was under way when the server ended, and the delivery that the lease is tied to
    /// hides whether it counts.
    pub(super) perhaps_until: Option<Time>,
    /// Until when it counts, if it is over.
    pub(crate) expires: Time,
    /// How long it is remembered; not known of a lease that no client heard of.
    pub(crate) ttl_ms: Option<u64>,
    /// What was asked for; not known if the first asker never got an answer.
    pub(crate) request: Option<RequestHash>,
    /// Which call has the newest lease, if that is known.
    pub(crate) caller: Option<u64>,
    pub(crate) tie: Option<Tied>,
    /// The bytes of its ending.
    pub(crate) ending: Option<Vec<u8>>,
    /// Its time is over, and no client knows what was said before.
    pub(super) faded: bool,
    /// It was begun for a message: it may count for as long as that may come again.
    pub(super) of_message: bool,
}

/// When something was decided, as far as can be told from outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) from: Time,
    pub(crate) to: Time,
}

/// All effects that any client has heard of.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(super) known: BTreeMap<u64, Known>,
    /// The greatest number that was told: newer records have greater ones.
    pub(super) numbers: BTreeMap<u64, u64>,
    /// The least cap that any asker ever brought along.
    pub(super) caps: BTreeMap<u64, u32>,
}

impl Known {
    pub(crate) const fn receipt(&self) -> EffectReceipt {
        EffectReceipt { number: self.number, epoch: self.epoch }
    }

    /// A lease was told.
    pub(super) fn lent(ask: &Ask, lease: &EffectLease, before: Option<&Self>) -> Self {
        let before = before.filter(|before| before.number == lease.receipt.number);
        Self {
            number: lease.receipt.number,
            epoch: lease.receipt.epoch,
            attempts: lease.attempt,
            cap: ask.cap.max(before.and_then(|before| before.cap)),
            strictest: None,
            status: Status::InProgress,
            on_lapse: ask.on_lapse,
            until: lease.expires,
            perhaps_until: None,
            expires: Time::NEVER,
            ttl_ms: Some(ask.ttl_ms),
            request: before.map_or(Some(ask.request), |before| before.request),
            caller: Some(ask.caller),
            tie: ask.tie.clone(),
            ending: before.and_then(|before| before.ending.clone()),
            faded: false,
            of_message: ask.tie.is_some() || before.is_some_and(|before| before.of_message),
        }
    }

    /// It ended.
    pub(super) fn end(&mut self, epoch: u32, end: &End, expires: Time) {
        self.epoch = epoch;
        self.status = end.status;
        self.expires = expires;
        self.tie = None;
        self.faded = false;
        self.ending = Some(end.bytes.clone());
    }

    pub(crate) const fn is_ended(&self) -> bool {
        !matches!(self.status, Status::InProgress | Status::Unknown)
    }

    pub(super) fn is_ended_as(&self, end: &End) -> bool {
        self.status == end.status && self.ending.as_ref() == Some(&end.bytes)
    }

    /// Until when the record counts if no client touches it; the least that it can be.
    fn least_expiry(&self) -> Time {
        match self.status {
            Status::Unknown => Time::NEVER,
            Status::InProgress if self.on_lapse == OnLapse::Hold || self.is_used_up() => Time::NEVER,
            Status::InProgress => self.until.after_ms(self.ttl_ms.unwrap_or(0)),
            Status::Succeeded | Status::FailedFinal | Status::FailedRetryable => self.expires,
        }
    }

    fn is_used_up(&self) -> bool {
        self.cap.is_some_and(|cap| self.attempts >= cap)
    }

    /// Whether its time can be over by then.
    pub(super) fn may_be_over(&self, by: Time) -> bool {
        self.faded || self.least_expiry() <= by
    }

    /// Whether its time can be not over yet.
    pub(super) fn may_count(&self, at: Time) -> bool {
        self.expires > at || self.ttl_ms.is_none() || self.of_message
    }

    /// Whether its time can be over exactly then.
    pub(super) fn may_expire(&self, at: Time) -> bool {
        self.expires == at || self.ttl_ms.is_none()
    }

    /// Whether its lapse leaves behind something that no asker may repeat.
    pub(super) fn is_held(&self) -> bool {
        let refused = self.strictest.is_some_and(|cap| self.attempts >= cap);
        self.on_lapse == OnLapse::Hold || self.is_used_up() || refused
    }

    /// How many more attempts an asker may make.
    pub(super) fn left(&self, ask: &Ask) -> Option<u32> {
        ask.cap.max(self.cap).map(|cap| cap.saturating_sub(self.attempts))
    }

    pub(super) fn agrees(&self, ask: &Ask) -> bool {
        self.request.is_none_or(|request| request.agrees(ask.request))
    }

    /// Whether a view tells the same ending.
    pub(super) fn fits(&self, view: &EffectView) -> bool {
        let ending = self.ending.as_ref().map(|bytes| (crate::server::check(bytes), bytes.len()));
        let told = view.ending.map(|blob| (blob.check, blob.length as usize));
        (self.number, self.epoch, self.attempts, self.status)
            == (view.number, view.epoch, view.attempts, view.status)
            && ending == told
    }
}

/// The smaller cap, where there is any.
fn least(one: Option<u32>, other: Option<u32>) -> Option<u32> {
    one.into_iter().chain(other).min()
}

impl Oracle {
    /// An asker wants to run an effect.
    pub(crate) fn effect_asked(&mut self, ask: &Ask) {
        let strictest = least(self.ledger.caps.get(&ask.key).copied(), ask.cap);
        self.ledger.caps.extend(strictest.map(|cap| (ask.key, cap)));
        if let Some(known) = self.ledger.known.get_mut(&ask.key) {
            known.strictest = least(known.strictest, strictest);
        }
    }

    pub(crate) fn effect(&self, key: u64) -> Option<&Known> {
        self.ledger.known.get(&key)
    }

    /// A reader looked at an effect.
    pub(crate) fn effect_seen(&mut self, key: u64, view: Option<&EffectView>, at: Time) -> CheckResult {
        let known = self.ledger.known.get_mut(&key);
        let fits = match (known.as_deref(), view) {
            (known, None) => known.is_none_or(|known| known.may_be_over(at)),
            (None, Some(_)) => false,
            (Some(known), Some(view)) if view.status == Status::Unknown && !known.is_ended() => {
                (known.number, known.epoch) == (view.number, view.epoch) && known.is_held()
            }
            (Some(known), Some(view)) => known.fits(view),
        };
        ensure(fits, || format!("outcome: effect {key} looks like {view:?} at {at:?}, told was {known:?}"))?;
        if let (Some(known), Some(Status::Unknown)) = (known, view.map(|view| view.status)) {
            known.status = Status::Unknown;
        }
        Ok(())
    }

    /// Whether the newest lease of an effect is live for certain.
    pub(super) fn is_surely_live(&self, known: &Known, at: Time, now: Time) -> bool {
        let own = known.until > at;
        let running = known.status == Status::InProgress;
        running
            && !known.faded
            && match self.tie(known.tie.as_ref(), now) {
                Tie::Loose => own,
                Tie::OnLoan => true,
                Tie::Fenced | Tie::Unsure => false,
            }
    }

    /// Whether it can be live.
    pub(super) fn may_be_live(&self, known: &Known, at: Time) -> bool {
        // No client can say any more how its delivery stood when that was decided.
        known.status == Status::InProgress && (known.tie.is_some() || known.until > at)
    }
}
