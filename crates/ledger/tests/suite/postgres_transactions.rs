//! The business write and the outcome in one transaction.

use crate::support::{BRIEF, Bed, ask, identity, lease};
use driftq_ledger::postgres::Statements;
use driftq_ledger::{
    Decision, Ending, Finished, Ledger, LedgerError, OnLapse, Response, Settings, Status, Terms,
};

fn done() -> Ending {
    Ending::succeeded(Response::new("paid").code(200))
}

async fn with_charges() -> Bed {
    let bed = Bed::new().await;
    bed.psql(&format!("CREATE TABLE {}.charges (key text)", bed.schema));
    bed
}

fn charge(bed: &Bed) -> String {
    format!("INSERT INTO {}.charges VALUES ('k')", bed.schema)
}

fn charges(bed: &Bed) -> String {
    bed.psql(&format!("SELECT count(*) FROM {}.charges", bed.schema))
}

#[tokio::test]
async fn a_write_and_its_outcome_are_there_together() {
    let bed = with_charges().await;
    let held = lease(&bed.ledger, ask("k")).await;
    let mut client = bed.store.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute(&charge(&bed)).await.unwrap();
    assert_eq!(bed.store.finish_tx(&transaction, &held, &done()).await.unwrap(), Finished::Committed);
    // Nobody sees either before the commit, and nobody has to wait for it.
    assert!(matches!(bed.ledger.begin(ask("k")).await.unwrap(), Decision::InProgress { .. }));
    assert_eq!(charges(&bed), "0");
    transaction.commit().await.unwrap();
    assert!(matches!(bed.ledger.begin(ask("k")).await.unwrap(), Decision::Replay(_)));
    assert_eq!(charges(&bed), "1");
}

#[tokio::test]
async fn what_is_rolled_back_has_no_outcome() {
    let bed = with_charges().await;
    let held = lease(&bed.ledger, ask("k")).await;
    let mut client = bed.store.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute(&charge(&bed)).await.unwrap();
    assert_eq!(bed.store.finish_tx(&transaction, &held, &done()).await.unwrap(), Finished::Committed);
    transaction.rollback().await.unwrap();
    assert_eq!(charges(&bed), "0");
    let record = bed.ledger.get(&identity("k")).await.unwrap().unwrap();
    assert_eq!((record.status, record.lease_live), (Status::InProgress, true));
    assert_eq!(
        bed.ledger.finish(&held, &done()).await.unwrap(),
        Finished::Committed,
        "the lease still counts"
    );
}

#[tokio::test]
async fn a_stale_worker_cannot_commit_its_write() {
    let bed = with_charges().await;
    let may_repeat = || ask("k").terms(Terms::default().lease(BRIEF).ttl(BRIEF).on_lapse(OnLapse::Retry));
    let stale = lease(&bed.ledger, may_repeat()).await;
    let mut client = bed.store.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute(&charge(&bed)).await.unwrap();
    bed.elapse(&identity("k")).await;
    let newer = lease(&bed.ledger, may_repeat()).await;
    let refused = bed.store.finish_tx(&transaction, &stale, &done()).await;
    assert!(matches!(refused, Err(LedgerError::Stale(_))), "{refused:?}");
    drop(transaction);
    assert_eq!(charges(&bed), "0");
    assert_eq!(bed.ledger.finish(&newer, &done()).await.unwrap(), Finished::Committed);
}

/// The holder is in the middle of its commit when the lease lapses and somebody wants to take over: whoever comes
/// second sees what the first one did.
#[tokio::test]
async fn a_take_over_waits_for_a_commit_under_way_and_replays_it() {
    let bed = with_charges().await;
    let may_repeat = || ask("k").terms(Terms::default().lease(BRIEF).ttl(BRIEF).on_lapse(OnLapse::Retry));
    let held = lease(&bed.ledger, may_repeat()).await;
    bed.elapse(&identity("k")).await;
    let mut client = bed.store.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute(&charge(&bed)).await.unwrap();
    bed.store.finish_tx(&transaction, &held, &done()).await.unwrap();
    let ledger = bed.ledger.clone();
    let second = tokio::spawn(async move { ledger.begin(may_repeat()).await });
    // The second one has read the old record and waits for the row.
    let waits =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{table}%'";
    while bed.psql(waits) == "0" {
        tokio::task::yield_now().await;
    }
    transaction.commit().await.unwrap();
    assert!(matches!(second.await.unwrap().unwrap(), Decision::Replay(_)));
    assert_eq!(charges(&bed), "1");
}

/// The outcome is written in a transaction that goes on for a while: a duplicate is told at once that somebody is at it,
/// and waits for nobody inside the database.
#[tokio::test]
async fn a_duplicate_does_not_wait_for_a_commit_under_way() {
    let bed = with_charges().await;
    for (key, statements) in [("unnamed", Statements::Unnamed), ("prepared", Statements::Prepared)] {
        let second = Ledger::new(bed.store.clone().statements(statements));
        let held = lease(&bed.ledger, ask(key)).await;
        let mut client = bed.store.pool().get().await.unwrap();
        let transaction = client.transaction().await.unwrap();
        transaction.batch_execute(&charge(&bed)).await.unwrap();
        bed.store.finish_tx(&transaction, &held, &done()).await.unwrap();
        let mut other = bed.store.pool().get().await.unwrap();
        let others = other.transaction().await.unwrap();
        // One that waited would wait for ever: only this test commits.
        for _ in 0..4 {
            let told = second.begin(ask(key)).await.unwrap();
            assert!(matches!(told, Decision::InProgress { epoch: 1, .. }), "{told:?}");
            let told = bed.store.begin_tx(&others, &ask(key)).await.unwrap();
            assert!(matches!(told, Decision::InProgress { epoch: 1, .. }), "{told:?}");
        }
        others.rollback().await.unwrap();
        transaction.commit().await.unwrap();
        assert!(matches!(second.begin(ask(key)).await.unwrap(), Decision::Replay(_)));
    }
}

