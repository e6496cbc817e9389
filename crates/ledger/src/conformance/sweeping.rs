//! What is over is removed, and nothing else.

use super::Harness;
use super::kit::{Case, executes, is_unknown, is_what_was_said, keeps_off, may_be_tried, success};
use crate::{Ending, OnLapse, Status, Sweep, Swept};

/// More rounds than a suite can make work for.
const ROUNDS_MAX: usize = 1_000;

/// Sweeps until there is nothing more to do; returns what was done altogether.
async fn sweep_all(case: &Case<'_>, limit: u32) -> Swept {
    let mut done = Swept::default();
    for _ in 0..ROUNDS_MAX {
        let round = case.ledger().sweep(Sweep { dry_run: false, limit }).await.expect("it sweeps");
        assert!(round.removed + round.held <= u64::from(limit), "{round:?} in a round of {limit}");
        done.removed += round.removed;
        done.held += round.held;
        done.by_itself = round.by_itself;
        if !round.more {
            return done;
        }
    }
    panic!("sweeping comes to no end: {done:?}");
}

/// An effect that has ended, and whose time is over.
async fn over(case: &Case<'_>, key: &str) -> crate::Lease {
    let lease = case.first_on(key, case.long().ttl(case.harness.brief())).await;
    case.commit(&lease, &success("old")).await;
    lease
}

/// Sweeping removes no record that counts: none that a holder runs, none that may have happened, none whose time is not
/// over.
pub async fn sweeping_leaves_what_counts(harness: &dyn Harness) {
    let case = Case::new(harness);
    let brief = harness.brief();
    let running = case.first_on("running", case.long().ttl(brief)).await;
    let told = case.first_on("told", case.lapsing(OnLapse::Hold).ttl(brief)).await;
    let held = case.first_on("held", case.lapsing(OnLapse::Hold).ttl(brief)).await;
    let last = case.first_on("last", case.lapsing(OnLapse::Retry).ttl(brief).attempts_max(1)).await;
    for lease in [&told, &held, &last] {
        harness.elapse(&lease.identity).await;
    }
    is_unknown(&case.begin("told").await, &told);
    let lapsed = case.lapsed("lapsed", OnLapse::Retry).await;
    let done = case.ended("done", &success("done")).await;
    let failed = case.ended("failed", &Ending::failed_final("no")).await;
    case.ended("retryable", &Ending::failed_retryable("for now")).await;
    let gone = over(&case, "gone").await;
    harness.expire(&gone.identity).await;

    sweep_all(&case, 100).await;
    case.is_forgotten("gone").await;
    keeps_off(&case.begin("running").await, &running);
    for (key, lease) in [("told", &told), ("held", &held), ("last", &last)] {
        is_unknown(&case.begin(key).await, lease);
    }
    is_what_was_said(&case.replayed("done").await, &done, &success("done"));
    is_what_was_said(&case.replayed("failed").await, &failed, &Ending::failed_final("no"));
    may_be_tried(case.begin("retryable").await);
    executes(case.begin("lapsed").await, 2, 2);
    case.is_shut_out(&lapsed).await;
    assert_eq!(case.keys(Some(Status::Unknown)).await, ["held", "last", "told"]);
}

/// A record that was swept and begun anew is another one: the old lease has no say about it.
pub async fn a_swept_record_begun_anew_refuses_the_old_lease(harness: &dyn Harness) {
    let case = Case::new(harness);
    let old = over(&case, "k").await;
    let abandoned = case.first_on("abandoned", case.lapsing(OnLapse::Retry).ttl(harness.brief())).await;
    harness.expire(&old.identity).await;
    harness.expire(&abandoned.identity).await;
    sweep_all(&case, 100).await;
    for lease in [&old, &abandoned] {
        // No caller has begun it anew yet: the lease is of a record that is gone.
        assert_eq!(case.ledger().get(&lease.identity).await, Ok(None));
        let new = case.first(lease.identity.key()).await;
        assert_ne!(new.proof, lease.proof);
        case.is_shut_out(lease).await;
        super::kit::is_stale(&case.ledger().finish(lease, &success("old")).await);
        case.commit(&new, &success("new")).await;
    }
}

/// A dry run counts, and changes nothing.
pub async fn a_dry_run_changes_nothing(harness: &dyn Harness) {
    let case = Case::new(harness);
    for key in ["a", "b"] {
        let lease = over(&case, key).await;
        harness.expire(&lease.identity).await;
    }
    let held = case.lapsed("held", OnLapse::Hold).await;
    let dry = Sweep { dry_run: true, limit: 100 };
    let first = case.ledger().sweep(dry).await.expect("it counts");
    let second = case.ledger().sweep(dry).await.expect("it counts");
    is_unknown(&case.begin("held").await, &held);
    if harness.is_alone() && !first.by_itself {
        let expected = Swept { removed: 2, held: 1, unreadable: 0, more: false, by_itself: false };
        assert_eq!((first, second), (expected, expected));
        let swept = sweep_all(&case, 100).await;
        assert_eq!((swept.removed, swept.held), (2, 0), "what begin has written down is done");
    }
}

/// However few it looks at in a round, in the end all is swept, and what was over is gone.
pub async fn small_rounds_sweep_everything(harness: &dyn Harness) {
    let case = Case::new(harness);
    for at in 0..5 {
        let lease = over(&case, &format!("over {at}")).await;
        harness.expire(&lease.identity).await;
    }
    case.lapsed("held", OnLapse::Hold).await;
    case.ended("stays", &success("stays")).await;
    let swept = sweep_all(&case, 2).await;
    assert_eq!(case.keys(None).await, ["held", "stays"]);
    if harness.is_alone() && !swept.by_itself {
        assert_eq!((swept.removed, swept.held), (5, 1));
        let left = case.ledger().stats().await.expect("stats answers");
        assert_eq!(left.over.unwrap_or(0), 0);
        assert_eq!(sweep_all(&case, 2).await, Swept::default(), "there is nothing left to do");
    }
}

/// What a sweep has found to be unknown can be renewed, finished and resolved as if a caller had asked.
pub async fn what_a_sweep_holds_is_unknown_like_any_other(harness: &dyn Harness) {
    let case = Case::new(harness);
    let mut leases = Vec::new();
    for key in ["renewed", "finished", "resolved"] {
        leases.push(case.lapsed(key, OnLapse::Hold).await);
    }
    sweep_all(&case, 100).await;
    assert_eq!(case.keys(Some(Status::Unknown)).await, ["finished", "renewed", "resolved"]);
    case.ledger().renew(&leases[0], super::kit::LONG).await.expect("it goes on");
    keeps_off(&case.begin("renewed").await, &leases[0]);
    case.commit(&leases[1], &success("late")).await;
    case.resolve("resolved", success("found")).await;
    case.is_shut_out(&leases[2]).await;
    assert_eq!(case.keys(Some(Status::Unknown)).await, Vec::<String>::new());
}
