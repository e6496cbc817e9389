//! What is asked about effects, and what is answered.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ledger::{OnLapse, Status};
use crate::words::blob::{Blob, NewBlob};
use crate::words::entity::Expected;
use crate::words::id::{Identity, Position, RequestHash, ShardId, Ticket, Time};
use crate::words::receipt::Receipt;

/// How much an asker wants an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Urge {
    /// Only if no holder ran it before.
    #[default]
    Begin,
    /// Also if it failed and may be tried again.
    BeginOrReacquire,
    /// Only if there is a record of it, and then also if it failed.
    Reacquire,
}

/// An asker wants to run an effect.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct BeginEffect {
    /// Its identity.
    pub identity: Identity,
    /// What it asks for.
    pub request: RequestHash,
    /// Hash of its tenant, for lists.
    pub tenant: u32,
    /// Hash of its scope, for lists.
    pub scope: u32,
    /// Its identity in full ([`crate::About::encode`]); kept if there is no record yet.
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
    /// How long it waits while another holder runs it.
    pub wait_ms: u64,
    /// Names the call, so that asking again gives the same lease; zero if it has no name.
    pub caller: u64,
    /// Who asks, for display; may be empty.
    pub owner: String,
    /// The delivery on whose behalf it is run.
    pub delivery: Option<Receipt>,
    /// The run that it belongs to, if no delivery says so.
    pub run: String,
    /// Its tenant in full: whose the run and the entities are. May be empty.
    pub whose: String,
    /// Only if entities of its tenant have these versions, unless the record has raised entities before.
    pub expect: Vec<Expected>,
    /// What of this another shard has to look at.
    pub abroad: Abroad,
}

/// What of an ask another shard has to look at before a lease is given: the delivery, or the entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Abroad {
    /// Nothing, or it was looked at, and nothing had to be raised.
    #[default]
    Nothing,
    /// It was not looked at: an asker that could have a lease is told [`EffectAnswer::Free`] instead.
    Unchecked,
    /// The entities were as expected, and have been raised for this effect.
    Raised,
}

/// Names one lease of one effect, exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EffectReceipt {
    /// The record.
    pub number: u64,
    /// The lease.
    pub epoch: u32,
}

/// Bits of an effect's number that count effects within their shard. What leaves the broker says in the others which.
const NUMBER_BITS: u32 = 56;

impl EffectReceipt {
    /// The shard of an effect whose lease left the broker.
    #[must_use]
    pub const fn shard(self) -> ShardId {
        ShardId((self.number >> NUMBER_BITS) as u8)
    }

    /// As its shard knows it.
    #[must_use]
    pub const fn local(self) -> Self {
        Self { number: self.number & ((1 << NUMBER_BITS) - 1), epoch: self.epoch }
    }

    /// As it leaves the broker from a shard.
    #[must_use]
    pub const fn sent_from(self, shard: ShardId) -> Self {
        Self { number: (shard.0 as u64) << NUMBER_BITS | self.number, epoch: self.epoch }
    }
}

/// A lease of an effect: its holder may run the effect.
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
    /// How it ended in full ([`crate::Ending::encode`]).
    pub ending: NewBlob,
    /// Tells this ending from any other ([`crate::Ending::digest`]).
    pub digest: u64,
}

/// A resolver has found out how an effect ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolveEffect {
    /// Which.
    pub identity: Identity,
    /// Only if this is the newest epoch.
    pub seen: Option<u32>,
    /// How: succeeded, failed for good, or failed for now.
    pub status: Status,
    /// How it ended in full.
    pub ending: NewBlob,
    /// Tells this ending from any other.
    pub digest: u64,
}

/// What an asker that wants to run an effect is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EffectAnswer {
    /// Run it.
    Execute(EffectLease),
    /// It is over; this is how it ended.
    Replay(EffectView),
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
        view: EffectView,
        /// How many more attempts there may be, if there is a cap.
        left: Option<u32>,
    },
    /// Whether it happened is not known.
    Unknown(EffectView),
    /// It could have a lease, if the other shard agrees ([`Abroad::Unchecked`]).
    Free {
        /// Whether the entities were raised for an earlier lease, so that nothing more is expected of them.
        raised: bool,
    },
}

