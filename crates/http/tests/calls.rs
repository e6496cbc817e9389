//! Calls of a server that closes, floods, stalls and speaks something else.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use driftq_http::{Address, Answer, Call, Client, Failure, Method, Options};
use support::{OPTIONS, PATIENT, answer, plain_server};

fn client(port: u16, options: &Options) -> Client {
    let address = Address::parse(&format!("http://127.0.0.1:{port}")).expect("a URL");
    Client::new(address, options).expect("a client")
}

async fn asked(client: &Client) -> Result<Answer, Failure> {
    client.call(&Call::new(Method::GET, "/"), Some(PATIENT)).await
}

/// A server that answers the first request and none of the next few, but closes.
async fn forgetful(silent: usize) -> (u16, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let script = move |nth| {
        counted.fetch_add(1, SeqCst);
        (nth == 0 || nth > silent).then(|| answer("hello"))
    };
    (plain_server(script).await, count)
}

#[tokio::test]
async fn a_kept_connection_that_closes_is_replaced_if_calls_may_be_repeated() {
    let (port, count) = forgetful(1).await;
    let client = client(port, &Options { repeats: true, ..OPTIONS });
    assert_eq!(&*asked(&client).await.expect("the first").body, b"hello");
    assert_eq!(&*asked(&client).await.expect("on a new connection").body, b"hello");
    assert_eq!(count.load(SeqCst), 3);
}

#[tokio::test]
async fn a_kept_connection_that_closes_is_an_error_if_calls_may_not_be_repeated() {
    let (port, count) = forgetful(1).await;
    let client = client(port, &OPTIONS);
    asked(&client).await.expect("the first");
    let failed = asked(&client).await;
    assert!(matches!(failed, Err(Failure::Broken(_))), "{failed:?}");
    assert_eq!(count.load(SeqCst), 2);
}

#[tokio::test]
async fn a_new_connection_that_closes_is_not_tried_again() {
    let (port, count) = forgetful(9).await;
    let client = client(port, &Options { repeats: true, ..OPTIONS });
    asked(&client).await.expect("the first");
    let failed = asked(&client).await;
    assert!(matches!(failed, Err(Failure::Broken(_))), "{failed:?}");
    assert_eq!(count.load(SeqCst), 3, "once on the kept connection, once on a new one");
}

#[tokio::test]
async fn answers_are_bounded() {
    for (length, is_said) in [(1024, true), (1025, true), (1025, false)] {
        let body = "x".repeat(length);
        let text = match is_said {
            true => answer(&body),
            false => format!(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"
            ),
        };
        let port = plain_server(move |_| Some(text.clone())).await;
        let got = asked(&client(port, &OPTIONS)).await.map(|answer| answer.body.len());
        assert_eq!(got, if length > 1024 { Err(Failure::TooLong(1024)) } else { Ok(length) });
    }
}

#[tokio::test]
async fn what_is_no_http_is_foreign_and_what_stalls_is_late() {
    let port = plain_server(|_| Some("hello there\r\n\r\n".to_owned())).await;
    let failed = asked(&client(port, &OPTIONS)).await;
    assert!(matches!(failed, Err(Failure::Foreign(_))), "{failed:?}");
    let port = plain_server(|_| Some("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel".to_owned())).await;
    let limit = Duration::from_millis(50);
    let failed = client(port, &OPTIONS).call(&Call::new(Method::GET, "/"), Some(limit)).await;
    assert!(matches!(failed, Err(Failure::TimedOut(said)) if said == limit), "{failed:?}");
}

#[tokio::test]
async fn nobody_there_is_said_in_the_system_s_words() {
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port();
    let Err(Failure::Unreachable { why, kind }) = asked(&client(port, &OPTIONS)).await else {
        panic!("reached")
    };
    assert_eq!(kind, Some(std::io::ErrorKind::ConnectionRefused), "{why}");
    assert!(why.starts_with("Connection refused"), "{why}");
}

#[tokio::test]
async fn a_good_answer_is_streamed_and_a_bad_one_is_whole() {
    let port = plain_server(|nth| {
        Some(match nth {
            0 => "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n".to_owned(),
            _ => "HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\nx-request-id: r\r\n\r\nno".to_owned(),
        })
    })
    .await;
    let client = client(port, &OPTIONS);
    let call = Call::new(Method::GET, "/");
    let mut body = client.open(&call).await.expect("an answer").expect("a good one");
    assert_eq!(body.next().await.expect("it lives").as_deref(), Some(&b"one"[..]));
    let refused = client.open(&call).await.expect("an answer").expect_err("a bad one");
    assert_eq!((&*refused.body, refused.request_id().as_deref()), (&b"no"[..], Some("r")));
}
