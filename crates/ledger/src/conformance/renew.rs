//! The holder of a lease goes on for longer.

use super::Harness;
use super::kit::{Case, LONG, executes, is_stale, is_unknown, is_what_was_said, keeps_off, success};
use crate::{OnLapse, Status};

/// The end of a lease moves, and every reader can see that.
pub async fn a_renewed_lease_lasts_longer(harness: &dyn Harness) {
    let case = Case::new(harness);
    let lease = case.first("k").await;
    let until = case.ledger().renew(&lease, 2 * LONG).await.expect("it goes on");
    assert!(until > lease.expires_at);
    let record = case.record("k").await;
    assert_eq!((record.lease_expires_at, record.epoch, record.attempts), (Some(until), 1, 1));
    keeps_off(&case.begin("k").await, &lease);
    case.commit(&lease, &success("done")).await;
}

/// A holder that asks for less than it has keeps what it has.
pub async fn a_renewal_never_shortens_a_lease(harness: &dyn Harness) {
    let case = Case::new(harness);
    let lease = case.first("k").await;
    let until = case.ledger().renew(&lease, harness.brief()).await.expect("it goes on");
    assert_eq!(until, lease.expires_at);
    assert_eq!(case.record("k").await.lease_expires_at, Some(until));
}

/// A lease that lapsed comes back as long as no other caller took over: that its holder is still at work is the best
/// that can be known.
pub async fn a_lapsed_lease_comes_back(harness: &dyn Harness) {
    let case = Case::new(harness);
    for on_lapse in [OnLapse::Retry, OnLapse::Hold] {
        let key = format!("{on_lapse:?}");
        let lease = case.lapsed(&key, on_lapse).await;
        let until = case.ledger().renew(&lease, LONG).await.expect("it goes on");
        assert!(until > lease.expires_at);
        keeps_off(&case.begin(&key).await, &lease);
        let record = case.record(&key).await;
        assert_eq!((record.status, record.lease_live), (Status::InProgress, true));
        case.commit(&lease, &success("late")).await;
    }
}

/// Also one of which callers were told that its outcome is unknown.
pub async fn unknown_turns_back_into_running(harness: &dyn Harness) {
    let case = Case::new(harness);
    let lease = case.unknown("k").await;
    case.ledger().renew(&lease, LONG).await.expect("it goes on");
    keeps_off(&case.begin("k").await, &lease);
    assert_eq!(case.keys(Some(Status::Unknown)).await, Vec::<String>::new());
    assert_eq!(case.keys(Some(Status::InProgress)).await, ["k"]);
    case.commit(&lease, &success("late")).await;
    is_what_was_said(&case.replayed("k").await, &lease, &success("late"));
}

/// A renewed lease can lapse again.
pub async fn a_renewed_lease_lapses_like_any_other(harness: &dyn Harness) {
    let case = Case::new(harness);
    let mut lease = case.unknown("k").await;
    lease.expires_at = case.ledger().renew(&lease, harness.brief()).await.expect("it goes on");
    harness.elapse(&lease.identity).await;
    is_unknown(&case.begin("k").await, &lease);
}

/// A holder that was overtaken does not go on.
pub async fn whoever_was_overtaken_does_not_go_on(harness: &dyn Harness) {
    let case = Case::new(harness);
    let old = case.lapsed("k", OnLapse::Retry).await;
    let new = executes(case.begin("k").await, 2, 2);
    is_stale(&case.ledger().renew(&old, LONG).await);
    assert_eq!(case.record("k").await.lease_expires_at, Some(new.expires_at));
    case.is_shut_out(&old).await;
    case.ledger().renew(&new, 2 * LONG).await.expect("the newest lease goes on");
}

/// Nor does a holder after an operator has decided how it ended.
pub async fn what_was_resolved_does_not_go_on(harness: &dyn Harness) {
    let case = Case::new(harness);
    for ending in super::kit::endings() {
        let key = format!("{:?}", ending.end);
        let lease = case.unknown(&key).await;
        case.resolve(&key, ending).await;
        case.is_shut_out(&lease).await;
    }
}
