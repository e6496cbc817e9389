//! The brain hook: a program outside says what a message is and where it should go.
//!
//! A [`Router`] is asked during produce, before anything is remembered and outside the shard. It may be slow, wrong,
//! loud or dead, so it is never called directly: a [`RouterHook`] holds it at arm's length.
//!
//! Invariants of this module:
//! - A caller of [`RouterHook::route`] has an answer after the time-out at the latest, however many messages it
//!   brought and whatever the router does, short of blocking the thread that asks it.
//! - What a router says is checked before it is acted on; text beyond a named bound never leaves this module.
//! - A router that keeps failing is left alone for a while (the breaker), and everything it did is counted.
//! - Nothing here decides about messages beyond the word of the router and the configured policy.

mod breaker;
mod cache;
mod check;
mod counts;
mod hook;
mod opinion;
mod rules;
mod scope;

use std::future::Future;
use std::pin::Pin;

use driftq_core::Message;

pub use breaker::{BreakerConfig, BreakerState};
pub use cache::{BASES_MAX, CACHE_BYTES_MAX, CACHE_TTL_MAX, DIGESTED_BYTES_MAX};
pub use check::{LABEL_BYTES_MAX, META_NAME_BYTES_MAX, META_PAIRS_MAX, META_VALUE_BYTES_MAX};
pub use counts::{LABELS_COUNTED_MAX, OTHER_LABEL, RouterCounts};
pub use hook::{
    CALL_BYTES_MAX, CALL_MESSAGES_MAX, HookConfig, OnError, PartitionsOf, Refusal, RouterHook, Ruling,
};
pub use opinion::{CacheHint, Decision, Opinion, PARTS_MAX, Part};
pub use rules::{RULES_MAX, RulesError, RulesRouter, VALUE_BYTES_MAX};
pub use scope::{Scope, TopicPattern};

/// What a router's answer looks like while it is on its way: one opinion per message, in their order.
pub type Asked<'a> = Pin<Box<dyn Future<Output = Result<Vec<Opinion>, AskError>> + Send + 'a>>;

/// Why a router gave no answer that could be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// It could not be reached, broke off, or said itself that it failed.
    #[error("the router failed: {0}")]
    Failed(String),
    /// It answered, and the answer makes no sense.
    #[error("the router answered nonsense: {0}")]
    Nonsense(String),
}

/// Says what messages are and where they should go.
///
/// Implementations need no time-outs, limits or checks of their own: [`RouterHook`] has them. They must not block
/// the thread: work that takes long belongs on a thread of its own.
pub trait Router: Send + Sync + 'static {
    /// What to do with messages that a producer sent to `topic`. At least one message, at most
    /// [`Router::batch_max`] of a moment ago. The future may be dropped at any time.
    fn ask<'a>(&'a self, topic: &'a str, messages: &'a [&'a Message<'a>]) -> Asked<'a>;

    /// How many messages it takes in one call. May change: it is read before every call.
    fn batch_max(&self) -> usize {
        1
    }

    /// Whether its answers come from outside this process. For display only.
    fn is_remote(&self) -> bool {
        false
    }
}
