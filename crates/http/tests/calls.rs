//! Calls of a server that closes, floods, stalls and speaks something else.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use driftq_http::{Address, Answer, Call, Client, Failure, Method, Options, Servers};
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

/// A client that knows the servers on these ports.
fn client_of(ports: &[u16]) -> Client {
    let urls: Vec<String> = ports.iter().map(|port| format!("http://127.0.0.1:{port}")).collect();
    Client::new(Servers::parse(&urls.join(",")).expect("URLs"), &OPTIONS).expect("a client")
}

/// A server that says that another one serves, and counts how often it is asked.
async fn pointing_at(port: u16) -> (u16, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let script = move |_| {
        counted.fetch_add(1, SeqCst);
        Some(pointing(port))
    };
    (plain_server(script).await, count)
}

fn pointing(port: u16) -> String {
    let head = "HTTP/1.1 307 Temporary Redirect\r\ncontent-length: 0\r\npreference-applied: redirect\r\n";
    format!("{head}location: http://127.0.0.1:{port}/\r\n\r\n")
}

/// A port at which nobody listens.
async fn dead() -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    listener.local_addr().expect("an address").port()
}

#[tokio::test]
async fn the_server_that_serves_is_found_and_asked_from_then_on() {
    let serving = plain_server(|_| Some(answer("hello"))).await;
    let (standby, asked_standby) = pointing_at(serving).await;
    let client = client_of(&[dead().await, standby, serving]);
    for _ in 0..3 {
        assert_eq!(&*asked(&client).await.expect("an answer").body, b"hello");
    }
    assert_eq!(asked_standby.load(SeqCst), 1, "it has said where to ask");
    assert!(client.address().url().ends_with(&serving.to_string()));
}

#[tokio::test]
async fn a_server_that_was_not_named_is_not_asked() {
    let (stranger, asked_stranger) = pointing_at(1).await;
    let script = move |nth| Some(if nth == 0 { pointing(stranger) } else { answer("passed on") });
    let client = client_of(&[plain_server(script).await, dead().await]);
    assert_eq!(&*asked(&client).await.expect("an answer").body, b"passed on");
    assert_eq!(asked_stranger.load(SeqCst), 0);
}

#[tokio::test]
async fn servers_that_are_all_gone_or_point_at_each_other_are_a_failure() {
    let failed = asked(&client_of(&[dead().await, dead().await])).await;
    assert!(matches!(failed, Err(Failure::Unreachable { .. })), "{failed:?}");
    let (first, asked_first) = pointing_at(1).await;
    let (second, _) = pointing_at(first).await;
    let failed = asked(&client_of(&[second, first])).await;
    // The first points at a port that was not named, so that it is asked to pass on, and does not.
    assert!(matches!(&failed, Ok(answer) if answer.status == 307), "{failed:?}");
    assert_eq!(asked_first.load(SeqCst), 2);
}

#[tokio::test]
async fn a_server_that_breaks_off_is_left() {
    let serving = plain_server(|_| Some(answer("hello"))).await;
    let breaking = plain_server(|_| None).await;
    let client = client_of(&[breaking, serving]);
    let failed = asked(&client).await;
    assert!(matches!(failed, Err(Failure::Broken(_))), "whether it was carried out is not known: {failed:?}");
    assert_eq!(&*asked(&client).await.expect("the other one").body, b"hello");
}

#[tokio::test]
async fn a_server_that_stalls_is_left_also_if_another_one_has_named_it() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let stalling = listener.local_addr().expect("an address").port();
    let (standby, _) = pointing_at(stalling).await;
    let client = client_of(&[standby, stalling]);
    let failed = client.call(&Call::new(Method::GET, "/"), Some(Duration::from_millis(200))).await;
    assert!(matches!(failed, Err(Failure::TimedOut(_))), "{failed:?}");
    assert!(client.address().url().ends_with(&standby.to_string()), "{:?}", client.address());
}
