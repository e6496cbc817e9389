//! A caller wants to run an effect: the rows of the decision table that need no time to pass.

use super::Harness;
use super::kit::{
    Case, LONG, PATIENCE, endings, executes, hash, is_conflict, is_what_was_said, keeps_off, may_be_tried,
    replays, success,
};
use crate::{Begin, Ending, OnLapse, RequestHash, Status};

/// No record: run it.
pub async fn the_first_may_run_it(harness: &dyn Harness) {
    let case = Case::new(harness);
    case.is_forgotten("k").await;
    let asked = case.asking("k").owner("worker-1").terms(case.long().attempts_max(3));
    let lease = executes(case.told(asked).await, 1, 1);
    assert_eq!((&lease.identity, lease.lasts, lease.ttl), (&case.identity("k"), LONG, LONG));
    let record = case.record("k").await;
    assert_eq!(record.identity, lease.identity);
    assert_eq!((record.status, record.epoch, record.attempts), (Status::InProgress, 1, 1));
    assert_eq!((record.attempts_max, record.on_lapse), (Some(3), OnLapse::Hold));
    assert_eq!((record.lease_expires_at, record.lease_live), (Some(lease.expires_at), true));
    assert_eq!(record.owner.as_deref(), Some("worker-1"));
    assert_eq!(record.request_hash, hash("the request").to_string());
    assert_eq!((record.outcome, record.expires_at), (None, None));
    let lasts = lease.expires_at.since(record.created_at);
    assert!(lasts.abs_diff(LONG) < std::time::Duration::from_secs(1), "it lasts {lasts:?}");
}

/// In progress, lease live: keep off, whatever else is said.
pub async fn a_live_lease_keeps_everybody_else_off(harness: &dyn Harness) {
    let case = Case::new(harness);
    let lease = case.first("k").await;
    keeps_off(&case.begin("k").await, &lease);
    keeps_off(&case.told(case.asking("k").reacquire()).await, &lease);
    keeps_off(&case.told(case.asking("k").terms(case.long().on_lapse(OnLapse::Retry))).await, &lease);
    keeps_off(&case.ledger().reacquire(case.retrying("k")).await.expect("it decides"), &lease);
    assert_eq!(case.record("k").await.epoch, 1);
    case.commit(&lease, &success("done")).await;
}

/// A caller that is kept off learns when it is worth asking again.
pub async fn others_are_told_when_to_come_again(harness: &dyn Harness) {
    let case = Case::new(harness);
    case.first("k").await;
    match case.begin("k").await {
        crate::Decision::InProgress { retry_after, .. } => {
            assert!(retry_after <= LONG && retry_after > LONG / 2, "in {retry_after:?}");
        }
        other => panic!("a holder runs it, and begin says {other:?}"),
    }
}

/// The call that got the lease gets it again if it is repeated: its answer may have been lost.
pub async fn the_same_call_gets_the_same_lease_again(harness: &dyn Harness) {
    let case = Case::new(harness);
    let mine = || case.asking("k").call("call-1").owner("worker-1");
    let lease = executes(case.told(mine()).await, 1, 1);
    for _ in 0..2 {
        assert_eq!(executes(case.told(mine()).await, 1, 1), lease);
    }
    keeps_off(&case.told(case.asking("k").call("call-2")).await, &lease);
    case.commit(&lease, &success("done")).await;
    is_what_was_said(&replays(case.told(mine()).await), &lease, &success("done"));
}

/// That also holds for a lease that was taken on after a failure.
pub async fn the_same_call_gets_its_takeover_again(harness: &dyn Harness) {
    let case = Case::new(harness);
    let old = case.ended("k", &Ending::failed_retryable("for now")).await;
    let again = || case.asking("k").reacquire().call("call-2").owner("worker-2");
    let lease = executes(case.told(again()).await, 2, 2);
    assert_eq!(executes(case.told(again()).await, 2, 2), lease);
    case.is_shut_out(&old).await;
    case.commit(&lease, &Ending::failed_retryable("again")).await;
    let mut worker = case.retrying("k");
    worker.call = Some("call-3".to_owned());
    worker.owner = Some("worker-3".to_owned());
    let third = executes(case.ledger().reacquire(worker.clone()).await.expect("it decides"), 3, 3);
    assert_eq!(executes(case.ledger().reacquire(worker).await.expect("it decides"), 3, 3), third);
}

