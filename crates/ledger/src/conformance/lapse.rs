//! A lease lapses, and its holder was not heard of again.

use super::Harness;
use super::kit::{Case, executes, is_unknown, is_what_was_said, keeps_off, success};
use crate::{Ending, Filter, Finished, OnLapse, Status};

/// Weakness of the seed's contract: a crash left IN_PROGRESS for ever. What may be repeated is taken over.
pub async fn after_a_crash_what_may_be_repeated_is_taken_over(harness: &dyn Harness) {
    let case = Case::new(harness);
    let crashed = case.lapsed("k", OnLapse::Retry).await;
    let record = case.record("k").await;
    assert_eq!((record.status, record.lease_live), (Status::InProgress, false));
    let next = executes(case.told(case.asking("k").owner("next")).await, 2, 2);
    assert_ne!(next.expires_at, crashed.expires_at);
    let record = case.record("k").await;
    assert_eq!((record.epoch, record.lease_live, record.owner.as_deref()), (2, true, Some("next")));
    case.is_shut_out(&crashed).await;
    case.commit(&next, &success("mine")).await;
    case.is_shut_out(&crashed).await;
    is_what_was_said(&case.replayed("k").await, &next, &success("mine"));
}

/// Weakness of the seed's contract: a crash left IN_PROGRESS for ever. What may have happened is held, can be found,
/// and can be resolved.
pub async fn after_a_crash_what_may_have_happened_is_held_and_resolved(harness: &dyn Harness) {
    let case = Case::new(harness);
    let crashed = case.lapsed("k", OnLapse::Hold).await;
    for asked in [
        case.asking("k"),
        case.asking("k").reacquire(),
        case.asking("k").reacquire().terms(case.long().on_lapse(OnLapse::Retry)),
    ] {
        is_unknown(&case.told(asked).await, &crashed);
    }
    is_unknown(&case.ledger().reacquire(case.retrying("k")).await.expect("it decides"), &crashed);
    assert_eq!(case.keys(Some(Status::Unknown)).await, ["k"]);
    case.resolve("k", success("found")).await;
    assert_eq!(case.replayed("k").await.response, success("found").response);
    assert_eq!(case.keys(Some(Status::Unknown)).await, Vec::<String>::new());
    case.is_shut_out(&crashed).await;
}

/// What is held is unknown for every reader, even if no caller has asked for it since.
pub async fn what_is_held_is_unknown_for_everybody_who_looks(harness: &dyn Harness) {
    let case = Case::new(harness);
    case.lapsed("k", OnLapse::Hold).await;
    let record = case.record("k").await;
    assert_eq!((record.status, record.lease_live, record.expires_at), (Status::Unknown, false, None));
    assert_eq!(record.outcome, None);
    assert_eq!(case.keys(Some(Status::Unknown)).await, ["k"]);
    assert_eq!(case.keys(Some(Status::InProgress)).await, Vec::<String>::new());
    let filter = Filter { status: Some(Status::Unknown), limit: 100, ..Filter::default() };
    let page = case.ledger().list(&Filter { method: Some(case.method.clone()), ..filter }).await;
    assert_eq!(page.expect("list answers").records.len(), 1);
}

/// What may be repeated is in progress until another caller takes over, and its lease is not live.
pub async fn what_may_be_repeated_is_in_progress_until_somebody_takes_over(harness: &dyn Harness) {
    let case = Case::new(harness);
    case.lapsed("k", OnLapse::Retry).await;
    assert_eq!(case.keys(Some(Status::InProgress)).await, ["k"]);
    assert_eq!(case.keys(Some(Status::Unknown)).await, Vec::<String>::new());
    assert!(!case.record("k").await.lease_live);
}

/// A lapse alone takes nothing away: the holder of the newest lease knows best how it went.
pub async fn a_late_finish_counts_until_somebody_took_over(harness: &dyn Harness) {
    let case = Case::new(harness);
    let lapsed = case.lapsed("retry", OnLapse::Retry).await;
    case.commit(&lapsed, &success("late")).await;
    is_what_was_said(&case.replayed("retry").await, &lapsed, &success("late"));
    let held = case.lapsed("hold", OnLapse::Hold).await;
    case.commit(&held, &Ending::failed_final("late")).await;
    is_what_was_said(&case.replayed("hold").await, &held, &Ending::failed_final("late"));
    let unknown = case.unknown("unknown").await;
    case.commit(&unknown, &success("late")).await;
    is_what_was_said(&case.replayed("unknown").await, &unknown, &success("late"));
    assert_eq!(case.keys(Some(Status::Unknown)).await, Vec::<String>::new());
    let again = case.ledger().finish(&unknown, &success("late")).await;
    assert_eq!(again, Ok(Finished::AlreadyCommitted));
}

/// The terms of the newest lease count, not those of the caller that asks nor those of the lease before.
pub async fn the_newest_lease_says_what_its_lapse_means(harness: &dyn Harness) {
    let case = Case::new(harness);
    case.lapsed("k", OnLapse::Retry).await;
    let held = executes(case.told(case.asking("k").terms(case.lapsing(OnLapse::Hold))).await, 2, 2);
    harness.elapse(&held.identity).await;
    let willing = case.asking("k").terms(case.long().on_lapse(OnLapse::Retry));
    is_unknown(&case.told(willing).await, &held);
}

/// A lapse may be followed by another one, and each takeover is a newer lease.
pub async fn epochs_rise_with_every_takeover(harness: &dyn Harness) {
    let case = Case::new(harness);
    let mut leases = vec![case.lapsed("k", OnLapse::Retry).await];
    for epoch in 2..=4 {
        let next = case.told(case.asking("k").terms(case.lapsing(OnLapse::Retry))).await;
        leases.push(executes(next, epoch, epoch));
        harness.elapse(&case.identity("k")).await;
    }
    let newest = leases.pop().expect("the newest");
    for old in &leases {
        case.is_shut_out(old).await;
    }
    case.commit(&newest, &success("the newest")).await;
    is_what_was_said(&case.replayed("k").await, &newest, &success("the newest"));
}

/// The call that had a lease which lapsed may ask again, and gets a newer one, not the old one.
pub async fn the_same_call_after_a_lapse_gets_a_newer_lease(harness: &dyn Harness) {
    let case = Case::new(harness);
    let asked = |terms| case.asking("k").call("call-1").owner("worker-1").terms(terms);
    let old = executes(case.told(asked(case.lapsing(OnLapse::Retry))).await, 1, 1);
    harness.elapse(&old.identity).await;
    let new = executes(case.told(asked(case.long())).await, 2, 2);
    case.is_shut_out(&old).await;
    keeps_off(&case.begin("k").await, &new);
}

/// A lease that lapsed may be taken over by a retry worker as well.
pub async fn a_retry_worker_takes_over_as_well(harness: &dyn Harness) {
    let case = Case::new(harness);
    let old = case.lapsed("k", OnLapse::Retry).await;
    let new = executes(case.ledger().reacquire(case.retrying("k")).await.expect("it decides"), 2, 2);
    case.is_shut_out(&old).await;
    case.commit(&new, &success("done")).await;
}
