//! Rows that no identity can name, or that make no sense: reported and passed over, never in the way.

use std::time::Duration;

use crate::support::{Bed, ask, identity, lease};
use driftq_ledger::{Ending, Filter, Record, Response, Status, Sweep};

/// Rows as an older release or a hand may have left them, of every status that is swept or listed: all of them come
/// before what is readable, by name as well as by time.
const STRANGE: &str = "INSERT INTO {table} (principal, grpc_method, idempotency_key, request_hash, status, created_at, \
         updated_at, expires_at, lease_expires_at) \
     SELECT principal, '/pay.Pay/Charge', n::text, 'h', status, now(), now(), now() - age, now() - age \
     FROM (VALUES (' ann'), ('  '), ('UNKNOWN')) AS names (principal), \
         (VALUES ('SUCCEEDED', 0), ('IN_PROGRESS', 100), ('UNKNOWN', 200), ('FAILED_RETRYABLE', 300)) AS kinds (status, base), \
         generate_series(base, base + 9) AS n, (VALUES (interval '9 days')) AS ages (age)";
/// How many rows those are.
const STRANGE_ROWS: u64 = 120;
/// How many of those, and of the two that only make no sense, a sweep comes across: what is unknown never ends.
const SWEPT_STRANGE_ROWS: u64 = 92;
/// Fewer than there are strange rows of any kind.
const PAGE: u32 = 5;

async fn with_strange_rows() -> Bed {
    let bed = Bed::new().await;
    bed.psql(STRANGE);
    // One of the readable names, with a status that no release knows, and one with an impossible epoch.
    for change in ["on_lapse = 'perhaps'", "epoch = -1"] {
        lease(&bed.ledger, ask("strange")).await;
        bed.psql(&format!(
            "UPDATE {{table}} SET {change}, idempotency_key = 'a ' || record, lease_expires_at = now() - interval '9 days', \
                 expires_at = now() - interval '9 days' WHERE idempotency_key = 'strange'"
        ));
    }
    bed
}

/// Lets a record of each kind come about that a sweep has to do with, and one that it has not.
async fn with_readable_rows(bed: &Bed) {
    for key in ["over 1", "over 2"] {
        let held = lease(&bed.ledger, ask(key)).await;
        bed.ledger.finish(&held, &Ending::succeeded(Response::new("paid"))).await.unwrap();
        bed.expire(&identity(key)).await;
    }
    lease(&bed.ledger, ask("stuck")).await;
    bed.elapse(&identity("stuck")).await;
    lease(&bed.ledger, ask("running")).await;
}

fn strange_rows(bed: &Bed) -> String {
    let strange = "idempotency_key !~ '^(over|stuck|running|again)'";
    bed.psql(&format!("SELECT * FROM {{table}} WHERE {strange} ORDER BY record"))
}

#[tokio::test]
async fn a_sweep_gets_past_rows_that_nobody_can_read() {
    let bed = with_strange_rows().await;
    with_readable_rows(&bed).await;
    let before = strange_rows(&bed);
    assert_eq!(before.lines().count() as u64, STRANGE_ROWS + 2);
    let dry = bed.ledger.sweep(Sweep { dry_run: true, limit: PAGE }).await.unwrap();
    assert_eq!((dry.removed, dry.held, dry.unreadable), (2, 1, SWEPT_STRANGE_ROWS));
    assert_eq!(bed.store.unreadable(), SWEPT_STRANGE_ROWS);
    let (mut removed, mut held) = (0, 0);
    loop {
        let swept = bed.ledger.sweep(Sweep { dry_run: false, limit: PAGE }).await.unwrap();
        (removed, held) = (removed + swept.removed, held + swept.held);
        if !swept.more {
            break;
        }
    }
    assert_eq!((removed, held), (2, 1));
    assert_eq!(strange_rows(&bed), before, "they are left as they are");
    assert_eq!(bed.ledger.get(&identity("stuck")).await.unwrap().unwrap().status, Status::Unknown);
}

async fn walk(bed: &Bed, mut filter: Filter) -> Vec<String> {
    let mut keys = Vec::new();
    loop {
        let page = bed.ledger.list(&filter).await.unwrap();
        assert!(page.records.len() <= filter.limit as usize);
        keys.extend(page.records.iter().map(|record: &Record| record.identity.key().to_owned()));
        let Some(cursor) = page.cursor else { return keys };
        assert_ne!(Some(&cursor), filter.cursor.as_ref(), "a page leads on");
        filter.cursor = Some(cursor);
    }
}

#[tokio::test]
async fn a_list_gets_past_rows_that_nobody_can_read() {
    let bed = with_strange_rows().await;
    with_readable_rows(&bed).await;
    let held = lease(&bed.ledger, ask("again")).await;
    bed.ledger.finish(&held, &Ending::failed_retryable("for now")).await.unwrap();
    for (status, expected) in [
        (Some(Status::Unknown), vec!["stuck"]),
        (Some(Status::InProgress), vec!["running"]),
        (Some(Status::FailedRetryable), vec!["again"]),
        (None, vec!["again", "running", "stuck"]),
    ] {
        let filter = Filter { status, limit: PAGE, ..Filter::default() };
        let first = bed.ledger.list(&filter).await.unwrap();
        let keys: Vec<&str> = first.records.iter().map(|record| record.identity.key()).collect();
        assert_eq!(keys, expected, "the first page of {status:?} has them");
        assert_eq!(walk(&bed, filter).await, expected, "{status:?}");
        let single = Filter { status, limit: 1, ..Filter::default() };
        assert_eq!(walk(&bed, single).await, expected, "{status:?}, one by one");
    }
    let retryable = bed.ledger.find_retryable(None, 1).await.unwrap();
    assert_eq!(retryable.len(), 1);
    let page = bed.ledger.list(&Filter { limit: PAGE, ..Filter::default() }).await.unwrap();
    assert_eq!(page.unreadable, STRANGE_ROWS + 2, "a page says what it has passed over");
}

/// Neither does one keep the sweeper of a service from its work.
#[tokio::test]
async fn a_sweeper_goes_on_beside_rows_that_nobody_can_read() {
    let bed = with_strange_rows().await;
    with_readable_rows(&bed).await;
    let ledger = bed.ledger.clone();
    let sweeper = tokio::spawn(async move { ledger.keep_swept(Duration::from_secs(3600)).await });
    let swept = async {
        while bed.psql("SELECT count(*) FROM {table} WHERE idempotency_key LIKE 'over%'") != "0" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), swept).await.unwrap();
    sweeper.abort();
}

/// A status that no release knows, as a newer one may have written it.
#[tokio::test]
async fn a_count_reports_a_status_that_nobody_knows_and_goes_on() {
    let bed = Bed::new().await;
    lease(&bed.ledger, ask("running")).await;
    let held = lease(&bed.ledger, ask("done")).await;
    bed.ledger.finish(&held, &Ending::succeeded(Response::new("paid"))).await.unwrap();
    for key in ["strange 1", "strange 2"] {
        lease(&bed.ledger, ask(key)).await;
    }
    bed.psql("UPDATE {table} SET status = 'PAUSED' WHERE idempotency_key LIKE 'strange%'");
    // Before a sweep has looked over them, and after.
    for _ in 0..2 {
        let stats = bed.ledger.stats().await.unwrap();
        assert_eq!(stats.unreadable, 2);
        assert_eq!((stats.by_status["IN_PROGRESS"], stats.by_status["SUCCEEDED"]), (1, 1));
        bed.ledger.sweep(Sweep::default()).await.unwrap();
    }
}
