//! How sweeps, lists and counts find what they are about without going through everything.

use std::time::Duration;

use crate::support::{BRIEF, Bed, ask, identity, lease};
use driftq_ledger::{Decision, Ending, Filter, OnLapse, Response, Stats, Status, Sweep, Swept, Terms};

fn paid() -> Ending {
    Ending::succeeded(Response::new("paid").code(200))
}

async fn sweep_all(bed: &Bed) -> Swept {
    let mut done = Swept::default();
    loop {
        let swept = bed.ledger.sweep(Sweep::default()).await.unwrap();
        (done.removed, done.held) = (done.removed + swept.removed, done.held + swept.held);
        if !swept.more {
            return done;
        }
    }
}

/// Many records that have ended, beside which a few are looked for.
fn fill(bed: &Bed, records: u32) {
    bed.psql(&format!(
        "INSERT INTO {{table}} (principal, grpc_method, idempotency_key, request_hash, hash_version, status, \
             response_code, created_at, updated_at, expires_at, lease_expires_at) \
         SELECT 'ann', '/pay.Pay/Charge', 'filled ' || n, 'h', 1, 'SUCCEEDED', 200, now(), now(), \
             now() + interval '1 day' + n * interval '1 ms', NULL FROM generate_series(1, {records}) AS n; ANALYZE {{table}}"
    ));
}

async fn keys(bed: &Bed, status: Status) -> Vec<String> {
    let mut filter = Filter { status: Some(status), limit: 100, ..Filter::default() };
    let mut keys = Vec::new();
    loop {
        let page = bed.ledger.list(&filter).await.unwrap();
        keys.extend(page.records.iter().map(|record| record.identity.key().to_owned()));
        let Some(cursor) = page.cursor else { return keys };
        filter.cursor = Some(cursor);
    }
}

/// Rows of the table that were read since it was made.
async fn rows_read(bed: &Bed) -> i64 {
    let client = bed.store.pool().get().await.unwrap();
    client.batch_execute("SELECT pg_stat_force_next_flush()").await.unwrap();
    client.batch_execute("SELECT pg_stat_clear_snapshot()").await.unwrap();
    let counts = format!(
        "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE schemaname = '{}' \
         AND relname = 'idempotency_keys'",
        bed.schema
    );
    client.query_one(&counts, &[]).await.unwrap().get(0)
}

const MANY: u32 = 20_000;
/// Rows that a look for a few records may read, of many.
const ROWS_READ_MAX: i64 = 500;

/// Once swept, a look for what is open, a count and a sweep cost the same however many have ended.
#[tokio::test]
async fn what_has_ended_is_in_nobodys_way() {
    let bed = Bed::new().await;
    lease(&bed.ledger, ask("stuck")).await;
    bed.elapse(&identity("stuck")).await;
    let failed = lease(&bed.ledger, ask("failed")).await;
    bed.ledger.finish(&failed, &Ending::failed_retryable("for now")).await.unwrap();
    fill(&bed, MANY);
    let over = lease(&bed.ledger, ask("over")).await;
    bed.ledger.finish(&over, &paid()).await.unwrap();
    bed.expire(&identity("over")).await;
    assert_eq!(sweep_all(&bed).await, Swept { removed: 1, held: 1, ..Swept::default() });
    lease(&bed.ledger, ask("running")).await;

    let before = rows_read(&bed).await;
    assert_eq!(keys(&bed, Status::Unknown).await, ["stuck"]);
    assert_eq!(keys(&bed, Status::FailedRetryable).await, ["failed"]);
    assert_eq!(keys(&bed, Status::InProgress).await, ["running"]);
    let stats = bed.ledger.stats().await.unwrap();
    assert_eq!(sweep_all(&bed).await, Swept::default());
    let read = rows_read(&bed).await - before;
    assert!(read < ROWS_READ_MAX, "{read} rows were read");

    // One of them is over: a look into its segment, and into no other.
    bed.psql(
        "WITH over AS (UPDATE {table} SET expires_at = now() WHERE principal = 'ann' \
             AND grpc_method = '/pay.Pay/Charge' AND idempotency_key = 'filled 5000' RETURNING record) \
         UPDATE {table}_segments SET due_at = now() WHERE (SELECT record FROM over) BETWEEN first AND last",
    );
    let before = rows_read(&bed).await;
    assert_eq!(bed.ledger.stats().await.unwrap().over, Some(1));
    assert_eq!(sweep_all(&bed).await, Swept { removed: 1, ..Swept::default() });
    let read = rows_read(&bed).await - before;
    assert!(read < i64::from(MANY) / 2, "{read} rows were read");

    let expected =
        [("IN_PROGRESS", 1), ("SUCCEEDED", u64::from(MANY)), ("FAILED_FINAL", 0), ("FAILED_RETRYABLE", 1)];
    let by_status = expected.into_iter().chain([("UNKNOWN", 1)]).collect();
    assert_eq!(stats, Stats { by_status, over: Some(0), ..Stats::default() });
    assert_eq!(keys(&bed, Status::Succeeded).await.len(), MANY as usize - 1);
}

