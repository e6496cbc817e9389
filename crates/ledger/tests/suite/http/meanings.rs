//! What an answer means for the next request with the same key.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::extract::{Json, Path};
use axum::http::StatusCode;
use axum::response::{Extension, IntoResponse};
use axum::routing::post;
use driftq_ledger::http::{IdempotencyLayer, Meaning};
use driftq_ledger::{Class, OnLapse, Status, Terms};

use crate::http::bed::Bed;

async fn bed(set_up: impl FnOnce(IdempotencyLayer) -> IdempotencyLayer) -> Bed {
    Bed::start(|layer, signals| {
        let (counted, marked) = (Arc::clone(&signals), Arc::clone(&signals));
        let status = move |Path(code): Path<u16>| async move {
            (StatusCode::from_u16(code).unwrap(), format!("{code} in run {}", counted.run()))
        };
        let mark = move |Path((code, word)): Path<(u16, String)>| async move {
            let meaning = match word.as_str() {
                "succeeded" => Meaning::Succeeded,
                "retryable" => Meaning::Failed(Class::Retryable),
                "final" => Meaning::Failed(Class::Final),
                "refused" => Meaning::Failed(Class::Refused),
                _ => Meaning::Failed(Class::Unclear),
            };
            let status = StatusCode::from_u16(code).unwrap();
            (status, Extension(meaning), format!("{code} in run {}", marked.run())).into_response()
        };
        let pay = move |Json(amount): Json<u32>| async move { format!("{amount} in run {}", signals.run()) };
        let routes = Router::new()
            .route("/status/{code}", post(status))
            .route("/marked/{code}/{word}", post(mark))
            .route("/pay", post(pay));
        routes.route_layer(set_up(layer))
    })
    .await
}

fn under(on_lapse: OnLapse) -> impl FnOnce(IdempotencyLayer) -> IdempotencyLayer {
    move |layer| layer.terms(Terms::default().on_lapse(on_lapse))
}

/// What a request with the same key finds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    /// The same answer.
    Replay(Status),
    /// The handler, because the first attempt may be repeated.
    Again,
    /// The handler, because the key is as good as new.
    Anew,
    /// Nothing, until an operator has found out.
    Unknown,
}

async fn is_followed_by(bed: &Bed, path: &str, next: Next) {
    let (method, post) = (format!("POST {path}"), || bed.post(path).key("\"k\""));
    let before = bed.runs();
    let first = post().send().await;
    assert_eq!(bed.runs() - before, 1, "{path}");
    let record = bed.record(&method, "k").await;
    let status = record.map(|record| record.status);
    let again = post().send().await;
    match next {
        Next::Replay(expected) => {
            assert_eq!((status, again.is_replayed()), (Some(expected), true), "{path}");
            assert_eq!((first.status, &first.body), (again.status, &again.body), "{path}");
        }
        Next::Again => assert_eq!(status, Some(Status::FailedRetryable), "{path}"),
        Next::Anew => assert_eq!(status, None, "{path}"),
        Next::Unknown => {
            assert_eq!(status, Some(Status::InProgress), "{path}");
            again.is_problem(409, "in-progress");
            bed.clock.advance(Duration::from_secs(31));
            post().send().await.is_problem(409, "unknown");
        }
    }
    let runs = if matches!(next, Next::Again | Next::Anew) { 2 } else { 1 };
    assert_eq!(bed.runs() - before, runs, "{path}");
}

#[tokio::test]
async fn under_hold_nothing_runs_again_that_may_have_happened() {
    let bed = bed(under(OnLapse::Hold)).await;
    for (codes, next) in [
        (&[200, 204, 303, 304][..], Next::Replay(Status::Succeeded)),
        (&[400, 401, 402, 403, 404, 409, 422], Next::Replay(Status::FailedFinal)),
        (&[408, 429, 500, 502, 503, 504], Next::Unknown),
        (&[405, 413, 415, 425], Next::Anew),
    ] {
        for code in codes {
            is_followed_by(&bed, &format!("/status/{code}"), next).await;
        }
    }
}

