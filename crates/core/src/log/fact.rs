//! Facts: the lines of history.

use crate::log::commit::CommitFact;
use crate::log::effect::EffectFact;
use crate::log::entity::EntityFact;
use crate::log::output::OutputFact;
use crate::log::run::RunFact;
use crate::words::id::{GroupId, Identity, KeyHash, RequestHash, Spotted, Time, Token, TopicId};
use crate::words::input::Style;
use crate::words::policy::RetryPolicy;
use crate::words::run::Lineage;
use crate::words::topic::TopicSettings;

/// A message as it was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MessageFact<'a> {
    /// Its topic.
    pub topic: TopicId,
    /// Its partition.
    pub partition: u32,
    /// Its offset; rises within the topic.
    pub offset: u64,
    /// When it was stored.
    pub at: Time,
    /// Key and value bytes.
    pub size: u32,
    /// Checksum of `bytes`.
    pub check: u32,
    /// How often and when to try again.
    pub retry: Option<RetryPolicy>,
    /// Its identity, and until when the identity is remembered.
    pub identity: Option<(Identity, Time)>,
    /// What it asked for, if the producer said so.
    pub request: RequestHash,
    /// Its key, if it has one.
    pub key: KeyHash,
    /// Its priority.
    pub priority: u8,
    /// When it may go out for the first time, if it is scheduled.
    pub due: Option<Time>,
    /// The only group that gets it: the one that had given it up.
    pub only: Option<GroupId>,
    /// The run that it belongs to.
    pub lineage: Option<Lineage<'a>>,
    /// Where it was born, if it was stored before: it is a dead letter, or was one.
    pub origin: Option<Spotted>,
    /// No reader is to begin work on it from then on: groups that have not begun give it up.
    pub deadline: Option<Time>,
    /// The encoded message.
    pub bytes: &'a [u8],
}

/// A message as one group sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The topic.
    pub topic: TopicId,
    /// The group.
    pub group: GroupId,
    /// The partition.
    pub partition: u32,
    /// The message's offset.
    pub offset: u64,
}

