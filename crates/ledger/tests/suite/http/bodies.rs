//! Bodies that are large, that come in pieces, or that never end.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use driftq_ledger::http::IdempotencyLayer;
use driftq_ledger::{Outcome, Status};
use http_body::Frame;
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

use crate::http::bed::Bed;
use crate::http::signals::within;

type Piece = Result<Bytes, std::io::Error>;

/// A body whose pieces come when the test sends them.
struct Pieces(mpsc::UnboundedReceiver<Piece>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

/// A service that gives one body, of this type, in one answer.
async fn bed_giving(
    content_type: &'static str,
    body: Body,
    set_up: impl FnOnce(IdempotencyLayer) -> IdempotencyLayer,
) -> Bed {
    Bed::start(|layer, signals| {
        let body = Arc::new(Mutex::new(Some(body)));
        let handler = move || async move {
            signals.run();
            let body = body.lock().unwrap().take().expect("the handler runs once");
            Ok::<_, Infallible>(Response::builder().header("content-type", content_type).body(body).unwrap())
        };
        Router::new().route("/pay", post(handler)).route_layer(set_up(layer))
    })
    .await
}

fn pieces() -> (mpsc::UnboundedSender<Piece>, Body) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (sender, Body::new(Pieces(receiver)))
}

async fn outcome(bed: &Bed) -> Outcome {
    let record = bed.record("POST /pay", "k").await.unwrap();
    assert_eq!(record.status, Status::Succeeded);
    record.outcome.unwrap()
}

#[tokio::test]
async fn the_handler_gets_the_very_bytes() {
    let bed = Bed::start(|layer, _| {
        Router::new()
            .route("/echo", post(|body: Bytes| async { body }))
            .route_layer(layer.request_bytes_max(1000))
    })
    .await;
    let odd = " { \"b\" : 1.0, \"a\": \"\\u0061\" } ";
    let answer = bed.post("/echo").key("\"k\"").body(odd).send().await;
    assert_eq!(answer.text(), odd);
    let bytes: Vec<u8> = (0..1000).map(|at| u8::try_from(at % 256).unwrap()).collect();
    for replayed in [false, true] {
        let answer = bed.post("/echo").key("\"most\"").body(bytes.clone()).send().await;
        assert_eq!((&answer.body[..], answer.is_replayed()), (&bytes[..], replayed));
    }
}

