//! What can be asked of the ledger, and what it answers.

use std::borrow::Cow;

use bytes::Bytes;
use driftq_core::ledger::{OnLapse, Status};
use driftq_core::{About, EffectLease, EffectView, Ending, Expected, Receipt, Time, Urge};

/// An asker wants to run an effect.
#[derive(Clone, Debug, Default)]
pub struct EffectCall<'a> {
    /// Its identity in full.
    pub about: About<'a>,
    /// For how long it borrows; `None`: as the broker says.
    pub lease_ms: Option<u64>,
    /// How long the outcome is to be remembered; `None`: as the broker says.
    pub ttl_ms: Option<u64>,
    /// What a lapse of its lease means.
    pub on_lapse: OnLapse,
    /// The most attempts there may be.
    pub attempts_max: Option<u32>,
    /// How much it wants it.
    pub urge: Urge,
    /// How long it waits while another holder runs it.
    pub wait_ms: u64,
    /// Names the call, so that asking again gives the same lease.
    pub request_id: Option<Cow<'a, str>>,
    /// Who asks, for display; may be empty.
    pub owner: Cow<'a, str>,
    /// The delivery on whose behalf it is run.
    pub delivery: Option<Receipt>,
    /// Only if entities of its tenant have these versions.
    pub expect: Vec<Expected>,
}

/// What an asker that wants to run an effect is told.
#[derive(Clone, Debug)]
pub enum Begun {
    /// Run it.
    Execute(EffectLease),
    /// It is over; this is how it ended.
    Replay(SeenEffect),
    /// Another holder runs it.
    Running {
        /// The newest lease.
        epoch: u32,
        /// Which attempt it is.
        attempt: u32,
        /// When the lease may be over.
        retry_after_ms: u64,
    },
    /// It failed and may be tried again.
    Retryable {
        /// How it failed.
        seen: SeenEffect,
        /// How many more attempts there may be, if there is a cap.
        left: Option<u32>,
    },
    /// Whether it happened is not known.
    Unknown(EffectView),
}

/// An effect with what the log keeps about it.
#[derive(Clone, Debug)]
pub struct SeenEffect {
    /// What the ledger says.
    pub view: EffectView,
    /// Its identity ([`About`]); empty where the caller did not ask for it.
    pub about: Bytes,
    /// How it ended ([`Ending`]), if it did.
    pub ending: Option<Bytes>,
}

/// How an effect ended, to be written down.
#[derive(Clone, Debug)]
pub struct EffectEnd<'a> {
    /// How.
    pub status: Status,
    /// How, in full.
    pub ending: Ending<'a>,
}

/// How an effect ended is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectEnded {
    /// Whether it was before.
    pub already: bool,
    /// The newest lease.
    pub epoch: u32,
    /// Which attempt it was.
    pub attempt: u32,
    /// Until when it is remembered.
    pub expires: Time,
}

/// Some effects, oldest first.
#[derive(Clone, Debug, Default)]
pub struct EffectSight {
    /// The effects.
    pub seen: Vec<SeenEffect>,
    /// How many were looked at.
    pub scanned: u64,
    /// Where to go on; `None` at the end.
    pub next: Option<u64>,
}

/// Which effects are wanted.
#[derive(Clone, Debug, Default)]
pub struct EffectFilter<'a> {
    /// Only those with a greater number.
    pub after: u64,
    /// How many at most.
    pub limit: u32,
    /// Only those that stand like this.
    pub status: Option<Status>,
    /// Only those of this tenant.
    pub tenant: Option<Cow<'a, str>>,
    /// Only those of this scope.
    pub scope: Option<Cow<'a, str>>,
}
