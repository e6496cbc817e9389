//! A cap on attempts.

use super::Harness;
use super::kit::{Case, executes, is_unknown, is_what_was_said, may_be_tried, success};
use crate::{Decision, Ending, LedgerError, OnLapse, Terms};

const CAP: u32 = 2;

fn capped(case: &Case<'_>) -> Terms {
    case.long().on_lapse(OnLapse::Retry).attempts_max(CAP)
}

/// What a caller that repeats the cap is told: it failed, and how many attempts are left.
async fn attempts_left(case: &Case<'_>) -> Option<u32> {
    let (outcome, left) = may_be_tried(case.told(case.asking("k").terms(capped(case))).await);
    assert_eq!(outcome.end, crate::End::FailedRetryable);
    left
}

async fn reacquired(case: &Case<'_>) -> Result<Decision, LedgerError> {
    case.ledger().reacquire(case.retrying("k").terms(capped(case))).await
}

/// Two failures, and nothing is left.
async fn use_up(case: &Case<'_>) {
    let first = case.first_on("k", capped(case)).await;
    case.commit(&first, &Ending::failed_retryable("one")).await;
    assert_eq!(attempts_left(case).await, Some(1));
    let second = executes(reacquired(case).await.expect("it decides"), 2, 2);
    case.commit(&second, &Ending::failed_retryable("two")).await;
    assert_eq!(attempts_left(case).await, Some(0));
    let eager = case.asking("k").terms(capped(case)).reacquire();
    assert_eq!(may_be_tried(case.told(eager).await).1, Some(0), "begin tells how it failed");
    assert_eq!(reacquired(case).await, Err(LedgerError::Exhausted { attempts: CAP }));
    let record = case.record("k").await;
    assert_eq!((record.attempts, record.attempts_max, record.epoch), (CAP, Some(CAP), 2));
}

/// Failures use the attempts up, and nothing changes that but a person.
pub async fn failures_use_the_attempts_up(harness: &dyn Harness) {
    let case = Case::new(harness);
    use_up(&case).await;
    // Nor does a caller that does not state the cap get around it.
    assert_eq!(may_be_tried(case.told(case.asking("k").reacquire()).await).1, Some(0));
    let worker = case.ledger().reacquire(case.retrying("k")).await;
    assert_eq!(worker, Err(LedgerError::Exhausted { attempts: CAP }));
}

/// A person who says that it did not happen grants one more attempt, also to callers that repeat the old cap.
pub async fn a_person_grants_one_more_attempt(harness: &dyn Harness) {
    let case = Case::new(harness);
    use_up(&case).await;
    case.resolve("k", Ending::failed_retryable("it did not happen")).await;
    assert_eq!(attempts_left(&case).await, Some(1));
    assert_eq!(may_be_tried(case.begin("k").await).1, Some(1), "also without the cap");
    let third = executes(reacquired(&case).await.expect("it decides"), 4, 3);
    case.commit(&third, &Ending::failed_retryable("three")).await;
    assert_eq!(attempts_left(&case).await, Some(0));
    assert_eq!(reacquired(&case).await, Err(LedgerError::Exhausted { attempts: 3 }));
}

/// Also if the person says it in the words of the worker: who says so is part of what is said.
pub async fn a_person_may_repeat_the_words_of_the_worker(harness: &dyn Harness) {
    let case = Case::new(harness);
    use_up(&case).await;
    case.resolve("k", Ending::failed_retryable("two")).await;
    let again = case.ledger().resolve(&case.found("k", Ending::failed_retryable("two"))).await;
    assert_eq!(again, Ok(crate::Finished::AlreadyCommitted), "and is granted once");
    assert_eq!(attempts_left(&case).await, Some(1));
}

