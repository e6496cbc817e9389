//! What was asked before is answered as it was then, and once only.

use std::sync::atomic::Ordering;
use std::time::Duration;

use driftq_ledger::grpc::Meaning;
use driftq_ledger::{
    Class, Ending, Identity, OnLapse, Resolve, Resolver, Response, Status as RecordStatus, Terms,
};
use tokio::task::JoinSet;
use tonic::Code;

use crate::grpc::bed::{Bed, CHARGE, is_replayed, metadata, refusal, retry_after_ms};
use crate::grpc::signals::within;

#[tokio::test]
async fn a_replay_has_the_message_and_the_metadata() {
    let bed = Bed::start(|layer| layer.required(true)).await;
    let call = bed.call().key("order 42").how("pay").amount(5);
    let first = call.clone().send().await;
    assert!(!is_replayed(&first));
    for _ in 0..2 {
        let again = call.clone().send().await;
        assert!(is_replayed(&again));
        assert_eq!(first.as_ref().unwrap().get_ref(), again.as_ref().unwrap().get_ref());
        assert_eq!(metadata(&again).get("x-run").unwrap(), "1");
        assert_eq!(metadata(&again).get_bin("x-proof-bin").unwrap().to_bytes().unwrap(), &b"\0proof"[..]);
        assert_eq!(metadata(&again).get("grpc-status").unwrap(), "0");
    }
    assert_eq!(bed.runs(), 1);
    assert_eq!(bed.record("order 42").await.unwrap().status, RecordStatus::Succeeded);
    // A message with nothing in it is a message.
    for replayed in [false, true] {
        assert_eq!(is_replayed(&bed.call().key("empty").send().await), replayed);
    }
}

#[tokio::test]
async fn a_replay_of_a_failure_has_the_status_with_text_and_details() {
    let bed = Bed::start(|layer| layer).await;
    let call = bed.call().key("k").how("fail 9");
    let first = call.clone().send().await.unwrap_err();
    let again = call.send().await;
    assert!(is_replayed(&again));
    let again = again.unwrap_err();
    assert_eq!((first.code(), first.message()), (Code::FailedPrecondition, "no: ä, 1"));
    assert_eq!((again.code(), again.message()), (Code::FailedPrecondition, "no: ä, 1"));
    assert_eq!(again.details(), b"\0details\xff");
    assert_eq!(again.metadata().get("x-run").unwrap(), "1");
    assert_eq!(bed.runs(), 1);
}

/// What a call with the same key finds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    Replay,
    Again,
    Anew,
    Unknown,
}

async fn is_followed_by(bed: &Bed, code: Code, next: Next) {
    let (key, how) = (format!("k{}", code as i32), format!("fail {}", code as i32));
    let call = bed.call().key(&key).how(&how);
    let before = bed.runs();
    assert_eq!(call.clone().send().await.unwrap_err().code(), code);
    let status = bed.record(&key).await.map(|record| record.status);
    let again = call.clone().send().await;
    let (expected, runs) = match next {
        Next::Replay => (Some(RecordStatus::FailedFinal), 1),
        Next::Again => (Some(RecordStatus::FailedRetryable), 2),
        Next::Anew => (None, 2),
        Next::Unknown => (Some(RecordStatus::InProgress), 1),
    };
    assert_eq!((status, bed.runs() - before), (expected, runs), "{code:?}");
    assert_eq!(is_replayed(&again), next == Next::Replay, "{code:?}");
    if next == Next::Unknown {
        assert_eq!(refusal(&again), ("in-progress", Code::Aborted));
        bed.clock.advance(Duration::from_secs(31));
        let unknown = call.send().await;
        assert_eq!(refusal(&unknown), ("unknown", Code::FailedPrecondition));
        assert_eq!(retry_after_ms(&unknown), None);
    }
}

#[tokio::test]
async fn under_hold_nothing_runs_again_that_may_have_happened() {
    let bed = Bed::start(|layer| layer).await;
    for (codes, next) in [
        (&[Code::InvalidArgument, Code::NotFound, Code::FailedPrecondition][..], Next::Replay),
        (&[Code::Unavailable, Code::ResourceExhausted, Code::Aborted, Code::Internal], Next::Unknown),
        (&[Code::Cancelled, Code::Unknown, Code::DeadlineExceeded, Code::DataLoss], Next::Unknown),
        (&[Code::Unimplemented], Next::Anew),
    ] {
        for code in codes {
            is_followed_by(&bed, *code, next).await;
        }
    }
}

#[tokio::test]
async fn under_retry_what_failed_for_now_runs_again_and_a_refusal_is_not_kept() {
    let terms = Terms::default().on_lapse(OnLapse::Retry);
    let bed = Bed::start(|layer| layer.terms(terms)).await;
    for (codes, next) in [
        (&[Code::AlreadyExists, Code::FailedPrecondition][..], Next::Replay),
        (&[Code::Unavailable, Code::ResourceExhausted, Code::Internal, Code::DeadlineExceeded], Next::Again),
        (&[Code::InvalidArgument, Code::Unauthenticated, Code::Unimplemented], Next::Anew),
    ] {
        for code in codes {
            is_followed_by(&bed, *code, next).await;
        }
    }
}

#[tokio::test]
async fn codes_mean_what_the_layer_was_told() {
    let bed = Bed::start(|layer| {
        layer.classify(|code, usual| match code {
            Code::InvalidArgument => Meaning::Failed(Class::Refused),
            Code::Internal => Meaning::Failed(Class::Final),
            Code::Unavailable => Meaning::Failed(Class::Retryable),
            _ => usual,
        })
    })
    .await;
    for (code, next) in [
        (Code::InvalidArgument, Next::Anew),
        (Code::Internal, Next::Replay),
        (Code::Unavailable, Next::Again),
        (Code::Aborted, Next::Unknown),
        (Code::NotFound, Next::Replay),
    ] {
        is_followed_by(&bed, code, next).await;
    }
}

