//! What holders and producers keep in hand: the receipt of a delivery, the place of a message.

use crate::words::id::{GroupId, Token, TopicId};

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

/// A message is stored, or was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// In which topic; `None` for a duplicate from before that was remembered, and where the outcome of a commit is looked
    /// up while the message is on its way to another shard.
    pub topic: Option<TopicId>,
    /// Where.
    pub partition: u32,
    /// Under which offset.
    pub offset: u64,
    /// Whether an earlier message with the same identity stands for it.
    pub duplicate: bool,
}