/// What is over is found again where it was looked over before, whatever it was then.
#[tokio::test]
async fn everything_is_swept_when_its_time_comes() {
    let bed = Bed::with_clock().await;
    let terms =
        |ttl: u64| Terms::default().lease(BRIEF).ttl(Duration::from_secs(ttl)).on_lapse(OnLapse::Retry);
    let held = |key: &'static str, ttl| lease(&bed.ledger, ask(key).terms(terms(ttl)));
    let (short, long) = (held("short", 100).await, held("long", 9_000).await);
    for held in [&short, &long] {
        bed.ledger.finish(held, &paid()).await.unwrap();
    }
    let late = held("late", 100).await;
    let failed = held("failed", 100).await;
    bed.ledger.finish(&failed, &Ending::failed_retryable("for now")).await.unwrap();
    held("abandoned", 100).await;
    assert_eq!(sweep_all(&bed).await, Swept::default());
    // It ends after it was looked over as running.
    bed.ledger.finish(&late, &paid()).await.unwrap();
    assert_eq!(sweep_all(&bed).await, Swept::default());
    bed.pass(Duration::from_secs(101)).await;
    assert_eq!(sweep_all(&bed).await.removed, 3, "short, late and failed");
    bed.pass(BRIEF).await;
    assert_eq!(sweep_all(&bed).await.removed, 1, "abandoned");
    bed.pass(Duration::from_secs(9_000)).await;
    assert_eq!(sweep_all(&bed).await.removed, 1, "long");
    assert_eq!(bed.psql("SELECT count(*) FROM {table}"), "0");
    assert_eq!(bed.psql("SELECT count(*) FROM {table}_open"), "0");
    let stats = bed.ledger.stats().await.unwrap();
    assert_eq!((stats.by_status.values().sum::<u64>(), stats.over), (0, Some(0)));
}

/// A record with a smaller number than others is committed after those were looked over: it is not lost from sight.
#[tokio::test]
async fn a_record_that_commits_late_is_not_passed_by() {
    let bed = Bed::new().await;
    let mut client = bed.store.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    assert!(matches!(bed.store.begin_tx(&transaction, &ask("slow")).await.unwrap(), Decision::Execute(_)));
    let quick = lease(&bed.ledger, ask("quick")).await;
    bed.ledger.finish(&quick, &paid()).await.unwrap();
    assert_eq!(sweep_all(&bed).await, Swept::default());
    assert_eq!(keys(&bed, Status::Succeeded).await, ["quick"]);
    transaction.commit().await.unwrap();
    assert_eq!(keys(&bed, Status::InProgress).await, ["slow"]);
    sweep_all(&bed).await;
    assert_eq!(keys(&bed, Status::InProgress).await, ["slow"]);
    assert_ne!(bed.psql("SELECT count(*) FROM {table}_segments"), "0", "they were looked over");
    bed.elapse(&identity("slow")).await;
    bed.psql("UPDATE {table}_open SET look_at = now()");
    assert_eq!(sweep_all(&bed).await.held, 1);
}

/// What a hand has opened again after it was looked over is seen.
#[tokio::test]
async fn what_a_hand_opens_again_is_seen() {
    let bed = Bed::new().await;
    let held = lease(&bed.ledger, ask("k")).await;
    bed.ledger.finish(&held, &paid()).await.unwrap();
    sweep_all(&bed).await;
    bed.psql("UPDATE {table} SET status = 'UNKNOWN'");
    assert_eq!(keys(&bed, Status::Unknown).await, ["k"]);
}

/// A table that was there before this step is looked over from its beginning.
#[tokio::test]
async fn counts_say_what_they_leave_out() {
    let bed = Bed::new().await;
    fill(&bed, 100_500);
    let stats = bed.ledger.stats().await.unwrap();
    assert_eq!(stats.by_status["SUCCEEDED"], 100_000);
    assert!((1..=1_000).contains(&stats.uncounted), "{stats:?}");
    sweep_all(&bed).await;
    let stats = bed.ledger.stats().await.unwrap();
    assert_eq!((stats.by_status["SUCCEEDED"], stats.uncounted), (100_500, 0));
}
