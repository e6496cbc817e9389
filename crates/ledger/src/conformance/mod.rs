//! What every store must do, as tests for yours.
//!
//! Implement [`Harness`] for your store and write, in a test of your own:
//!
//! ```ignore
//! async fn harness() -> MyHarness { … }
//! driftq_ledger::conformance_suite!(harness);
//! ```
//!
//! That makes one `#[tokio::test]` of each case, every one with a harness of its own. The cases take names of their own
//! for what they begin, so they may share a store. A store whose time can only be waited for is as welcome as one whose
//! clock can be set: nothing here says that a lease of [`Harness::brief`] is still live.

pub mod audit;
pub mod begin;
pub mod bounds;
pub mod cap;
pub mod clocks;
pub mod crowd;
pub mod decisions;
pub mod expiry;
pub mod finish;
pub mod identity;
pub mod kit;
pub mod lapse;
pub mod listing;
pub mod release;
pub mod renew;
pub mod resolve;
pub mod staged;
pub mod sweeping;
pub mod waiting;

mod suite;

pub use staged::{Made, Move};
pub use suite::CASES;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::{Identity, Ledger};

/// Time that passes.
pub type Passing<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Two moves that are made, and what comes of them.
pub type Staging<'a> = Pin<Box<dyn Future<Output = (Made, Made)> + Send + 'a>>;

/// A store to be tested, and its time.
pub trait Harness: Send + Sync {
    /// A ledger on the store.
    fn ledger(&self) -> &Ledger;

    /// A time for leases and records that the suite lets pass.
    fn brief(&self) -> Duration;

    /// Returns when the newest lease of this effect, which was taken for `brief`, has lapsed by the store's clock.
    fn elapse<'a>(&'a self, identity: &'a Identity) -> Passing<'a>;

    /// Returns when the time of this record, whose ttl is `brief`, is over by the store's clock. If it is in progress,
    /// its lease was for `brief`, too.
    fn expire<'a>(&'a self, identity: &'a Identity) -> Passing<'a>;

    /// Makes both moves, `first` between the moment at which `late` looks at the record and the one at which it writes. A
    /// store whose calls are one step each makes them one after the other.
    fn staged<'a>(&'a self, _: &'a Identity, first: Move, late: Move) -> Staging<'a> {
        Box::pin(async move {
            let first = first.make(self.ledger()).await;
            (first, late.make(self.ledger()).await)
        })
    }

    /// Whether nothing but the case writes to the store, so that counts can be compared exactly.
    fn is_alone(&self) -> bool {
        false
    }
}
