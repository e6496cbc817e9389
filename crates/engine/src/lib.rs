//! Threads, time and disks around the pure core.
//!
//! A [`Broker`] is one shard at work. Its *decide thread* owns the [`driftq_core::Shard`], stamps the time on every
//! input and does what the shard asks for; its *log thread* writes batches while the next one fills; its *keeper*
//! has segments ready, makes snapshots and gives space back; its *dead-letter writer* writes dead letters. Tasks of the edge
//! hold handles and streams.
//!
//! Invariants that the whole crate leans on:
//! - Nothing is decided here. Every choice about messages, leases and limits is the core's; this crate obeys.
//! - Everything that can wait is bounded by a limit with a name, and what cannot be refused is bounded where it is
//!   made (`inbox::Notice`).
//! - A payload is checked against its checksum whenever it is read, wherever it was read from.
//! - After a failure of the log or a broken assertion, the state in memory is thrown away and rebuilt from the log;
//!   after another one has claimed the log, it is thrown away for good.
//! - Nothing here knows HTTP.

mod audit;
mod broker;
mod browse;
mod cache;
mod clock;
pub mod cluster;
mod commit_across;
mod commits;
mod config;
mod counters;
mod credentials;
mod dead_letter_writer;
mod dead_letters;
mod decide;
mod definitions;
mod effect_begin;
mod effect_request;
mod effects;
mod entities;
mod failure;
mod forwarder;
mod house;
mod inbox;
mod jobs;
mod keeper;
mod keeper_signal;
pub mod key_text;
mod keys;
mod leases;
mod locks;
pub mod log;
mod log_writer;
mod memory;
mod meter;
mod payload_store;
mod produce;
mod recover;
mod relocate;
mod request;
pub mod router;
mod routing;
mod runs;
mod scrape;
mod seal;
mod shared;
mod start;
mod status;
mod stream;
mod supervise;
mod tenants;
mod ticket;
pub mod tools;
mod topics;
pub mod transfer;
mod words;

pub use driftq_core as core;

pub use broker::Broker;
pub use commits::{CommitCall, Committed, CutOver};
pub use config::{Config, Storage, WriteMode};
pub use counters::Counters;
#[doc(hidden)]
pub use credentials::{LeasedMessage, PublicKey, named_receipt, receipt_named};
pub use dead_letters::cause_of;
pub use effect_request::{Begun, EffectCall, EffectEnd, EffectEnded, EffectFilter, EffectSight, SeenEffect};
pub use failure::{Failure, StartError};
pub use keys::{HeldKey, KeyRing};
pub use leases::Lent;
pub use meter::{Meter, OpenWait, UsedUp};
pub use request::{
    AckRequest, BorrowRequest, ConsumeRequest, Draft, Glance, Job, JobCall, JobKind, JobState, LeaseCall,
    LetterFilter, Produced, Recovery, Seen, Sight, TopicReady,
};
pub use runs::{RunSight, SeenEntry};
pub use seal::resealed;
pub use start::Started;
pub use status::Status;
pub use stream::{Delivered, Stream};
