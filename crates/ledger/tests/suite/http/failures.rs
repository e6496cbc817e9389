//! A ledger that is not there.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use driftq_ledger::http::IdempotencyLayer;
use driftq_ledger::{Status, Terms};

use crate::http::bed::Bed;

async fn bed(set_up: impl FnOnce(IdempotencyLayer) -> IdempotencyLayer) -> Bed {
    Bed::start(|layer, signals| {
        let handler = move || async move { format!("run {}", signals.run()) };
        Router::new().route("/pay", post(handler)).route_layer(set_up(layer))
    })
    .await
}

#[tokio::test]
async fn without_the_ledger_nothing_runs() {
    let bed = bed(|layer| layer).await;
    bed.store.begin_fails.store(true, Ordering::SeqCst);
    let answer = bed.post("/pay").key("\"k\"").send().await;
    answer.is_problem(503, "unavailable");
    assert!(answer.retry_after().unwrap() >= 1);
    assert_eq!(bed.runs(), 0);
    assert_eq!(bed.post("/pay").send().await.text(), "run 1", "without a key nobody has to be asked");
    bed.store.begin_fails.store(false, Ordering::SeqCst);
    assert_eq!(bed.post("/pay").key("\"k\"").send().await.text(), "run 2");
}

#[tokio::test]
async fn what_happened_and_is_not_written_down_is_said_to_be_so() {
    let bed = bed(|layer| layer).await;
    bed.store.finish_fails.store(true, Ordering::SeqCst);
    let answer = bed.post("/pay").key("\"k\"").send().await;
    answer.is_problem(503, "unrecorded");
    assert_eq!(answer.retry_after(), None);
    assert_eq!(bed.runs(), 1);
    bed.store.finish_fails.store(false, Ordering::SeqCst);
    bed.post("/pay").key("\"k\"").send().await.is_problem(409, "in-progress");
    bed.clock.advance(Duration::from_secs(31));
    bed.post("/pay").key("\"k\"").send().await.is_problem(409, "unknown");
    assert_eq!(bed.runs(), 1);
}

#[tokio::test]
async fn a_store_that_takes_less_than_it_is_given_still_learns_how_it_ended() {
    let bed = bed(|layer| layer).await;
    bed.store.payload_bytes_max.store(4, Ordering::SeqCst);
    assert_eq!(bed.post("/pay").key("\"k\"").send().await.text(), "run 1");
    assert_eq!(bed.record("POST /pay", "k").await.unwrap().status, Status::Succeeded);
    bed.post("/pay").key("\"k\"").send().await.is_problem(409, "answer-not-kept");
}

#[tokio::test]
async fn terms_that_no_ledger_takes_are_the_services_fault() {
    let bed = bed(|layer| layer.terms(Terms::default().lease(Duration::ZERO))).await;
    bed.post("/pay").key("\"k\"").send().await.is_problem(500, "misconfigured");
    assert_eq!(bed.runs(), 0);
}