#[tokio::test]
async fn when_no_attempt_is_left_the_last_failure_is_replayed() {
    let terms = Terms::default().attempts_max(2).on_lapse(OnLapse::Retry);
    let bed = Bed::start(|layer| layer.terms(terms)).await;
    for (run, replayed) in [("1", false), ("2", false), ("2", true)] {
        let answer = bed.call().key("k").how("fail 14").send().await;
        assert_eq!(answer.as_ref().unwrap_err().code(), Code::Unavailable);
        assert_eq!(metadata(&answer).get("x-run").unwrap(), run);
        assert_eq!(is_replayed(&answer), replayed);
    }
}

#[tokio::test]
async fn a_duplicate_is_told_to_come_back_and_then_gets_the_answer() {
    let bed = Bed::start(|layer| layer).await;
    let call = bed.call().key("k").how("wait");
    let first = tokio::spawn(call.clone().send());
    bed.signals.until_entered().await;
    let second = call.clone().send().await;
    assert_eq!(refusal(&second), ("in-progress", Code::Aborted));
    assert_eq!(retry_after_ms(&second), Some(5_000), "the lease lasts for 30 s, the handler mostly not");
    bed.signals.let_go();
    assert_eq!(first.await.unwrap().unwrap().get_ref().run, 1);
    assert!(is_replayed(&call.send().await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_twenty_at_the_same_time_one_runs() {
    let bed = Bed::start(|layer| layer.wait(Duration::from_secs(10))).await;
    let mut calls = JoinSet::new();
    for _ in 0..20 {
        calls.spawn(bed.call().key("k").how("wait").send());
    }
    bed.signals.until_entered().await;
    bed.signals.gate.add_permits(20);
    let answers = within(calls.join_all()).await;
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap().get_ref().run == 1));
    assert_eq!(answers.iter().filter(|answer| !is_replayed(answer)).count(), 1);
    assert_eq!(bed.runs(), 1);
}

#[tokio::test]
async fn a_client_that_hangs_up_finds_the_answer_when_it_comes_back() {
    let bed = Bed::start(|layer| layer.wait(Duration::from_secs(10))).await;
    let call = bed.call().key("k").how("wait");
    let first = tokio::spawn(call.clone().send());
    bed.signals.until_entered().await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    // Calls of one connection are seen in their order: when this one is answered, the reset before it was seen.
    bed.call().key("other").how("pay").send().await.unwrap();
    bed.signals.let_go();
    let again = call.send().await;
    assert_eq!((again.as_ref().unwrap().get_ref().run, is_replayed(&again), bed.runs()), (1, true, 2));
}

#[tokio::test]
async fn an_attempt_that_was_overtaken_does_not_count() {
    let terms = Terms::default().on_lapse(OnLapse::Retry);
    let bed = Bed::start(|layer| layer.terms(terms)).await;
    let call = bed.call().key("k").how("wait");
    let first = tokio::spawn(call.clone().send());
    bed.signals.until_entered().await;
    bed.clock.advance(Duration::from_secs(31));
    let second = tokio::spawn(call.send());
    bed.signals.until_entered().await;
    // The gate is fair: the first that came goes on first.
    bed.signals.let_go();
    let first = first.await.unwrap();
    assert_eq!(refusal(&first), ("overtaken", Code::Aborted));
    assert!(retry_after_ms(&first).is_some());
    bed.signals.let_go();
    assert_eq!(second.await.unwrap().unwrap().get_ref().run, 2);
}

#[tokio::test]
async fn without_the_ledger_nothing_runs_and_what_ran_is_said_to_have() {
    let bed = Bed::start(|layer| layer).await;
    let call = bed.call().key("k").how("pay");
    bed.store.begin_fails.store(true, Ordering::SeqCst);
    let answer = call.clone().send().await;
    assert_eq!(refusal(&answer), ("unavailable", Code::Unavailable));
    assert!(retry_after_ms(&answer).is_some());
    assert_eq!(bed.runs(), 0);
    bed.store.begin_fails.store(false, Ordering::SeqCst);
    bed.store.finish_fails.store(true, Ordering::SeqCst);
    assert_eq!(refusal(&call.clone().send().await), ("unrecorded", Code::Internal));
    assert_eq!(refusal(&call.send().await), ("in-progress", Code::Aborted));
    assert_eq!(bed.runs(), 1);
}

#[tokio::test]
async fn what_was_resolved_by_hand_is_answered_as_far_as_it_is_known() {
    let bed = Bed::start(|layer| layer).await;
    for (key, ending) in [
        ("done", Ending::succeeded(Response::default())),
        ("failed", Ending::failed_final("the bank said no")),
    ] {
        let call = bed.call().key(key).how("panic");
        call.clone().send().await.unwrap_err();
        bed.clock.advance(Duration::from_secs(31));
        assert_eq!(refusal(&call.clone().send().await), ("unknown", Code::FailedPrecondition));
        let identity = Identity::new("ann", CHARGE, key).unwrap();
        let resolver = Resolver { by: "eve".to_owned(), why: "asked the bank".to_owned() };
        let ttl = Duration::from_secs(3600);
        bed.ledger.resolve(&Resolve { identity, epoch: None, ending, resolver, ttl }).await.unwrap();
        let answer = call.send().await;
        assert!(is_replayed(&answer));
        match key {
            "done" => assert_eq!(answer.unwrap().get_ref().run, 0, "a message with nothing in it"),
            _ => assert_eq!(refusal(&answer), ("failed", Code::FailedPrecondition)),
        }
    }
}
