//! The table: made, brought up to date, taken over from a program that had one in the form of the contract.

use crate::support::{BRIEF, Bed, ask, identity, lease};
use driftq_ledger::postgres::PostgresStore;
use driftq_ledger::{
    Begin, Decision, End, Ending, Finished, LedgerError, RequestHash, Resolve, Resolver, Response, Status,
};

#[tokio::test]
async fn steps_are_taken_once_whoever_takes_them() {
    let bed = Bed::empty();
    let pending = bed.store.migrations().await.unwrap();
    assert!(pending.iter().all(|step| !step.applied) && pending.len() >= 3);
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let store = bed.store.clone();
            tokio::spawn(async move { store.migrate().await })
        })
        .collect();
    let mut taken = 0;
    for task in tasks {
        taken += task.await.unwrap().unwrap().iter().filter(|step| !step.applied).count();
    }
    assert_eq!(taken, pending.len(), "each step was taken by one of them");
    assert!(bed.store.migrations().await.unwrap().iter().all(|step| step.applied));
    lease(&bed.ledger, ask("k")).await;
}

#[tokio::test]
async fn what_is_printed_is_what_is_applied() {
    let bed = Bed::empty();
    let printed = bed.store.migrations_sql();
    bed.psql(&printed);
    assert!(bed.store.migrations().await.unwrap().iter().all(|step| step.applied));
    let held = lease(&bed.ledger, ask("k")).await;
    assert_eq!(bed.ledger.finish(&held, &Ending::succeeded(().into())).await.unwrap(), Finished::Committed);
    bed.psql(&printed);
    assert!(
        matches!(bed.ledger.begin(ask("k")).await.unwrap(), Decision::Replay(_)),
        "a second time does no harm"
    );
}

#[tokio::test]
async fn a_table_from_the_future_is_left_alone() {
    let bed = Bed::new().await;
    bed.psql("INSERT INTO {table}_migrations (version, name) VALUES (99, 'later')");
    let error = bed.store.migrate().await.unwrap_err();
    assert!(matches!(&error, LedgerError::TooNew(why) if why.contains("99")), "{error:?}");
}

#[tokio::test]
async fn a_table_that_does_not_fit_is_refused_whole() {
    let bed = Bed::empty();
    bed.psql(
        "CREATE TABLE {table} (principal text, grpc_method text, idempotency_key text, request_hash bytea)",
    );
    let error = bed.store.migrate().await.unwrap_err().to_string();
    for part in ["request_hash is bytea, not text", "there is no column status", "no unique index"] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(bed.psql("SELECT to_regclass('{table}_migrations') IS NULL"), "t", "nothing was done");
    assert!(
        PostgresStore::connect(bed.postgres.url())
            .unwrap()
            .table("no_such_schema.keys")
            .unwrap()
            .migrate()
            .await
            .is_err()
    );
}

const SEED: &str = "CREATE TABLE {table} (
    principal text NOT NULL, grpc_method text NOT NULL, idempotency_key text NOT NULL,
    request_hash text NOT NULL, status text NOT NULL, response_code integer, response_payload bytea,
    created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, expires_at timestamptz NOT NULL,
    UNIQUE (principal, grpc_method, idempotency_key));
INSERT INTO {table} SELECT 'ann', '/pay.Pay/Charge', key, 'h', status, 200, '\\x6f6b', now(), now(), now() + left_over
FROM (VALUES
    ('done', 'SUCCEEDED', interval '1 hour'), ('refused', 'FAILED_FINAL', interval '1 hour'),
    ('again', 'FAILED_RETRYABLE', interval '1 hour'), ('running', 'IN_PROGRESS', interval '1 hour'),
    ('old', 'SUCCEEDED', interval '-1 hour'), ('old again', 'FAILED_RETRYABLE', interval '-1 hour')
) AS rows (key, status, left_over)";

fn seed_ask(key: &str) -> Begin {
    Begin::new(identity(key), RequestHash::foreign("h").unwrap())
}

