//! The guide for moving a table of the original form does what it says: its statements are run from the page.

use std::time::Duration;

use crate::support::{Bed, identity, lease};
use driftq_ledger::{Begin, Decision, Ending, OnLapse, RequestHash, Status, Terms};

const PAGE: &str = include_str!("../../../../docs/ledger.md");

/// The statements on the page that are marked so, one text per block.
fn blocks(mark: &str) -> Vec<&'static str> {
    let fence = format!("```{mark}\n");
    let ends = |block: &'static str| block.split_once("\n```").map(|(sql, _)| sql);
    PAGE.split(&fence).skip(1).filter_map(ends).collect()
}

/// On the table of this test, and with its function beside it.
fn run(bed: &Bed, block: &str) -> String {
    let function = format!("FUNCTION {}.fence", bed.schema);
    let named = block.replace("FUNCTION idempotency_keys_fence", &function);
    bed.psql(
        &named
            .replace("TRIGGER idempotency_keys_fence", "TRIGGER fence")
            .replace("idempotency_keys", "{table}"),
    )
}

fn ask(key: &str) -> Begin {
    let terms = Terms::default().on_lapse(OnLapse::Retry);
    Begin::new(identity(key), RequestHash::foreign("h").unwrap()).terms(terms)
}

/// What old code does with what failed and may be tried again.
fn old_reacquire(bed: &Bed, key: &str) -> String {
    bed.psql(&format!(
        "UPDATE {{table}} SET status = 'IN_PROGRESS', updated_at = now() \
         WHERE idempotency_key = '{key}' AND status = 'FAILED_RETRYABLE' RETURNING epoch"
    ))
}

#[tokio::test]
async fn a_table_of_the_original_form_is_moved_as_the_page_says() {
    let bed = Bed::empty();
    let before = blocks("sql");
    assert_eq!(before.len(), 4, "the table, two looks, and what is over");
    run(&bed, before[0]);
    bed.psql(
        "INSERT INTO {table} SELECT 'ann', '/pay.Pay/Charge', key, 'h', status, 200, 'ok', now(), now(), now() + left_over \
         FROM (VALUES ('done', 'SUCCEEDED', interval '1 hour'), ('stuck', 'IN_PROGRESS', interval '1 hour'), \
         ('again', 'FAILED_RETRYABLE', interval '1 hour'), ('once more', 'FAILED_RETRYABLE', interval '1 hour'), \
         ('over', 'SUCCEEDED', interval '-1 hour'), (' blank', 'SUCCEEDED', interval '1 hour')) \
         AS rows (key, status, left_over)",
    );
    assert_eq!(run(&bed, before[1]), "1", "the one with a blank");
    assert!(run(&bed, before[2]).contains("stuck"));
    run(&bed, before[3]);
    assert_eq!(bed.psql("SELECT count(*) FROM {table}"), "5");

    bed.store.migrate().await.unwrap();
    let after = blocks("sql after-migrate");
    assert_eq!(after.len(), 3, "the fence, more time, and no fence");
    run(&bed, after[0]);
    run(&bed, after[1]);
    let left = bed.psql(
        "SELECT lease_expires_at > now() + interval '50 minutes' FROM {table} WHERE idempotency_key = 'stuck'",
    );
    assert_eq!(left, "t");
    assert!(matches!(bed.ledger.begin(ask("done")).await.unwrap(), Decision::Replay(_)));
    run(&bed, after[2]);
    assert_eq!(old_reacquire(&bed, "again").lines().next(), Some("1"), "without the fence the epoch stays");
}

#[tokio::test]
async fn the_fence_makes_a_reacquire_of_old_code_a_lease() {
    let bed = Bed::new().await;
    let after = blocks("sql after-migrate");
    run(&bed, after[0]);
    let mine = lease(&bed.ledger, ask("again")).await;
    let failed = Ending::failed_retryable("later");
    bed.ledger.finish(&mine, &failed).await.unwrap();
    assert_eq!(old_reacquire(&bed, "again").lines().next(), Some("2"));

    let told = bed.ledger.begin(ask("again").reacquire()).await.unwrap();
    assert!(matches!(told, Decision::InProgress { epoch: 2, attempt: 2, .. }), "{told:?}");
    assert!(
        bed.ledger.finish(&mine, &failed).await.is_err(),
        "a late repetition does not end the old worker's"
    );
    let record = bed.ledger.get(&identity("again")).await.unwrap().unwrap();
    assert_eq!((record.status, record.on_lapse), (Status::InProgress, OnLapse::Hold));

    // New code is not touched by it: neither what it takes over nor what it begins anew.
    let brief = Terms::default().ttl(Duration::from_millis(1));
    let first = lease(&bed.ledger, ask("anew").terms(brief)).await;
    bed.ledger.finish(&first, &failed).await.unwrap();
    bed.psql("UPDATE {table} SET expires_at = now() WHERE idempotency_key = 'anew'");
    assert_eq!(lease(&bed.ledger, ask("anew").reacquire()).await.epoch, 1);
    let first = lease(&bed.ledger, ask("taken")).await;
    bed.ledger.finish(&first, &failed).await.unwrap();
    let second = lease(&bed.ledger, ask("taken").reacquire()).await;
    assert_eq!((second.epoch, second.attempt), (2, 2));
}
