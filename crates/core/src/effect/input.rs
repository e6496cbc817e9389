//! What is asked about effects, and what is answered.

use alloc::string::String;
use alloc::vec::Vec;

use crate::effect::blob::NewBlob;
use crate::effect::rules::{OnLapse, Status};
use crate::effect::view::EffectView;
use crate::entity::Expected;
use crate::words::action::Receipt;
use crate::words::id::{Identity, RequestHash, Time};

/// How much somebody wants an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Urge {
    /// Only if nobody ran it before.
    #[default]
    Begin,
    /// Also if it failed and may be tried again.
    BeginOrReacquire,
    /// Only if there is a record of it, and then also if it failed.
    Reacquire,
}

/// Somebody wants to run an effect.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct BeginEffect {
    /// Who it is.
    pub identity: Identity,
    /// What it asks for.
    pub request: RequestHash,
    /// Hash of its tenant, for lists.
    pub tenant: u32,
    /// Hash of its scope, for lists.
    pub scope: u32,
    /// Who it is, in full ([`crate::About::encode`]); kept if there is no record yet.
    pub about: NewBlob,
    /// For how long it borrows; `None`: as the shard says.
    pub lease_ms: Option<u64>,
    /// How long the outcome is to be remembered; `None`: as the shard says.
    pub ttl_ms: Option<u64>,
    /// What a lapse of its lease means.
    pub on_lapse: OnLapse,
    /// The most attempts there may be.
    pub attempts_max: Option<u32>,
    /// How much it wants it.
    pub urge: Urge,
    /// How long it waits for somebody else who runs it.
    pub wait_ms: u64,
    /// Names the call, so that asking again gives the same lease; zero if it has no name.
    pub caller: u64,
    /// Who asks, for people who look; may be empty.
    pub owner: String,
    /// The delivery on whose behalf it is run.
    pub delivery: Option<Receipt>,
    /// The run that it belongs to, if no delivery says so.
    pub run: String,
    /// Its tenant in full: whose the run and the entities are. May be empty.
    pub whose: String,
    /// Only if entities of its tenant have these versions, unless the record has raised entities before.
    pub expect: Vec<Expected>,
}

/// Names one lease of one effect, exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EffectReceipt {
    /// The record.
    pub number: u64,
    /// The lease.
    pub epoch: u32,
}

/// A lease of an effect: whoever has it may run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectLease {
    /// Which.
    pub receipt: EffectReceipt,
    /// Which attempt it is.
    pub attempt: u32,
    /// When it lapses, unless it is tied to a delivery that is on loan for longer.
    pub expires: Time,
}

/// The holder of a lease says how its effect ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishEffect {
    /// The lease.
    pub receipt: EffectReceipt,
    /// How: succeeded, failed for good, or failed for now.
    pub status: Status,
    /// How it ended, in full ([`crate::Ending::encode`]).
    pub ending: NewBlob,
    /// Tells this ending from any other ([`crate::Ending::digest`]).
    pub digest: u64,
}

/// Somebody has found out how an effect ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolveEffect {
    /// Which.
    pub identity: Identity,
    /// Only if this is the newest epoch.
    pub seen: Option<u32>,
    /// How: succeeded, failed for good, or failed for now.
    pub status: Status,
    /// How it ended, in full.
    pub ending: NewBlob,
    /// Tells this ending from any other.
    pub digest: u64,
}

/// What somebody who wants to run an effect is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EffectAnswer {
    /// Run it.
    Execute(EffectLease),
    /// It is over; this is how it ended.
    Replay(EffectView),
    /// Somebody else runs it.
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
        view: EffectView,
        /// How many more attempts there may be, if there is a cap.
        left: Option<u32>,
    },
    /// Whether it happened is not known.
    Unknown(EffectView),
}
