//! What is written down, and what the next caller gets.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use driftq_ledger::{
    Begin, Class, ERROR_BYTES_MAX, End, Failed, Failure, HEADERS_MAX, LedgerError, OnLapse, RequestHash,
    Response, RunError, Status,
};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::run::world::{LEASE, PAYLOAD_BYTES_MAX, asking, hash, identity, record, replay, run, world};

#[tokio::test(start_paused = true)]
async fn a_success_is_written_down_and_replayed() {
    let (ledger, _) = world();
    let response = Response::new(vec![0, 255]).code(201).header("location", "/payments/ü");
    let ran = run(&ledger, Ok(response.clone())).await.unwrap();
    assert_eq!((ran.response, ran.replayed, ran.attempt), (response.clone(), false, 1));
    for _ in 0..2 {
        let ran = replay(&ledger).await.unwrap();
        assert_eq!((ran.response, ran.replayed, ran.attempt), (response.clone(), true, 1));
    }
    assert_eq!(record(&ledger).await.status, Status::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn answers_may_be_texts_bytes_json_or_nothing() {
    #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
    struct Paid {
        amount: u32,
    }
    let (ledger, _) = world();
    let paid = Response::json(&Paid { amount: 5 }).unwrap();
    run(&ledger, Ok(paid)).await.unwrap();
    assert_eq!(replay(&ledger).await.unwrap().json::<Paid>().unwrap(), Paid { amount: 5 });
    let (ledger, _) = world();
    let ran = ledger.run(identity(), hash(), || async { Ok::<_, Failed>(()) }).await.unwrap();
    assert_eq!(ran.response, Response::default());
    let (ledger, _) = world();
    ledger.run(identity(), hash(), || async { Ok::<_, Failed>("paid") }).await.unwrap();
    assert_eq!(replay(&ledger).await.unwrap().response.payload, "paid");
}

#[tokio::test(start_paused = true)]
async fn a_retryable_failure_is_tried_again_by_the_next_caller() {
    let (ledger, _) = world();
    let failure = Failed::retryable("the provider is down").response(Response::default().code(503));
    match run(&ledger, Err(failure.clone())).await {
        Err(RunError::Failed { error, recorded }) => assert_eq!((error, recorded), (failure, true)),
        other => panic!("{other:?}"),
    }
    let failed = record(&ledger).await;
    assert_eq!(failed.status, Status::FailedRetryable);
    let outcome = failed.outcome.unwrap();
    assert_eq!((&*outcome.error, outcome.response.code), ("the provider is down", Some(503)));
    let ran = run(&ledger, Ok("paid".into())).await.unwrap();
    assert_eq!((ran.replayed, ran.attempt), (false, 2));
    assert!(replay(&ledger).await.unwrap().replayed);
}

#[tokio::test(start_paused = true)]
async fn a_final_failure_is_told_to_everybody() {
    let (ledger, _) = world();
    let failure = Failed::last("no such account").response(Response::new("{}").code(422));
    match run(&ledger, Err(failure)).await {
        Err(RunError::Failed { recorded, .. }) => assert!(recorded),
        other => panic!("{other:?}"),
    }
    match replay(&ledger).await {
        Err(RunError::FailedBefore(outcome)) => {
            assert_eq!((outcome.end, &*outcome.error), (End::FailedFinal, "no such account"));
            assert_eq!(outcome.response, Response::new("{}").code(422));
        }
        other => panic!("{other:?}"),
    }
}

/// A check that comes before anything is done does not use the key up.
#[tokio::test(start_paused = true)]
async fn a_refusal_leaves_the_key_as_it_was() {
    let (ledger, _) = world();
    let refused = Failed::refused("no such currency").response(Response::default().code(422));
    match run(&ledger, Err(refused.clone())).await {
        Err(RunError::Failed { error, recorded }) => assert_eq!((error, recorded), (refused, true)),
        other => panic!("{other:?}"),
    }
    assert_eq!(ledger.get(&identity()).await.unwrap(), None);
    let put_right = RequestHash::of_bytes(b"6 EUR");
    let ran = ledger.run(identity(), put_right, || async { Ok::<_, Failed>("paid") }).await.unwrap();
    assert_eq!((ran.replayed, ran.attempt), (false, 1));
}

#[tokio::test(start_paused = true)]
async fn when_no_attempt_is_left_the_last_failure_is_told() {
    let (ledger, _) = world();
    let mut asked = asking(OnLapse::Hold);
    asked.terms.attempts_max = Some(2);
    for attempt in 1..=2 {
        let failure = Failed::retryable(format!("attempt {attempt}"));
        let ran = ledger.run_with(asked.clone(), |_| async move { Err::<(), _>(failure) }).await;
        assert!(matches!(ran, Err(RunError::Failed { recorded: true, .. })), "{ran:?}");
    }
    match ledger.run_with(asked, |_| async { Ok::<_, Failed>("not run") }).await {
        Err(RunError::Exhausted(outcome)) => assert_eq!(outcome.error, "attempt 2"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_reacquire_is_told_that_it_may_be_tried_again() {
    let (ledger, _) = world();
    let mut asked = asking(OnLapse::Hold);
    asked.reacquire = false;
    let ran = ledger.run_with(asked.clone(), |_| async { Err::<(), _>(Failed::retryable("busy")) }).await;
    assert!(matches!(ran, Err(RunError::Failed { recorded: true, .. })), "{ran:?}");
    match ledger.run_with(asked, |_| async { Ok::<_, Failed>("not run") }).await {
        Err(RunError::Retryable(outcome)) => assert_eq!(outcome.error, "busy"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_run_for_another_request_or_while_somebody_runs_it() {
    let (ledger, _) = world();
    assert_eq!(ledger.begin(asking(OnLapse::Hold)).await.unwrap().word(), "execute");
    match replay(&ledger).await {
        Err(RunError::InProgress { retry_after }) => assert_eq!(retry_after, LEASE),
        other => panic!("{other:?}"),
    }
    let other = RequestHash::of_bytes(b"6 EUR");
    let ran = ledger.run(identity(), other, || async { Ok::<_, Failed>("not run") }).await;
    assert!(matches!(ran, Err(RunError::Ledger(LedgerError::Conflict(_)))), "{ran:?}");
    let mut bad = asking(OnLapse::Hold);
    bad.terms.lease = Duration::ZERO;
    let ran = ledger.run_with(bad, |_| async { Ok::<_, Failed>("not run") }).await;
    assert!(matches!(ran, Err(RunError::Ledger(LedgerError::Invalid(_)))), "{ran:?}");
}

#[tokio::test(start_paused = true)]
async fn of_many_who_wait_one_runs_it_and_all_get_the_same_answer() {
    let (ledger, _) = world();
    let runs = Arc::new(AtomicU32::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..64 {
        let (ledger, runs) = (ledger.clone(), Arc::clone(&runs));
        callers.spawn(async move {
            let asked = asking(OnLapse::Hold).wait(10 * LEASE);
            let effect = |lease: driftq_ledger::Lease| async move {
                sleep(3 * LEASE).await;
                let run = runs.fetch_add(1, Ordering::SeqCst);
                Ok::<_, Failed>(format!("run {run} under epoch {}", lease.epoch))
            };
            ledger.run_with(asked, effect).await.unwrap()
        });
    }
    let all = callers.join_all().await;
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(all.iter().filter(|ran| !ran.replayed).count(), 1);
    assert!(all.iter().all(|ran| ran.response.payload == "run 0 under epoch 1"));
}

#[tokio::test(start_paused = true)]
async fn that_it_happened_is_written_down_also_if_the_answer_is_too_large() {
    let (ledger, _) = world();
    let large = Response::new(vec![7; PAYLOAD_BYTES_MAX + 1]).code(200).header("etag", "e");
    let ran = run(&ledger, Ok(large.clone())).await.unwrap();
    assert_eq!(ran.response, large, "whoever ran it has it all");
    let again = replay(&ledger).await.unwrap().response;
    assert_eq!((again.omitted(), again.code), (Some(PAYLOAD_BYTES_MAX as u64 + 1), Some(200)));
    assert_eq!((again.payload.len(), &*again.headers["etag"]), (0, "e"));
}

#[tokio::test(start_paused = true)]
async fn that_it_happened_is_written_down_also_if_the_answer_cannot_be_kept() {
    let many = (0..=HEADERS_MAX).fold(Response::new("paid"), |one, at| one.header(format!("h{at}"), ""));
    let broken = Response::new("paid").header("x", "a\r\nb");
    for response in [many, broken] {
        let (ledger, _) = world();
        let response = response.code(201);
        let answer = response.clone();
        let ran = ledger.run_with(asking(OnLapse::Retry), |_| async move { Ok::<_, Failed>(answer) });
        assert_eq!(ran.await.unwrap().response, response, "whoever ran it has it all");
        // Else a lapse would let somebody run it again.
        sleep(2 * LEASE).await;
        let again = replay(&ledger).await.unwrap().response;
        assert_eq!((again.omitted(), again.code), (Some(4), Some(201)));
    }
}

#[tokio::test(start_paused = true)]
async fn how_it_failed_is_written_down_also_if_the_answer_is_too_large() {
    let (ledger, _) = world();
    let large = Response::new(vec![7; PAYLOAD_BYTES_MAX + 1]).code(422);
    match run(&ledger, Err(Failed::last("no").response(large))).await {
        Err(RunError::Failed { recorded, .. }) => assert!(recorded),
        other => panic!("{other:?}"),
    }
    match replay(&ledger).await {
        Err(RunError::FailedBefore(outcome)) => {
            assert_eq!(outcome.response.omitted(), Some(PAYLOAD_BYTES_MAX as u64 + 1));
            assert_eq!(outcome.response.code, Some(422));
        }
        other => panic!("{other:?}"),
    }
}

/// An error whose text no table keeps as it is.
#[derive(Debug)]
struct Talkative;

impl fmt::Display for Talkative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "x\0{}", "ü".repeat(ERROR_BYTES_MAX))
    }
}

impl Failure for Talkative {
    fn class(&self) -> Class {
        Class::Final
    }
}

#[tokio::test(start_paused = true)]
async fn the_text_of_an_error_is_cut_where_a_letter_ends() {
    let (ledger, _) = world();
    let asked = Begin::new(identity(), hash());
    let ran = ledger.run_with(asked, |_| async { Err::<(), _>(Talkative) }).await;
    assert!(matches!(ran, Err(RunError::Failed { recorded: true, .. })), "{ran:?}");
    let error = record(&ledger).await.outcome.unwrap().error;
    // One letter of one byte, and then as many of two as fit.
    assert_eq!(error, format!("x{}", "ü".repeat((ERROR_BYTES_MAX - 1) / 2)));
}
