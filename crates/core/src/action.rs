//! What a shard asks others to do.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::describe::Description;
use crate::id::{ConsumerId, GroupId, Position, Ticket, Time, Token, TopicId};
use crate::message::DeadLetter;
use crate::reject::Reject;

/// Names one delivery, exactly: the place of the message, the group, and the fencing token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// The topic.
    pub topic: TopicId,
    /// The group.
    pub group: GroupId,
    /// The partition.
    pub partition: u32,
    /// The message's offset.
    pub offset: u64,
    /// The fencing token.
    pub token: Token,
}

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
    /// Where the payload lies.
    pub position: Position,
    /// How long the payload is.
    pub length: u32,
    /// Checksum of the payload.
    pub check: u32,
}

/// A message to be turned into a dead letter: read it, write the letter, come back with [`crate::Input::Bury`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undertaking {
    /// Which message of which group; the token is the undertaking's own.
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
    pub reason: &'static str,
    /// When it was given up.
    pub at: Time,
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
}

/// The answer to whoever holds the ticket.
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
    Produced {
        /// Where.
        partition: u32,
        /// Under which offset.
        offset: u64,
        /// Whether an earlier message with the same identity stands for it.
        duplicate: bool,
    },
    /// Deliveries will come.
    Subscribed,
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
    Fetch(Undertaking),
    /// A topic became durable: tell the catalogue.
    Publish(TopicInfo),
}

/// What one or more calls of [`crate::Shard::handle`] gave; reused from call to call.
#[derive(Debug, Default)]
pub struct Output {
    /// Encoded facts of the batch that is being filled, in order.
    pub facts: Vec<u8>,
    /// What to do, in order. Taken by the shell after every call.
    pub actions: Vec<Action>,
    /// Whether somebody waits for the facts to be synced. Without it they may ride with a later sync.
    pub urgent: bool,
}

impl Undertaking {
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
            reason: self.reason.into(),
            at: self.at,
            ..DeadLetter::default()
        }
    }
}
