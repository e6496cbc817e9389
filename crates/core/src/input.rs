//! What can happen to a shard.

use alloc::string::String;
use alloc::vec::Vec;

use crate::action::Receipt;
use crate::describe::Query;
use crate::id::{ConsumerId, Identity, Position, Ticket, Time, TopicId};
use crate::message::RetryPolicy;

/// Encoded bytes of a message and what the shard must know about them without looking inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// The encoded message ([`crate::Message::encode`]).
    pub bytes: Vec<u8>,
    /// Checksum over `bytes`, made and checked by the shell.
    pub check: u32,
    /// Key and value bytes, as the backpressure limits count them.
    pub size: u32,
}

/// A message that was parsed, validated and routed, and wants to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    /// The final topic.
    pub topic: TopicId,
    /// The final partition.
    pub partition: u32,
    /// Refused if this has passed.
    pub deadline: Option<Time>,
    /// How often and when to try again.
    pub retry: Option<RetryPolicy>,
    /// Who it is, if it carries an idempotency key.
    pub identity: Option<Identity>,
    /// What is stored.
    pub payload: Payload,
}

/// A reader that wants messages of a topic for its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The reader's number.
    pub consumer: ConsumerId,
    /// What it reads.
    pub topic: TopicId,
    /// For which group; created if it is new.
    pub group: String,
    /// The name under which it will ack.
    pub owner: String,
    /// How long each delivery is on loan.
    pub lease_ms: u64,
    /// Deliveries that may be under way to it and not yet written out; each written one is given back by
    /// [`Input::Credit`].
    pub credit: u32,
}

/// One message as one group sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The topic.
    pub topic: TopicId,
    /// The group's name.
    pub group: String,
    /// The partition.
    pub partition: u32,
    /// The message's offset.
    pub offset: u64,
}

/// Anything that happens to a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Create a topic, or confirm that it exists.
    CreateTopic {
        /// Who asks.
        ticket: Ticket,
        /// Its name.
        name: String,
        /// Partitions, at least one. An existing topic keeps its own count.
        partitions: u32,
    },
    /// Store a message.
    Produce {
        /// Who asks.
        ticket: Ticket,
        /// What to store.
        message: NewMessage,
    },
    /// Start delivering to a reader.
    Subscribe {
        /// Who asks.
        ticket: Ticket,
        /// The reader.
        subscription: Subscription,
    },
    /// The reader is gone. Its leases stay until they lapse; what never reached it comes as [`Input::Release`].
    Unsubscribe {
        /// The reader.
        consumer: ConsumerId,
    },
    /// The reader has written out `count` deliveries and can take as many more.
    Credit {
        /// The reader.
        consumer: ConsumerId,
        /// How many.
        count: u32,
    },
    /// The work is done.
    Ack {
        /// Who asks.
        ticket: Ticket,
        /// Which message.
        address: Address,
        /// Who held it.
        owner: String,
    },
    /// The work failed.
    Nack {
        /// Who asks.
        ticket: Ticket,
        /// Which message.
        address: Address,
        /// Who held it.
        owner: String,
        /// Why it failed.
        reason: String,
    },
    /// Deliveries that never reached their reader: given back without using an attempt.
    Release {
        /// The deliveries.
        receipts: Vec<Receipt>,
    },
    /// The dead letter asked for by [`crate::Action::Fetch`] is written: retire the message and store it.
    Bury {
        /// The undertaking that it answers.
        receipt: Receipt,
        /// The dead letter, encoded.
        payload: Payload,
    },
    /// The payload asked for by [`crate::Action::Fetch`] cannot be read now; it is asked for again later.
    FetchFailed {
        /// The undertaking that it answers.
        receipt: Receipt,
    },
    /// The same payload, read from a segment that a few messages pin, to be stored anew.
    Relocate {
        /// The topic.
        topic: TopicId,
        /// The partition.
        partition: u32,
        /// The message's offset.
        offset: u64,
        /// Where the payload was read; if it lies elsewhere by now, nothing happens.
        from: Position,
        /// The payload.
        payload: Payload,
    },
    /// Everything below `upto` is on disk.
    Durable {
        /// End of the newest synced batch.
        upto: Position,
    },
    /// The log has (or has again) room for new messages, or has not.
    Space {
        /// False: refuse new messages.
        roomy: bool,
    },
    /// Time has passed; something may be due.
    Tick,
    /// A question about the state.
    Describe {
        /// Who asks.
        ticket: Ticket,
        /// What is asked.
        query: Query,
    },
}