#[tokio::test]
async fn under_retry_what_failed_for_now_runs_again_and_a_refusal_is_not_kept() {
    let bed = bed(under(OnLapse::Retry)).await;
    for (codes, next) in [
        (&[201, 303][..], Next::Replay(Status::Succeeded)),
        (&[402, 409, 410], Next::Replay(Status::FailedFinal)),
        (&[408, 429, 500, 503, 504], Next::Again),
        (&[400, 401, 403, 404, 405, 413, 415, 422, 425], Next::Anew),
    ] {
        for code in codes {
            is_followed_by(&bed, &format!("/status/{code}"), next).await;
        }
    }
}

/// The usual case: a body that is no JSON, or not of the right shape, never reaches the handler.
#[tokio::test]
async fn a_request_that_was_put_right_may_use_its_key() {
    let refused = |layer: IdempotencyLayer| {
        layer.classify(|answer, usual| match answer.status.as_u16() {
            400 | 422 => Meaning::Failed(Class::Refused),
            _ => usual,
        })
    };
    for bed in [bed(refused).await, bed(under(OnLapse::Retry)).await] {
        let post = bed.post("/pay").key("\"k\"");
        for (body, status) in [("no", 400), ("\"five\"", 422), ("no", 400)] {
            assert_eq!(post.clone().body(body).send().await.status, status);
            assert!(bed.record("POST /pay", "k").await.is_none());
        }
        for replayed in [false, true] {
            let answer = post.clone().body("5").send().await;
            assert_eq!((answer.text(), answer.is_replayed()), ("5 in run 1", replayed));
        }
        post.body("6").send().await.is_problem(422, "key-reused");
    }
}

#[tokio::test]
async fn a_handler_says_what_its_answer_means_and_is_not_overruled() {
    let bed = bed(|layer| layer.classify(|_, _| Meaning::Failed(Class::Unclear))).await;
    for (path, next) in [
        ("/marked/500/succeeded", Next::Replay(Status::Succeeded)),
        ("/marked/200/final", Next::Replay(Status::FailedFinal)),
        ("/marked/402/retryable", Next::Again),
        ("/marked/422/refused", Next::Anew),
        ("/marked/200/unclear", Next::Unknown),
        ("/status/200", Next::Unknown),
    ] {
        is_followed_by(&bed, path, next).await;
    }
}

/// Only the newest attempt is given up: those before it stay counted.
#[tokio::test]
async fn a_refusal_after_a_failure_leaves_the_attempts_counted() {
    let bed = Bed::start(|layer, signals| {
        let handler = move || async move {
            match signals.run() {
                1 => StatusCode::SERVICE_UNAVAILABLE,
                2 => StatusCode::UNSUPPORTED_MEDIA_TYPE,
                _ => StatusCode::OK,
            }
        };
        Router::new().route("/pay", post(handler)).route_layer(under(OnLapse::Retry)(layer))
    })
    .await;
    for (status, attempts) in [(503, 1), (415, 2), (200, 3)] {
        assert_eq!(bed.post("/pay").key("\"k\"").send().await.status, status);
        assert_eq!(bed.record("POST /pay", "k").await.unwrap().attempts, attempts);
    }
}

/// The client gets its refusal also if the ledger cannot be told of it: nothing was done that could be lost.
#[tokio::test]
async fn a_refusal_is_given_also_if_the_ledger_is_away() {
    let bed = bed(under(OnLapse::Hold)).await;
    bed.store.finish_fails.store(true, Ordering::SeqCst);
    assert_eq!(bed.post("/status/415").key("\"k\"").send().await.text(), "415 in run 1");
    bed.post("/status/415").key("\"k\"").send().await.is_problem(409, "in-progress");
}
