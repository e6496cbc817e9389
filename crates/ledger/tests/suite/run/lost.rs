//! A begin whose answer is lost: nobody runs it, and nobody has to wait for that.

use std::sync::atomic::Ordering;
use std::time::Duration;

use driftq_ledger::{
    Decision, Ending, Failed, LedgerError, OnLapse, Resolve, Resolver, Response, RunError, Status,
};
use tokio::time::{sleep, timeout};

use crate::run::world::{LEASE, asking, identity, record, run, world};

/// More than the ledger repeats by itself.
const ALL: u32 = 5;
/// Longer than the ledger needs to look, and much shorter than a lease.
const SOON: Duration = Duration::from_secs(2);

#[tokio::test(start_paused = true)]
async fn a_lease_that_nobody_knows_of_is_given_up() {
    for on_lapse in [OnLapse::Hold, OnLapse::Retry] {
        let (ledger, trouble) = world();
        trouble.begins_lost.store(ALL, Ordering::SeqCst);
        let effect = |_| async { panic!("it must not be run") };
        let ran = ledger.run_with::<_, _, Response, Failed>(asking(on_lapse), effect).await;
        assert!(matches!(ran, Err(RunError::Ledger(LedgerError::Unavailable(_)))), "{ran:?}");
        assert_eq!(record(&ledger).await.status, Status::InProgress, "the store has begun it");
        sleep(SOON).await;
        assert_eq!(ledger.get(&identity()).await.unwrap(), None);
        let ran = ledger.run_with(asking(on_lapse), |_| async { Ok::<_, Failed>("paid") }).await.unwrap();
        assert_eq!((ran.replayed, ran.attempt), (false, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_begin_that_is_dropped_before_its_answer_is_given_up() {
    let (ledger, trouble) = world();
    trouble.is_silent.store(true, Ordering::SeqCst);
    trouble.begins_lost.store(1, Ordering::SeqCst);
    let dropped = timeout(Duration::from_secs(1), ledger.begin(asking(OnLapse::Hold))).await;
    assert!(dropped.is_err());
    assert_eq!(record(&ledger).await.status, Status::InProgress);
    sleep(SOON).await;
    assert_eq!(ledger.get(&identity()).await.unwrap(), None);
}

/// An operator who has to find out does not have to wait for the lapse.
#[tokio::test(start_paused = true)]
async fn a_lost_attempt_at_what_failed_leaves_it_failed() {
    let (ledger, trouble) = world();
    let _ = run(&ledger, Err(Failed::retryable("the provider is down"))).await;
    trouble.begins_lost.store(ALL, Ordering::SeqCst);
    assert!(ledger.begin(asking(OnLapse::Hold)).await.is_err());
    assert_eq!(record(&ledger).await.status, Status::InProgress, "it was taken on");
    sleep(SOON).await;
    let left = record(&ledger).await;
    assert_eq!((left.status, left.attempts), (Status::FailedRetryable, 2));
    let resolver = Resolver { by: "eve".to_owned(), why: "asked the bank".to_owned() };
    let (epoch, ending) = (Some(left.epoch), Ending::succeeded(Response::new("found")));
    let found = Resolve { identity: identity(), epoch, ending, resolver, ttl: LEASE };
    ledger.resolve(&found).await.unwrap();
}

/// Its caller may ask again by that name, and then runs it.
#[tokio::test(start_paused = true)]
async fn a_call_that_its_caller_has_named_is_left_to_its_caller() {
    let (ledger, trouble) = world();
    trouble.begins_lost.store(ALL, Ordering::SeqCst);
    let asked = || asking(OnLapse::Hold).call("mine");
    assert!(ledger.begin(asked()).await.is_err());
    let begun = record(&ledger).await;
    sleep(LEASE / 2).await;
    assert_eq!(record(&ledger).await, begun);
    let told = ledger.begin(asked()).await.unwrap();
    assert!(matches!(told, Decision::Execute(ref lease) if lease.epoch == 1), "{told:?}");
}

/// The begin never got to the store. Whoever begins meanwhile is left alone, also under a lease that lapsed.
#[tokio::test(start_paused = true)]
async fn the_lease_of_another_caller_is_left_alone() {
    for on_lapse in [OnLapse::Hold, OnLapse::Retry] {
        let (ledger, trouble) = world();
        trouble.begins_failed.store(ALL, Ordering::SeqCst);
        assert!(ledger.begin(asking(on_lapse)).await.is_err());
        assert_eq!(ledger.get(&identity()).await.unwrap(), None);
        let Decision::Execute(lease) = ledger.begin(asking(on_lapse)).await.unwrap() else {
            panic!("nobody has begun it");
        };
        sleep(2 * LEASE).await;
        let left = record(&ledger).await;
        assert_eq!((left.epoch, left.attempts, left.outcome), (1, 1, None));
        ledger.finish(&lease, &Ending::succeeded(Response::new("paid"))).await.unwrap();
    }
}
