//! One send to receivers that behave in every way but well.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use driftq_connect::deliver::address::{Allowed, Network};
use driftq_connect::deliver::attempt::Ending;
use driftq_connect::deliver::connect::Connections;
use driftq_connect::deliver::endpoint::{Endpoint, Kind};
use driftq_connect::deliver::request::{Keys, Parcel, request};
use driftq_connect::deliver::send::{ANSWER_BYTES_KEPT, Sent, send};
use driftq_connect::deliver::target::Resolver;
use driftq_connect::secret::Plain;
use driftq_tls::tokio_rustls::TlsAcceptor;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use crate::receiver::{self, Receiver, Reply, closing, status, with};
use crate::targets::fickle;
use crate::tls::self_signed;

/// Longer than anything that is waited for here.
const PATIENT: Duration = Duration::from_secs(20);
/// For receivers that never answer.
const IMPATIENT: Duration = Duration::from_millis(300);

fn loopback() -> Allowed {
    Allowed { networks: vec![Network::parse("127.0.0.1").unwrap()], hosts: Vec::new() }
}

fn connections(allowed: Allowed) -> Connections {
    Connections::new(allowed, Resolver::System, None).unwrap()
}

fn parcel() -> Parcel {
    let labels = [
        ("content-type", "text/plain"),
        ("header.x-one", "of the message"),
        ("header.Host", "evil.example"),
        ("header.content-length", "1"),
        ("header.transfer-encoding", "chunked"),
        ("header.webhook-id", "another"),
        ("header.idempotency-key", "another"),
        ("kind", "not a header"),
    ];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let body = Bytes::from_static(b"hello");
    Parcel { tenant_id: String::new(), delivery_id: "order-17".to_owned(), body, labels }
}

pub(crate) async fn to(url: &str, connections: &Connections, limit: Duration) -> Sent {
    let endpoint = Endpoint::new("orders", Kind::Webhook, url);
    let target = endpoint.target().unwrap();
    let request = request(&endpoint, &target, &parcel(), &Keys::default(), 1_793_862_000).unwrap();
    send(connections, &target, request, limit).await
}

async fn reply(reply: Reply, limit: Duration) -> Sent {
    let receiver = Receiver::start(move |_, _| reply.clone()).await;
    let sent = to(&receiver.url(), &connections(loopback()), limit).await;
    receiver.wait_for(1).await;
    assert_eq!(receiver.received().len(), 1, "it was sent once");
    sent
}

#[tokio::test]
async fn an_answer_decides() {
    for (code, ending) in [
        (200, Ending::Delivered),
        (204, Ending::Delivered),
        (299, Ending::Delivered),
        (301, Ending::Failed),
        (307, Ending::Failed),
        (400, Ending::Failed),
        (410, Ending::Failed),
        (500, Ending::Failed),
        (503, Ending::Failed),
    ] {
        let sent = reply(status(code), PATIENT).await;
        assert_eq!((sent.ending, sent.status), (ending, Some(code)), "{sent:?}");
    }
}

#[tokio::test]
async fn some_headers_and_the_beginning_of_the_answer_are_kept() {
    let headers = "Retry-After: 120\r\nset-cookie: session=secret\r\nx-request-id: r-1\r\n";
    let sent = reply(with(429, headers), PATIENT).await;
    let kept: Vec<(&str, &str)> = sent.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(kept, [("content-length", "4"), ("retry-after", "120"), ("x-request-id", "r-1")]);
    assert_eq!((sent.ending, &*sent.body), (Ending::Failed, "body"));
}

#[tokio::test]
async fn without_an_answer_it_may_have_arrived() {
    for (what, limit) in [
        (Reply::Hang, IMPATIENT),
        (Reply::Drip, IMPATIENT),
        (Reply::Reset, PATIENT),
        (Reply::Bytes(Vec::new()), PATIENT),
        (Reply::Bytes(b"HTTP/1.1 200 OK\r\ncontent-le".to_vec()), PATIENT),
        (Reply::Bytes(b"220 mail.example ESMTP\r\n".to_vec()), PATIENT),
        (Reply::Bytes(vec![0; 1 << 20]), PATIENT),
    ] {
        let sent = reply(what.clone(), limit).await;
        assert_eq!((sent.ending, sent.status), (Ending::Unknown, None), "{what:?}: {sent:?}");
        assert!(!sent.error.is_empty());
    }
}

