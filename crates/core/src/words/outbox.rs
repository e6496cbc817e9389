//! What one shard sends to another.
//!
//! A commit is one batch of one shard. What it stores in topics of other shards is written into that batch as parcels,
//! and forwarded once it is durable: the sender keeps a parcel until the receiver has said where its message lies, the
//! receiver knows a parcel again by its sender and number. So each arrives once, whoever crashes in between.

use alloc::vec::Vec;

use crate::words::draft::NewMessage;
use crate::words::id::{ShardId, Ticket};
use crate::words::receipt::Stored;

/// A message on its way to another shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// Rises with every parcel that its sender sends, to whichever shard.
    pub number: u64,
    /// The message; its topic says where it goes.
    pub message: NewMessage,
}

/// What happens between shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutboxInput {
    /// Another shard has sent parcels. Answered when they are durable, with the place of each.
    Receive {
        /// Who asks.
        ticket: Ticket,
        /// The sender.
        from: ShardId,
        /// The sender keeps nothing below this number any more: their places need not be remembered.
        settled: u64,
        /// The parcels, in the order of their numbers.
        parcels: Vec<Parcel>,
    },
    /// Parcels have arrived: this is where their messages lie.
    Posted {
        /// Number and place of each.
        stored: Vec<(u64, Stored)>,
    },
}