/// Succeeded: replay, to every caller that asks for the same.
pub async fn a_success_is_replayed(harness: &dyn Harness) {
    let case = Case::new(harness);
    let lease = case.ended("k", &success("done")).await;
    let outcome = case.replayed("k").await;
    is_what_was_said(&outcome, &lease, &success("done"));
    assert_eq!(replays(case.told(case.asking("k").reacquire()).await), outcome);
    assert_eq!(replays(case.told(case.asking("k").wait(PATIENCE)).await), outcome);
    assert_eq!(replays(case.ledger().reacquire(case.retrying("k")).await.expect("it decides")), outcome);
    assert_eq!(case.record("k").await.outcome, Some(outcome));
}

/// Failed for good: replay as well.
pub async fn a_final_failure_is_replayed(harness: &dyn Harness) {
    let case = Case::new(harness);
    let ending = Ending::failed_final("no such account: ü").response(success("because").response.code(422));
    let lease = case.ended("k", &ending).await;
    let outcome = case.replayed("k").await;
    is_what_was_said(&outcome, &lease, &ending);
    assert_eq!(replays(case.told(case.asking("k").reacquire()).await), outcome);
    assert_eq!(replays(case.ledger().reacquire(case.retrying("k")).await.expect("it decides")), outcome);
}

/// Failed and may be tried again: a caller that does not take it on is told how it failed.
pub async fn a_failure_that_may_be_tried_again_is_told(harness: &dyn Harness) {
    let case = Case::new(harness);
    let ending =
        Ending::failed_retryable("the provider is down").response(success("later").response.code(503));
    let lease = case.ended("k", &ending).await;
    for _ in 0..2 {
        let (outcome, left) = may_be_tried(case.begin("k").await);
        is_what_was_said(&outcome, &lease, &ending);
        assert_eq!(left, None, "there is no cap");
    }
    assert_eq!(case.record("k").await.attempts, 1);
}

/// Failed and may be tried again, with `reacquire`: run it, with a newer lease.
pub async fn whoever_reacquires_takes_a_failure_on(harness: &dyn Harness) {
    let case = Case::new(harness);
    let old = case.ended("begun", &Ending::failed_retryable("for now")).await;
    let new = executes(case.told(case.asking("begun").reacquire()).await, 2, 2);
    case.is_shut_out(&old).await;
    let record = case.record("begun").await;
    assert_eq!((record.status, record.outcome), (Status::InProgress, None), "it runs, and has not ended");
    case.commit(&new, &success("at last")).await;
    is_what_was_said(&case.replayed("begun").await, &new, &success("at last"));

    let old = case.ended("worked", &Ending::failed_retryable("for now")).await;
    let new = executes(case.ledger().reacquire(case.retrying("worked")).await.expect("it decides"), 2, 2);
    case.is_shut_out(&old).await;
    case.commit(&new, &success("at last")).await;
}

/// There is nothing to reacquire where nothing was begun.
pub async fn reacquiring_nothing_finds_nothing(harness: &dyn Harness) {
    let case = Case::new(harness);
    assert_eq!(case.ledger().reacquire(case.retrying("k")).await, Err(crate::LedgerError::NotFound));
    case.is_forgotten("k").await;
}

/// The key with another request: refused in every state, and nothing changes.
pub async fn another_request_is_refused_in_every_state(harness: &dyn Harness) {
    let case = Case::new(harness);
    case.first("running").await;
    case.lapsed("lapsed", OnLapse::Retry).await;
    case.unknown("unknown").await;
    for (key, ending) in ["succeeded", "failed", "retryable"].into_iter().zip(endings()) {
        case.ended(key, &ending).await;
    }
    for key in ["running", "lapsed", "unknown", "succeeded", "failed", "retryable"] {
        let before = case.record(key).await;
        let other = || Begin::new(case.identity(key), hash("another request")).terms(case.long());
        is_conflict(&case.ledger().begin(other()).await);
        is_conflict(&case.ledger().begin(other().reacquire()).await);
        is_conflict(&case.ledger().begin(other().wait(PATIENCE)).await);
        let mut worker = case.retrying(key);
        worker.hash = Some(hash("another request"));
        is_conflict(&case.ledger().reacquire(worker).await);
        assert_eq!(case.record(key).await, before, "{key}");
    }
}

/// The call that got a lease must ask for the same thing when it asks once more.
pub async fn the_same_call_with_another_request_is_refused(harness: &dyn Harness) {
    let case = Case::new(harness);
    executes(case.told(case.asking("k").call("call-1").owner("worker-1")).await, 1, 1);
    let other = Begin::new(case.identity("k"), hash("another request")).call("call-1").owner("worker-1");
    is_conflict(&case.ledger().begin(other).await);
}

