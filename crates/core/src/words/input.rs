//! What can happen to a shard.

use alloc::string::String;
use alloc::vec::Vec;

use crate::words::commit::CommitInput;
use crate::words::description::Query;
use crate::words::draft::{NewMessage, Payload};
use crate::words::effect::EffectInput;
use crate::words::id::{ConsumerId, Identity, Position, RequestHash, Ticket, TopicId};
use crate::words::order::OrderInput;
use crate::words::outbox::OutboxInput;
use crate::words::output::OutputInput;
use crate::words::receipt::Receipt;

/// Messages that one request may ask for.
pub const LEASE_MESSAGES_MAX: u32 = 1_000;
/// No answer has more bytes of payloads than this, unless its only message has: the largest message can be lent, too.
pub const LEASE_BYTES_MAX: u64 = 8 << 20;
/// Longest wait of one request.
pub const LEASE_WAIT_MS_MAX: u64 = 60_000;
/// Bytes that one input may bring along, all its texts and payloads together. The edge caps what it takes by this.
pub const INPUT_BYTES_MAX: usize = 24 << 20;
/// Messages, settlements and whatever else there may be many of in one input.
pub const INPUT_ITEMS_MAX: usize = 10_000;

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
    /// How long each delivery is on loan; `None`: as the topic or the shard says.
    pub lease_ms: Option<u64>,
    /// Deliveries that may be under way to it and not yet written out; each written one is given back by
    /// [`Input::Credit`], or by itself when the delivery is settled.
    pub credit: u32,
    /// What gives credit back, and which window counts.
    pub style: Style,
}

/// How a reader takes deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Style {
    /// Pushed as fast as it writes them out; it settles by name.
    #[default]
    Pushed,
    /// Never more than its credit unsettled; it settles by token.
    Borrowed,
}

/// An asker asks for messages, once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRequest {
    /// What it reads.
    pub topic: TopicId,
    /// For which group; created if it is new.
    pub group: String,
    /// Its name, for display.
    pub owner: String,
    /// How many at most.
    pub max: u32,
    /// For how long it borrows; `None`: as the topic or the shard says.
    pub lease_ms: Option<u64>,
    /// How long it waits for the first one.
    pub wait_ms: u64,
    /// Names the request, so that asking again gives the same messages.
    pub request: Option<Identity>,
}

/// What the holder of a token says about its delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The delivery.
    pub receipt: Receipt,
    /// What is said.
    pub verdict: Verdict,
}

/// What can be said about a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The work is done.
    Ack,
    /// The work failed.
    Nack {
        /// Tried again after this instead of after what the policy says.
        delay_ms: Option<u64>,
        /// Not to be tried again at all.
        dead: bool,
        /// Why.
        error: String,
    },
    /// The work goes on: the lease ends this much later than now.
    Extend {
        /// `None`: for as long as it was lent.
        lease_ms: Option<u64>,
        /// Whether the holder has begun work on it, or only borrowed it ahead of time.
        begun: bool,
    },
    /// The work was not begun, or is to wait: the attempt does not count.
    Release {
        /// Not handed out again before this has passed; 0: back in its place at once.
        delay_ms: u64,
    },
    /// The work waits for an effect: the attempt does not count.
    Await {
        /// The effect. When it has ended, was resolved or given up, or may be taken over, the message is due.
        effect: Identity,
        /// Due in any case when this has passed; `None`: only with the effect.
        delay_ms: Option<u64>,
    },
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
    /// Store a message.
    Produce {
        /// Who asks.
        ticket: Ticket,
        /// What to store.
        message: NewMessage,
    },
    /// Store many messages; each has its own answer.
    ProduceMany {
        /// Who asks.
        ticket: Ticket,
        /// What to store, in this order.
        messages: Vec<NewMessage>,
    },
    /// Keep an identity for a message that is still being routed.
    Reserve {
        /// Who asks.
        ticket: Ticket,
        /// The identity.
        identity: Identity,
        /// What it asks for.
        request: RequestHash,
    },
    /// A reserved identity is not needed any more: its message was stored, or never will be.
    Unreserve {
        /// The identity.
        identity: Identity,
    },
    /// Hand out messages, once.
    Lease {
        /// Who asks.
        ticket: Ticket,
        /// For what.
        request: LeaseRequest,
    },
    /// The asker for messages no longer waits.
    Forsake {
        /// Who asked.
        ticket: Ticket,
    },
    /// What holders of tokens say, one answer each.
    Settle {
        /// Who asks.
        ticket: Ticket,
        /// What is said.
        items: Vec<Settlement>,
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
    /// A stream that borrows has written out `count` deliveries, or passed them over; its credit stays taken.
    Written {
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
        /// The burial that it answers.
        receipt: Receipt,
        /// The dead letter, encoded.
        payload: Payload,
    },
    /// The payload asked for by [`crate::Action::Fetch`] cannot be read now; it is asked for again later.
    FetchFailed {
        /// The burial that it answers.
        receipt: Receipt,
    },
    /// The same payload, read from a segment that a few messages pin, to be stored again.
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
    /// Operators or their programs order something.
    Order(OrderInput),
    /// Something happens to an effect.
    Effect(EffectInput),
    /// Many things are to happen together.
    Commit(CommitInput),
    /// Something happens to a dataset.
    Output(OutputInput),
    /// Something goes from one shard to another.
    Outbox(OutboxInput),
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
