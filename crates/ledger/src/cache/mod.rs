//! Replays without asking the store, as long as that cannot change an answer.
//!
//! What succeeded or failed for good stays what it is while its record is kept, so it can be told from a copy.
//! [`Cached`] does that over any store: it remembers final outcomes for a while, in this process ([`MemoryCache`]) or
//! in Redis ([`redis::RedisCache`]), and asks the store about everything else.
//!
//! A cache is only a cache:
//! - It is never asked whether something may run. It can say `Replay`, and nothing else; a key that was used for
//!   another request is the store's to refuse.
//! - It may lose what it was told, at any moment, or be gone for good. Then the store is asked, as without it.
//! - A copy ends before its record does: its time is counted from before the store was asked, with a margin, by two
//!   clocks of this machine of which the stricter one counts. A record that is removed by hand is forgotten by every
//!   cache within [`Bounds::lives_max`].
//! - A copy that cannot be read, or is about something else, does not count.

mod cached;
mod clock;
mod counts;
mod entry;
mod memory;
#[cfg(feature = "redis")]
pub mod redis;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use thiserror::Error;

use crate::Identity;

pub use cached::{Bounds, Cached};
pub use clock::{Clock, Reading};
pub use counts::Counts;
pub use entry::Entry;
pub use memory::{BYTES_DEFAULT, ENTRIES_DEFAULT, MemoryCache};

/// What a cache answers, when it answers.
pub type Fetching<'a, T> = Pin<Box<dyn Future<Output = Result<T, CacheError>> + Send + 'a>>;

/// Keeps copies of final outcomes, for as long as it likes but no longer than they live. Nothing it says is trusted
/// further than [`Cached`] can check it.
pub trait Cache: Send + Sync + 'static {
    /// A word for logs and counters.
    fn name(&self) -> &'static str;

    /// The copy for this identity, if there is one.
    fn get<'a>(&'a self, identity: &'a Identity) -> Fetching<'a, Option<Arc<Entry>>>;

    /// Keeps a copy until [`Entry::until`] at the longest.
    fn put<'a>(&'a self, entry: &'a Arc<Entry>) -> Fetching<'a, ()>;
}

/// Why a cache did not answer. The store is asked instead.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct CacheError(pub String);
