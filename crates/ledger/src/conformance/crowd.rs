//! Many callers at once.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::Harness;
use super::kit::{Case, LONG, executes, is_what_was_said, keeps_off, success};
use crate::{Decision, Ending, Finished, Lease, LedgerError, OnLapse, Outcome, Status};

/// How many callers ask at the same time.
const CROWD: usize = 32;

/// The results of `count` calls, begun together.
pub(super) async fn at_once<T, Fut>(count: usize, call: impl Fn(usize) -> Fut) -> Vec<T>
where
    T: Send + 'static,
    Fut: Future<Output = T> + Send + 'static,
{
    let ready = Arc::new(Barrier::new(count));
    let mut calls = JoinSet::new();
    for at in 0..count {
        let (ready, call) = (Arc::clone(&ready), call(at));
        calls.spawn(async move {
            ready.wait().await;
            call.await
        });
    }
    calls.join_all().await
}

/// The one lease among what a crowd was told; every other caller must have been kept off by it.
fn the_one_lease(told: Vec<Result<Decision, LedgerError>>) -> Lease {
    let (mut leases, mut others) = (Vec::new(), Vec::new());
    for decision in told {
        match decision.expect("begin decides") {
            Decision::Execute(lease) => leases.push(lease),
            other => others.push(other),
        }
    }
    assert_eq!(leases.len(), 1, "{leases:?}");
    let lease = leases.remove(0);
    for other in &others {
        keeps_off(other, &lease);
    }
    lease
}

/// Of many callers that begin at the same time, one may run it.
pub async fn of_many_who_begin_one_runs_it(harness: &dyn Harness) {
    let case = Case::new(harness);
    for key in ["a", "b", "c", "d"] {
        let told = at_once(CROWD, |_| {
            let (ledger, asked) = (case.ledger().clone(), case.asking(key));
            async move { ledger.begin(asked).await }
        });
        let lease = the_one_lease(told.await);
        assert_eq!((lease.epoch, lease.attempt), (1, 1));
        case.commit(&lease, &success(key)).await;
        is_what_was_said(&case.replayed(key).await, &lease, &success(key));
    }
}

/// Many effects that are begun at the same time do not get in each other's way.
pub async fn many_effects_do_not_get_in_each_others_way(harness: &dyn Harness) {
    let case = Case::new(harness);
    let replies = at_once(CROWD, |at| {
        let key = format!("k{at:02}");
        let (ledger, asked) = (case.ledger().clone(), case.asking(&key));
        async move {
            let lease = executes(ledger.begin(asked.clone()).await.expect("begin decides"), 1, 1);
            ledger.finish(&lease, &success(&key)).await.expect("the newest lease");
            (key, ledger.begin(asked).await.expect("begin decides"))
        }
    });
    for (key, decision) in replies.await {
        assert_eq!(super::kit::replays(decision).response, success(&key).response);
    }
    assert_eq!(case.keys(Some(Status::Succeeded)).await.len(), CROWD);
}

/// After a lapse, one of many callers takes over.
pub async fn after_a_lapse_one_of_many_takes_over(harness: &dyn Harness) {
    let case = Case::new(harness);
    let old = case.lapsed("k", OnLapse::Retry).await;
    let told = at_once(CROWD, |_| {
        let (ledger, asked) = (case.ledger().clone(), case.asking("k"));
        async move { ledger.begin(asked).await }
    });
    let new = the_one_lease(told.await);
    assert_eq!((new.epoch, new.attempt), (2, 2));
    case.is_shut_out(&old).await;
    case.commit(&new, &success("done")).await;
}

/// When many callers ask for what was held, all are told the same.
pub async fn all_are_told_that_it_is_unknown(harness: &dyn Harness) {
    let case = Case::new(harness);
    let old = case.lapsed("k", OnLapse::Hold).await;
    let told = at_once(CROWD, |_| {
        let (ledger, asked) = (case.ledger().clone(), case.asking("k"));
        async move { ledger.begin(asked).await }
    });
    for decision in told.await {
        super::kit::is_unknown(&decision.expect("begin decides"), &old);
    }
}

/// Of many retry workers one takes a failure on.
pub async fn of_many_retry_workers_one_takes_it_on(harness: &dyn Harness) {
    let case = Case::new(harness);
    let old = case.ended("k", &Ending::failed_retryable("for now")).await;
    let told = at_once(CROWD, |_| {
        let (ledger, worker) = (case.ledger().clone(), case.retrying("k"));
        async move { ledger.reacquire(worker).await }
    });
    let new = the_one_lease(told.await);
    assert_eq!((new.epoch, new.attempt), (2, 2));
    case.is_shut_out(&old).await;
}