/// A release that hashes requests by a newer recipe recognises what an older one has begun.
pub async fn a_request_hashed_by_an_older_recipe_is_recognised(harness: &dyn Harness) {
    let case = Case::new(harness);
    let old = |text| RequestHash::foreign(text).expect("a digest");
    let begin = |hash| Begin::new(case.identity("k"), hash).terms(case.long());
    let lease = executes(case.told(begin(old("sha256:1f"))).await, 1, 1);
    keeps_off(&case.told(begin(hash("request").or_before(old("sha256:1f")))).await, &lease);
    is_conflict(&case.ledger().begin(begin(hash("request"))).await);
    is_conflict(&case.ledger().begin(begin(hash("request").or_before(old("sha256:2f")))).await);
    case.commit(&lease, &success("done")).await;
    let both = hash("request").or_before(old("sha256:0").or_before(old("sha256:1f")));
    is_what_was_said(&replays(case.told(begin(both)).await), &lease, &success("done"));
    let mut worker = case.retrying("k");
    worker.hash = Some(hash("request").or_before(old("sha256:1f")));
    replays(case.ledger().reacquire(worker).await.expect("it decides"));
}

/// The same digest by two recipes is not the same request.
pub async fn the_recipe_of_a_hash_is_part_of_it(harness: &dyn Harness) {
    let case = Case::new(harness);
    case.first("k").await;
    let request = hash("the request");
    let same_digest = RequestHash::foreign(request.digest()).expect("a digest");
    is_conflict(&case.ledger().begin(Begin::new(case.identity("k"), same_digest)).await);
}

/// Two releases beside each other, of which the older one knows only its own recipe: whatever the newer one takes over or
/// tries again stays recognisable for the older one.
pub async fn a_takeover_keeps_the_hash_that_is_there(harness: &dyn Harness) {
    let case = Case::new(harness);
    let (older, newer) =
        (hash("by the older recipe"), RequestHash::foreign("by the newer one").expect("a hash"));
    let newer = newer.or_before(older.clone());
    let asking =
        |key: &str, hash: &RequestHash| Begin::new(case.identity(key), hash.clone()).terms(case.long());
    let lapsing = asking("lapsed", &older).terms(case.lapsing(OnLapse::Retry));
    let lapsed = executes(case.told(lapsing).await, 1, 1);
    harness.elapse(&lapsed.identity).await;
    let failed = executes(case.told(asking("failed", &older)).await, 1, 1);
    case.commit(&failed, &Ending::failed_retryable("for now")).await;
    for key in ["lapsed", "failed"] {
        let taken = executes(case.told(asking(key, &newer).reacquire()).await, 2, 2);
        assert_eq!(case.record(key).await.request_hash, older.to_string());
        keeps_off(&case.told(asking(key, &older)).await, &taken);
        case.commit(&taken, &success("done")).await;
        for hash in [&older, &newer] {
            is_what_was_said(&replays(case.told(asking(key, hash)).await), &taken, &success("done"));
        }
    }
}

/// What a newer release begins by both recipes is recognised by an older one that knows only its own, and by a later one
/// that has gone over to the newer.
pub async fn an_older_release_recognises_what_is_begun_beside_it(harness: &dyn Harness) {
    let case = Case::new(harness);
    let (older, newer) =
        (hash("by the older recipe"), RequestHash::foreign("by the newer one").expect("a hash"));
    let asking = |hash: RequestHash| Begin::new(case.identity("k"), hash).terms(case.long());
    let lease = executes(case.told(asking(newer.clone().beside(older.clone()))).await, 1, 1);
    for hash in [older.clone(), newer.clone().beside(older.clone()), newer.clone().or_before(older.clone())] {
        keeps_off(&case.told(asking(hash)).await, &lease);
    }
    // Without the older recipe there is nothing to compare. It is refused, and nothing changes.
    is_conflict(&case.ledger().begin(asking(newer)).await);
    case.commit(&lease, &success("done")).await;
    is_what_was_said(&replays(case.told(asking(older)).await), &lease, &success("done"));
}

/// Callers that share the name of a call, and say no more of themselves, are not told apart by it: one runs it.
pub async fn a_name_that_two_callers_share_runs_nothing_twice(harness: &dyn Harness) {
    let case = Case::new(harness);
    let shared = || case.asking("k").call("charge");
    let lease = executes(case.told(shared()).await, 1, 1);
    keeps_off(&case.told(shared()).await, &lease);
    keeps_off(&case.told(shared().owner("worker-1")).await, &lease);
    case.commit(&lease, &Ending::failed_retryable("for now")).await;
    let again = executes(case.told(shared().reacquire()).await, 2, 2);
    keeps_off(&case.told(shared().reacquire()).await, &again);
}
