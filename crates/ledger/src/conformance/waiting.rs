//! Callers wait for the holder that runs the effect.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::Harness;
use super::kit::{
    Case, PATIENCE, executes, is_unknown, is_what_was_said, keeps_off, may_be_tried, replays, success,
};
use crate::{Begin, Decision, Ending, OnLapse};

const WAITERS: usize = 8;

/// Some callers that wait for the same effect.
fn waiters(case: &Case<'_>, asked: &Begin) -> JoinSet<Decision> {
    let mut waiters = JoinSet::new();
    for _ in 0..WAITERS {
        let (ledger, asked) = (case.ledger().clone(), asked.clone());
        waiters.spawn(async move { ledger.begin(asked).await.expect("begin decides") });
    }
    waiters
}

async fn next(waiters: &mut JoinSet<Decision>) -> Decision {
    let next = timeout(PATIENCE, waiters.join_next()).await.expect("a waiter is told in time");
    next.expect("there is another waiter").expect("no waiter panics")
}

/// When it has ended, the waiters are told how.
pub async fn those_who_wait_are_told_how_it_ended(harness: &dyn Harness) {
    let case = Case::new(harness);
    let lease = case.first("k").await;
    let mut waiting = waiters(&case, &case.asking("k").wait(PATIENCE));
    case.commit(&lease, &success("done")).await;
    for _ in 0..WAITERS {
        is_what_was_said(&replays(next(&mut waiting).await), &lease, &success("done"));
    }
}

/// Also if it failed and may be tried again; waiters that take failures on have a case of their own.
pub async fn those_who_wait_are_told_that_it_may_be_tried(harness: &dyn Harness) {
    let case = Case::new(harness);
    let lease = case.first("k").await;
    let mut waiting = waiters(&case, &case.asking("k").wait(PATIENCE));
    case.commit(&lease, &Ending::failed_retryable("for now")).await;
    for _ in 0..WAITERS {
        let (outcome, _) = may_be_tried(next(&mut waiting).await);
        is_what_was_said(&outcome, &lease, &Ending::failed_retryable("for now"));
    }
}

/// After a failure one of the waiters that take failures on runs it, and the others go on waiting for that one.
pub async fn after_a_failure_one_waiter_takes_it_on(harness: &dyn Harness) {
    let case = Case::new(harness);
    let lease = case.first("k").await;
    let mut waiting = waiters(&case, &case.asking("k").reacquire().wait(PATIENCE));
    case.commit(&lease, &Ending::failed_retryable("for now")).await;
    one_runs_it_and_the_others_wait_on(&case, &mut waiting).await;
}

/// After a lapse one of the waiters takes over, and the others go on waiting for that one.
pub async fn after_a_lapse_one_waiter_takes_over(harness: &dyn Harness) {
    let case = Case::new(harness);
    let lease = case.first_on("k", case.lapsing(OnLapse::Retry)).await;
    let mut waiting = waiters(&case, &case.asking("k").wait(PATIENCE));
    harness.elapse(&lease.identity).await;
    one_runs_it_and_the_others_wait_on(&case, &mut waiting).await;
    case.is_shut_out(&lease).await;
}

async fn one_runs_it_and_the_others_wait_on(case: &Case<'_>, waiting: &mut JoinSet<Decision>) {
    let taken = executes(next(waiting).await, 2, 2);
    case.commit(&taken, &success("taken")).await;
    for _ in 1..WAITERS {
        is_what_was_said(&replays(next(waiting).await), &taken, &success("taken"));
    }
}

/// When no caller may repeat it, the waiters learn that as soon as the lease lapses.
pub async fn those_who_wait_learn_that_it_is_unknown(harness: &dyn Harness) {
    let case = Case::new(harness);
    let lease = case.first_on("k", case.lapsing(OnLapse::Hold)).await;
    let mut waiting = waiters(&case, &case.asking("k").wait(PATIENCE));
    harness.elapse(&lease.identity).await;
    for _ in 0..WAITERS {
        is_unknown(&next(&mut waiting).await, &lease);
    }
}

/// Waiting ends in time.
pub async fn waiting_ends_in_time(harness: &dyn Harness) {
    let case = Case::new(harness);
    let lease = case.first("k").await;
    let (wait, started) = (Duration::from_millis(50), Instant::now());
    keeps_off(&case.told(case.asking("k").wait(wait)).await, &lease);
    let took = started.elapsed();
    assert!(took >= wait && took < PATIENCE, "it took {took:?}");
}

/// A caller that need not wait does not.
pub async fn whoever_need_not_wait_does_not(harness: &dyn Harness) {
    let case = Case::new(harness);
    let patient = |key: &str| case.asking(key).wait(PATIENCE * 100);
    let started = Instant::now();
    let lease = executes(case.told(patient("k")).await, 1, 1);
    case.commit(&lease, &success("done")).await;
    replays(case.told(patient("k")).await);
    case.ended("failed", &Ending::failed_retryable("for now")).await;
    may_be_tried(case.told(patient("failed")).await);
    assert!(started.elapsed() < PATIENCE);
}

/// A wait without an end is allowed, and not an error.
pub async fn a_wait_without_an_end_is_fine(harness: &dyn Harness) {
    let case = Case::new(harness);
    let asked = || case.asking("k").wait(Duration::MAX);
    let lease = executes(case.told(asked()).await, 1, 1);
    let mut waiting = waiters(&case, &asked());
    case.commit(&lease, &success("done")).await;
    for _ in 0..WAITERS {
        is_what_was_said(&replays(next(&mut waiting).await), &lease, &success("done"));
    }
}
