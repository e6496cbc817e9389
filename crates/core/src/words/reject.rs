//! Why an input was refused. A refusal changes nothing.

use crate::words::tenant::Quota;

/// Closed list of refusals; the edge maps each to one answer on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// No topic has this name or number.
    TopicUnknown,
    /// The topic has fewer partitions.
    PartitionOutOfRange,
    /// `partition_override` names a partition that the topic does not have.
    OverrideOutOfRange,
    /// The message's deadline had passed when it arrived.
    DeadlineExceeded,
    /// A limit on buffered work is reached; try again later.
    Overloaded(Overload),
    /// Another owner holds the message, or a newer attempt has started.
    NotOwner,
    /// The message was never delivered to this group, or its lease was voided by a restart.
    NotInFlight,
    /// The disk is full: no new messages until space returns. Reads and acks go on.
    DiskFull,
    /// The topic exists with other settings than those asked for; the text names the first that differs.
    SettingsDiffer(&'static str),
    /// The topic has no group of this name.
    GroupUnknown,
    /// There is no such message, or it is gone.
    MessageUnknown,
    /// The idempotency key was used for another request.
    KeyReused,
    /// An operation with the same idempotency key is under way.
    KeyInFlight,
    /// The delivery is not the newest one, or it is settled; the newest attempt, while there is one.
    LeaseStale(Option<u32>),
    /// No such delivery was ever made, or its topic or group is gone.
    LeaseUnknown,
    /// The ledger has no such effect.
    EffectUnknown,
    /// The lease of the effect is not the newest one; the newest epoch, or `None` if the record is gone.
    EffectStale(Option<u32>),
    /// The delivery that the effect was begun for has gone on without its holder.
    EffectFenced,
    /// The lease said something else about its effect before, and that stays.
    EffectDiffers,
    /// A holder runs the effect right now.
    EffectRunning,
    /// The effect is over, and stays what it is.
    EffectFinished,
    /// The effect was tried as often as it may be.
    AttemptsExhausted,
    /// The result of an effect is larger than the shard keeps.
    ResultTooLarge,
    /// There is no such dataset, version or partition of it.
    OutputUnknown,
    /// The partition of the dataset is replaced, and a commit wants to append to it, or the other way round.
    OutputModeDiffers,
    /// Another version is current than the caller thinks, or there is none to go back to.
    VersionDiffers,
    /// The version is the current one.
    VersionInUse,
    /// The version is sealed: its pointers no longer move.
    VersionSealed,
    /// No run has this name.
    RunUnknown,
    /// An entity has another version than is expected of it.
    EntityDiffers {
        /// Which of those of which something is expected, counted from zero.
        place: u8,
        /// The version that it has.
        version: u64,
    },
    /// The entity was never raised, or is forgotten.
    EntityUnknown,
    /// There is no such key, or it has ended.
    KeyUnknown,
    /// The key would allow more than the key that it hangs on.
    KeyTooWide,
    /// The key would end after the key that it hangs on.
    KeyTooLong,
    /// The message, or the topic to be made, would lie with what belongs to another tenant: the text says where.
    TenantDiffers(&'static str),
    /// There is no definition of that name.
    DefinitionUnknown,
    /// The definition has another version than the caller expects.
    DefinitionDiffers {
        /// Which; zero if there is none.
        version: u64,
    },
    /// The tenant has as much of something as it may.
    QuotaExceeded(Quota),
    /// A structural limit is reached (topics, groups, consumers, name lengths): the text says which.
    Limit(&'static str),
    /// The value given is not allowed: the text says why.
    Invalid(&'static str),
}

/// Which limit on buffered work was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overload {
    /// The partition holds as many messages as it may.
    PartitionMessages,
    /// The partition holds as many bytes as it may.
    PartitionBytes,
    /// As many idempotency records are remembered as may be.
    IdempotencyRecords,
    /// The ledger holds as many effects as it may.
    EffectRecords,
    /// The messages kept use as many different retry policies as can be told apart.
    RetryPolicies,
    /// As many messages wait for their way to another shard as may wait.
    Outbox,
}

impl Reject {
    /// Whether it tells of what is written down, and not only of what was asked for or of how full the shard is.
    pub(crate) const fn tells_of_facts(self) -> bool {
        !matches!(
            self,
            Self::DeadlineExceeded
                | Self::Overloaded(_)
                | Self::DiskFull
                | Self::KeyInFlight
                | Self::ResultTooLarge
                | Self::Limit(_)
                | Self::QuotaExceeded(_)
                | Self::Invalid(_)
        )
    }
}