/// A lapse of the last attempt is unknown, also where a lapse may be repeated.
pub async fn a_lapse_of_the_last_attempt_is_unknown(harness: &dyn Harness) {
    let case = Case::new(harness);
    let brief = || capped(&case).lease(harness.brief());
    case.lapsed_on("k", brief()).await;
    let last = executes(case.told(case.asking("k").terms(brief())).await, 2, 2);
    harness.elapse(&last.identity).await;
    assert_eq!(case.record("k").await.status, crate::Status::Unknown);
    assert_eq!(case.keys(Some(crate::Status::Unknown)).await, ["k"]);
    is_unknown(&case.told(case.asking("k").terms(capped(&case))).await, &last);
    is_unknown(&reacquired(&case).await.expect("it decides"), &last);
    case.resolve("k", Ending::failed_retryable("it did not happen")).await;
    case.is_shut_out(&last).await;
    assert_eq!(attempts_left(&case).await, Some(1));
    let third = executes(reacquired(&case).await.expect("it decides"), 4, 3);
    case.commit(&third, &success("at last")).await;
    is_what_was_said(&case.replayed("k").await, &third, &success("at last"));
}

/// Of the asker's cap and the record's cap the larger counts, and is kept.
pub async fn the_larger_cap_counts_and_is_kept(harness: &dyn Harness) {
    let case = Case::new(harness);
    let first = case.first_on("k", case.long().attempts_max(1)).await;
    case.commit(&first, &Ending::failed_retryable("one")).await;
    assert_eq!(may_be_tried(case.begin("k").await).1, Some(0));
    let asked = case.asking("k").terms(case.long().attempts_max(3));
    assert_eq!(may_be_tried(case.told(asked.clone()).await).1, Some(2));
    assert_eq!(may_be_tried(case.begin("k").await).1, Some(0), "asking alone changes nothing");
    let second = executes(case.told(asked.reacquire()).await, 2, 2);
    case.commit(&second, &Ending::failed_retryable("two")).await;
    assert_eq!(case.record("k").await.attempts_max, Some(3));
    let smaller = case.asking("k").terms(case.long().attempts_max(1));
    assert_eq!(may_be_tried(case.told(smaller.clone()).await).1, Some(1));
    // A caller that takes it on with a smaller cap, or with none, does not lower it.
    let third = executes(case.told(smaller.reacquire()).await, 3, 3);
    assert_eq!(case.record("k").await.attempts_max, Some(3));
    case.commit(&third, &Ending::failed_retryable("three")).await;
    assert_eq!(may_be_tried(case.begin("k").await).1, Some(0));
}

/// A cap of one asker stops that asker: what may be repeated stays so for the others.
pub async fn an_asker_s_own_cap_stops_that_asker_alone(harness: &dyn Harness) {
    let case = Case::new(harness);
    let brief = case.long().on_lapse(OnLapse::Retry).lease(harness.brief());
    case.lapsed_on("k", brief).await;
    let own = case.asking("k").terms(case.long().on_lapse(OnLapse::Retry).attempts_max(1));
    let told = case.ledger().begin(own).await;
    assert_eq!(told, Err(LedgerError::Exhausted { attempts: 1 }), "it has used up what it allows itself");
    assert_eq!(case.record("k").await.status, crate::Status::InProgress, "and the record is what it was");
    let other = case.asking("k").terms(case.long().on_lapse(OnLapse::Retry));
    executes(case.told(other).await, 2, 2);
}

/// Without a cap it may be tried for ever.
pub async fn without_a_cap_there_is_always_another_attempt(harness: &dyn Harness) {
    let case = Case::new(harness);
    let mut lease = case.first("k").await;
    for attempt in 2..=6 {
        case.commit(&lease, &Ending::failed_retryable("again")).await;
        lease = executes(case.told(case.asking("k").reacquire()).await, attempt, attempt);
    }
    case.commit(&lease, &success("at last")).await;
    assert_eq!(case.replayed("k").await.attempt, 6);
}

/// A caller that takes a failure on without a cap of its own keeps the record's.
pub async fn a_cap_is_kept_by_whoever_does_not_say_it(harness: &dyn Harness) {
    let case = Case::new(harness);
    let first = case.first_on("k", capped(&case)).await;
    case.commit(&first, &Ending::failed_retryable("one")).await;
    let second = executes(case.told(case.asking("k").reacquire()).await, 2, 2);
    assert_eq!(case.record("k").await.attempts_max, Some(CAP));
    case.commit(&second, &Ending::failed_retryable("two")).await;
    let worker = case.ledger().reacquire(case.retrying("k")).await;
    assert_eq!(worker, Err(LedgerError::Exhausted { attempts: CAP }));
}
