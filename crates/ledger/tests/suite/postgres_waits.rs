//! Calls that wait for a lock while time passes or the record changes: they decide by how it stands when they get it.

use std::time::Duration;

use crate::support::{Bed, ask, identity, lease};
use driftq_ledger::{
    Begin, Decision, Ending, Lease, LedgerError, Moment, OnLapse, Record, Resolve, Resolver, Response,
    Status, Terms,
};

/// Of every lease here: shorter than what passes while a call waits.
const LASTS: Duration = Duration::from_secs(60);
/// What passes while a call waits.
const WAITED: Duration = Duration::from_secs(600);
/// Longer than a test takes from one statement to the next, and much shorter than what passes.
const SLACK: Duration = Duration::from_secs(30);
const TTL: Duration = Duration::from_secs(7200);

fn asking(key: &str) -> Begin {
    ask(key).terms(Terms::default().lease(LASTS).ttl(TTL).on_lapse(OnLapse::Retry)).owner("second")
}

fn now(bed: &Bed) -> Moment {
    let micros = bed.psql(&format!("SELECT (extract(epoch FROM {}.clock()) * 1000000)::bigint", bed.schema));
    Moment::from_micros(micros.parse().unwrap())
}

/// The lease was given when the lock was there: nearly all of it is left.
fn is_whole(bed: &Bed, held: &Lease) {
    let left = held.expires_at.since(now(bed));
    assert!(left <= LASTS && left + SLACK > LASTS, "{left:?} of {LASTS:?} are left");
}

/// All of a record that was lent just now, by what its lease says.
fn lent(held: &Lease, created_at: Moment, updated_at: Moment) -> Record {
    Record {
        identity: held.identity.clone(),
        status: Status::InProgress,
        epoch: held.epoch,
        attempts: held.attempt,
        attempts_max: None,
        on_lapse: OnLapse::Retry,
        lease_expires_at: Some(held.expires_at),
        lease_live: true,
        request_hash: asking("k").hash.to_string(),
        owner: Some("second".to_owned()),
        created_at,
        updated_at,
        expires_at: None,
        outcome: None,
    }
}

async fn is_lent(bed: &Bed, held: &Lease) {
    is_whole(bed, held);
    let there = bed.ledger.get(&held.identity).await.unwrap().unwrap();
    let given = held.expires_at.since(there.updated_at);
    assert!(given.abs_diff(LASTS) < Duration::from_millis(100), "it was given for {given:?}");
    if held.epoch == 1 {
        assert_eq!(there.created_at, there.updated_at);
    }
    assert_eq!(there, lent(held, there.created_at, there.updated_at));
    let keeps = bed.psql("SELECT expires_at - lease_expires_at - ttl_us * interval '1 microsecond' < interval '1 ms' FROM {table}");
    assert_eq!(keeps, "t", "it is remembered from the end of the lease on");
}

/// The first caller has made the record and not committed; it is rolled back long after the second one asked.
#[tokio::test]
async fn a_begin_that_waited_for_another_gets_a_whole_lease() {
    let bed = Bed::with_clock().await;
    let mut client = bed.store.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    assert!(matches!(bed.store.begin_tx(&transaction, &ask("k")).await.unwrap(), Decision::Execute(_)));
    let ledger = bed.ledger.clone();
    let second = tokio::spawn(async move { lease(&ledger, asking("k")).await });
    bed.until_one_waits().await;
    bed.pass(WAITED).await;
    transaction.rollback().await.unwrap();
    let held = second.await.unwrap();
    assert_eq!(held.epoch, 1);
    is_lent(&bed, &held).await;
}

/// As above, but the first one commits, and its lease lapsed while the second one waited: that one takes over.
#[tokio::test]
async fn a_begin_that_waited_sees_a_lease_that_lapsed_meanwhile() {
    let bed = Bed::with_clock().await;
    let mut client = bed.store.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    assert!(matches!(bed.store.begin_tx(&transaction, &asking("k")).await.unwrap(), Decision::Execute(_)));
    let ledger = bed.ledger.clone();
    let second = tokio::spawn(async move { lease(&ledger, asking("k")).await });
    bed.until_one_waits().await;
    bed.pass(WAITED).await;
    transaction.commit().await.unwrap();
    let held = second.await.unwrap();
    assert_eq!((held.epoch, held.attempt), (2, 2));
    is_lent(&bed, &held).await;
}

