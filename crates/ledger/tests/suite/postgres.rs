//! What every store must do, on real PostgreSQL.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::support::Bed;
use driftq_ledger::conformance::{Harness, Made, Move, Staging};
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

    /// A transaction has the record from before the late call looks at it until after the first one has written.
    fn staged<'a>(&'a self, identity: &'a Identity, first: Move, late: Move) -> Staging<'a> {
        Box::pin(async move {
            let mut client = self.bed.store.pool().get().await.unwrap();
            let transaction = client.transaction().await.unwrap();
            let lock = format!(
                "SELECT 1 FROM {} WHERE principal = $1 AND grpc_method = $2 AND idempotency_key = $3 FOR UPDATE",
                self.bed.table()
            );
            let (principal, method, key) = (identity.principal(), identity.method(), identity.key());
            let is_there = !transaction.query(&lock, &[&principal, &method, &key]).await.unwrap().is_empty();
            let store = &self.bed.store;
            let make = async |first: Move| match first {
                Move::Begin(asked) => Made::Begun(store.begin_tx(&transaction, &asked).await),
                Move::Finish(lease, ending) => {
                    Made::Finished(store.finish_tx(&transaction, &lease, &ending).await)
                }
                Move::Resolve(found) => Made::Finished(store.resolve_tx(&transaction, &found).await),
                Move::Renew(..) => panic!("no renewal joins a transaction"),
            };
            // What is not there cannot be held: it is the new record that the late one has to wait for.
            let made = if is_there { None } else { Some(make(first.clone()).await) };
            let ledger = self.ledger.clone();
            let late = tokio::spawn(async move { late.make(&ledger).await });
            self.bed.until_one_waits().await;
            let made = match made {
                Some(made) => made,
                None => make(first).await,
            };
            transaction.commit().await.unwrap();
            (made, late.await.unwrap())
        })
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
