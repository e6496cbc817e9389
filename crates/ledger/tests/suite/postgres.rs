//! What every store must do, on real PostgreSQL.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::support::Bed;
use driftq_ledger::conformance::Harness;
use driftq_ledger::postgres::{PostgresStore, Statements};
use driftq_ledger::{Identity, Ledger};
use driftq_testbed::PgBouncer;

/// Shorter than what must not pass.
const BRIEF: Duration = Duration::from_secs(10);

/// Time passes when the suite says so: the database's clock is set forward.
struct Moved {
    bed: Bed,
    ledger: Ledger,
    /// Stopped when the test is over.
    _pooler: Option<PgBouncer>,
}

impl Harness for Moved {
    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn brief(&self) -> Duration {
        BRIEF
    }

    fn is_alone(&self) -> bool {
        true
    }

    fn elapse<'a>(&'a self, _: &'a Identity) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(self.bed.pass(BRIEF))
    }

    fn expire<'a>(&'a self, _: &'a Identity) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(self.bed.pass(BRIEF * 2))
    }
}

/// As a service has it without further ado.
mod direct {
    use super::*;

    async fn harness() -> Moved {
        let bed = Bed::with_clock().await;
        Moved { ledger: bed.ledger.clone(), bed, _pooler: None }
    }

    driftq_ledger::conformance_suite!(harness);
}

/// With statements that are prepared once per connection.
mod prepared {
    use super::*;

    async fn harness() -> Moved {
        let bed = Bed::with_clock().await;
        let ledger = Ledger::new(bed.store.clone().statements(Statements::Prepared));
        Moved { ledger, bed, _pooler: None }
    }

    driftq_ledger::conformance_suite!(harness);
}

/// Through a pooler that gives every transaction another session.
mod pooled {
    use super::*;

    async fn harness() -> Moved {
        let bed = Bed::with_clock().await;
        let pooler = PgBouncer::start(&bed.postgres).unwrap();
        let store = PostgresStore::connect(pooler.url()).unwrap().table(&bed.table()).unwrap();
        let store = store.clock(&format!("{}.clock", bed.schema)).unwrap();
        Moved { ledger: Ledger::new(store), bed, _pooler: Some(pooler) }
    }

    driftq_ledger::conformance_suite!(harness);
}