/// The holder renews in the very moment in which somebody has seen that its lease is over: the renewal counts.
#[tokio::test]
async fn a_renewal_under_way_keeps_a_take_over_off() {
    let bed = Bed::new().await;
    let may_repeat = || ask("k").terms(Terms::default().lease(BRIEF).ttl(BRIEF).on_lapse(OnLapse::Retry));
    let held = lease(&bed.ledger, may_repeat()).await;
    bed.elapse(&identity("k")).await;
    let mut client = bed.store.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let renew = format!("UPDATE {} SET lease_expires_at = now() + interval '1 hour'", bed.table());
    transaction.batch_execute(&renew).await.unwrap();
    let ledger = bed.ledger.clone();
    let second = tokio::spawn(async move { ledger.begin(may_repeat()).await });
    let waits =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{table}%'";
    while bed.psql(waits) == "0" {
        tokio::task::yield_now().await;
    }
    transaction.commit().await.unwrap();
    let second = second.await.unwrap().unwrap();
    assert!(matches!(second, Decision::InProgress { epoch: 1, .. }), "{second:?}");
    assert_eq!(bed.ledger.finish(&held, &done()).await.unwrap(), Finished::Committed);
}

#[tokio::test]
async fn a_begin_that_is_rolled_back_never_was() {
    let bed = Bed::new().await;
    let mut client = bed.store.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let begun = bed.store.begin_tx(&transaction, &ask("k")).await.unwrap();
    assert!(matches!(begun, Decision::Execute(_)));
    transaction.rollback().await.unwrap();
    assert_eq!(bed.ledger.get(&identity("k")).await.unwrap(), None);
    let transaction = client.transaction().await.unwrap();
    let Decision::Execute(held) = bed.store.begin_tx(&transaction, &ask("k")).await.unwrap() else {
        panic!("it was never begun");
    };
    bed.store.finish_tx(&transaction, &held, &done()).await.unwrap();
    transaction.commit().await.unwrap();
    assert!(matches!(bed.ledger.begin(ask("k")).await.unwrap(), Decision::Replay(_)));
}

/// Several that begin the same effect within transactions of their own: one runs it, and the others see how it ended.
#[tokio::test]
async fn begins_within_transactions_wait_for_each_other() {
    let bed = Bed::new().await;
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let store = bed.store.clone();
        tasks.push(tokio::spawn(async move {
            let mut client = store.pool().get().await.unwrap();
            let transaction = client.transaction().await.unwrap();
            let decision = store.begin_tx(&transaction, &ask("k")).await.unwrap();
            if let Decision::Execute(held) = &decision {
                store.finish_tx(&transaction, held, &done()).await.unwrap();
            }
            transaction.commit().await.unwrap();
            decision.word()
        }));
    }
    let mut words = Vec::new();
    for task in tasks {
        words.push(task.await.unwrap());
    }
    words.sort_unstable();
    assert_eq!(words, ["execute", "replay", "replay", "replay", "replay", "replay", "replay", "replay"]);
}

/// Where every transaction is serializable, some must be run again; the ledger does so by itself.
#[tokio::test]
async fn serialization_failures_are_retried() {
    let bed = Bed::new().await;
    let url = format!("{}?options=-c%20default_transaction_isolation%3Dserializable", bed.postgres.url());
    let url =
        if bed.postgres.url().contains('?') { url.replacen('?', "&", 2).replacen('&', "?", 1) } else { url };
    let store = driftq_ledger::postgres::PostgresStore::connect(&url).unwrap();
    let store = store.table(&bed.table()).unwrap().statements(Statements::Prepared);
    let ledger = Ledger::new(store);
    let mut tasks = Vec::new();
    for _ in 0..32 {
        let ledger = ledger.clone();
        tasks.push(tokio::spawn(async move {
            match ledger.begin(ask("k")).await.unwrap() {
                Decision::Execute(held) => {
                    ledger.finish(&held, &done()).await.unwrap();
                    "execute"
                }
                other => other.word(),
            }
        }));
    }
    let mut executed = 0;
    for task in tasks {
        executed += u32::from(task.await.unwrap() == "execute");
    }
    assert_eq!(executed, 1);
}

/// The bounds that a service gives its ledger hold for its transactions, too.
#[tokio::test]
async fn a_transaction_goes_by_the_bounds_of_the_service() {
    let bed = Bed::new().await;
    let held = lease(&bed.ledger, ask("k")).await;
    let mut client = bed.store.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let small = bed.store.clone().settings(Settings { payload_bytes_max: 3, ..Settings::default() });
    let refused = small.finish_tx(&transaction, &held, &done()).await;
    assert_eq!(refused, Err(LedgerError::TooLarge { bytes: 4, limit: 3 }));
    let large = bed.store.clone().settings(Settings { payload_bytes_max: 2 << 20, ..Settings::default() });
    let ending = Ending::succeeded(Response::new(vec![7; (1 << 20) + 1]));
    assert_eq!(large.finish_tx(&transaction, &held, &ending).await, Ok(Finished::Committed));
    transaction.commit().await.unwrap();
}