/// The holder, whose lease is over, was about to commit and rolls back long after the second one asked.
#[tokio::test]
async fn a_take_over_that_waited_gets_a_whole_lease() {
    let bed = Bed::with_clock().await;
    let old = lease(&bed.ledger, asking("k")).await;
    bed.pass(LASTS).await;
    let mut client = bed.store.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    bed.store.finish_tx(&transaction, &old, &Ending::succeeded(Response::new("paid"))).await.unwrap();
    let ledger = bed.ledger.clone();
    let second = tokio::spawn(async move { lease(&ledger, asking("k")).await });
    bed.until_one_waits().await;
    bed.pass(WAITED).await;
    transaction.rollback().await.unwrap();
    let held = second.await.unwrap();
    assert_eq!((held.epoch, held.attempt), (2, 2));
    is_lent(&bed, &held).await;
}

/// A renewal that waited goes on from when it got the lock, and an ending that waited is remembered from then on.
#[tokio::test]
async fn a_renewal_and_a_finish_that_waited_count_from_then_on() {
    let bed = Bed::with_clock().await;
    let held = lease(&bed.ledger, asking("k")).await;
    for ends in [false, true] {
        let mut client = bed.store.pool().get().await.unwrap();
        let transaction = client.transaction().await.unwrap();
        transaction.batch_execute(&format!("SELECT 1 FROM {} FOR UPDATE", bed.table())).await.unwrap();
        let (ledger, lease) = (bed.ledger.clone(), held.clone());
        let call = tokio::spawn(async move {
            match ends {
                false => ledger.renew(&lease, LASTS).await.map(|_| ()),
                true => ledger.finish(&lease, &Ending::succeeded(Response::new("paid"))).await.map(|_| ()),
            }
        });
        bed.until_one_waits().await;
        bed.pass(WAITED).await;
        transaction.rollback().await.unwrap();
        call.await.unwrap().unwrap();
        let record = bed.ledger.get(&held.identity).await.unwrap().unwrap();
        assert!(now(&bed).since(record.updated_at) < SLACK, "{record:?}");
        let (end, lasts) = match ends {
            false => (record.lease_expires_at.unwrap(), LASTS),
            true => (record.expires_at.unwrap(), TTL),
        };
        assert!(end.since(now(&bed)) + SLACK > lasts, "{record:?}");
    }
}

/// An operator has read a lapsed lease; before the resolution is written, another caller takes over.
#[tokio::test]
async fn a_take_over_between_read_and_write_keeps_a_resolution_off() {
    let bed = Bed::with_clock().await;
    lease(&bed.ledger, asking("k")).await;
    bed.pass(LASTS).await;
    let mut client = bed.store.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let Decision::Execute(newer) = bed.store.begin_tx(&transaction, &asking("k")).await.unwrap() else {
        panic!("the lease is over");
    };
    assert_eq!(newer.epoch, 2);
    let ledger = bed.ledger.clone();
    let resolution = tokio::spawn(async move {
        let resolver = Resolver { by: "ann".to_owned(), why: "looked".to_owned() };
        let ending = Ending::failed_final("no");
        ledger.resolve(&Resolve { identity: identity("k"), epoch: None, ending, resolver, ttl: TTL }).await
    });
    bed.until_one_waits().await;
    transaction.commit().await.unwrap();
    assert_eq!(resolution.await.unwrap(), Err(LedgerError::Running));
    is_lent(&bed, &newer).await;
}

/// The holder has not ended when its record was read for a late finish; before that is written, another takes over.
#[tokio::test]
async fn a_take_over_between_read_and_write_keeps_a_finish_and_a_renewal_off() {
    let bed = Bed::with_clock().await;
    for key in ["finish", "renew"] {
        bed.psql("DELETE FROM {table}");
        let old = lease(&bed.ledger, asking(key)).await;
        bed.pass(LASTS).await;
        let mut client = bed.store.pool().get().await.unwrap();
        let transaction = client.transaction().await.unwrap();
        let Decision::Execute(newer) = bed.store.begin_tx(&transaction, &asking(key)).await.unwrap() else {
            panic!("the lease is over");
        };
        let ledger = bed.ledger.clone();
        let late = tokio::spawn(async move {
            match key {
                "finish" => ledger.finish(&old, &Ending::succeeded(Response::new("late"))).await.map(|_| ()),
                _ => ledger.renew(&old, LASTS).await.map(|_| ()),
            }
        });
        bed.until_one_waits().await;
        transaction.commit().await.unwrap();
        assert!(matches!(late.await.unwrap(), Err(LedgerError::Stale(_))));
        is_lent(&bed, &newer).await;
    }
}
