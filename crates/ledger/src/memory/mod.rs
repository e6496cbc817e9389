//! Records in the memory of this process: for tests, and for a service that is one process and may forget everything
//! when it restarts. It is the reference for what the other stores do.

mod audit;
mod clock;
mod entry;
mod table;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use driftq_rules::{self as rules, Begun, Released, Resolved};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use clock::SystemClock;
pub use clock::{Clock, ManualClock};
use entry::{Entry, Lent};
use table::Table;

use crate::asker::Asker;
use crate::lease::EPOCH_FIRST;
use crate::{
    AuditFilter, AuditPage, Begin, Decision, Ending, Filter, Finished, Identity, Kept, Lease, LedgerError,
    Lost, Moment, Page, Pending, Proof, Reacquire, Record, Resolve, Stats, Status, Store, Sweep, Swept,
};

/// Most records kept, unless [`MemoryStore::records_max`] says otherwise.
pub const RECORDS_MAX: usize = 100_000;

/// A caller that is told that an effect runs is told to come again no sooner than this.
const RETRY_AFTER_MIN: Duration = Duration::from_millis(1);

/// Records in memory. Cheap to clone; every clone is the same store.
#[derive(Clone)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    /// One lock for all: nothing is done under it but looking up and writing down.
    table: Arc<Mutex<Table>>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

/// What becomes of a begin.
enum Turn {
    /// The answer, and what a cache has to know if it is a replay.
    Told(Decision, Option<Kept>),
    /// A holder runs it: wait until then at the most, unless the record changes before.
    Waits { until: Moment, changed: watch::Receiver<()> },
}