/// After its time, of many callers that begin anew, one runs it.
pub async fn after_its_time_one_of_many_begins_anew(harness: &dyn Harness) {
    let case = Case::new(harness);
    let old = case.first_on("k", case.long().ttl(harness.brief())).await;
    case.commit(&old, &success("old")).await;
    harness.expire(&old.identity).await;
    let told = at_once(CROWD, |_| {
        let (ledger, asked) = (case.ledger().clone(), case.asking("k"));
        async move { ledger.begin(asked).await }
    });
    let new = the_one_lease(told.await);
    assert_eq!((new.epoch, new.attempt), (1, 1));
    case.is_shut_out(&old).await;
}

/// The same ending, said many times at once, is written down once and all are told that it is.
pub async fn the_same_finish_many_times_is_written_down_once(harness: &dyn Harness) {
    let case = Case::new(harness);
    let lease = case.first("k").await;
    let said = at_once(CROWD, |_| {
        let (ledger, lease) = (case.ledger().clone(), lease.clone());
        async move { ledger.finish(&lease, &success("done")).await.expect("it is the newest lease") }
    });
    let said = said.await;
    let news = said.iter().filter(|one| **one == Finished::Committed).count();
    assert_eq!(news, 1, "{said:?}");
    is_what_was_said(&case.replayed("k").await, &lease, &success("done"));
}

/// Of many different endings one is written down, and every other caller is told that it is not its own.
pub async fn of_many_different_finishes_one_stays(harness: &dyn Harness) {
    let case = Case::new(harness);
    let lease = case.first("k").await;
    let said = at_once(CROWD, |at| {
        let (ledger, lease) = (case.ledger().clone(), lease.clone());
        let ending = success(&format!("answer {at}"));
        async move { (ledger.finish(&lease, &ending).await, ending) }
    });
    let mut winner = None;
    for (result, ending) in said.await {
        match result {
            Ok(finished) => {
                assert_eq!((finished, winner.replace(ending)), (Finished::Committed, None), "one stays");
            }
            stale => super::kit::is_stale(&stale),
        }
    }
    is_what_was_said(&case.replayed("k").await, &lease, &winner.expect("one stays"));
}

/// A renewal and a takeover at the same time: one of the two has the effect afterwards, and the other knows.
pub async fn a_renewal_and_a_takeover_do_not_both_win(harness: &dyn Harness) {
    let case = Case::new(harness);
    for round in 0..8 {
        let key = format!("k{round}");
        let lease = case.lapsed(&key, OnLapse::Retry).await;
        let (renewed, begun) = tokio::join!(case.ledger().renew(&lease, LONG), case.begin(&key));
        match (renewed, begun) {
            (Ok(_), running @ Decision::InProgress { .. }) => {
                keeps_off(&running, &lease);
                case.commit(&lease, &success("renewed")).await;
            }
            (Err(LedgerError::Stale(_)), Decision::Execute(new)) => {
                assert_eq!((new.epoch, new.attempt), (2, 2));
                case.is_shut_out(&lease).await;
                case.commit(&new, &success("taken")).await;
            }
            both => panic!("both or none: {both:?}"),
        }
    }
}

/// A late finish and a resolution at the same time: one of the two stays, and the other knows.
pub async fn a_late_finish_and_a_resolution_do_not_both_win(harness: &dyn Harness) {
    let case = Case::new(harness);
    for round in 0..8 {
        let key = format!("k{round}");
        let lease = case.lapsed(&key, OnLapse::Hold).await;
        let (ending, found) = (success("late"), case.found(&key, success("found")));
        let (finished, resolved) =
            tokio::join!(case.ledger().finish(&lease, &ending), case.ledger().resolve(&found));
        let Outcome { response, resolved: by, .. } = case.replayed(&key).await;
        match (finished, resolved) {
            (Ok(Finished::Committed), Err(LedgerError::Final)) => {
                assert_eq!((response, by), (ending.response, None));
            }
            (Err(LedgerError::Stale(_)), Ok(Finished::Committed)) => {
                assert_eq!((response, by), (found.ending.response, Some(found.resolver)));
            }
            both => panic!("both or none: {both:?}"),
        }
    }
}