/// Something that happened and is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact<'a> {
    /// A run of the shard began.
    Opened {
        /// The run.
        epoch: u64,
        /// When.
        at: Time,
        /// Whether leases outlive the run: every delivery that supersedes a holder is durable before it is handed out.
        /// Earlier versions voided every lease of the run before. It also says whether a clock that was set back takes
        /// along what is counted from times that it had told before.
        keeps_leases: bool,
    },
    /// A topic was created.
    TopicCreated {
        /// Its number.
        topic: TopicId,
        /// Its partitions.
        partitions: u32,
        /// When.
        at: Time,
        /// Its name.
        name: &'a str,
        /// Whether its number is part of the identities of its messages.
        scoped: bool,
    },
    /// Settings of a topic were changed.
    Configured {
        /// Which.
        topic: TopicId,
        /// All its settings.
        settings: TopicSettings,
    },
    /// A topic is gone, with everything in it.
    TopicDeleted {
        /// Which.
        topic: TopicId,
    },
    /// Deliveries were stopped or started again.
    Paused {
        /// The topic.
        topic: TopicId,
        /// One group only.
        group: Option<GroupId>,
        /// Since when they have been stopped; `None` if they are not.
        since: Option<Time>,
    },
    /// The shard got its secret: tokens that leave it are sealed with it.
    Keyed {
        /// The secret.
        secret: [u8; 32],
    },
    /// A message was stored.
    Appended(MessageFact<'a>),
    /// A group began to read a topic, at the earliest message kept.
    GroupCreated {
        /// The topic.
        topic: TopicId,
        /// Its number.
        group: GroupId,
        /// When.
        at: Time,
        /// Its name.
        name: &'a str,
    },
    /// A message was handed to a reader.
    Leased {
        /// Which.
        place: Place,
        /// The fencing token.
        token: Token,
        /// 1-based count of deliveries.
        attempt: u32,
        /// When.
        at: Time,
        /// When the lease lapses.
        expires: Time,
        /// Who holds it.
        owner: &'a str,
        /// How it was handed over. Facts from before this was recorded say [`Style::Borrowed`].
        style: Style,
    },
    /// A group is done with a message.
    Acked {
        /// Which.
        place: Place,
        /// Until when its identity stays committed for the group; [`Time`] 0 if it has none.
        remembered: Time,
        /// The token by which it was settled; zero if by name.
        token: Token,
    },
    /// An attempt failed, by word or by lapse.
    Failed {
        /// Which.
        place: Place,
        /// When.
        at: Time,
        /// When the next attempt is due.
        retry_at: Time,
        /// By word of its holder, whose token is spent with it.
        nacked: bool,
        /// Its holder said that there is no use in trying again.
        dead: bool,
        /// Why.
        error: &'a str,
    },
    /// A lease ends at another time.
    Extended {
        /// Which.
        place: Place,
        /// When it ends now.
        expires: Time,
    },
    /// No further attempt of a message will be made. Groups that have it on loan may still ack it.
    Cancelled {
        /// The topic.
        topic: TopicId,
        /// The partition.
        partition: u32,
        /// The message's offset.
        offset: u64,
    },
    /// A message was dropped for every group.
    Removed {
        /// The topic.
        topic: TopicId,
        /// The partition.
        partition: u32,
        /// The message's offset.
        offset: u64,
    },
    /// A group was moved: everything below an offset is settled, everything kept from there on is not.
    Sought {
        /// The topic.
        topic: TopicId,
        /// The group.
        group: GroupId,
        /// The partition.
        partition: u32,
        /// The first offset that it owes.
        from: u64,
    },
    /// A delivery came back unused; the attempt does not count.
    Released {
        /// Which.
        place: Place,
    },
    /// A delivery came back to wait; the attempt does not count.
    Snoozed {
        /// Which.
        place: Place,
        /// When it came back.
        at: Time,
        /// When the next attempt is due.
        until: Time,
    },
    /// A delivery came back to wait for an effect; the attempt does not count.
    SnoozedFor {
        /// Which.
        place: Place,
        /// When it came back.
        at: Time,
        /// When the next attempt is due, whatever becomes of the effect.
        until: Time,
        /// The number of the effect's record.
        effect: u64,
    },
    /// A group gives a message up: it was dead-lettered, or its identity was committed before.
    Retired {
        /// Which.
        place: Place,
        /// True if a dead letter was stored in the same batch; false if it was skipped.
        dead: bool,
    },
    /// A group was forgotten.
    GroupExpired {
        /// The topic.
        topic: TopicId,
        /// The group.
        group: GroupId,
    },
    /// Messages left by retention, read or not.
    Expired {
        /// The topic.
        topic: TopicId,
        /// The partition.
        partition: u32,
        /// Every message below this offset is gone.
        below: u64,
    },
    /// Messages left that were kept although every group was done with them.
    Trimmed {
        /// The topic.
        topic: TopicId,
        /// The partition.
        partition: u32,
        /// Every such message below this offset is gone.
        below: u64,
    },
    /// Identities whose time had come were forgotten: at most `most`, oldest first.
    Forgotten {
        /// Of the produce gate if `None`, else of that group's consume gate.
        group: Option<(TopicId, GroupId)>,
        /// Those remembered until then.
        upto: Time,
        /// How many at most.
        most: u32,
    },
    /// A payload was written again, so that the segment with its old copy can go.
    Moved {
        /// The topic.
        topic: TopicId,
        /// The partition.
        partition: u32,
        /// The message's offset.
        offset: u64,
        /// The encoded message.
        bytes: &'a [u8],
    },
    /// Something happened to an effect.
    Effect(EffectFact<'a>),
    /// Something happened in a run.
    Run(RunFact<'a>),
    /// Something happened to outputs.
    Output(OutputFact<'a>),
    /// Something happened to commits.
    Commit(CommitFact<'a>),
    /// Something happened to entities.
    Entity(EntityFact<'a>),
}

impl Fact<'_> {
    /// The time that the shard's clock told when it happened, if the fact says so. The start of a run does not count:
    /// it is compared with this.
    pub(crate) const fn told_at(&self) -> Option<Time> {
        match self {
            Self::TopicCreated { at, .. }
            | Self::GroupCreated { at, .. }
            | Self::Leased { at, .. }
            | Self::Failed { at, .. }
            | Self::Snoozed { at, .. }
            | Self::SnoozedFor { at, .. } => Some(*at),
            Self::Appended(message) => Some(message.at),
            Self::Paused { since, .. } => *since,
            Self::Effect(fact) => fact.told_at(),
            Self::Entity(fact) => fact.told_at(),
            _ => None,
        }
    }
}
