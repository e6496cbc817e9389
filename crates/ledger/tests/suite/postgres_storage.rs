//! What records cost the database as they come and go: updates in place, bodies, expiry by method, the audit's time.

use std::time::Duration;

use crate::support::{BRIEF, Bed, ask, identity, lease};
use driftq_ledger::postgres::PostgresStore;
use driftq_ledger::{
    AuditFilter, Decision, Ending, Event, Expiry, Finished, Ledger, OnLapse, Response, Settings, Silent,
    Status, Sweep, Terms,
};

/// Requests of a test about updates in place.
const REQUESTS: u32 = 500;
/// Of a hundred updates of a request, how many have to be in place.
const HOT_PERCENT_MIN: i64 = 90;

async fn updates(store: &PostgresStore) -> (i64, i64) {
    let client = store.pool().get().await.unwrap();
    client.batch_execute("SELECT pg_stat_force_next_flush()").await.unwrap();
    client.batch_execute("SELECT pg_stat_clear_snapshot()").await.unwrap();
    let counts =
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'idempotency_keys'";
    let row = client.query_one(counts, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

/// How often it is tried: a connection that another test is just making keeps the room of old versions from being used,
/// also in another database.
const TRIES_MAX: u32 = 5;

/// Of all endings, how many were written in place.
async fn in_place(bytes: usize, at_once: u32) -> i64 {
    let bed = Bed::new().await;
    // In a database of its own: an old snapshot of another test would do the same, and for longer.
    let (name, url) = (format!("{}_{bytes}_{at_once}", bed.schema), bed.postgres.url());
    bed.psql(&format!("CREATE DATABASE {name}"));
    let (server, _) = url.rsplit_once('/').unwrap();
    let store = PostgresStore::connect(&format!("{server}/{name}")).unwrap();
    store.migrate().await.unwrap();
    let client = store.pool().get().await.unwrap();
    client.batch_execute("ALTER TABLE idempotency_keys SET (autovacuum_enabled = false)").await.unwrap();
    drop(client);
    let ledger = Ledger::new(store.clone());
    let mut held = Vec::new();
    for at in 0..REQUESTS {
        held.push(lease(&ledger, ask(&format!("k{at}"))).await);
        if held.len() >= at_once as usize {
            for held in held.drain(..) {
                let response = Response::new(body(bytes)).code(200);
                ledger.finish(&held, &Ending::succeeded(response)).await.unwrap();
            }
        }
    }
    let (all, hot) = updates(&store).await;
    store.pool().close();
    bed.psql(&format!("DROP DATABASE {name} WITH (FORCE)"));
    assert!(all >= i64::from(REQUESTS), "{all} updates");
    hot * 100 / all
}

/// Bytes that cannot be compressed.
fn body(bytes: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

/// One after the other; and all begun before the first one ends, as with slow providers, so that their pages are full of
/// open records.
#[tokio::test]
async fn endings_are_written_in_place() {
    for (bytes, at_once) in [(100, 1), (1_000, 1), (100, REQUESTS), (300, REQUESTS), (5_000, REQUESTS)] {
        let mut tries = Vec::new();
        while tries.iter().all(|percent| *percent < HOT_PERCENT_MIN) {
            assert!(
                tries.len() < TRIES_MAX as usize,
                "{tries:?} % in place, {bytes} bytes, {at_once} at once"
            );
            tries.push(in_place(bytes, at_once).await);
        }
    }
}

/// No index has a column that changes between begin and the end.
#[tokio::test]
async fn no_index_has_a_column_that_changes() {
    let bed = Bed::new().await;
    let indexed = bed.psql(
        "SELECT string_agg(DISTINCT attname, ' ' ORDER BY attname) FROM pg_index JOIN pg_attribute \
         ON attrelid = indrelid AND attnum = ANY(indkey::smallint[]) WHERE indrelid = '{table}'::regclass",
    );
    assert_eq!(indexed, "grpc_method idempotency_key principal record");
}

#[tokio::test]
async fn bodies_have_a_time_of_their_own() {
    let bed = Bed::with_clock().await;
    let store = bed.store.clone().bodies_kept(Duration::from_secs(60));
    let ledger = Ledger::new(store);
    let response = Response::new("the receipt").code(201).header("location", "/receipts/1");
    for (key, ending) in [
        ("done", Ending::succeeded(response.clone())),
        ("again", Ending::failed_retryable("for now").response(response.clone())),
    ] {
        let held = lease(&ledger, ask(key)).await;
        ledger.finish(&held, &ending).await.unwrap();
    }
    let replayed = async || match ledger.begin(ask("done")).await.unwrap() {
        Decision::Replay(outcome) => outcome.response,
        other => panic!("{other:?}"),
    };
    ledger.sweep(Sweep::default()).await.unwrap();
    assert_eq!(replayed().await, response, "its time is not over");
    bed.pass(Duration::from_secs(61)).await;
    ledger.sweep(Sweep::default()).await.unwrap();
    assert_eq!(replayed().await, response.clone().omit_payload());
    let Decision::Retryable { outcome, .. } = ledger.begin(ask("again")).await.unwrap() else {
        panic!("it failed")
    };
    assert_eq!(outcome.response, response, "what has not ended for good stays as it is");
    // One that ends later in the same stretch is forgotten, too.
    let held = lease(&ledger, ask("again").reacquire()).await;
    ledger.finish(&held, &Ending::succeeded(response.clone())).await.unwrap();
    ledger.sweep(Sweep::default()).await.unwrap();
    bed.pass(Duration::from_secs(61)).await;
    ledger.sweep(Sweep::default()).await.unwrap();
    let Decision::Replay(outcome) = ledger.begin(ask("again")).await.unwrap() else { panic!("it is over") };
    assert_eq!(outcome.response, response.omit_payload());
}

#[tokio::test]
async fn a_method_has_a_time_of_its_own() {
    let bed = Bed::with_clock().await;
    let expiry = Expiry::default().method("/pay.Pay/*", Duration::from_secs(60));
    let ledger = Ledger::with(bed.store.clone(), Settings { expiry, ..Settings::default() }, Silent);
    let held = lease(&ledger, ask("k")).await;
    assert_eq!(held.ttl, Duration::from_secs(60), "not what the caller has asked for");
    ledger.finish(&held, &Ending::succeeded(Response::new("paid"))).await.unwrap();
    assert!(matches!(ledger.begin(ask("k")).await.unwrap(), Decision::Replay(_)));
    bed.pass(Duration::from_secs(61)).await;
    assert_eq!(ledger.sweep(Sweep::default()).await.unwrap().removed, 1);
    lease(&ledger, ask("k")).await;
}

/// What becomes of a record is noted whoever writes it: an older release, or a hand.
#[tokio::test]
async fn nobody_gets_past_the_audit() {
    let bed = Bed::with_clock().await;
    lease(&bed.ledger, ask("k").owner("one")).await;
    bed.psql("UPDATE {table} SET status = 'FAILED_RETRYABLE', error = 'by hand'");
    bed.psql("DELETE FROM {table}");
    let filter = AuditFilter { limit: 10, ..AuditFilter::default() };
    let notes = bed.ledger.audit(&filter).await.unwrap().notes;
    let said: Vec<_> = notes.iter().map(|note| (note.event, note.to, note.why.as_deref())).collect();
    let expected =
        [(Event::Ended, Some(Status::FailedRetryable), Some("by hand")), (Event::Removed, None, None)];
    assert_eq!(said, expected);
    // It is kept for 90 days, and then the sweep removes it.
    bed.pass(Duration::from_secs(89 * 24 * 3600)).await;
    bed.ledger.sweep(Sweep::default()).await.unwrap();
    assert_eq!(bed.ledger.audit(&filter).await.unwrap().notes.len(), 2);
    bed.pass(Duration::from_secs(2 * 24 * 3600)).await;
    bed.ledger.sweep(Sweep::default()).await.unwrap();
    assert_eq!(bed.ledger.audit(&filter).await.unwrap().notes.len(), 0);
}

/// The user of a service, who may use the table and owns nothing, does everything that a service does.
#[tokio::test]
async fn whoever_may_use_the_table_may_do_all_of_it() {
    let bed = Bed::empty();
    let (role, schema) = (format!("role_{}", bed.schema), bed.schema.clone());
    bed.store.migrate().await.unwrap();
    // As before these steps: the rights were given, on the table alone, and then the steps are taken.
    bed.psql(&format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role}; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON {{table}} TO {role}; GRANT SELECT ON {{table}}_migrations TO {role}; \
         REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC; \
         DELETE FROM {{table}}_migrations WHERE version >= 5"
    ));
    bed.store.migrate().await.unwrap();
    let url = bed.postgres.url().replacen("driftq@", &format!("{role}@"), 1);
    let store = PostgresStore::connect(&url).unwrap().table(&bed.table()).unwrap();
    let ledger = Ledger::new(store.bodies_kept(BRIEF));
    let used = async {
        let terms = Terms::default().lease(BRIEF).ttl(BRIEF).on_lapse(OnLapse::Retry);
        lease(&ledger, ask("k").terms(terms.clone())).await;
        bed.elapse(&identity("k")).await;
        let held = lease(&ledger, ask("k").terms(terms)).await;
        assert_eq!(
            ledger.finish(&held, &Ending::succeeded(Response::new("paid"))).await?,
            Finished::Committed
        );
        bed.expire(&identity("k")).await;
        assert_eq!(ledger.sweep(Sweep::default()).await?.removed, 1);
        ledger.stats().await?;
        ledger.audit(&AuditFilter { limit: 10, ..AuditFilter::default() }).await
    }
    .await;
    let forged =
        bed.psql(&format!("SELECT has_table_privilege('{role}', '{{table}}_audit', 'INSERT, UPDATE')"));
    bed.psql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
    let events: Vec<Event> = used.unwrap().notes.iter().map(|note| note.event).collect();
    assert_eq!(events, [Event::TakenOver, Event::Ended, Event::Removed]);
    assert_eq!(forged, "f", "nobody but the database writes to the audit");
}
