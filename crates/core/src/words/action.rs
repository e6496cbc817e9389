//! What a shard asks others to do.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::words::commit::{CommitPart, Committed};
use crate::words::definition::DefinitionView;
use crate::words::description::{Description, GroupPartition};
use crate::words::effect::EffectAnswer;
use crate::words::id::{ConsumerId, Position, ShardId, Ticket, Time, TopicId};
use crate::words::key::KeyView;
use crate::words::letter::{AttemptDescription, DeadLetter, Reason};
use crate::words::outbox::Parcel;
use crate::words::receipt::{Receipt, Stored};
use crate::words::reject::Reject;
use crate::words::tenant::TenantView;
use crate::words::topic::TopicSettings;
use crate::words::waited::Waited;

/// One message on its way to one reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Which delivery this is.
    pub receipt: Receipt,
    /// 1-based count of deliveries of this message to this group.
    pub attempt: u32,
    /// Why the attempt before failed; empty at first.
    pub last_error: Arc<str>,
    /// When the lease lapses.
    pub expires: Time,
    /// When the message was stored.
    pub at: Time,
    /// Its priority.
    pub priority: u8,
    /// When it was to go out, if it was scheduled.
    pub due: Option<Time>,
    /// What it waited for, if that is told ([`Settings::tells_waits`](crate::Settings)) and was not told before.
    pub waited: Option<Box<Waited>>,
    /// Where the payload lies.
    pub position: Position,
    /// How long the payload is.
    pub length: u32,
    /// Checksum of the payload.
    pub check: u32,
}

/// A message to be turned into a dead letter: read it, write the letter, come back with [`crate::Input::Bury`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Burial {
    /// Which message of which group; the token is the burial's own.
    pub receipt: Receipt,
    /// The source topic's name.
    pub topic: Arc<str>,
    /// The group's name.
    pub group: Arc<str>,
    /// How often it was delivered.
    pub attempts: u32,
    /// Why the last attempt failed.
    pub last_error: Arc<str>,
    /// Why it is given up.
    pub reason: Reason,
    /// When it was given up.
    pub at: Time,
    /// Its last attempts.
    pub history: Vec<AttemptDescription>,
    /// Where the payload lies.
    pub position: Position,
    /// How long the payload is.
    pub length: u32,
    /// Checksum of the payload.
    pub check: u32,
}

/// A topic as the catalogue outside the shard knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// Its number.
    pub id: TopicId,
    /// Its name.
    pub name: Arc<str>,
    /// How many partitions it has.
    pub partitions: u32,
    /// Whether its number is part of the identities of its messages, as it is for every topic since topics can be
    /// deleted and created again.
    pub scoped: bool,
    /// The tenant that it belongs to, and with it every message in it. It never changes.
    pub tenant: Option<Arc<str>>,
}

impl TopicInfo {
    /// What tells this topic from another one that had its name before.
    #[must_use]
    pub fn incarnation(&self) -> Option<TopicId> {
        self.scoped.then_some(self.id)
    }
}

/// What became of one settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As was said; saying it again changes nothing.
    Ok,
    /// The attempt has failed, and it was the last one: the message becomes a dead letter.
    Buried,
    /// The lease goes on.
    Extended {
        /// Until then.
        expires: Time,
        /// The message was cancelled meanwhile: the work is not wanted any more.
        cancelled: bool,
    },
    /// A newer attempt has begun, or the message is settled without this token.
    Stale {
        /// The current attempt, while there is one.
        attempt: Option<u32>,
    },
    /// No such delivery was ever made, or its topic or group is gone.
    Unknown,
}