#[tokio::test]
async fn a_request_that_is_too_large_is_refused_before_it_is_read() {
    let bed = Bed::start(|layer, signals| {
        let handler = move |_: Bytes| async move { format!("run {}", signals.run()) };
        Router::new().route("/pay", post(handler)).route_layer(layer.request_bytes_max(10))
    })
    .await;
    assert_eq!(bed.post("/pay").key("\"k\"").body("1234567890").send().await.text(), "run 1");
    bed.post("/pay").key("\"k\"").body("12345678901").send().await.is_problem(413, "body-too-large");
    bed.post("/pay").key("\"new\"").body("12345678901").send().await.is_problem(413, "body-too-large");
    assert!(bed.record("POST /pay", "new").await.is_none());
    assert_eq!(bed.post("/pay").body("12345678901").send().await.text(), "run 2", "none of its business");

    // In pieces, so that nothing says beforehand how many there are.
    let head = "POST /pay HTTP/1.1\r\nHost: localhost\r\nX-User: ann\r\nIdempotency-Key: \"c\"\r\nConnection: close\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    for (pieces, expected) in
        [("6\r\n123456\r\n6\r\n123456\r\n0\r\n\r\n", "413"), ("6\r\n123456\r\n4\r\n1234\r\n0\r\n\r\n", "200")]
    {
        let mut client = bed.connect().await;
        client.write_all(format!("{head}{pieces}").as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        within(client.read_exact(&mut answer)).await.unwrap();
        assert_eq!(std::str::from_utf8(&answer).unwrap(), format!("HTTP/1.1 {expected}"));
    }
    assert_eq!(bed.runs(), 3);
}

#[tokio::test]
async fn a_request_that_breaks_off_is_not_handled() {
    let bed = Bed::start(|layer, signals| {
        let handler = move |_: Bytes| async move { format!("run {}", signals.run()) };
        Router::new().route("/pay", post(handler)).route_layer(layer)
    })
    .await;
    let mut client = bed.connect().await;
    let request = "POST /pay HTTP/1.1\r\nHost: localhost\r\nX-User: ann\r\nIdempotency-Key: \"k\"\r\n\
                   Transfer-Encoding: chunked\r\n\r\n4\r\n1234\r\nno length\r\n";
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    within(client.read_to_end(&mut answer)).await.unwrap();
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(bed.runs(), 0);
    assert!(bed.record("POST /pay", "k").await.is_none());
}

#[tokio::test]
async fn an_answer_in_pieces_is_kept_whole() {
    let (sender, body) = pieces();
    let bed = bed_giving("text/plain", body, |layer| layer.response_bytes_max(6)).await;
    let first = tokio::spawn(bed.post("/pay").key("\"k\"").send());
    for piece in ["ab", "", "cd", "ef"] {
        sender.send(Ok(Bytes::from_static(piece.as_bytes()))).unwrap();
    }
    drop(sender);
    assert_eq!(first.await.unwrap().text(), "abcdef");
    let again = bed.post("/pay").key("\"k\"").send().await;
    assert_eq!((again.text(), again.is_replayed()), ("abcdef", true));
}

#[tokio::test]
async fn nothing_is_sent_before_the_outcome_is_written_down() {
    let (sender, body) = pieces();
    let bed = bed_giving("text/plain", body, |layer| layer.response_bytes_max(6)).await;
    sender.send(Ok(Bytes::from_static(b"abc"))).unwrap();
    let mut client = bed.connect().await;
    let request = "POST /pay HTTP/1.1\r\nHost: localhost\r\nX-User: ann\r\nIdempotency-Key: \"k\"\r\n\
                   Content-Length: 0\r\nConnection: close\r\n\r\n";
    client.write_all(request.as_bytes()).await.unwrap();
    bed.record_when("POST /pay", "k", |record| record.status == Status::InProgress).await;
    let mut first = [0];
    let nothing = tokio::time::timeout(std::time::Duration::from_millis(50), client.read(&mut first)).await;
    assert!(nothing.is_err(), "not all of the answer is there");
    drop(sender);
    within(client.read(&mut first)).await.unwrap();
    assert_eq!(outcome(&bed).await.response.payload, "abc");
}

#[tokio::test]
async fn an_answer_that_is_too_large_goes_through_and_is_not_kept() {
    let large = "0123456789".repeat(100_000);
    let (sender, in_pieces) = pieces();
    for piece in 0..100 {
        sender.send(Ok(Bytes::from(large[piece * 10_000..][..10_000].to_owned()))).unwrap();
    }
    drop(sender);
    for (body, least) in [(Body::from(large.clone()), 1_000_000), (in_pieces, 60_000)] {
        let bed = bed_giving("text/plain", body, |layer| layer.response_bytes_max(50_000)).await;
        let first = bed.post("/pay").key("\"k\"").send().await;
        assert!(first.text() == large && !first.is_replayed());
        let kept = outcome(&bed).await.response;
        assert_eq!((kept.omitted(), kept.payload.len(), kept.code), (Some(least), 0, Some(200)));
        let again = bed.post("/pay").key("\"k\"").send().await;
        again.is_problem(409, "answer-not-kept");
        assert!(again.is_replayed());
        assert_eq!(again.problem()["answer_status"], 200);
        bed.post("/pay").key("\"k\"").body("other").send().await.is_problem(422, "key-reused");
        assert_eq!(bed.runs(), 1);
    }
}

#[tokio::test]
async fn events_are_given_as_they_come() {
    let (sender, body) = pieces();
    let bed = bed_giving("text/event-stream; charset=utf-8", body, |layer| layer).await;
    let answer = bed.post("/pay").key("\"k\"").try_send().await.unwrap();
    let mut events = answer.into_body();
    // It is written down although not a single event has come yet.
    assert_eq!(outcome(&bed).await.response.omitted(), Some(0));
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        sender.send(Ok(Bytes::from_static(event.as_bytes()))).unwrap();
        let frame = within(events.frame()).await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), event);
    }
    bed.post("/pay").key("\"k\"").send().await.is_problem(409, "answer-not-kept");
    drop(sender);
    assert!(within(events.frame()).await.is_none());
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_kept() {
    let (sender, body) = pieces();
    let bed = bed_giving("text/plain", body, |layer| layer).await;
    sender.send(Ok(Bytes::from_static(b"ab"))).unwrap();
    sender.send(Err(std::io::Error::other("gone"))).unwrap();
    if let Some(answer) = bed.post("/pay").key("\"k\"").try_send().await {
        assert!(within(answer.into_body().collect()).await.is_err(), "it does not look whole");
    }
    assert_eq!(outcome(&bed).await.response.omitted(), Some(2));
    bed.post("/pay").key("\"k\"").send().await.is_problem(409, "answer-not-kept");
}
