//! The time of a record is over.

use super::Harness;
use super::kit::{Case, executes, hash, is_stale, is_unknown, is_what_was_said, keeps_off, success};
use crate::{Begin, Ending, LedgerError, OnLapse, Status};

/// Weakness of the seed's contract: an outcome was replayed after its time. It is forgotten: the effect runs anew, and
/// the lease from before has no say about it.
pub async fn an_outcome_is_not_replayed_after_its_time(harness: &dyn Harness) {
    let case = Case::new(harness);
    for ending in [success("old"), Ending::failed_final("old")] {
        let key = format!("{:?}", ending.end);
        let old = case.first_on(&key, case.long().ttl(harness.brief())).await;
        case.commit(&old, &ending).await;
        harness.expire(&old.identity).await;
        case.is_forgotten(&key).await;
        let new = case.first(&key).await;
        is_stale(&case.ledger().finish(&old, &ending).await);
        case.is_shut_out(&old).await;
        keeps_off(&case.begin(&key).await, &new);
        case.commit(&new, &success("new")).await;
        is_what_was_said(&case.replayed(&key).await, &new, &success("new"));
        case.is_shut_out(&old).await;
    }
}

/// Weakness of the seed's contract: FAILED_RETRYABLE past its time was a dead end. A caller that begins runs it anew,
/// with or without `reacquire`; for a retry worker there is nothing left to reacquire.
pub async fn a_failure_past_its_time_is_no_dead_end(harness: &dyn Harness) {
    let case = Case::new(harness);
    for key in ["begin", "reacquire"] {
        let old = case.first_on(key, case.long().ttl(harness.brief()).attempts_max(1)).await;
        case.commit(&old, &Ending::failed_retryable("old")).await;
        harness.expire(&old.identity).await;
        let worker = case.ledger().reacquire(case.retrying(key)).await;
        assert_eq!(worker, Err(LedgerError::NotFound));
        let asked = match key {
            "reacquire" => case.asking(key).reacquire(),
            _ => case.asking(key),
        };
        let new = executes(case.told(asked).await, 1, 1);
        case.is_shut_out(&old).await;
        case.commit(&new, &success("new")).await;
    }
    let left = case.ledger().find_retryable(Some(&case.method), 10).await;
    assert_eq!(left, Ok(Vec::new()));
}

/// A record that was begun anew is another record: its caps, its request and its terms are those of the caller that
/// began it.
pub async fn a_record_begun_anew_owes_nothing_to_the_old_one(harness: &dyn Harness) {
    let case = Case::new(harness);
    let terms = case.long().ttl(harness.brief()).attempts_max(1).on_lapse(OnLapse::Retry);
    let old = case.first_on("k", terms).await;
    case.commit(&old, &success("old")).await;
    harness.expire(&old.identity).await;
    let other = Begin::new(case.identity("k"), hash("another request")).terms(case.long());
    let new = executes(case.told(other).await, 1, 1);
    let record = case.record("k").await;
    assert_eq!((record.attempts_max, record.on_lapse, record.outcome), (None, OnLapse::Hold, None));
    assert_eq!(record.request_hash, hash("another request").to_string());
    case.is_shut_out(&old).await;
    case.commit(&new, &success("new")).await;
}

/// The same call, too, begins anew.
pub async fn the_same_call_after_its_time_begins_anew(harness: &dyn Harness) {
    let case = Case::new(harness);
    let asked = |terms| case.asking("k").call("call-1").owner("worker-1").terms(terms);
    let old = executes(case.told(asked(case.long().ttl(harness.brief()))).await, 1, 1);
    case.commit(&old, &success("old")).await;
    harness.expire(&old.identity).await;
    let new = executes(case.told(asked(case.long())).await, 1, 1);
    assert_ne!(new.proof, old.proof, "it is another record");
    case.is_shut_out(&old).await;
    case.commit(&new, &success("new")).await;
}

/// An effect that a holder runs counts, however short its outcome is to be remembered.
pub async fn what_somebody_runs_is_never_over(harness: &dyn Harness) {
    let case = Case::new(harness);
    let lease = case.first_on("runs", case.long().ttl(harness.brief())).await;
    let other = case.first_on("other", case.long().ttl(harness.brief())).await;
    case.commit(&other, &success("done")).await;
    harness.expire(&other.identity).await;
    keeps_off(&case.begin("runs").await, &lease);
    assert_eq!(case.keys(None).await, ["runs"]);
}

/// What may have happened counts until an operator resolves it.
pub async fn what_may_have_happened_is_never_over(harness: &dyn Harness) {
    let case = Case::new(harness);
    let brief = case.lapsing(OnLapse::Hold).ttl(harness.brief());
    let held = case.first_on("held", brief.clone()).await;
    let told = case.first_on("told", brief).await;
    harness.elapse(&held.identity).await;
    harness.elapse(&told.identity).await;
    is_unknown(&case.begin("told").await, &told);
    let other = case.first_on("other", case.long().ttl(harness.brief())).await;
    case.commit(&other, &success("done")).await;
    harness.expire(&other.identity).await;
    is_unknown(&case.begin("held").await, &held);
    is_unknown(&case.begin("told").await, &told);
    assert_eq!(case.keys(Some(Status::Unknown)).await, ["held", "told"]);
    case.commit(&held, &success("late")).await;
}

/// What was abandoned and may be repeated is forgotten in the end.
pub async fn what_was_abandoned_and_may_be_repeated_is_forgotten(harness: &dyn Harness) {
    let case = Case::new(harness);
    let old = case.first_on("k", case.lapsing(OnLapse::Retry).ttl(harness.brief())).await;
    harness.expire(&old.identity).await;
    case.is_forgotten("k").await;
    assert_eq!(case.keys(None).await, Vec::<String>::new());
    let found = case.ledger().resolve(&case.found("k", success("found"))).await;
    assert_eq!(found, Err(LedgerError::NotFound));
    let new = case.first("k").await;
    case.is_shut_out(&old).await;
    case.commit(&new, &success("new")).await;
}

/// What was resolved is remembered for as long as the resolver says.
pub async fn a_resolution_is_forgotten_after_its_time(harness: &dyn Harness) {
    let case = Case::new(harness);
    let old = case.lapsed_on("k", case.lapsing(OnLapse::Hold).ttl(harness.brief())).await;
    let mut found = case.found("k", success("found"));
    found.ttl = harness.brief();
    case.ledger().resolve(&found).await.expect("it is resolved");
    harness.expire(&old.identity).await;
    case.is_forgotten("k").await;
    let new = case.first("k").await;
    case.is_shut_out(&old).await;
    case.commit(&new, &success("new")).await;
}