/// One effect, described. Who it is and how it ended lie in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectView {
    /// Its number.
    pub number: u64,
    /// How it stands.
    pub status: Status,
    /// The newest lease.
    pub epoch: u32,
    /// Leases given so far.
    pub attempts: u32,
    /// The most there may be.
    pub attempts_max: Option<u32>,
    /// What a lapse means.
    pub on_lapse: OnLapse,
    /// When it was begun first.
    pub created: Time,
    /// When the newest lease was given.
    pub begun: Time,
    /// When the newest lease lapses or lapsed.
    pub until: Time,
    /// Whether a holder may be running it right now.
    pub live: bool,
    /// When it ended, or was found to have lapsed.
    pub ended: Option<Time>,
    /// Until when the record counts.
    pub expires: Option<Time>,
    /// The message on whose behalf it was begun: topic, partition and offset.
    pub message: Option<(Arc<str>, u32, u64)>,
    /// Which delivery of that message its newest lease was begun for, counted from 1; zero if that is not known.
    pub delivery: u32,
    /// Whether the holder of its newest lease gave it up before anything was sent.
    pub released: bool,
    /// Who has or had the newest lease; may be empty.
    pub owner: Arc<str>,
    /// The run that it belongs to.
    pub run: Option<Arc<str>>,
    /// The step of the message on whose behalf it was begun.
    pub step: Option<Arc<str>>,
    /// Its identity, in the log.
    pub about: Blob,
    /// How it ended, in the log.
    pub ending: Option<Blob>,
}

/// Which effects are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EffectList {
    /// Only those with a greater number.
    pub after: u64,
    /// How many at most.
    pub limit: u32,
    /// Only those that stand like this.
    pub status: Option<Status>,
    /// Only those whose tenant has this hash.
    pub tenant: Option<u32>,
    /// Only those whose scope has this hash.
    pub scope: Option<u32>,
}

/// Some effects, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct EffectPage {
    /// The effects.
    pub effects: Vec<EffectView>,
    /// How many were looked at.
    pub scanned: u64,
    /// Where to go on; `None` at the end.
    pub next: Option<u64>,
}

/// Numbers about effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EffectTally {
    /// Records kept.
    pub records: u64,
    /// Those that a holder runs, or ran when its lease lapsed.
    pub in_progress: u64,
    /// Those that failed and may be tried again.
    pub failed_retryable: u64,
    /// Those of which it is not known whether they happened.
    pub unknown: u64,
    /// Askers that wait for another holder.
    pub waiting: u64,
}

/// Which bytes of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EffectPart {
    /// Its identity.
    About,
    /// How it ended.
    Ending,
}

/// What can happen to effects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EffectInput {
    /// Run an effect, or learn how it went.
    Begin {
        /// Who asks.
        ticket: Ticket,
        /// For what.
        ask: Box<BeginEffect>,
    },
    /// Run several effects, or learn how each went; no asker waits, and each has its own answer.
    BeginMany {
        /// Who asks.
        ticket: Ticket,
        /// For what, in this order.
        asks: Vec<BeginEffect>,
    },
    /// An effect ended.
    Finish {
        /// Who asks.
        ticket: Ticket,
        /// Which, and how.
        finish: FinishEffect,
    },
    /// An effect goes on for longer.
    Renew {
        /// Who asks.
        ticket: Ticket,
        /// The lease.
        receipt: EffectReceipt,
        /// For how long from now; `None`: as the shard says.
        lease_ms: Option<u64>,
    },
    /// The holder of an effect's lease gives it up.
    Release {
        /// Who asks.
        ticket: Ticket,
        /// The lease.
        receipt: EffectReceipt,
        /// Whether it may have happened: then it is as if the lease had lapsed. If not, nothing was sent.
        uncertain: bool,
    },
    /// A resolver has found out how an effect ended.
    Resolve {
        /// Who asks.
        ticket: Ticket,
        /// Which, and how.
        resolve: ResolveEffect,
    },
    /// The same bytes of an effect, read from a segment that a few of them pin, to be stored again.
    Relocate {
        /// Which.
        number: u64,
        /// Which bytes.
        part: EffectPart,
        /// Where they were read; if they lie elsewhere by now, nothing happens.
        from: Position,
        /// The bytes.
        copy: NewBlob,
    },
}
