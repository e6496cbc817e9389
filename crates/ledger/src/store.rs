//! Where records are kept.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::{
    AuditFilter, AuditPage, Begin, Decision, Ending, Filter, Finished, Identity, Lease, LedgerError, Moment,
    Page, Reacquire, Record, Resolve, Stats, Sweep, Swept,
};

/// An answer that is on its way.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, LedgerError>> + Send + 'a>>;

/// What a cache has to know about a record whose outcome was given out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The version of the recipe of the record's own hash.
    pub hash_version: u16,
    /// The record's own hash, without its version. The asker may have brought several, of which one matched.
    pub hash: String,
    /// How long the record will still count, by the store's clock at the moment of the decision.
    pub remains: Duration,
}

/// A call whose answer was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// What it wanted to run.
    pub identity: Identity,
    /// Its name, which no other call has.
    pub call: String,
    /// Who made it.
    pub owner: Option<String>,
}

/// Where records are kept. A store tells the rules (`driftq_rules`) how a record stands now, by its own clock,
/// and does what they answer; it decides nothing itself. The suite in `conformance` says what that amounts to.
///
/// Every call is safe to repeat with the same arguments. What is handed over was checked by the
/// [`Ledger`](crate::Ledger).
pub trait Store: Send + Sync + 'static {
    /// A word for logs and counters.
    fn name(&self) -> &'static str;

    /// A caller wants to run an effect. A store that can wait for another holder that runs it may do so, for
    /// `asked.wait` at the most; one that cannot answers at once.
    fn begin<'a>(&'a self, asked: &'a Begin) -> Pending<'a, Decision>;

    /// As `begin`; and if the answer is a replay, what a cache has to know about the record. A store that cannot say
    /// answers `None`, and its replays are not cached.
    fn begin_kept<'a>(&'a self, asked: &'a Begin) -> Pending<'a, (Decision, Option<Kept>)> {
        Box::pin(async move { Ok((self.begin(asked).await?, None)) })
    }

    /// Takes on what failed and may be tried again: as `begin` with `reacquire`, but `NotFound` if there is no record
    /// and `Exhausted` if no attempt is left.
    fn reacquire<'a>(&'a self, asked: &'a Reacquire) -> Pending<'a, Decision>;

    /// The holder of a lease says how it ended.
    fn finish<'a>(&'a self, lease: &'a Lease, ending: &'a Ending) -> Pending<'a, Finished>;

    /// The holder of a lease goes on for `lasts` from now; never shortens it. Returns when it lapses.
    fn renew<'a>(&'a self, lease: &'a Lease, lasts: Duration) -> Pending<'a, Moment>;

    /// The holder of a lease gives it up: nothing was done under it. If it is the first of its record, the record goes,
    /// and the key is as if it had never been used. Otherwise the record says that it failed and may be tried again, and
    /// so does a store that cannot forget a record.
    fn release<'a>(&'a self, lease: &'a Lease) -> Pending<'a, Finished> {
        Box::pin(async move { self.finish(lease, &Ending::given_up()).await })
    }

    /// An operator has found out how it ended.
    fn resolve<'a>(&'a self, found: &'a Resolve) -> Pending<'a, Finished>;

    /// One record, if there is one that counts.
    fn get<'a>(&'a self, identity: &'a Identity) -> Pending<'a, Option<Record>>;

    /// Some records.
    fn list<'a>(&'a self, filter: &'a Filter) -> Pending<'a, Page>;

    /// Removes some of what is over, and writes down what has become unknown.
    fn sweep(&self, sweep: Sweep) -> Pending<'_, Swept>;

    /// How many records there are.
    fn stats(&self) -> Pending<'_, Stats>;

    /// The answer to a call that wanted to run an effect was lost, and its caller does not run it: if the call got a lease
    /// that is still the newest, gives it back, under a new epoch, so that the next caller may run the effect and an
    /// operator may resolve it at once. Whether there was such a lease. A store that cannot leaves it to lapse.
    fn give_back<'a>(&'a self, _lost: &'a Lost) -> Pending<'a, bool> {
        let why = format!("the store {} cannot give a lease back", self.name());
        Box::pin(async move { Err(LedgerError::Unsupported(why)) })
    }

    /// What became of records that did not just begin and end, oldest first. A store that does not keep it says so.
    fn audit<'a>(&'a self, _filter: &'a AuditFilter) -> Pending<'a, AuditPage> {
        let why = format!("the store {} keeps no audit", self.name());
        Box::pin(async move { Err(LedgerError::Unsupported(why)) })
    }
}