#[tokio::test]
async fn a_head_without_end_is_cut_off() {
    let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
    for number in 0..100_000 {
        head.extend_from_slice(format!("x-{number}: y\r\n").as_bytes());
    }
    let sent = reply(Reply::Bytes(head), PATIENT).await;
    assert_eq!(sent.ending, Ending::Unknown, "{sent:?}");
}

#[tokio::test]
async fn an_answer_that_never_ends_is_cut_off_and_counts() {
    let receiver = Receiver::start(|_, _| Reply::Endless).await;
    let sent = to(&receiver.url(), &connections(loopback()), PATIENT).await;
    assert_eq!((sent.ending, sent.body.len()), (Ending::Delivered, ANSWER_BYTES_KEPT));
    // What lies in the buffers of the system, and not what comes in seconds.
    assert!(receiver.poured() < 64 << 20, "{} bytes were taken", receiver.poured());
    let sent = reply(Reply::DripBody, Duration::from_secs(1)).await;
    assert_eq!(sent.ending, Ending::Delivered);
}

#[tokio::test]
async fn a_connection_that_is_closed_at_once_may_have_taken_it() {
    let (address, task) = closing().await;
    let sent = to(&format!("http://{address}/"), &connections(loopback()), PATIENT).await;
    task.abort();
    // The request was handed to a connection that was open: what became of it is not known.
    assert_eq!(sent.ending, Ending::Unknown, "{sent:?}");
}

#[tokio::test]
async fn nothing_was_sent_where_there_is_no_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let sent = to(&format!("http://{address}/"), &connections(loopback()), PATIENT).await;
    assert_eq!((sent.ending, sent.status), (Ending::Failed, None), "{sent:?}");
    let sent = to("http://no-such-host.invalid/", &connections(loopback()), PATIENT).await;
    assert_eq!(sent.ending, Ending::Failed, "{sent:?}");
}

#[tokio::test]
async fn nothing_is_sent_to_this_machine_unless_it_is_allowed() {
    let receiver = Receiver::start(|_, _| status(200)).await;
    let sent = to(&receiver.url(), &connections(Allowed::default()), PATIENT).await;
    assert_eq!(sent.ending, Ending::Failed);
    assert!(sent.error.contains("not on the public Internet"), "{sent:?}");
    assert!(receiver.received().is_empty());
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let inner = Receiver::start(|_, _| status(200)).await;
    let location = format!("location: {}\r\n", inner.url());
    for code in [301, 302, 303, 307, 308] {
        let sent = reply(with(code, &location), PATIENT).await;
        assert_eq!((sent.ending, sent.status), (Ending::Failed, Some(code)));
        assert!(sent.error.contains("redirects are not followed"), "{sent:?}");
    }
    assert!(inner.received().is_empty());
}

#[tokio::test]
async fn a_webhook_has_the_headers_of_the_standard_and_none_that_were_smuggled_in() {
    let receiver = Receiver::start(|_, _| status(200)).await;
    let mut endpoint = Endpoint::new("orders", Kind::Webhook, receiver.url());
    for (name, value) in [("x-one", "of the endpoint"), ("x-two", "2"), ("Connection", "upgrade")] {
        endpoint.headers.insert(name.to_owned(), value.to_owned());
    }
    let target = endpoint.target().unwrap();
    let secret = Plain::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    let signing = vec![driftq_connect::secret::SigningKey::parse(&secret).unwrap()];
    let keys = Keys { signing, credential: None };
    let request = request(&endpoint, &target, &parcel(), &keys, 1_793_862_000).unwrap();
    send(&connections(loopback()), &target, request, PATIENT).await;
    let received = receiver.received().remove(0);
    assert_eq!((&*received.line, &*received.body), ("POST /hook HTTP/1.1", &b"hello"[..]));
    for (name, value) in [
        ("webhook-id", "order-17"),
        ("webhook-timestamp", "1793862000"),
        ("content-type", "text/plain"),
        ("x-one", "of the message"),
        ("x-two", "2"),
        ("content-length", "5"),
        ("host", &receiver.address.to_string()),
        ("connection", ""),
        ("transfer-encoding", ""),
        ("idempotency-key", ""),
        ("kind", ""),
    ] {
        assert_eq!(received.header(name), value, "{name}: {received:?}");
    }
    assert!(received.header("webhook-signature").starts_with("v1,"));
    assert!(received.header("user-agent").starts_with("DriftQ/"));
}

