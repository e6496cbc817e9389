//! Every failure is a typed error that says what to do next.

use std::time::Duration;

use driftq_client::wire::{LeaseRequest, RetryPolicy, TopicSpec};
use driftq_client::{Client, Code, Error, Worker, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support;

fn hasty(url: &str) -> Client {
    Client::builder().url(url).patience(Duration::ZERO).build().unwrap()
}

/// A server that answers everything with these bytes and closes.
async fn impostor(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let _ = socket.read(&mut [0; 4096]).await;
            let _ = socket.write_all(answer).await;
        }
    });
    url
}

#[tokio::test]
async fn nobody_there() {
    // Not a port that was free a moment ago: another test may have it by now.
    let url = "http://127.0.0.1:2".to_owned();
    let error = hasty(&url).topic("orders").await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }) && error.is_transient(), "{error}");
    let text = error.to_string();
    assert!(text.contains(&url) && text.contains("driftq serve"), "{text}");
    let client = hasty(&url);
    let worker = Worker::new(&client, "g").start_timeout(Duration::from_millis(150)).signals(false);
    let error = worker.handle("orders", |(): (), _| async { Ok(()) }).run().await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn somebody_else_there() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>"[..],
        b"HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\nhello",
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ] {
        let client = Client::new(&impostor(answer).await).unwrap();
        let error = client.topic("orders").await.unwrap_err();
        assert!(matches!(error, Error::NotDriftQ { .. }), "{error}");
        assert!(error.to_string().contains("check the URL"), "{error}");
    }
}

#[tokio::test]
async fn a_connection_that_breaks() {
    for answer in [&b""[..], b"HTTP/1.1 200 OK\r\ncontent-length: 600\r\n\r\n{", b"HTTP/1.1 502 Bad\r\n\r\n"]
    {
        let client = hasty(&impostor(answer).await);
        let error = client.topic("orders").await.unwrap_err();
        assert!(matches!(error, Error::ConnectionLost { .. }) && error.is_transient(), "{error}");
    }
    // Connections are taken and never answered.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let client =
        Client::builder().url(url).patience(Duration::ZERO).answer_timeout(Duration::from_millis(50));
    let error = client.build().unwrap().topic("orders").await.unwrap_err();
    assert!(error.to_string().contains("no answer within 50 ms"), "{error}");
}

#[tokio::test]
async fn what_is_not_there_is_said_at_once() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    let error = client.produce("nowhere", json(&1)).await.unwrap_err();
    assert_eq!((error.code(), &*error.name()), (Some(Code::TopicUnknown), "TopicUnknown"));
    let Error::Refused(refusal) = &error else { panic!("{error}") };
    assert!(refusal.status == 404 && !refusal.retryable && !refusal.help.is_empty(), "{refusal:?}");
    assert!(refusal.request_id.is_some(), "{refusal:?}");
    let worker = Worker::new(&client, "g").signals(false).handle("nowhere", |(): (), _| async { Ok(()) });
    assert_eq!(worker.run().await.unwrap_err().code(), Some(Code::TopicUnknown));
    let idle = Worker::new(&client, "g").run().await.unwrap_err();
    assert!(matches!(idle, Error::Invalid(_)), "{idle}");
}

#[tokio::test]
async fn a_stale_token_is_a_lost_lease() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    let retry_policy = Some(RetryPolicy { backoff_ms: Some(1), ..RetryPolicy::default() });
    client.create_topic("orders", &TopicSpec { retry_policy, ..TopicSpec::default() }).await.unwrap();
    client.produce("orders", json(&1)).await.unwrap();
    let lease = async |lease_ms| {
        let request = LeaseRequest {
            owner: "w".into(),
            max: 1,
            wait_ms: 10_000,
            lease_ms: Some(lease_ms),
            request_id: None,
        };
        let items = client.lease("orders", "g", request).await.unwrap();
        items[0].lease.clone().unwrap().token.into_owned()
    };
    let (stale, current) = (lease(1).await, lease(60_000).await);
    for refused in [
        client.ack(&stale).await,
        client.nack(&stale, None, "no").await,
        client.release(&stale).await,
        client.extend(&stale, None).await,
        client.ack("made up").await,
    ] {
        assert!(matches!(refused, Err(Error::LeaseLost)), "{refused:?}");
    }
    client.extend(&current, Some(Duration::from_secs(5))).await.unwrap();
    client.ack(&current).await.unwrap();
    client.ack(&current).await.unwrap();
}
