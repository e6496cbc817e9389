//! The effect happened, and the store does not take it.

use std::sync::atomic::Ordering;

use driftq_ledger::{Failed, LedgerError, OnLapse, Response, RunError, Status};
use tokio::time::{Instant, sleep};

use crate::run::world::{LEASE, asking, record, replay, run, world};

#[tokio::test(start_paused = true)]
async fn a_finish_that_fails_is_tried_again() {
    // Fewer than the ledger repeats by itself, and more.
    for failures in [1, 3, 17] {
        let (ledger, trouble) = world();
        trouble.finishes.store(failures, Ordering::SeqCst);
        let ran = run(&ledger, Ok("paid".into())).await.unwrap();
        assert_eq!((ran.replayed, ran.attempt), (false, 1));
        assert_eq!(trouble.finished.load(Ordering::SeqCst), failures + 1);
        assert_eq!(replay(&ledger).await.unwrap().response.payload, "paid");
    }
}

#[tokio::test(start_paused = true)]
async fn a_finish_whose_answer_is_lost_is_no_failure() {
    let (ledger, trouble) = world();
    trouble.finishes.store(7, Ordering::SeqCst);
    trouble.is_answer_lost.store(true, Ordering::SeqCst);
    assert!(!run(&ledger, Ok("paid".into())).await.unwrap().replayed);
    assert_eq!(replay(&ledger).await.unwrap().response.payload, "paid");
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_cannot_be_written_down_at_once_is_tried_again() {
    let (ledger, trouble) = world();
    trouble.finishes.store(17, Ordering::SeqCst);
    let ran = run(&ledger, Err(Failed::last("no such account"))).await;
    assert!(matches!(ran, Err(RunError::Failed { recorded: true, .. })), "{ran:?}");
    assert_eq!(record(&ledger).await.status, Status::FailedFinal);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_written_down_is_given_back_unrecorded() {
    let (ledger, trouble) = world();
    trouble.finishes.store(u32::MAX, Ordering::SeqCst);
    let started = Instant::now();
    match run(&ledger, Ok(Response::new("paid").code(201))).await {
        Err(RunError::Unrecorded { response, error }) => {
            assert_eq!(*response, Response::new("paid").code(201), "it happened, and here it is");
            assert!(matches!(error, LedgerError::Unavailable(_)), "{error}");
        }
        other => panic!("{other:?}"),
    }
    let (took, patience) = (started.elapsed(), ledger.settings().finish_patience);
    assert!(took >= patience && took < patience + ledger.settings().call_timeout, "it took {took:?}");
    sleep(LEASE).await;
    let next = replay(&ledger).await;
    assert!(matches!(next, Err(RunError::Unknown { epoch: 1, .. })), "{next:?}");
}

/// The store is away for longer than the lease lasts: nobody may take over what has happened and is being written down.
#[tokio::test(start_paused = true)]
async fn a_lease_is_kept_while_its_ending_is_written_down() {
    let (ledger, trouble) = world();
    trouble.finishes.store(u32::MAX, Ordering::SeqCst);
    let brief = LEASE / 10;
    let asked = || {
        let mut asked = asking(OnLapse::Retry);
        asked.terms.lease = brief;
        asked
    };
    let first = {
        let (ledger, asked) = (ledger.clone(), asked());
        tokio::spawn(async move { ledger.run_with(asked, |_| async { Ok::<_, Failed>("paid") }).await })
    };
    sleep(brief * 3).await;
    let second = ledger.run_with(asked(), |_| async { Ok::<_, Failed>("paid twice") }).await;
    assert!(matches!(second, Err(RunError::InProgress { .. })), "{second:?}");
    trouble.finishes.store(0, Ordering::SeqCst);
    let ran = first.await.unwrap().unwrap();
    assert_eq!((ran.replayed, ran.attempt), (false, 1));
    assert_eq!(replay(&ledger).await.unwrap().response.payload, "paid");
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_cannot_be_written_down_is_said_to_be_unrecorded() {
    let (ledger, trouble) = world();
    trouble.finishes.store(u32::MAX, Ordering::SeqCst);
    match run(&ledger, Err(Failed::last("no such account"))).await {
        Err(RunError::Failed { error, recorded }) => {
            assert_eq!((&*error.message, recorded), ("no such account", false));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(record(&ledger).await.outcome, None);
}

#[tokio::test(start_paused = true)]
async fn what_a_repetition_would_not_change_is_not_repeated() {
    let (ledger, trouble) = world();
    trouble.finishes.store(u32::MAX, Ordering::SeqCst);
    *trouble.error.lock().unwrap() = Some(LedgerError::ReadOnly("a replica".to_owned()));
    let started = Instant::now();
    match run(&ledger, Ok("paid".into())).await {
        Err(RunError::Unrecorded { error, .. }) => {
            assert_eq!(error, LedgerError::ReadOnly("a replica".to_owned()));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((trouble.finished.load(Ordering::SeqCst), started.elapsed().as_millis()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_keeps_less_than_the_ledger_allows_keeps_that_it_happened() {
    let (ledger, trouble) = world();
    trouble.finishes.store(1, Ordering::SeqCst);
    *trouble.error.lock().unwrap() = Some(LedgerError::TooLarge { bytes: 4, limit: 3 });
    let ran = ledger.run_with(asking(OnLapse::Retry), |_| async { Ok::<_, Failed>("paid") }).await.unwrap();
    assert_eq!(ran.response.payload, "paid");
    assert_eq!(replay(&ledger).await.unwrap().response.omitted(), Some(4));
}
