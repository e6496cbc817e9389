//! What is not written down: a panic, a dropped future, an error that says nothing. And whoever was overtaken.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use driftq_ledger::{Decision, Ending, Failed, Lease, Ledger, OnLapse, Response, RunError, Status};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::run::world::{LEASE, asking, record, world};

/// What comes after somebody was not heard of again.
async fn is_left_to_the_lapse(ledger: &Ledger, on_lapse: OnLapse) {
    let left = record(ledger).await;
    assert_eq!((left.status, left.lease_live, left.outcome), (Status::InProgress, true, None));
    let asked = || asking(on_lapse);
    let early = ledger.run_with(asked(), |_| async { Ok::<_, Failed>("too early") }).await;
    assert!(matches!(early, Err(RunError::InProgress { .. })), "{early:?}");
    sleep(LEASE).await;
    let late = ledger.run_with(asked(), |lease| async move {
        assert_eq!((lease.epoch, lease.attempt), (2, 2));
        Ok::<_, Failed>("again")
    });
    match (on_lapse, late.await) {
        (OnLapse::Retry, Ok(ran)) => assert_eq!((ran.replayed, ran.attempt), (false, 2)),
        (OnLapse::Hold, Err(RunError::Unknown { epoch, since })) => {
            assert_eq!(epoch, 1);
            assert!(since >= left.lease_expires_at.unwrap());
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_left_to_the_lapse() {
    for on_lapse in [OnLapse::Retry, OnLapse::Hold] {
        let (ledger, _) = world();
        let other = ledger.clone();
        let crashed = tokio::spawn(async move {
            let effect = |_: Lease| async {
                tokio::task::yield_now().await;
                panic!("the worker is gone")
            };
            other.run_with::<_, _, (), Failed>(asking(on_lapse), effect).await
        });
        assert!(crashed.await.unwrap_err().is_panic());
        is_left_to_the_lapse(&ledger, on_lapse).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_before_the_first_wait_is_left_to_the_lapse() {
    let (ledger, _) = world();
    let other = ledger.clone();
    let effect = |_: Lease| -> std::future::Ready<Result<(), Failed>> { panic!("the worker is gone") };
    let crashed = tokio::spawn(async move { other.run_with(asking(OnLapse::Hold), effect).await });
    assert!(crashed.await.unwrap_err().is_panic());
    is_left_to_the_lapse(&ledger, OnLapse::Hold).await;
}

/// A client hangs up in the middle: the effect runs to its end, and the next caller gets the answer.
#[tokio::test(start_paused = true)]
async fn a_dropped_future_runs_to_its_end_and_is_replayed() {
    for on_lapse in [OnLapse::Retry, OnLapse::Hold] {
        let (ledger, _) = world();
        let (entered, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (enters, goes_on) = (Arc::clone(&entered), Arc::clone(&go_on));
        let effect = move |_: Lease| async move {
            enters.notify_one();
            goes_on.notified().await;
            Ok::<_, Failed>("paid")
        };
        let running = ledger.run_with(asking(on_lapse), effect);
        tokio::select! {
            ran = running => panic!("nobody lets it go on: {ran:?}"),
            () = entered.notified() => {}
        }
        // The future is gone by now, and for longer than a lease lasts.
        sleep(3 * LEASE).await;
        let early = ledger.begin(asking(on_lapse)).await.unwrap();
        assert!(matches!(early, Decision::InProgress { epoch: 1, .. }), "{early:?}");
        go_on.notify_one();
        let asked = asking(on_lapse).wait(LEASE);
        let ran = ledger.run_with(asked, |_| async { Ok::<_, Failed>("paid twice") }).await.unwrap();
        assert_eq!((ran.response.payload, ran.replayed, ran.attempt), ("paid".into(), true, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_future_that_was_attached_is_left_to_the_lapse() {
    for on_lapse in [OnLapse::Retry, OnLapse::Hold] {
        let (ledger, _) = world();
        let forever = |_: Lease| pending::<Result<(), Failed>>();
        // Longer than a lease: its end is counted from the last renewal, which nobody makes any more.
        let dropped = timeout(2 * LEASE, ledger.run_attached(asking(on_lapse), forever)).await;
        assert!(dropped.is_err());
        is_left_to_the_lapse(&ledger, on_lapse).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_that_says_nothing_is_left_to_the_lapse() {
    for on_lapse in [OnLapse::Retry, OnLapse::Hold] {
        let (ledger, _) = world();
        let unclear = |_: Lease| async { Err::<(), _>(Failed::unclear("the connection broke")) };
        match ledger.run_with(asking(on_lapse), unclear).await {
            Err(RunError::Failed { error, recorded }) => {
                assert_eq!((&*error.message, recorded), ("the connection broke", false));
            }
            other => panic!("{other:?}"),
        }
        is_left_to_the_lapse(&ledger, on_lapse).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_effect_keeps_its_lease() {
    let (ledger, trouble) = world();
    let other = ledger.clone();
    let running = tokio::spawn(async move {
        let effect = |lease: Lease| async move {
            sleep(20 * LEASE).await;
            Ok::<_, Failed>(format!("epoch {}", lease.epoch))
        };
        other.run_with(asking(OnLapse::Retry), effect).await
    });
    for round in 0..19 {
        sleep(LEASE).await;
        let told = ledger.begin(asking(OnLapse::Retry)).await.unwrap();
        assert!(matches!(told, Decision::InProgress { epoch: 1, .. }), "in round {round}: {told:?}");
        // A renewal that fails for a while does no harm: there is time for another one.
        trouble.renewals.store(1, Ordering::SeqCst);
    }
    let ran = running.await.unwrap().unwrap();
    assert_eq!((ran.response.payload, ran.attempt), ("epoch 1".into(), 1));
}

/// Says so when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Somebody takes over from a worker whose renewals do not get through.
async fn take_over(ledger: &Ledger) -> Lease {
    sleep(LEASE).await;
    match ledger.begin(asking(OnLapse::Retry)).await.unwrap() {
        Decision::Execute(lease) if lease.epoch == 2 => lease,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_overtaken_is_stopped_where_it_stands() {
    let (ledger, trouble) = world();
    // More than the ledger repeats by itself, in the time of one lease.
    trouble.renewals.store(20, Ordering::SeqCst);
    let is_stopped = Arc::new(AtomicBool::new(false));
    let (other, dropped) = (ledger.clone(), Dropped(Arc::clone(&is_stopped)));
    let running = tokio::spawn(async move {
        let effect = |_: Lease| async move {
            let _dropped = dropped;
            pending::<Result<(), Failed>>().await
        };
        other.run_with(asking(OnLapse::Retry), effect).await
    });
    let new = take_over(&ledger).await;
    assert!(!is_stopped.load(Ordering::SeqCst), "its renewals failed, and it goes on");
    trouble.renewals.store(0, Ordering::SeqCst);
    let stopped = timeout(LEASE, running).await.expect("the next renewal finds out").unwrap();
    assert!(matches!(stopped, Err(RunError::Overtaken)), "{stopped:?}");
    assert!(is_stopped.load(Ordering::SeqCst));
    ledger.finish(&new, &Ending::succeeded(Response::new("new"))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_result_of_whoever_was_overtaken_is_not_written_down() {
    for result in [Ok(Response::new("stale")), Err(Failed::retryable("stale")), Err(Failed::last("stale"))] {
        let (ledger, trouble) = world();
        trouble.renewals.store(u32::MAX, Ordering::SeqCst);
        let (other, go_on, answer) = (ledger.clone(), Arc::new(Notify::new()), result.clone());
        let gate = Arc::clone(&go_on);
        let running = tokio::spawn(async move {
            let effect = |_: Lease| async move {
                gate.notified().await;
                answer
            };
            other.run_with(asking(OnLapse::Retry), effect).await
        });
        let new = take_over(&ledger).await;
        let before = record(&ledger).await;
        go_on.notify_one();
        match (&result, running.await.unwrap()) {
            (Ok(_), Err(RunError::Overtaken)) => {}
            (Err(_), Err(RunError::Failed { recorded, .. })) => assert!(!recorded),
            other => panic!("{other:?}"),
        }
        assert_eq!(record(&ledger).await, before);
        ledger.finish(&new, &Ending::succeeded(Response::new("new"))).await.unwrap();
        assert_eq!(record(&ledger).await.outcome.unwrap().response, Response::new("new"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_lease_lapsed_unnoticed_still_writes_its_result_down() {
    let (ledger, trouble) = world();
    trouble.renewals.store(u32::MAX, Ordering::SeqCst);
    let effect = |_: Lease| async {
        sleep(LEASE + Duration::from_secs(1)).await;
        Ok::<_, Failed>("late")
    };
    let ran = ledger.run_with(asking(OnLapse::Hold), effect).await.unwrap();
    assert_eq!((ran.response.payload, ran.attempt), ("late".into(), 1));
    assert_eq!(record(&ledger).await.status, Status::Succeeded);
}
