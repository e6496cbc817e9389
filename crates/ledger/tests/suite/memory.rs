//! The store in memory does what every store must do.

use std::sync::Arc;
use std::time::Duration;

use driftq_ledger::conformance::{Harness, Passing};
use driftq_ledger::memory::{Clock as _, ManualClock, MemoryStore};
use driftq_ledger::{Identity, Ledger};

/// A store whose clock moves only when somebody moves it.
struct Memory {
    ledger: Ledger,
    clock: Arc<ManualClock>,
}

impl Harness for Memory {
    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn brief(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn elapse<'a>(&'a self, identity: &'a Identity) -> Passing<'a> {
        Box::pin(async move {
            let record = self.ledger.get(identity).await.expect("get answers");
            // To the microsecond: a lease is over at its end, not after it.
            let until = record.and_then(|record| record.lease_expires_at).expect("there is a lease");
            self.clock.set(until.max(self.clock.now()));
        })
    }

    fn expire<'a>(&'a self, identity: &'a Identity) -> Passing<'a> {
        Box::pin(async move {
            for _ in 0..3 {
                let record = self.ledger.get(identity).await.expect("get answers");
                let Some(record) = record else { return };
                let until = record.expires_at.or(record.lease_expires_at).expect("it comes to an end");
                self.clock.set(until.max(self.clock.now()));
            }
            panic!("the record of {identity} does not come to an end");
        })
    }

    fn is_alone(&self) -> bool {
        true
    }
}

async fn harness() -> Memory {
    let clock = Arc::new(ManualClock::default());
    let ledger = Ledger::new(MemoryStore::with_clock(Arc::clone(&clock) as _));
    Memory { ledger, clock }
}

driftq_ledger::conformance_suite!(harness);
