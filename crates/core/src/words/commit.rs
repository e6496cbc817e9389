//! Requests and answers about commits.

use crate::words::draft::NewMessage;
use crate::words::effect::FinishEffect;
use crate::words::entity::Expected;
use crate::words::id::{Identity, RequestHash, Ticket};
use crate::words::output::{NewOutput, OutputAuthor, OutputDone, Read};
use crate::words::receipt::{Receipt, Stored};
use crate::words::reject::Reject;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Commits that one call may hold.
pub const COMMITS_PER_CALL_MAX: usize = 1_000;

/// Deliveries, effects, messages and pointers that the commits of one call may hold in all.
pub const COMMIT_PARTS_PER_CALL_MAX: usize = 10_000;

/// What is to happen together.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Commit {
    /// Names the commit, so that asking again gives the same answer.
    pub name: Option<Identity>,
    /// For how long its name is remembered at most; `None`: as the shard says.
    pub name_ttl_ms: Option<u64>,
    /// What it asks for, so that its name is not used for something else.
    pub request: RequestHash,
    /// Deliveries whose work is done.
    pub acks: Vec<Receipt>,
    /// Deliveries that must be current, and stay on loan.
    pub fences: Vec<Receipt>,
    /// Effects that ended.
    pub finishes: Vec<FinishEffect>,
    /// Messages to be stored.
    pub messages: Vec<NewMessage>,
    /// Pointers to be moved.
    pub outputs: Vec<NewOutput>,
    /// Versions of datasets that were read for the work.
    pub reads: Vec<Read>,
    /// Whose datasets and entities they are; may be empty.
    pub tenant: String,
    /// Only if entities have these versions.
    pub expect: Vec<Expected>,
    /// In whose name this is done, if that lives in another shard, which has found it current.
    pub vouched: Option<Vouched>,
}

/// What another shard has looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vouched {
    /// A delivery, which is the newest of its message: what a later attempt has done is not undone.
    Delivery(OutputAuthor),
    /// A delivery that its own shard looks at: no pointer is moved in its name.
    Fence,
    /// The lease of an effect, which has ended it.
    Effect,
}

impl Vouched {
    /// The delivery, if it is one.
    pub(crate) const fn author(self) -> Option<OutputAuthor> {
        match self {
            Self::Delivery(author) => Some(author),
            Self::Fence | Self::Effect => None,
        }
    }
}

/// Which part of a commit, counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitPart {
    /// A delivery to be acked.
    Ack(usize),
    /// A delivery that must be current.
    Fence(usize),
    /// An effect.
    Effect(usize),
    /// A message.
    Produce(usize),
    /// An output.
    Output(usize),
    /// An entity of which something is expected.
    Expect(usize),
    /// All of it.
    Whole,
}

impl CommitPart {
    /// Its place in the order in which the parts of a commit are looked at.
    pub(crate) const fn turn(self) -> (u8, usize) {
        match self {
            Self::Ack(place) => (0, place),
            Self::Fence(place) => (1, place),
            Self::Effect(place) => (2, place),
            Self::Whole => (3, 0),
            Self::Expect(place) => (4, place),
            Self::Produce(place) => (5, place),
            Self::Output(place) => (6, place),
        }
    }
}

/// Why a commit cannot be done.
pub type Refusal = (CommitPart, Reject);

/// What a shard says about a commit.
pub type CommitResult = Result<Committed, Refusal>;

/// What a commit did.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Committed {
    /// Whether it was done before.
    pub already: bool,
    /// Where its messages are.
    pub stored: Vec<Stored>,
    /// What became of its outputs.
    pub outputs: Vec<OutputDone>,
    /// Where each output that was a duplicate lies, in their order: the first one stays.
    pub kept: Vec<Arc<str>>,
    /// Whether an effect ended by it, or would: one that had not ended in just this way before. Not remembered.
    pub ends: bool,
}

impl Commit {
    /// How many things it asks for.
    pub(crate) fn parts(&self) -> usize {
        let Self { acks, fences, finishes, messages, outputs, reads, expect, .. } = self;
        let fenced = acks.len() + fences.len() + finishes.len();
        fenced + messages.len() + outputs.len() + reads.len() + expect.len()
    }

    /// Whether it asks for anything that an effect's own `finish` would not do.
    pub(crate) fn is_more_than_endings(&self) -> bool {
        !(self.messages.is_empty() && self.outputs.is_empty() && self.expect.is_empty())
    }
}

/// What is to happen together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitInput {
    /// Do many things, or none of them.
    One {
        /// Who asks.
        ticket: Ticket,
        /// What.
        commit: Box<Commit>,
    },
    /// Say whether it could be done, and do nothing.
    Check {
        /// Who asks.
        ticket: Ticket,
        /// What.
        commit: Box<Commit>,
    },
    /// Do several commits, one after the other; each is done whole or refused, and has its own answer.
    Many {
        /// Who asks.
        ticket: Ticket,
        /// What, in this order.
        commits: Vec<Commit>,
    },
}
