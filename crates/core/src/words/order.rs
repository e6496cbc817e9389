//! What operators and their programs order.

use alloc::string::String;
use alloc::vec::Vec;

use crate::words::audit::AuditEntry;
use crate::words::definition::DefinitionKind;
use crate::words::draft::NewMessage;
use crate::words::id::{Spotted, Ticket, Time, TopicId};
use crate::words::key::{KeyId, NewKey};
use crate::words::scoped::Named;
use crate::words::tenant::TenantLimits;
use crate::words::topic::{TopicPatch, TopicSettings};

/// Where a group goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTo {
    /// At the oldest message kept.
    Earliest,
    /// After the newest.
    Latest,
    /// At this offset.
    Offset(u64),
    /// At the first message stored at or after this.
    Time(Time),
}

/// What operators and their programs order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderInput {
    /// Create a topic, or confirm that it exists.
    CreateTopic {
        /// Who asks.
        ticket: Ticket,
        /// Its name.
        name: String,
        /// Partitions, at least one. An existing topic keeps its own count.
        partitions: u32,
        /// What else is to hold for it. An existing topic keeps its own.
        settings: TopicSettings,
        /// The tenant that it is to belong to. An existing topic must belong to it already; without one it keeps its
        /// own.
        tenant: Option<String>,
        /// Whether an existing topic must be exactly as asked for.
        exact: bool,
    },
    /// Change settings of a topic.
    ConfigureTopic {
        /// Who asks.
        ticket: Ticket,
        /// Which.
        topic: TopicId,
        /// What changes.
        patch: TopicPatch,
    },
    /// Delete a topic with all its messages and groups.
    DeleteTopic {
        /// Who asks.
        ticket: Ticket,
        /// Which.
        topic: TopicId,
    },
    /// Stop or start deliveries of a topic, or of one group of it.
    Pause {
        /// Who asks.
        ticket: Ticket,
        /// The topic.
        topic: TopicId,
        /// One group only.
        group: Option<String>,
        /// Stop, or start.
        paused: bool,
    },
    /// No further attempt of a message, by any group.
    Cancel {
        /// Who asks.
        ticket: Ticket,
        /// Which.
        message: Spotted,
    },
    /// The next attempt of a message is due now, for every group in which it waits for one.
    Retry {
        /// Who asks.
        ticket: Ticket,
        /// Which.
        message: Spotted,
    },
    /// Move a group.
    Seek {
        /// Who asks.
        ticket: Ticket,
        /// The topic.
        topic: TopicId,
        /// The group.
        group: String,
        /// One partition only.
        partition: Option<u32>,
        /// Where it goes on.
        to: SeekTo,
    },
    /// Forget a group.
    DeleteGroup {
        /// Who asks.
        ticket: Ticket,
        /// The topic.
        topic: TopicId,
        /// The group.
        group: String,
    },
    /// Store the message of a dead letter again, and drop the letter.
    Redrive {
        /// Who asks.
        ticket: Ticket,
        /// The letter.
        letter: Spotted,
        /// The message that it was.
        message: NewMessage,
        /// The group that gave it up: only it gets the message again, and without it no group does. `None` if the
        /// message goes to a topic where that means nothing: all groups get it.
        group: Option<String>,
    },
    /// Drop messages, read or not.
    Remove {
        /// Who asks.
        ticket: Ticket,
        /// Which.
        messages: Vec<Spotted>,
    },
    /// Make a key.
    CreateKey {
        /// Who asks.
        ticket: Ticket,
        /// The key.
        key: NewKey,
    },
    /// Put a new key in the place of an old one.
    ReplaceKey {
        /// Who asks.
        ticket: Ticket,
        /// The old one.
        old: KeyId,
        /// The public half of the new one.
        new: KeyId,
        /// The digest of its secret.
        digest: [u8; 32],
        /// For how long the old one goes on.
        overlap_ms: u64,
    },
    /// End a key and what hangs on it.
    EndKey {
        /// Who asks.
        ticket: Ticket,
        /// Which.
        key: KeyId,
    },
    /// Make a definition say something.
    Define {
        /// Who asks.
        ticket: Ticket,
        /// What is defined.
        kind: DefinitionKind,
        /// Its name.
        name: String,
        /// The version that it must have, zero for none at all; any if not given.
        expected: Option<u64>,
        /// What it is to say.
        text: String,
    },
    /// Remove a definition.
    Undefine {
        /// Who asks.
        ticket: Ticket,
        /// What is defined.
        kind: DefinitionKind,
        /// Its name.
        name: String,
        /// The version that it must have; any if not given.
        expected: Option<u64>,
    },
    /// Say how much a tenant may have.
    LimitTenant {
        /// Who asks.
        ticket: Ticket,
        /// Its name.
        tenant: String,
        /// How much, in the place of what was said before.
        limits: TenantLimits,
    },
    /// Write down what was done, or refused.
    Record {
        /// Who asks.
        ticket: Ticket,
        /// What is written.
        entry: AuditEntry,
        /// Whether it may be left out while the disk is full.
        is_dispensable: bool,
    },
    /// Forget an entity.
    ForgetEntity {
        /// Who asks.
        ticket: Ticket,
        /// Which.
        entity: Named,
    },
}