#[tokio::test]
async fn an_http_call_has_a_key_a_method_and_a_credential() {
    let receiver = Receiver::start(|_, _| status(200)).await;
    let call = async |name: &str, delivery_id: &str| {
        let mut endpoint = Endpoint::new(name, Kind::Http, receiver.url());
        endpoint.method = Some(driftq_client::wire::EndpointMethod::Put);
        let target = endpoint.target().unwrap();
        let keys = Keys { signing: Vec::new(), credential: Some(Plain::new("Bearer token").unwrap()) };
        let parcel = Parcel { delivery_id: delivery_id.to_owned(), ..parcel() };
        let request = request(&endpoint, &target, &parcel, &keys, 0).unwrap();
        send(&connections(loopback()), &target, request, PATIENT).await;
        receiver.received().pop().unwrap()
    };
    let first = call("orders", "order-17").await;
    assert_eq!((&*first.line, first.header("authorization")), ("PUT /hook HTTP/1.1", "Bearer token"));
    assert_eq!(first.header("webhook-id"), "");
    let key = first.header("idempotency-key");
    assert_eq!(key.len(), 32);
    assert_eq!(call("orders", "order-17").await.header("idempotency-key"), key, "the same in every attempt");
    assert_ne!(call("orders", "order-18").await.header("idempotency-key"), key);
    assert_ne!(call("invoices", "order-17").await.header("idempotency-key"), key);
}

#[test]
fn what_http_does_not_take_is_refused_before_anything_is_sent() {
    let endpoint = Endpoint::new("orders", Kind::Http, "http://receiver.example/");
    let target = endpoint.target().unwrap();
    let build = |endpoint: &Endpoint, parcel: &Parcel, credential: Option<&str>| {
        let credential = credential.map(|text| Plain::new(text).unwrap());
        request(endpoint, &target, parcel, &Keys { signing: Vec::new(), credential }, 0)
    };
    let mut smuggled = parcel();
    smuggled.labels.push(("header.x-evil".to_owned(), "1\r\nx-more: 2".to_owned()));
    assert!(build(&endpoint, &smuggled, None).unwrap_err().is_of_message());
    let mut odd = endpoint.clone();
    odd.headers.insert("x one".to_owned(), "1".to_owned());
    assert!(!build(&odd, &parcel(), None).unwrap_err().is_of_message());
    let error = build(&endpoint, &parcel(), Some("se\r\ncret")).unwrap_err().to_string();
    assert!(!error.contains("cret"), "{error}");
}

/// A receiver with TLS and a certificate of its own making; and the file that makes it trusted.
async fn tls_receiver(folder: &tempfile::TempDir) -> (String, std::path::PathBuf) {
    let (config, file) = self_signed("receiver.example", folder);
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let Ok(mut socket) = acceptor.accept(socket).await else { continue };
            if receiver::read(&mut socket).await.is_some() {
                let _ = socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
                let _ = socket.shutdown().await;
            }
        }
    });
    (format!("https://receiver.example:{port}/"), file)
}

#[tokio::test]
async fn only_a_receiver_with_a_trusted_certificate_gets_anything() {
    let folder = tempfile::tempdir().unwrap();
    let (url, file) = tls_receiver(&folder).await;
    let here = || fickle(&[&["127.0.0.1"], &["127.0.0.1"]]);
    let trusting = Connections::new(loopback(), here(), Some(&file)).unwrap();
    let sent = to(&url, &trusting, PATIENT).await;
    assert_eq!(sent.ending, Ending::Delivered, "{sent:?}");
    // The certificate is for another name than that of the URL.
    let elsewhere = url.replace("receiver.example", "other.example");
    let sent = to(&elsewhere, &trusting, PATIENT).await;
    assert!(sent.ending == Ending::Failed && sent.error.contains("TLS"), "{sent:?}");
    let wary = Connections::new(loopback(), here(), None).unwrap();
    let sent = to(&url, &wary, PATIENT).await;
    assert!(sent.ending == Ending::Failed && sent.error.contains("SSL_CERT_FILE"), "{sent:?}");
}
