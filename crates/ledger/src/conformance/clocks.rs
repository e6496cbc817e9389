//! Clocks: only the store's counts, and no time decides who owns an effect.

use std::time::Duration;

use super::Harness;
use super::kit::{Case, LONG, executes, is_stale, is_what_was_said, keeps_off, success};
use crate::{Ending, Lease, Moment, OnLapse};

/// The finest that a record can tell apart on every store.
const GRAIN: Duration = Duration::from_millis(1);

/// Leases as holders with odd clocks would hand them over.
fn as_by_odd_clocks(lease: &Lease) -> [Lease; 4] {
    let with = |expires_at, lasts| Lease { expires_at, lasts, ..lease.clone() };
    [
        with(Moment::from_micros(0), Duration::from_nanos(1)),
        with(Moment::from_micros(i64::MIN), Duration::ZERO),
        with(Moment::from_micros(i64::MAX), Duration::MAX),
        with(Moment::from_millis(4_102_444_800_000), LONG),
    ]
}

/// Weakness of the seed's contract: a clock that is behind let a stale worker win. Whatever times it comes with, it was
/// overtaken.
pub async fn a_stale_worker_loses_whatever_its_clock_says(harness: &dyn Harness) {
    let case = Case::new(harness);
    let old = case.lapsed("k", OnLapse::Retry).await;
    let new = executes(case.begin("k").await, 2, 2);
    for odd in as_by_odd_clocks(&old) {
        case.is_shut_out(&odd).await;
    }
    keeps_off(&case.begin("k").await, &new);
    case.commit(&new, &success("new")).await;
    for odd in as_by_odd_clocks(&old) {
        is_stale(&case.ledger().finish(&odd, &success("new")).await);
    }
    is_what_was_said(&case.replayed("k").await, &new, &success("new"));
}

/// The newest lease counts, also if its holder's clock says that it is long over or not yet given.
pub async fn the_newest_lease_counts_whatever_its_holders_clock_says(harness: &dyn Harness) {
    let case = Case::new(harness);
    let lease = case.first("plain").await;
    for (at, odd) in as_by_odd_clocks(&lease).into_iter().enumerate() {
        let until = case.ledger().renew(&odd, LONG).await.expect("it goes on");
        assert!(until >= lease.expires_at && until.since(lease.expires_at) < LONG, "renewal {at} to {until}");
        let key = format!("odd {at}");
        let lease = case.first(&key).await;
        let odd = as_by_odd_clocks(&lease)[at].clone();
        case.commit(&odd, &success("done")).await;
        is_what_was_said(&case.replayed(&key).await, &lease, &success("done"));
    }
}

/// Weakness of the seed's contract: a clock that is behind blocked a retry. A failure can be taken on at once, by any
/// caller, and so can a lapse.
pub async fn no_clock_blocks_a_retry(harness: &dyn Harness) {
    let case = Case::new(harness);
    let mut lease = case.first("failed").await;
    for attempt in 2..=5 {
        let odd = as_by_odd_clocks(&lease)[attempt as usize - 2].clone();
        case.commit(&odd, &Ending::failed_retryable("for now")).await;
        lease = executes(case.told(case.asking("failed").reacquire()).await, attempt, attempt);
    }
    let lapsed = case.lapsed("lapsed", OnLapse::Retry).await;
    let until = case.record("lapsed").await.lease_expires_at;
    assert_eq!(until, Some(lapsed.expires_at));
    executes(case.begin("lapsed").await, 2, 2);
}

/// Weakness of the seed's contract: times finer than a store keeps were compared with what it had kept. What is told is
/// what is kept, and times with odd nanoseconds do no harm.
pub async fn times_are_told_as_they_are_kept(harness: &dyn Harness) {
    let case = Case::new(harness);
    for (at, nanos) in [1, 999, 1_000, 1_999, 123_456_789, 999_999_999].into_iter().enumerate() {
        let key = format!("k{at}");
        let odd = LONG + Duration::from_nanos(nanos);
        let lease = case.first_on(&key, case.long().lease(odd).ttl(odd)).await;
        assert_eq!(case.record(&key).await.lease_expires_at, Some(lease.expires_at), "{nanos} ns");
        let until = case.ledger().renew(&lease, odd + Duration::from_nanos(nanos)).await.expect("it goes on");
        assert_eq!(case.record(&key).await.lease_expires_at, Some(until), "{nanos} ns");
        assert!(until >= lease.expires_at, "never shorter: {nanos} ns");
        case.commit(&lease, &success("done")).await;
        let again = case.ledger().finish(&lease, &success("done")).await;
        assert_eq!(again, Ok(crate::Finished::AlreadyCommitted), "{nanos} ns");
        let outcome = case.replayed(&key).await;
        assert_eq!(case.replayed(&key).await.finished_at, outcome.finished_at, "read twice");
        let record = case.record(&key).await;
        let listed = case.listed(None, 100).await.into_iter().find(|one| one.identity.key() == key);
        let listed = listed.expect("it is listed");
        for one in [&record, &listed] {
            let finished_at = one.outcome.as_ref().map(|outcome| outcome.finished_at);
            assert_eq!(finished_at, Some(outcome.finished_at), "{nanos} ns");
            let kept = one.expires_at.expect("it ends").since(outcome.finished_at);
            assert!(kept.abs_diff(odd) <= GRAIN, "it is kept for {kept:?} instead of {odd:?}");
        }
        assert_eq!((record.created_at, record.expires_at), (listed.created_at, listed.expires_at));
    }
}

/// A lease whose length is not a whole number of any unit lapses like any other.
pub async fn a_lease_of_odd_length_lapses_and_is_taken_over(harness: &dyn Harness) {
    let case = Case::new(harness);
    let odd = harness.brief() - Duration::from_nanos(1);
    let old = case.lapsed_on("k", case.long().lease(odd).on_lapse(OnLapse::Retry)).await;
    let new = executes(case.begin("k").await, 2, 2);
    case.is_shut_out(&old).await;
    case.commit(&new, &success("done")).await;
}

/// Times of one record are in order.
pub async fn times_of_a_record_are_in_order(harness: &dyn Harness) {
    let case = Case::new(harness);
    let first = case.ended("k", &Ending::failed_retryable("for now")).await;
    let failed = case.record("k").await;
    let failed_at = failed.outcome.as_ref().expect("it ended").finished_at;
    assert!(failed.created_at <= failed_at && failed_at < first.expires_at);
    let second = executes(case.told(case.asking("k").reacquire()).await, 2, 2);
    assert!(second.expires_at >= first.expires_at);
    case.commit(&second, &success("done")).await;
    let done = case.record("k").await;
    assert_eq!(done.created_at, failed.created_at, "it is the same record");
    assert!(done.updated_at >= failed.updated_at);
    assert!(done.outcome.expect("it ended").finished_at >= failed_at);
}