impl MemoryStore {
    /// By the system's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock::new()))
    }

    /// By another clock.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { clock, table: Arc::new(Mutex::new(Table::new(RECORDS_MAX))) }
    }

    /// Keeps at most this many records; of those that are over, some make room for a new one.
    #[must_use]
    pub fn records_max(self, records_max: usize) -> Self {
        self.open().0.records_max = records_max;
        self
    }

    /// The records, and what time it is.
    fn open(&self) -> (MutexGuard<'_, Table>, Moment) {
        let clock = self.clock.now();
        // No code that can panic leaves a record half written: what a panicking thread has left is consistent.
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let now = table.time(clock);
        (table, now)
    }

    fn decide(&self, asker: &Asker<'_>, may_wait: bool) -> Result<Turn, LedgerError> {
        let (mut table, now) = self.open();
        let known = table.get(asker.identity);
        let standing = known.map(|entry| entry.standing(now));
        let begun = rules::begin(standing.as_ref(), asker.asked(known.map(Entry::compared).as_ref()));
        let kept = known.filter(|_| begun == Begun::Replay).and_then(|entry| entry.kept(now));
        match (begun, known) {
            (Begun::First, _) => first(&mut table, asker, now).map(|told| Turn::Told(told, None)),
            (Begun::Conflict, Some(entry)) => {
                Err(LedgerError::Conflict(asker.other_recipe(&entry.compared())))
            }
            (Begun::Exhausted, Some(entry)) => Err(LedgerError::Exhausted { attempts: entry.attempts }),
            (Begun::Running, Some(entry)) if may_wait => {
                let until = entry.lease_expires_at;
                let changed = table.watch(asker.identity).ok_or(LedgerError::NotFound)?;
                Ok(Turn::Waits { until, changed })
            }
            (begun, _) => {
                let told = tell(&mut table, asker, begun, now).ok_or(LedgerError::NotFound)?;
                Ok(Turn::Told(told, kept))
            }
        }
    }

    async fn begin_or_wait(&self, asked: &Begin) -> Result<(Decision, Option<Kept>), LedgerError> {
        let until = Instant::now() + asked.wait;
        loop {
            let may_wait = Instant::now() < until;
            let (lapses, mut changed) = match self.decide(&asked.into(), may_wait)? {
                Turn::Told(decision, kept) => return Ok((decision, kept)),
                Turn::Waits { until, changed } => (until, changed),
            };
            let something_happens = async {
                tokio::select! {
                    // It closes when the record changes or goes.
                    _ = changed.changed() => {}
                    () = self.clock.reached(lapses) => {}
                }
            };
            // Whether or not anything happened, the next look finds out.
            let _ = timeout_at(until, something_happens).await;
        }
    }

    fn reacquire_now(&self, asked: &Reacquire) -> Result<Decision, LedgerError> {
        let asker = Asker::from(asked);
        let (mut table, now) = self.open();
        let known = table.get(asker.identity);
        let standing = known.map(|entry| entry.standing(now));
        let Some(entry) = known else { return Err(LedgerError::NotFound) };
        match rules::begin(standing.as_ref(), asker.asked(known.map(Entry::compared).as_ref())) {
            Begun::First => Err(LedgerError::NotFound),
            Begun::Conflict => Err(LedgerError::Conflict(asker.other_recipe(&entry.compared()))),
            Begun::Exhausted | Begun::Retryable { left: Some(0) } => {
                Err(LedgerError::Exhausted { attempts: entry.attempts })
            }
            begun => tell(&mut table, &asker, begun, now).ok_or(LedgerError::NotFound),
        }
    }

    fn finish_now(&self, lease: &Lease, ending: &Ending) -> Result<Finished, LedgerError> {
        let (mut table, now) = self.open();
        let known = held(&table, lease);
        let standing = known.map(|entry| entry.standing(now));
        let same = known.is_some_and(|entry| entry.holds(ending, None));
        match rules::finish(standing.as_ref(), lease.epoch, false, same) {
            rules::Finished::Commit => {
                table.change(&lease.identity, |entry| entry.end(ending, None, now));
                Ok(Finished::Committed)
            }
            rules::Finished::Already => Ok(Finished::AlreadyCommitted),
            rules::Finished::Stale => Err(stale(known, lease)),
        }
    }

    fn release_now(&self, lease: &Lease) -> Result<Finished, LedgerError> {
        let (mut table, now) = self.open();
        let Some(known) = held(&table, lease) else { return Ok(Finished::AlreadyCommitted) };
        match rules::release(Some(&known.standing(now)), lease.epoch, false) {
            Released::Commit { .. } if lease.epoch == EPOCH_FIRST => {
                table.remove(&lease.identity);
                Ok(Finished::Committed)
            }
            Released::Commit { .. } => {
                table.change(&lease.identity, |entry| entry.end(&Ending::given_up(), None, now));
                Ok(Finished::Committed)
            }
            Released::Already | Released::Stale
                if known.epoch == lease.epoch && known.holds(&Ending::given_up(), None) =>
            {
                Ok(Finished::AlreadyCommitted)
            }
            Released::Already | Released::Stale => Err(stale(Some(known), lease)),
        }
    }

    fn renew_now(&self, lease: &Lease, lasts: Duration) -> Result<Moment, LedgerError> {
        let (mut table, now) = self.open();
        let known = held(&table, lease);
        let standing = known.map(|entry| entry.standing(now));
        if !rules::renew(standing.as_ref(), lease.epoch, false) {
            return Err(stale(known, lease));
        }
        let renewed = table.change(&lease.identity, |entry| entry.renew(lasts, now));
        renewed.map(|entry| entry.lease_expires_at).ok_or(LedgerError::NotFound)
    }

    fn give_back_now(&self, lost: &Lost) -> bool {
        let (mut table, now) = self.open();
        let Some(entry) = table.get(&lost.identity) else { return false };
        if entry.call.as_deref() != Some(&lost.call) || entry.owner != lost.owner {
            return false;
        }
        match rules::release(Some(&entry.standing(now)), entry.epoch, false) {
            Released::Commit { epoch } => {
                table.change(&lost.identity, |entry| entry.release(epoch, now)).is_some()
            }
            Released::Already | Released::Stale => false,
        }
    }

    fn resolve_now(&self, found: &Resolve) -> Result<Finished, LedgerError> {
        let (mut table, now) = self.open();
        let known = table.get(&found.identity);
        let standing = known.map(|entry| entry.standing(now));
        let same = known.is_some_and(|entry| entry.holds(&found.ending, Some(&found.resolver)));
        match rules::resolve(standing.as_ref(), found.epoch, same) {
            Resolved::Commit { epoch } => {
                table.change(&found.identity, |entry| {
                    entry.epoch = epoch;
                    entry.ttl = found.ttl;
                    // An operator has decided that it may run once more.
                    if found.ending.end == crate::End::FailedRetryable {
                        let granted = entry.attempts.saturating_add(1);
                        entry.attempts_max = entry.attempts_max.map(|most| most.max(granted));
                    }
                    entry.end(&found.ending, Some(found.resolver.clone()), now);
                });
                Ok(Finished::Committed)
            }
            Resolved::Already => Ok(Finished::AlreadyCommitted),
            Resolved::Nothing => Err(LedgerError::NotFound),
            Resolved::Running => Err(LedgerError::Running),
            Resolved::Final => Err(LedgerError::Final),
            Resolved::Stale => {
                let epoch = known.map_or(0, |entry| entry.epoch);
                Err(LedgerError::Stale(format!("the newest epoch is {epoch}")))
            }
        }
    }
}

/// Begins a record.
fn first(table: &mut Table, asker: &Asker<'_>, now: Moment) -> Result<Decision, LedgerError> {
    // Only a begin gets here, and it says what it asks for.
    let hash = asker.hash.ok_or(LedgerError::NotFound)?;
    let lent = Lent::of(asker, 1, 1);
    let entry = table
        .add(asker.identity, now, |number| Entry::new(number, asker.identity.clone(), hash, &lent, now))?;
    Ok(Decision::Execute(entry.lease()))
}

