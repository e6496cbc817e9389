//! What a deployment does to a table under a service that runs, and to releases of it that run beside each other.

use std::time::Duration;

use crate::support::{BRIEF, Bed, ask, identity, lease};
use driftq_ledger::postgres::{PostgresStore, Statements};
use driftq_ledger::{Decision, Ending, Finished, Ledger, LedgerError, OnLapse, Proof, Response, Terms};

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

/// A service whose user may read and write, and may make nothing.
#[tokio::test]
async fn a_start_without_anything_to_migrate_needs_no_rights_to_migrate() {
    let bed = Bed::new().await;
    let (role, schema) = (format!("role_{}", bed.schema), &bed.schema);
    bed.psql(&format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role}; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON {{table}} TO {role}; GRANT SELECT ON {{table}}_migrations TO {role}"
    ));
    let url = bed.postgres.url().replacen("driftq@", &format!("{role}@"), 1);
    let store = PostgresStore::connect(&url).unwrap().table(&bed.table()).unwrap();
    let started = store.migrate().await;
    let ledger = Ledger::new(store.clone());
    let begun = ledger.begin(ask("k")).await;
    // With something to do, the rights are missing, and that is said.
    bed.psql("DELETE FROM {table}_migrations WHERE version = 3");
    let refused = store.migrate().await;
    bed.psql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
    assert!(started.unwrap().iter().all(|step| step.applied), "there was nothing to do");
    assert!(matches!(begun.unwrap(), Decision::Execute(_)));
    assert!(matches!(refused, Err(LedgerError::Denied(_))), "{refused:?}");
}

/// A start does not wait for one that migrates, unless there is something to do.
#[tokio::test]
async fn a_start_without_anything_to_migrate_waits_for_nobody() {
    let bed = Bed::new().await;
    let mut client = bed.store.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let lock = format!("SELECT pg_advisory_xact_lock(hashtextextended('{}_migrations', 0))", bed.table());
    transaction.batch_execute(&lock).await.unwrap();
    let started = tokio::time::timeout(Duration::from_secs(20), bed.store.migrate()).await;
    assert!(started.expect("nobody is waited for").is_ok());
}

/// A newer release has migrated, and this one is deployed again: it works for as long as the newer step says so.
#[tokio::test]
async fn a_release_goes_back_to_as_far_as_the_steps_allow() {
    let bed = Bed::new().await;
    let newest = bed.store.migrations().await.unwrap().last().unwrap().version;
    bed.psql("ALTER TABLE {table}_migrations ADD COLUMN IF NOT EXISTS works_from integer");
    bed.psql(&format!(
        "INSERT INTO {{table}}_migrations (version, name, works_from) \
         VALUES (98, 'later', {newest}), (99, 'latest', {})",
        newest - 1
    ));
    let steps = bed.store.migrate().await.unwrap();
    assert!(steps.iter().all(|step| step.applied));
    let held = lease(&bed.ledger, ask("k")).await;
    assert_eq!(bed.ledger.finish(&held, &done()).await.unwrap(), Finished::Committed);

    for oldest in [format!("{}", newest + 1), "NULL".to_owned()] {
        bed.psql(&format!("UPDATE {{table}}_migrations SET works_from = {oldest} WHERE version = 99"));
        let refused = bed.store.migrate().await.unwrap_err();
        let LedgerError::TooNew(why) = &refused else { panic!("{refused:?}") };
        assert!(why.contains("99") && why.contains(&newest.to_string()), "{why}");
        // It has nothing to migrate, and must not be sent to try.
        assert!(!refused.to_string().contains("ledger migrate"), "{refused}");
    }
    assert_eq!(
        bed.psql("SELECT count(*) FROM {table}_migrations WHERE version > 90"),
        "2",
        "nothing was done"
    );
}

/// A release that knows the fifth step and no later one calls these functions: what they do and what is noted stays, on
/// records of either release.
#[tokio::test]
async fn a_release_of_the_step_before_begins_and_finishes_beside_this_one() {
    let bed = Bed::new().await;
    let begin = |key: &str| {
        bed.psql(&format!(
            "SELECT there_record, there_status, there_epoch, there_call FROM {{table}}_begin_2('ann', '/pay.Pay/Charge', \
             '{key}', '{}', {}::smallint, 3600000000, 3600000000, 'hold', NULL, 'old', 'c')",
            ask(key).hash.digest(),
            ask(key).hash.version()
        ))
    };
    let finish = |key: &str, record: i64, epoch: u32, error: &str| {
        bed.psql(&format!(
            "SELECT done, there_epoch, there_same FROM {{table}}_finish_3('ann', '/pay.Pay/Charge', '{key}', {record}, \
             {epoch}, 'IN_PROGRESS', 'FAILED_FINAL', 402, NULL, NULL, '{error}', '\\x00')"
        ))
    };
    // Begun by the older one, seen and ended by this one.
    assert_eq!(begin("old"), "1|IN_PROGRESS|1|c");
    let told = bed.ledger.begin(ask("old")).await.unwrap();
    assert!(matches!(told, Decision::InProgress { epoch: 1, .. }), "{told:?}");
    // Begun by this one, ended by the older one, which is held to the epoch.
    let held = lease(&bed.ledger, ask("new")).await;
    let Proof::Record(record) = held.proof else { panic!("{held:?}") };
    assert!(begin("new").starts_with(&format!("{record}|IN_PROGRESS|1|")));
    assert_eq!(finish("new", record, 2, "declined"), "f|1|f");
    assert_eq!(finish("new", record, 1, "declined"), "t||");
    assert_eq!(finish("new", record, 1, "declined"), "f|1|t");
    assert!(matches!(bed.ledger.begin(ask("new")).await.unwrap(), Decision::Replay(_)));
    // What just begins and ends is no news; what is changed by a hand is.
    assert_eq!(bed.psql("SELECT count(*) FROM {table}_audit"), "0");
    bed.psql("UPDATE {table} SET status = 'SUCCEEDED' WHERE idempotency_key = 'new'");
    let noted = "SELECT event, from_status, to_status, epoch, why FROM {table}_audit";
    assert_eq!(bed.psql(noted), "ENDED|FAILED_FINAL|SUCCEEDED|1|declined");
}
