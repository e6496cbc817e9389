//! Every decision of the broker, as a pure state machine.
//!
//! A [`Shard`] turns one [`Input`] and a [`Time`] into facts (remembered by the log) and [`Action`]s (done by
//! whoever runs the shard). It cannot name a clock, a socket, a file, a thread or a random number: the crate is
//! `no_std`, so the compiler reviews that for us.
//!
//! Invariants that the whole crate leans on:
//! - State changes only in [`State::apply`], live and in recovery alike. Deciding never touches it directly.
//! - Nothing leaves before it is durable: an [`Action`] that tells the outside about a fact is held in the shard
//!   until the log has confirmed the position under it.
//! - `now` never goes back.
//! - No payload bytes live in the state: a slot knows where its payload lies in the log.
//! - No hash map is ever iterated, so that equal inputs give equal bytes.
#![no_std]

extern crate alloc;

mod action;
mod beside;
mod bounds;
mod bury;
mod codec;
mod commit;
mod deadline;
mod describe;
mod dispatch;
mod draft;
mod effect;
mod entity;
mod fact;
mod fact_bytes;
mod fold;
mod gate;
mod group;
mod hold;
mod id;
mod input;
mod journal;
mod keep;
mod lane;
mod lease;
mod letter;
mod look;
mod manage;
mod message;
mod message_bytes;
mod origin;
mod output;
mod partition;
mod policy;
mod produce;
mod ranges;
mod reject;
mod report;
mod retry;
mod rewind;
mod route;
mod run;
mod schedule;
mod scoped;
mod settings;
mod settle;
mod shard;
mod slot;
mod snapshot;
mod sorted;
mod spent;
mod state;
mod survey;
mod timer;
mod topic;
mod unbegun;
mod upkeep;
mod verdict;
mod why;

pub use action::{Action, Answer, Delivery, Outcome, Output, Receipt, Stored, TopicInfo, Undertaking};
pub use bounds::{INPUT_BYTES_MAX, INPUT_FACTS_BYTES_MAX, INPUT_ITEMS_MAX};
pub use bury::PAYLOAD_DAMAGED;
pub use codec::Malformed;
pub use commit::{
    COMMIT_PARTS_PER_CALL_MAX, COMMITS_PER_CALL_MAX, Commit, CommitFact, CommitPart, Committed,
};
pub use describe::{
    AttemptDescription, Browse, Description, Found, GroupDescription, GroupPartition, GroupTally, LaneTally,
    Member, MessageDescription, PartitionDescription, Query, SlowestGroup, Stage, Standing, Stretch, Tally,
    TopicDescription, Wait,
};
pub use draft::{NewLineage, NewMessage, Payload, Start};
pub use effect::{
    About, BeginEffect, BegunFact, Blob, EFFECTS_PER_CALL_MAX, EffectAnswer, EffectFact, EffectLease,
    EffectList, EffectPage, EffectPart, EffectReceipt, EffectTally, EffectView, EndedFact, Ending,
    FinishEffect, Lent, NewBlob, ResolveEffect, Urge, rules as ledger,
};
pub use entity::{EXPECTED_MAX, EntityFact, EntityList, EntityView, Expected};
pub use fact::{Fact, MessageFact, Place};
pub use id::{ConsumerId, GroupId, Identity, KeyHash, Position, RequestHash, Ticket, Time, Token, TopicId};
pub use input::{Address, Input, LeaseRequest, SeekTo, Settlement, Spotted, Style, Subscription, Verdict};
pub use lease::{LEASE_BYTES_MAX, LEASE_MESSAGES_MAX, LEASE_WAIT_MS_MAX};
pub use letter::{Attempt, DeadLetter};
pub use message::{Deadline, Envelope, Message, Routing};
pub use origin::Origin;
pub use output::{
    DatasetSummary, DatasetView, NewOutput, OUTPUT_LOCATION_BYTES_MAX, OutputAuthor, OutputDone, OutputFact,
    OutputList, OutputPage, OutputView, Read, VersionSummary, VersionsList,
};
pub use policy::{Jitter, RetryPolicy};
pub use produce::PRIORITY_MAX;
pub use reject::{Overload, Reject};
pub use route::{Catalog, Keyless, NAME_BYTES_MAX, partition_of_key, route, validate};
pub use run::{
    How, Lineage, RunEntry, RunFact, RunGroup, RunList, RunMessage, RunPage, RunState, RunSummary,
};
pub use scoped::Named;
pub use settings::Settings;
pub use shard::Shard;
pub use state::State;
pub use survey::{Pinned, PinnedEffect};
pub use topic::{Order, TopicPatch, TopicSettings};