#[tokio::test]
async fn a_table_in_the_form_of_the_contract_is_taken_over() {
    let bed = Bed::empty();
    bed.psql(SEED);
    bed.store.migrate().await.unwrap();
    for (key, end) in [("done", End::Succeeded), ("refused", End::FailedFinal)] {
        let Decision::Replay(outcome) = bed.ledger.begin(seed_ask(key)).await.unwrap() else {
            panic!("{key}")
        };
        assert_eq!((outcome.end, &outcome.response), (end, &Response::new("ok").code(200)));
    }
    let Decision::Retryable { outcome, .. } = bed.ledger.begin(seed_ask("again")).await.unwrap() else {
        panic!("it failed and may be tried again");
    };
    assert_eq!(outcome.end, End::FailedRetryable);
    let newer = lease(&bed.ledger, seed_ask("again").reacquire()).await;
    assert_eq!((newer.epoch, newer.attempt), (2, 2));
    for key in ["old", "old again"] {
        assert_eq!(lease(&bed.ledger, seed_ask(key)).await.epoch, 1, "what is over is begun anew");
    }
    let error =
        bed.ledger.begin(Begin::new(identity("done"), RequestHash::of_bytes(b"h"))).await.unwrap_err();
    assert!(matches!(&error, LedgerError::Conflict(Some(why)) if why.contains("or_before")), "{error:?}");
    let recognised = RequestHash::of_bytes(b"h").or_before(RequestHash::foreign("h").unwrap());
    let begun = bed.ledger.begin(Begin::new(identity("done"), recognised)).await.unwrap();
    assert!(matches!(begun, Decision::Replay(_)));
}

/// What was in progress when the table was taken over has five minutes to end, and is nobody's to repeat after that.
#[tokio::test]
async fn what_was_running_when_the_table_was_taken_over_is_held() {
    let bed = Bed::empty();
    bed.psql(SEED);
    bed.store.migrate().await.unwrap();
    assert!(matches!(bed.ledger.begin(seed_ask("running")).await.unwrap(), Decision::InProgress { .. }));
    bed.elapse(&identity("running")).await;
    let Decision::Unknown { epoch, .. } = bed.ledger.begin(seed_ask("running")).await.unwrap() else {
        panic!("nobody knows");
    };
    let found = Resolve {
        identity: identity("running"),
        epoch: Some(epoch),
        ending: Ending::failed_retryable("it did not happen"),
        resolver: Resolver { by: "ann".to_owned(), why: "looked".to_owned() },
        ttl: BRIEF,
    };
    assert_eq!(bed.ledger.resolve(&found).await.unwrap(), Finished::Committed);
    lease(&bed.ledger, seed_ask("running").reacquire()).await;
}

/// A program that still writes as the contract says, beside one that writes with leases.
#[tokio::test]
async fn old_writers_go_on_beside_new_ones() {
    let bed = Bed::empty();
    bed.psql(SEED);
    bed.store.migrate().await.unwrap();
    let finish = "UPDATE {table} SET status = 'SUCCEEDED', response_payload = 'yes', updated_at = now() \
                  WHERE idempotency_key = 'running' AND status = 'IN_PROGRESS' RETURNING 1";
    assert_eq!(bed.psql(finish).lines().next(), Some("1"));
    let Decision::Replay(outcome) = bed.ledger.begin(seed_ask("running")).await.unwrap() else {
        panic!("it ended")
    };
    assert_eq!(outcome.response.payload, "yes");
    bed.psql(
        "INSERT INTO {table} (principal, grpc_method, idempotency_key, request_hash, status, created_at, updated_at, expires_at) \
         VALUES ('ann', '/pay.Pay/Charge', 'new', 'h', 'IN_PROGRESS', now(), now(), now() + interval '1 day')",
    );
    assert!(matches!(bed.ledger.begin(seed_ask("new")).await.unwrap(), Decision::InProgress { .. }));
    let record = bed.ledger.get(&identity("new")).await.unwrap().unwrap();
    assert_eq!((record.status, record.lease_live), (Status::InProgress, true));
}
