//! Without axum: a service on hyper, and one on nothing at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use driftq_ledger::http::Body;
use driftq_ledger::{Identity, Status};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tower::{Layer as _, Service as _, ServiceExt as _};

use crate::http::bed::{Bed, Post};

#[tokio::test]
async fn the_layer_works_on_plain_hyper() {
    let (_, _, _, layer) = Bed::parts();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let service = layer.layer(tower::service_fn(move |request: Request<Body>| {
        let run = counted.fetch_add(1, Ordering::SeqCst) + 1;
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let text = format!("run {run} of {}", String::from_utf8_lossy(&body));
            Ok::<_, std::io::Error>(Response::new(Full::new(Bytes::from(text))))
        }
    }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service.clone();
            let answer = hyper::service::service_fn(move |request| service.clone().call(request));
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer),
            );
        }
    });
    for replayed in [false, true] {
        let answer = Post::new(address, "/pay").header("x-user", "ann").key("k").body("five").send().await;
        assert_eq!((answer.text(), answer.is_replayed()), ("run 1 of five", replayed));
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[derive(Debug, PartialEq)]
struct Broken;

#[tokio::test]
async fn an_inner_service_that_fails_without_an_answer_may_have_done_something() {
    let (_, _, ledger, layer) = Bed::parts();
    let service =
        layer.layer(tower::service_fn(|_: Request<Body>| async { Err::<Response<Full<Bytes>>, _>(Broken) }));
    let request = || {
        let request = Request::post("/pay").header("x-user", "ann").header("idempotency-key", "k");
        request.body(Full::new(Bytes::new())).unwrap()
    };
    assert_eq!(service.clone().oneshot(request()).await.err(), Some(Broken), "its own error");
    let identity = Identity::new("ann", "POST /pay", "k").unwrap();
    assert_eq!(ledger.get(&identity).await.unwrap().unwrap().status, Status::InProgress);
    assert_eq!(service.oneshot(request()).await.unwrap().status(), 409);
}