/// Does what was decided about a record that exists, and says so. `None` if there is no such record.
fn tell(table: &mut Table, asker: &Asker<'_>, begun: Begun, now: Moment) -> Option<Decision> {
    let identity = asker.identity;
    Some(match begun {
        Begun::TakeOver { epoch, attempt } => {
            let lent = Lent::of(asker, epoch, attempt);
            Decision::Execute(table.change(identity, |entry| entry.lend(&lent, now))?.lease())
        }
        Begun::Again | Begun::First => Decision::Execute(table.get(identity)?.lease()),
        Begun::Replay => Decision::Replay(table.get(identity)?.outcome.clone()?),
        Begun::Running => {
            let entry = table.get(identity)?;
            Decision::InProgress {
                retry_after: entry.lease_expires_at.since(now).max(RETRY_AFTER_MIN),
                epoch: entry.epoch,
                attempt: entry.attempts,
            }
        }
        Begun::Retryable { left } => {
            Decision::Retryable { outcome: table.get(identity)?.outcome.clone()?, attempts_left: left }
        }
        Begun::Exhausted | Begun::Conflict => return None,
        Begun::Unknown => {
            // A caller that is told so may rely on it: it holds for every caller from now on.
            if table.get(identity)?.status == Status::InProgress {
                table.change(identity, |entry| entry.hold(now));
            }
            let entry = table.get(identity)?;
            Decision::Unknown { epoch: entry.epoch, attempt: entry.attempts, since: entry.unknown_since() }
        }
    })
}

/// The record that a lease is about; not one that was begun anew since.
fn held<'a>(table: &'a Table, lease: &Lease) -> Option<&'a Entry> {
    table.get(&lease.identity).filter(|entry| lease.proof == Proof::Record(entry.number))
}

/// Why a lease has no say any more.
fn stale(known: Option<&Entry>, lease: &Lease) -> LedgerError {
    LedgerError::Stale(match known {
        None => "its record is gone, or was begun anew".to_owned(),
        Some(entry) if entry.epoch != lease.epoch => {
            format!("it has epoch {}, the newest is {}", lease.epoch, entry.epoch)
        }
        Some(_) => "it ended the effect before with another outcome; the first one stays".to_owned(),
    })
}

impl Store for MemoryStore {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn begin<'a>(&'a self, asked: &'a Begin) -> Pending<'a, Decision> {
        Box::pin(async move { Ok(self.begin_or_wait(asked).await?.0) })
    }

    fn begin_kept<'a>(&'a self, asked: &'a Begin) -> Pending<'a, (Decision, Option<Kept>)> {
        Box::pin(self.begin_or_wait(asked))
    }

    fn reacquire<'a>(&'a self, asked: &'a Reacquire) -> Pending<'a, Decision> {
        Box::pin(async move { self.reacquire_now(asked) })
    }

    fn finish<'a>(&'a self, lease: &'a Lease, ending: &'a Ending) -> Pending<'a, Finished> {
        Box::pin(async move { self.finish_now(lease, ending) })
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> Pending<'a, Finished> {
        Box::pin(async move { self.release_now(lease) })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, lasts: Duration) -> Pending<'a, Moment> {
        Box::pin(async move { self.renew_now(lease, lasts) })
    }

    fn resolve<'a>(&'a self, found: &'a Resolve) -> Pending<'a, Finished> {
        Box::pin(async move { self.resolve_now(found) })
    }

    fn get<'a>(&'a self, identity: &'a Identity) -> Pending<'a, Option<Record>> {
        Box::pin(async move {
            let (table, now) = self.open();
            let entry = table.get(identity).filter(|entry| !entry.standing(now).is_over());
            Ok(entry.map(|entry| entry.view(now)))
        })
    }

    fn list<'a>(&'a self, filter: &'a Filter) -> Pending<'a, Page> {
        Box::pin(async move {
            let (table, now) = self.open();
            table.page(filter, now)
        })
    }

    fn sweep(&self, sweep: Sweep) -> Pending<'_, Swept> {
        Box::pin(async move {
            let (mut table, now) = self.open();
            Ok(table.sweep(sweep, now))
        })
    }

    fn stats(&self) -> Pending<'_, Stats> {
        Box::pin(async move {
            let (table, now) = self.open();
            Ok(table.stats(now))
        })
    }

    fn give_back<'a>(&'a self, lost: &'a Lost) -> Pending<'a, bool> {
        Box::pin(async move { Ok(self.give_back_now(lost)) })
    }

    fn audit<'a>(&'a self, filter: &'a AuditFilter) -> Pending<'a, AuditPage> {
        Box::pin(async move { self.open().0.audit.page(filter) })
    }
}
