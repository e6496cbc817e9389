//! An operator has found out how an effect ended.

use super::Harness;
use super::kit::{Case, LONG, ends_otherwise, executes, may_be_tried, replays, success};
use crate::{End, Ending, Finished, LedgerError, OnLapse, Response, Status};

/// What is unknown is settled by an operator who knows, and every caller is told so from then on, with who said so and
/// why.
pub async fn unknown_is_settled_by_somebody_who_knows(harness: &dyn Harness) {
    let case = Case::new(harness);
    for end in [End::Succeeded, End::FailedFinal] {
        let key = format!("{end:?}");
        let lease = case.unknown(&key).await;
        let response = Response::new(vec![0, 255]).code(3).header("a", "ü");
        let found = case.found(&key, Ending { end, response, error: "so it is said".to_owned() });
        assert_eq!(case.ledger().resolve(&found).await, Ok(Finished::Committed));
        assert_eq!(case.ledger().resolve(&found).await, Ok(Finished::AlreadyCommitted), "said once more");
        case.is_shut_out(&lease).await;
        let outcome = replays(case.begin(&key).await);
        assert_eq!((outcome.end, &outcome.response), (end, &found.ending.response));
        assert_eq!((&*outcome.error, outcome.resolved.as_ref()), ("so it is said", Some(&found.resolver)));
        assert_eq!((outcome.epoch, outcome.attempt), (2, 1), "it is no attempt");
        let record = case.record(&key).await;
        assert_eq!((record.status, record.epoch, record.attempts), (Status::from(end), 2, 1));
        assert_eq!(record.outcome.as_ref(), Some(&outcome));
        assert_eq!(record.expires_at.map(|at| at.since(outcome.finished_at)), Some(LONG));
    }
}

/// What did not happen may run again.
pub async fn what_did_not_happen_may_run_again(harness: &dyn Harness) {
    let case = Case::new(harness);
    let lease = case.unknown("k").await;
    case.resolve("k", Ending::failed_retryable("nothing there")).await;
    case.is_shut_out(&lease).await;
    let (outcome, left) = may_be_tried(case.begin("k").await);
    assert_eq!((outcome.epoch, outcome.attempt, left), (2, 1, None));
    assert_eq!(outcome.resolved.map(|resolver| resolver.by).as_deref(), Some("ann"));
    let again = executes(case.ledger().reacquire(case.retrying("k")).await.expect("it decides"), 3, 2);
    case.commit(&again, &success("now")).await;
    assert_eq!(case.replayed("k").await.resolved, None, "a worker ended it, not a person");
}

/// A lapsed lease can be resolved before a caller has asked for it, whatever its lapse means.
pub async fn a_lapsed_lease_is_resolved(harness: &dyn Harness) {
    let case = Case::new(harness);
    for on_lapse in [OnLapse::Retry, OnLapse::Hold] {
        let key = format!("{on_lapse:?}");
        let lease = case.lapsed(&key, on_lapse).await;
        case.resolve(&key, Ending::failed_final("it did not happen")).await;
        case.is_shut_out(&lease).await;
        assert_eq!(case.replayed(&key).await.end, End::FailedFinal);
    }
}

/// A failure that may be tried again can turn out to be none.
pub async fn a_failure_can_turn_out_to_be_none(harness: &dyn Harness) {
    let case = Case::new(harness);
    let lease = case.ended("k", &Ending::failed_retryable("timed out")).await;
    case.resolve("k", success("it did work")).await;
    case.is_shut_out(&lease).await;
    assert_eq!(case.replayed("k").await.response, success("it did work").response);
    assert_eq!(case.ledger().find_retryable(Some(&case.method), 10).await, Ok(Vec::new()));
}

/// What runs is not resolved.
pub async fn what_runs_is_not_resolved(harness: &dyn Harness) {
    let case = Case::new(harness);
    let lease = case.first("k").await;
    let before = case.record("k").await;
    let found = case.ledger().resolve(&case.found("k", success("found"))).await;
    assert_eq!(found, Err(LedgerError::Running));
    assert_eq!(case.record("k").await, before);
    case.commit(&lease, &success("mine")).await;
}

/// What ended stays what it is, whether a holder or an operator ended it.
pub async fn what_ended_is_left_alone(harness: &dyn Harness) {
    let case = Case::new(harness);
    case.ended("done", &success("mine")).await;
    case.ended("failed", &Ending::failed_final("mine")).await;
    case.unknown("resolved").await;
    case.resolve("resolved", success("found")).await;
    for key in ["done", "failed", "resolved"] {
        let before = case.record(key).await;
        for ending in ends_otherwise() {
            let again = case.ledger().resolve(&case.found(key, ending)).await;
            assert_eq!(again, Err(LedgerError::Final), "{key}");
        }
        assert_eq!(case.record(key).await, before, "{key}");
    }
}

/// There is nothing to find out about what no caller began.
pub async fn nothing_is_resolved_where_nothing_is(harness: &dyn Harness) {
    let case = Case::new(harness);
    let found = case.ledger().resolve(&case.found("k", success("found"))).await;
    assert_eq!(found, Err(LedgerError::NotFound));
    case.is_forgotten("k").await;
}

/// An operator who looked at an older lease than the newest decides nothing.
pub async fn a_resolution_of_an_older_lease_is_stale(harness: &dyn Harness) {
    let case = Case::new(harness);
    case.lapsed("k", OnLapse::Retry).await;
    let second = executes(case.told(case.asking("k").terms(case.lapsing(OnLapse::Retry))).await, 2, 2);
    harness.elapse(&second.identity).await;
    let before = case.record("k").await;
    for epoch in [1, 3] {
        let mut found = case.found("k", success("found"));
        found.epoch = Some(epoch);
        super::kit::is_stale(&case.ledger().resolve(&found).await);
    }
    assert_eq!(case.record("k").await, before);
    let mut found = case.found("k", success("found"));
    found.epoch = Some(2);
    assert_eq!(case.ledger().resolve(&found).await, Ok(Finished::Committed));
    assert_eq!(case.ledger().resolve(&found).await, Ok(Finished::AlreadyCommitted), "its answer was lost");
}
