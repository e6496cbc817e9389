//! Duplicates that come while a request is handled, and requests that were not heard of again.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::routing::post;
use driftq_ledger::http::IdempotencyLayer;
use driftq_ledger::{OnLapse, Status, Terms};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::http::bed::Bed;
use crate::http::signals::within;

/// A service whose handler waits to be let go on.
async fn bed(set_up: impl FnOnce(IdempotencyLayer) -> IdempotencyLayer) -> Bed {
    Bed::start(|layer, signals| {
        let handler = move || async move {
            let run = signals.run();
            signals.pause().await;
            format!("run {run}")
        };
        Router::new().route("/pay", post(handler)).route_layer(set_up(layer))
    })
    .await
}

#[tokio::test]
async fn a_duplicate_is_told_to_come_back_and_then_gets_the_answer() {
    let bed = bed(|layer| layer).await;
    let post = bed.post("/pay").key("\"k\"");
    let first = tokio::spawn(post.clone().send());
    bed.signals.until_entered().await;
    let second = post.clone().send().await;
    second.is_problem(409, "in-progress");
    assert_eq!(second.retry_after(), Some(5), "the lease lasts for 30 s, the handler mostly not");
    bed.clock.advance(Duration::from_millis(29_999));
    assert_eq!(post.clone().send().await.retry_after(), Some(1));
    post.clone().body("other").send().await.is_problem(422, "key-reused");
    bed.signals.let_go();
    assert_eq!(first.await.unwrap().text(), "run 1");
    let third = post.send().await;
    assert_eq!((third.text(), third.is_replayed()), ("run 1", true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_twenty_at_the_same_time_one_runs() {
    for wait in [Duration::ZERO, Duration::from_secs(10)] {
        let bed = bed(|layer| layer.wait(wait)).await;
        let mut posts = JoinSet::new();
        for _ in 0..20 {
            posts.spawn(bed.post("/pay").key("\"k\"").body(r#"{"amount":5}"#).send());
        }
        bed.signals.until_entered().await;
        if wait.is_zero() {
            for _ in 0..19 {
                within(posts.join_next()).await.unwrap().unwrap().is_problem(409, "in-progress");
            }
        }
        bed.signals.gate.add_permits(20);
        let answers = within(posts.join_all()).await;
        assert!(answers.iter().all(|answer| answer.text() == "run 1"), "{answers:?}");
        assert_eq!(answers.iter().filter(|answer| !answer.is_replayed()).count(), 1);
        assert_eq!(bed.runs(), 1);
    }
}

#[tokio::test]
async fn what_panics_may_have_happened() {
    for on_lapse in [OnLapse::Hold, OnLapse::Retry] {
        let bed = Bed::start(|layer, signals| {
            let handler = move || async move {
                assert!(signals.run() > 1, "half done");
                "done"
            };
            let layer = layer.terms(Terms::default().on_lapse(on_lapse));
            Router::new().route("/pay", post(handler)).route_layer(layer)
        })
        .await;
        let post = bed.post("/pay").key("\"k\"");
        assert!(post.clone().try_send().await.is_none(), "the panic reached the connection");
        post.clone().send().await.is_problem(409, "in-progress");
        bed.clock.advance(Duration::from_secs(31));
        let answer = post.clone().send().await;
        if on_lapse == OnLapse::Retry {
            assert_eq!(answer.text(), "done");
            continue;
        }
        answer.is_problem(409, "unknown");
        assert_eq!(answer.retry_after(), None);
        assert!(answer.problem()["detail"].as_str().unwrap().contains("2025-12-21T12:00:31Z"), "{answer:?}");
        assert_eq!(bed.runs(), 1);
    }
}

#[tokio::test]
async fn an_attempt_that_was_overtaken_does_not_count() {
    let bed = bed(|layer| layer.terms(Terms::default().on_lapse(OnLapse::Retry))).await;
    let post = bed.post("/pay").key("\"k\"");
    let first = tokio::spawn(post.clone().send());
    bed.signals.until_entered().await;
    bed.clock.advance(Duration::from_secs(31));
    let second = tokio::spawn(post.clone().send());
    bed.signals.until_entered().await;
    // The gate is fair: the first that came goes on first.
    bed.signals.let_go();
    let first = first.await.unwrap();
    first.is_problem(409, "overtaken");
    assert!(!first.text().contains("run 1"));
    bed.signals.let_go();
    assert_eq!(second.await.unwrap().text(), "run 2");
    assert_eq!(post.send().await.text(), "run 2");
}

#[tokio::test]
async fn an_attempt_that_was_overtaken_is_stopped() {
    let terms = Terms::default().on_lapse(OnLapse::Retry).lease(Duration::from_millis(60));
    let bed = bed(|layer| layer.terms(terms)).await;
    let post = bed.post("/pay").key("\"k\"");
    let first = tokio::spawn(post.clone().send());
    bed.signals.until_entered().await;
    // The first renews its lease whenever it finds it lapsed, so it takes some luck to be faster.
    let mut seconds = JoinSet::new();
    within(async {
        while bed.runs() < 2 {
            bed.clock.advance(Duration::from_millis(61));
            seconds.spawn(post.clone().send());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    // Nobody lets its handler go on.
    within(first).await.unwrap().is_problem(409, "overtaken");
}

#[tokio::test]
async fn the_lease_is_kept_while_the_handler_runs() {
    let lease = Duration::from_millis(60);
    let bed = bed(|layer| layer.terms(Terms::default().lease(lease))).await;
    let first = tokio::spawn(bed.post("/pay").key("\"k\"").send());
    bed.signals.until_entered().await;
    for _ in 0..3 {
        let before = bed.record("POST /pay", "k").await.unwrap().lease_expires_at;
        bed.clock.advance(Duration::from_millis(30));
        bed.record_when("POST /pay", "k", |record| record.lease_expires_at > before).await;
    }
    bed.signals.let_go();
    assert_eq!(first.await.unwrap().text(), "run 1");
}

/// Says when it is dropped.
struct Guard(Arc<Semaphore>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

#[tokio::test]
async fn a_client_that_hangs_up_finds_the_answer_when_it_comes_back() {
    let hung_up = Arc::new(Semaphore::new(0));
    let outside = Arc::clone(&hung_up);
    let (ended, mut ends) = mpsc::unbounded_channel();
    let bed = Bed::start(|layer, signals| {
        let handler = move || async move {
            let run = signals.run();
            signals.pause().await;
            ended.send(run).unwrap();
            format!("run {run}")
        };
        let watch = from_fn(move |request: Request, next: Next| {
            let guard = Guard(Arc::clone(&outside));
            async move {
                let answer = next.run(request).await;
                drop(guard);
                answer
            }
        });
        Router::new().route("/pay", post(handler)).route_layer(layer).route_layer(watch)
    })
    .await;
    let mut client = bed.connect().await;
    let request = "POST /pay HTTP/1.1\r\nHost: localhost\r\nX-User: ann\r\nIdempotency-Key: \"k\"\r\n\
                   Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    client.write_all(request.as_bytes()).await.unwrap();
    bed.signals.until_entered().await;
    assert_eq!(hung_up.available_permits(), 0);
    drop(client);
    // The server has noticed, and has dropped everything outside of the layer.
    within(hung_up.acquire()).await.unwrap().forget();
    bed.signals.let_go();
    assert_eq!(within(ends.recv()).await, Some(1), "the handler ran to its end");
    bed.record_when("POST /pay", "k", |record| record.status == Status::Succeeded).await;
    let answer = bed.post("/pay").key("\"k\"").body("{}").send().await;
    assert_eq!((answer.text(), answer.is_replayed(), bed.runs()), ("run 1", true, 1));
}
