//! What a deployment does to a table under a service that runs, and to releases of it that run beside each other.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use crate::support::{BRIEF, Bed, ask, identity, lease};
use driftq_ledger::postgres::Statements;
use driftq_ledger::{Decision, Ending, Finished, Ledger, OnLapse, Response, Terms};

fn done() -> Ending {
    Ending::succeeded(Response::new("paid").code(200))
}

/// Every statement has run on the one connection that is used, when the table changes under it.
#[tokio::test]
async fn a_table_that_changes_under_prepared_statements_stops_nobody() {
    for change in [
        "ALTER TABLE {table} ADD COLUMN note text",
        "ALTER TABLE {table} ALTER COLUMN owner TYPE varchar(300)",
        "ALTER TABLE {table} DROP COLUMN IF EXISTS note, ADD COLUMN later bigint DEFAULT 7",
    ] {
        let bed = Bed::new().await;
        bed.psql("ALTER TABLE {table} ADD COLUMN IF NOT EXISTS note text");
        bed.psql(if change.contains("ADD COLUMN note") {
            "ALTER TABLE {table} DROP COLUMN note"
        } else {
            ""
        });
        let ledger = Ledger::new(bed.store.clone().statements(Statements::Prepared));
        let may_repeat =
            |key: &str| ask(key).terms(Terms::default().lease(BRIEF).ttl(BRIEF).on_lapse(OnLapse::Retry));
        let held = lease(&ledger, may_repeat("k")).await;
        ledger.renew(&held, BRIEF).await.unwrap();
        ledger.get(&identity("k")).await.unwrap();
        lease(&ledger, may_repeat("lapsed")).await;
        bed.elapse(&identity("lapsed")).await;
        lease(&ledger, may_repeat("lapsed")).await;
        assert_eq!(bed.store.pool().status().size, 1, "one connection has prepared it all");

        bed.psql(change);

        ledger.renew(&held, BRIEF).await.unwrap();
        assert!(matches!(ledger.begin(may_repeat("k")).await.unwrap(), Decision::InProgress { .. }));
        bed.elapse(&identity("lapsed")).await;
        assert_eq!(lease(&ledger, may_repeat("lapsed")).await.epoch, 3);
        assert_eq!(ledger.get(&identity("k")).await.unwrap().unwrap().epoch, 1);
        assert_eq!(ledger.finish(&held, &done()).await.unwrap(), Finished::Committed);
    }
}

/// A pooler, or a service that shares its pool, may have thrown the statements away.
#[tokio::test]
async fn statements_that_are_gone_are_prepared_again() {
    let bed = Bed::new().await;
    let ledger = Ledger::new(bed.store.clone().statements(Statements::Prepared));
    let held = lease(&ledger, ask("k")).await;
    assert!(matches!(ledger.begin(ask("k")).await.unwrap(), Decision::InProgress { .. }));
    bed.store.pool().get().await.unwrap().batch_execute("DEALLOCATE ALL").await.unwrap();
    assert_eq!(bed.store.pool().status().size, 1);
    assert!(matches!(ledger.begin(ask("k")).await.unwrap(), Decision::InProgress { .. }));
    ledger.renew(&held, BRIEF).await.unwrap();
    assert_eq!(ledger.finish(&held, &done()).await.unwrap(), Finished::Committed);
}
