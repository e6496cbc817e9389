//! What a caller was told holds after a crash of PostgreSQL, whatever the server's settings are.

use crate::support::{Bed, ask, identity, lease};
use driftq_ledger::postgres::{PostgresStore, Statements};
use driftq_ledger::{Begin, Decision, Ending, Finished, Ledger, Resolve, Resolver, Response, Status};
use driftq_testbed::Postgres;

fn done() -> Ending {
    Ending::succeeded(Response::new("paid").code(200))
}

/// A server that is in no hurry to write down what it has confirmed.
fn careless() -> Postgres {
    Postgres::builder()
        .setting("synchronous_commit", "off")
        .setting("wal_writer_delay", "10s")
        .setting("wal_writer_flush_after", "1GB")
        .start()
        .unwrap()
}

/// PostgreSQL crashes and comes back; a ledger with connections that know nothing of it.
fn crash(bed: &Bed) -> Ledger {
    bed.postgres.crash().unwrap();
    bed.postgres.restart().unwrap();
    ledger(bed, Statements::Unnamed)
}

fn ledger(bed: &Bed, statements: Statements) -> Ledger {
    let store = PostgresStore::connect(bed.postgres.url()).unwrap().table(&bed.table()).unwrap();
    Ledger::new(store.statements(statements))
}

fn again(key: &str) -> Begin {
    ask(key).reacquire()
}

#[tokio::test]
async fn what_was_told_is_there_after_a_crash() {
    let bed = Bed::on(careless());
    bed.store.migrate().await.unwrap();
    bed.psql("CHECKPOINT");
    for statements in [Statements::Unnamed, Statements::Prepared] {
        let key = format!("{statements:?}");
        // Begun: no other caller may run it now.
        let held = lease(&ledger(&bed, statements), ask(&key)).await;
        let after = crash(&bed).begin(ask(&key)).await.unwrap();
        assert!(matches!(after, Decision::InProgress { epoch: 1, .. }), "{after:?}");
        // Ended.
        let retryable = Ending::failed_retryable("for now");
        assert_eq!(ledger(&bed, statements).finish(&held, &retryable).await.unwrap(), Finished::Committed);
        let after = crash(&bed).begin(ask(&key)).await.unwrap();
        assert!(matches!(after, Decision::Retryable { .. }), "{after:?}");
        // Taken over: no other caller may get the same epoch.
        let second = lease(&ledger(&bed, statements), again(&key)).await;
        assert_eq!(second.epoch, 2);
        let after = crash(&bed).begin(again(&key)).await.unwrap();
        assert!(matches!(after, Decision::InProgress { epoch: 2, .. }), "{after:?}");
        // Resolved.
        bed.psql("UPDATE {table} SET status = 'UNKNOWN'; CHECKPOINT");
        let found = Resolve {
            identity: identity(&key),
            epoch: Some(2),
            ending: done(),
            resolver: Resolver { by: "ann".to_owned(), why: "looked".to_owned() },
            ttl: crate::support::BRIEF,
        };
        assert_eq!(ledger(&bed, statements).resolve(&found).await.unwrap(), Finished::Committed);
        let after = crash(&bed).get(&identity(&key)).await.unwrap().unwrap();
        assert_eq!((after.status, after.epoch), (Status::Succeeded, 3));
    }
}

/// A transaction of the caller's: what it has written and the outcome are there together, and stay.
#[tokio::test]
async fn a_commit_with_an_outcome_in_it_is_there_after_a_crash() {
    let bed = Bed::on(careless());
    bed.store.migrate().await.unwrap();
    bed.psql(&format!("CREATE TABLE {}.charges (key text)", bed.schema));
    let held = lease(&bed.ledger, ask("k")).await;
    bed.psql("CHECKPOINT");
    let mut client = bed.store.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute(&format!("INSERT INTO {}.charges VALUES ('k')", bed.schema)).await.unwrap();
    bed.store.finish_tx(&transaction, &held, &done()).await.unwrap();
    transaction.commit().await.unwrap();
    let after = crash(&bed).begin(ask("k")).await.unwrap();
    assert!(matches!(after, Decision::Replay(_)), "{after:?}");
    assert_eq!(bed.psql(&format!("SELECT count(*) FROM {}.charges", bed.schema)), "1");
}

/// What is stronger stays as it is, and a session keeps nothing of it.
#[tokio::test]
async fn a_stronger_setting_stays_and_none_is_left_behind() {
    let bed = Bed::new().await;
    let held = lease(&bed.ledger, ask("k")).await;
    for (before, within) in [
        ("off", "on"),
        ("local", "on"),
        ("remote_write", "on"),
        ("on", "on"),
        ("remote_apply", "remote_apply"),
    ] {
        let mut client = bed.store.pool().get().await.unwrap();
        client.batch_execute(&format!("SET synchronous_commit = {before}")).await.unwrap();
        let transaction = client.transaction().await.unwrap();
        bed.store.finish_tx(&transaction, &held, &done()).await.unwrap();
        let row = transaction.query_one("SHOW synchronous_commit", &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), within);
        transaction.rollback().await.unwrap();
        let row = client.query_one("SHOW synchronous_commit", &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), before);
        client.batch_execute("RESET synchronous_commit").await.unwrap();
    }
}
