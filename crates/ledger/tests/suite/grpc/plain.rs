//! What tonic's own server and client do not do by themselves: compression, and services that break the rules.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use driftq_ledger::grpc::IdempotencyLayer;
use driftq_ledger::memory::ManualClock;
use driftq_ledger::{Identity, Ledger, Status};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use tonic::body::Body;
use tower::{Layer as _, ServiceExt as _};

use crate::grpc::bed::CHARGE;
use crate::grpc::moody::Moody;

fn layer() -> (Ledger, IdempotencyLayer) {
    let (_, ledger) = Moody::ledger(&Arc::new(ManualClock::default()));
    (ledger.clone(), IdempotencyLayer::new(ledger, |_| Some("ann".to_owned())))
}

fn request(frame: &'static [u8], encoding: &str) -> Request<Body> {
    let request = Request::post(CHARGE)
        .header("idempotency-key", "k")
        .header("grpc-encoding", encoding)
        .header("grpc-accept-encoding", "gzip");
    request.body(Body::new(Full::new(Bytes::from_static(frame)))).unwrap()
}

fn answer(http_status: u16, status: Option<&'static str>, frame: &'static [u8]) -> Response<Body> {
    let mut trailers = HeaderMap::new();
    if let Some(status) = status {
        trailers.insert("grpc-status", status.parse().unwrap());
        trailers.insert("x-trailer", "kept".parse().unwrap());
    }
    let body = Full::new(Bytes::from_static(frame)).with_trailers(async { Some(Ok(trailers)) });
    Response::builder().status(http_status).body(Body::new(body)).unwrap()
}

async fn status(ledger: &Ledger) -> Status {
    ledger.get(&Identity::new("ann", CHARGE, "k").unwrap()).await.unwrap().unwrap().status
}

#[tokio::test]
async fn a_compressed_message_counts_with_the_name_of_its_compression() {
    let (_, layer) = layer();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let service = layer.layer(tower::service_fn(move |request: Request<Body>| {
        counted.fetch_add(1, Ordering::SeqCst);
        assert!(!request.headers().contains_key("grpc-accept-encoding"), "who replays may not read it");
        assert!(request.headers().contains_key("grpc-encoding"));
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, &b"\x01\0\0\0\x02ab"[..]);
            Ok::<_, Infallible>(answer(200, Some("0"), b"\0\0\0\0\x01x"))
        }
    }));
    let code = |answer: Response<Body>| {
        answer.headers().get("grpc-status").map(|code| code.to_str().unwrap().to_owned())
    };
    let first = service.clone().oneshot(request(b"\x01\0\0\0\x02ab", "gzip")).await.unwrap();
    assert_eq!(code(first), None, "it is in the trailers");
    let again = service.clone().oneshot(request(b"\x01\0\0\0\x02ab", "gzip")).await.unwrap();
    assert_eq!(again.headers()["idempotent-replayed"], "true");
    let again = again.into_body().collect().await.unwrap();
    let trailers = again.trailers().unwrap();
    assert_eq!(
        (&trailers["grpc-status"], &trailers["x-trailer"]),
        (&"0".parse().unwrap(), &"kept".parse().unwrap())
    );
    assert_eq!(again.to_bytes(), &b"\0\0\0\0\x01x"[..]);
    for other in [request(b"\x01\0\0\0\x02ab", "zstd"), request(b"\0\0\0\0\x02ab", "gzip")] {
        let refused = service.clone().oneshot(other).await.unwrap();
        assert_eq!(refused.headers()["idempotency-problem"], "key-reused");
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn answers_that_are_none_say_nothing() {
    for (http_status, code) in [(500, Some("0")), (200, None), (200, Some("no code")), (200, Some("99"))] {
        let (ledger, layer) = layer();
        let inner = tower::service_fn(move |_: Request<Body>| async move {
            Ok::<_, Infallible>(answer(http_status, code, b"\0\0\0\0\x01x"))
        });
        let given = layer.layer(inner).oneshot(request(b"\0\0\0\0\0", "")).await.unwrap();
        assert_eq!(given.status(), http_status);
        assert_eq!(status(&ledger).await, Status::InProgress, "{http_status} {code:?}");
    }
}

#[tokio::test]
async fn an_answer_that_was_compressed_all_the_same_is_not_kept() {
    let (ledger, layer) = layer();
    let inner = tower::service_fn(|_: Request<Body>| async {
        Ok::<_, Infallible>(answer(200, Some("0"), b"\x01\0\0\0\x01x"))
    });
    let service = layer.layer(inner);
    let first = service.clone().oneshot(request(b"\0\0\0\0\0", "")).await.unwrap();
    assert_eq!(first.into_body().collect().await.unwrap().to_bytes(), &b"\x01\0\0\0\x01x"[..]);
    assert_eq!(status(&ledger).await, Status::Succeeded);
    let again = service.oneshot(request(b"\0\0\0\0\0", "")).await.unwrap();
    assert_eq!(again.headers()["idempotency-problem"], "answer-not-kept");
}

#[derive(Debug, PartialEq)]
struct Broken;

#[tokio::test]
async fn an_inner_service_that_fails_without_an_answer_may_have_done_something() {
    let (ledger, layer) = layer();
    let service =
        layer.layer(tower::service_fn(|_: Request<Body>| async { Err::<Response<Body>, _>(Broken) }));
    let error = service.oneshot(request(b"\0\0\0\0\0", "")).await.err();
    assert_eq!(error, Some(Broken), "its own error");
    assert_eq!(status(&ledger).await, Status::InProgress);
}