/// The answer to the holder of the ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The topic exists, with this many partitions.
    TopicReady {
        /// Partitions that it really has.
        partitions: u32,
        /// Whether this call made it.
        created: bool,
    },
    /// The message is stored, or was before.
    Produced(Stored),
    /// One answer per message, in order.
    ProducedMany(Vec<Result<Stored, Reject>>),
    /// The identity is kept for the asker.
    Reserved,
    /// The topic's settings before and after.
    Configured {
        /// Before.
        before: TopicSettings,
        /// After.
        after: TopicSettings,
    },
    /// Messages on loan; none if nothing came in time.
    Leased(Vec<Delivery>),
    /// One answer per settlement, in order.
    Settlements(Vec<Outcome>),
    /// No further attempt will be made.
    Cancelled {
        /// Groups that have it on loan right now; they learn of it when they extend.
        running: Vec<Arc<str>>,
    },
    /// The next attempt is due.
    Hurried {
        /// Groups in which it waited for one.
        groups: Vec<Arc<str>>,
    },
    /// Since when deliveries have been stopped; `None` if they are not.
    Paused(Option<Time>),
    /// Where the group stands now, per partition.
    Sought(Vec<GroupPartition>),
    /// How many messages were dropped.
    Removed(u64),
    /// It is gone.
    Deleted,
    /// Deliveries will come.
    Subscribed,
    /// What became of a request to run an effect.
    Effect(EffectAnswer),
    /// One answer per effect that the asker wants to run, in order.
    Effects(Vec<Result<EffectAnswer, Reject>>),
    /// How an effect ended is written down.
    EffectEnded {
        /// Whether it was before.
        already: bool,
        /// The newest lease.
        epoch: u32,
        /// Which attempt it was.
        attempt: u32,
        /// Until when it is remembered.
        expires: Time,
    },
    /// An effect goes on.
    EffectRenewed {
        /// The lease.
        epoch: u32,
        /// Which attempt it is.
        attempt: u32,
        /// Until then.
        expires: Time,
    },
    /// The lease of an effect is given up.
    EffectReleased {
        /// Whether it was before.
        already: bool,
    },
    /// Everything that a commit asked for was done.
    Committed(Committed),
    /// Nothing that a commit asked for was done; this is the first reason.
    CommitRefused(CommitPart, Reject),
    /// One answer per commit, in order.
    CommittedMany(Vec<Result<Committed, (CommitPart, Reject)>>),
    /// Where the messages of another shard's parcels lie, in order.
    Received(Vec<Stored>),
    /// What readers of a dataset see.
    CutOver {
        /// The version; `None` for nothing.
        current: Option<Arc<str>>,
        /// What they would see after a roll-back.
        previous: Option<Arc<str>>,
        /// Whether this call changed it.
        changed: bool,
    },
    /// A version is sealed: its pointers no longer move.
    Sealed {
        /// Whether this call sealed it.
        changed: bool,
        /// How many pointers it has.
        pointers: u64,
    },
    /// A key, as it is now.
    Key(KeyView),
    /// A definition, as it is now, or was until it was removed.
    Definition(DefinitionView),
    /// A tenant, as it is now.
    Tenant(TenantView),
    /// An entry of the audit is written down.
    Recorded {
        /// Its number.
        sequence: u64,
    },
    /// An entity is forgotten.
    EntityForgotten {
        /// The version that it had.
        version: u64,
    },
    /// Acked or nacked.
    Settled,
    /// What was asked about the state.
    Described(Description),
    /// Refused; nothing changed.
    Rejected(Reject),
}

/// What the shell must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Answer the ticket.
    Reply {
        /// Whom.
        ticket: Ticket,
        /// What.
        answer: Answer,
    },
    /// Hand a message to a reader. The reader's credit is already reduced.
    Deliver {
        /// To whom.
        consumer: ConsumerId,
        /// What.
        delivery: Delivery,
    },
    /// Read a payload and turn it into a dead letter.
    Fetch(Burial),
    /// Bring a parcel to another shard ([`crate::OutboxInput::Receive`]), those to one shard in the order of their
    /// numbers, and say where its message lies ([`crate::OutboxInput::Posted`]).
    Post {
        /// To which.
        to: ShardId,
        /// What.
        parcel: Parcel,
    },
    /// A topic became durable, or changed: tell the catalogue.
    Publish(TopicInfo),
    /// A topic is gone for good: tell the catalogue.
    Unpublish(TopicInfo),
    /// A reader gets nothing more: what it read is gone.
    Close {
        /// Which.
        consumer: ConsumerId,
    },
}

/// What one or more calls of [`crate::Shard::handle`] gave; reused from call to call.
#[derive(Debug, Default)]
pub struct Output {
    /// Encoded facts of the batch that is being filled, in order.
    pub facts: Vec<u8>,
    /// What to do, in order. Taken by the shell after every call.
    pub actions: Vec<Action>,
    /// Whether an answer or a delivery waits for the facts to be synced. Otherwise they may ride with a later sync.
    pub urgent: bool,
}

impl Burial {
    /// What the dead letter says about where it came from; the message itself adds who it is
    /// ([`crate::Message::into_dead_letter`]).
    #[must_use]
    pub fn letter(&self) -> DeadLetter<'_> {
        DeadLetter {
            topic: (&*self.topic).into(),
            partition: self.receipt.partition,
            offset: self.receipt.offset,
            group: (&*self.group).into(),
            attempts: self.attempts,
            last_error: (&*self.last_error).into(),
            reason: self.reason.name().into(),
            at: self.at,
            history: self.history.iter().map(AttemptDescription::borrowed).collect(),
            ..DeadLetter::default()
        }
    }
}
