//! What was asked before is answered as it was then.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::post;
use driftq_ledger::http::IdempotencyLayer;
use driftq_ledger::{Ending, Identity, OnLapse, Resolve, Resolver, Response, Terms};

use crate::http::bed::Bed;
use crate::http::signals::Signals;

async fn bed(set_up: impl FnOnce(IdempotencyLayer) -> IdempotencyLayer) -> Bed {
    Bed::start(|layer, signals| {
        let pay = Arc::clone(&signals);
        let routes = Router::new()
            .route("/pay", post(move || pay_handler(Arc::clone(&pay))))
            .route("/status/{code}", post(move |Path(code)| status_handler(code, Arc::clone(&signals))));
        routes.route_layer(set_up(layer))
    })
    .await
}

async fn pay_handler(signals: Arc<Signals>) -> impl IntoResponse {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("content-type", "application/vnd.pay+json"),
        ("location", "/payments/7"),
        ("x-one", "1"),
        ("vary", "origin"),
        ("vary", "accept"),
        ("set-cookie", "session=secret"),
        ("connection", "x-hop"),
        ("x-hop", "1"),
    ] {
        headers.append(name, value.parse().unwrap());
    }
    (StatusCode::CREATED, headers, format!("{{\"run\":{}}}", signals.run()))
}

async fn status_handler(code: u16, signals: Arc<Signals>) -> impl IntoResponse {
    let run = signals.run();
    (StatusCode::from_u16(code).unwrap(), [("x-run", run.to_string())], format!("{code} in run {run}"))
}

#[tokio::test]
async fn a_replay_has_the_status_the_headers_and_the_body() {
    let bed = bed(|layer| layer.required(true)).await;
    let post = bed.post("/pay").key("\"k\"").body(r#"{"amount":5,"to":"bob"}"#);
    let first = post.clone().send().await;
    assert_eq!((first.status.as_u16(), first.text()), (201, "{\"run\":1}"));
    assert!(!first.is_replayed());
    assert_eq!(first.header("set-cookie"), Some("session=secret"));

    for body in [r#"{"amount":5,"to":"bob"}"#, " {\"to\" : \"b\\u006fb\",\n\"amount\":5}"] {
        let again = post.clone().body(body).send().await;
        assert!(again.is_replayed());
        assert_eq!((again.status, &again.body), (first.status, &first.body));
        assert_eq!(again.header("content-type"), Some("application/vnd.pay+json"));
        assert_eq!(again.header("location"), Some("/payments/7"));
        assert_eq!(again.header("vary"), Some("origin, accept"));
        assert_eq!(again.header("content-length"), Some("9"));
        assert_eq!(again.header("x-one"), Some("1"));
        let names: BTreeSet<_> = again.headers.keys().map(|name| name.as_str()).collect();
        assert!(
            names.is_disjoint(&["set-cookie", "connection", "x-hop", "transfer-encoding"].into()),
            "{names:?}"
        );
        assert_eq!(again.headers.get_all("date").iter().count(), 1, "hyper's own, of now");
    }
    assert_eq!(bed.runs(), 1);
}

#[tokio::test]
async fn another_payload_under_a_used_key_is_refused() {
    let bed = bed(|layer| layer).await;
    let post = bed.post("/pay").key("\"k\"");
    assert_eq!(post.clone().body(r#"{"amount":9007199254740992}"#).send().await.status, 201);
    for body in [r#"{"amount":9007199254740993}"#, r#"{"amount":9007199254740992.5}"#, "", "no json"] {
        let answer = post.clone().body(body).send().await;
        answer.is_problem(422, "key-reused");
        assert!(!answer.is_replayed() && answer.retry_after().is_none());
    }
    assert_eq!(bed.runs(), 1);
}

#[tokio::test]
async fn when_no_attempt_is_left_the_last_failure_is_replayed() {
    let terms = Terms::default().attempts_max(2).on_lapse(OnLapse::Retry);
    let bed = bed(|layer| layer.terms(terms)).await;
    for (run, replayed) in [("1", false), ("2", false), ("2", true), ("2", true)] {
        let answer = bed.post("/status/503").key("\"k\"").send().await;
        assert_eq!((answer.status.as_u16(), answer.is_replayed()), (503, replayed));
        assert_eq!(answer.header("x-run"), Some(run));
    }
}

#[tokio::test]
async fn a_forgotten_key_is_a_new_one() {
    let bed = bed(|layer| layer.terms(Terms::default().ttl(Duration::from_secs(60)))).await;
    for run in [1, 2] {
        assert_eq!(bed.post("/pay").key("\"k\"").send().await.text(), format!("{{\"run\":{run}}}"));
        bed.clock.advance(Duration::from_secs(61));
    }
}

#[tokio::test]
async fn what_was_resolved_by_hand_is_answered_as_far_as_it_is_known() {
    let bed = bed(|layer| layer).await;
    let created = Response::new("found").code(201).header("x-found", "1").header("not a header", "\u{e9}");
    for (key, ending, status, text) in [
        ("full", Ending::succeeded(created), 201, "found"),
        ("bare", Ending::succeeded(Response::default()), 200, ""),
        ("odd", Ending::succeeded(Response::new("x").code(70_000)), 200, "x"),
        ("failed", Ending::failed_final("the bank said no"), 409, ""),
    ] {
        let post = bed.post("/status/500").key(key);
        assert_eq!(post.clone().send().await.status, 500);
        bed.clock.advance(Duration::from_secs(31));
        let identity = Identity::new("ann", "POST /status/500", key).unwrap();
        let resolver = Resolver { by: "eve".to_owned(), why: "asked the bank".to_owned() };
        let ttl = Duration::from_secs(3600);
        bed.ledger.resolve(&Resolve { identity, epoch: None, ending, resolver, ttl }).await.unwrap();
        let answer = post.send().await;
        assert_eq!((answer.status.as_u16(), answer.is_replayed()), (status, true), "{key}");
        match key {
            "failed" => answer.is_problem(409, "failed"),
            _ => assert_eq!(answer.text(), text),
        }
        assert_eq!(answer.header("x-found").is_some(), key == "full");
    }
}
