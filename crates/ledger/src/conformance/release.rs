//! The holder of a lease gives it up: nothing was done under it.

use super::Harness;
use super::kit::{Case, LONG, endings, executes, hash, is_stale, success};
use crate::{Finished, OnLapse, Status};

/// The next caller runs it, and whoever gave it up has no say any more. A store that can forget a record has forgotten
/// it; another one has a failure that may be tried again.
pub async fn what_was_given_up_may_run(harness: &dyn Harness) {
    let case = Case::new(harness);
    let live = case.first("live").await;
    let lapsed = case.lapsed("lapsed", OnLapse::Hold).await;
    let unknown = case.unknown("unknown").await;
    for lease in [live, lapsed, unknown] {
        let key = lease.identity.key().to_owned();
        for expected in [Finished::Committed, Finished::AlreadyCommitted] {
            assert_eq!(case.ledger().release(&lease).await, Ok(expected), "{key}");
        }
        is_stale(&case.ledger().renew(&lease, LONG).await);
        is_stale(&case.ledger().finish(&lease, &success("too late")).await);
        let other = case.asking(&key).reacquire();
        match case.ledger().get(&lease.identity).await.expect("get answers") {
            None => {
                let other = crate::Begin { hash: hash("another request"), ..other };
                executes(case.told(other).await, 1, 1);
            }
            Some(record) => {
                assert_eq!(record.status, Status::FailedRetryable, "{record:?}");
                executes(case.told(other).await, 2, 2);
            }
        }
    }
}

/// What is known about an attempt before stays known: only the newest lease is given up.
pub async fn a_later_attempt_that_was_given_up_may_be_tried_again(harness: &dyn Harness) {
    let case = Case::new(harness);
    case.lapsed("k", OnLapse::Retry).await;
    let second = executes(case.begin("k").await, 2, 2);
    for expected in [Finished::Committed, Finished::AlreadyCommitted] {
        assert_eq!(case.ledger().release(&second).await, Ok(expected));
    }
    let record = case.record("k").await;
    assert_eq!((record.status, record.attempts), (Status::FailedRetryable, 2));
    executes(case.told(case.asking("k").reacquire()).await, 3, 3);
}

/// What ended is not given up.
pub async fn what_ended_stays(harness: &dyn Harness) {
    let case = Case::new(harness);
    for ending in endings() {
        let key = format!("{:?}", ending.end);
        let lease = case.ended(&key, &ending).await;
        let before = case.record(&key).await;
        is_stale(&case.ledger().release(&lease).await);
        assert_eq!(case.record(&key).await, before);
    }
}

/// A holder that was overtaken, or about whose effect an operator has decided, gives nothing up.
pub async fn whoever_was_overtaken_gives_nothing_up(harness: &dyn Harness) {
    let case = Case::new(harness);
    let old = case.lapsed("k", OnLapse::Retry).await;
    let new = executes(case.begin("k").await, 2, 2);
    is_stale(&case.ledger().release(&old).await);
    case.commit(&new, &success("new")).await;
    let resolved = case.unknown("resolved").await;
    case.resolve("resolved", success("found")).await;
    is_stale(&case.ledger().release(&resolved).await);
    assert_eq!(case.record("resolved").await.status, Status::Succeeded);
}
