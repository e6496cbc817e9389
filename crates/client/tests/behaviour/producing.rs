//! Producers: nothing is lost, nothing is stored twice, and what is refused says so.

use std::time::Duration;

use driftq_client::testkit::run_until_idle;
use driftq_client::wire::TopicSpec;
use driftq_client::{Client, Code, Producer, Worker, json, raw};
use serde_json::Value;

use crate::support;

#[tokio::test]
async fn many_go_out_in_few_calls_and_in_order() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    client.create_topic("orders", &TopicSpec::default()).await.unwrap();
    let producer = Producer::with_buffer(&client, 100);
    let mut receipts = Vec::new();
    for number in 0..500_u32 {
        receipts.push(producer.send("orders", json(&number)).await.unwrap());
    }
    for (number, receipt) in receipts.into_iter().enumerate() {
        assert_eq!(receipt.await.unwrap().offset, number as u64);
    }
    let last = producer.send("orders", json(&500)).await.unwrap();
    producer.close().await.unwrap();
    assert_eq!(last.await.unwrap().offset, 500);
}

#[tokio::test]
async fn a_message_that_is_refused_for_good_fails_alone() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    client.create_topic("orders", &TopicSpec::default()).await.unwrap();
    let producer = Producer::new(&client);
    let mut receipts = Vec::new();
    for number in 0..20_u8 {
        // The server reads a batch whole, and refuses it whole.
        let priority = if number == 7 { 99 } else { 0 };
        receipts.push(producer.send("orders", json(&number).priority(priority)).await.unwrap());
    }
    receipts.push(producer.send("nowhere", json(&1)).await.unwrap());
    producer.flush().await.unwrap();
    let mut refused = Vec::new();
    for (number, receipt) in receipts.into_iter().enumerate() {
        if let Err(error) = receipt.await {
            refused.push((number, error.code()));
        }
    }
    assert_eq!(refused, [(7, Some(Code::InvalidArgument)), (20, Some(Code::TopicUnknown))]);
    assert_eq!(client.topic("orders").await.unwrap().messages, 19);
}

#[tokio::test]
async fn what_is_refused_for_now_is_sent_again() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    let spec = TopicSpec { partition_messages_max: Some(2), ..TopicSpec::default() };
    client.create_topic("orders", &spec).await.unwrap();
    let producer = Producer::new(&client);
    let mut receipts = Vec::new();
    for number in 0..4 {
        receipts.push(producer.send("orders", json(&number)).await.unwrap());
    }
    let hasty = Client::builder().url(client.url()).patience(Duration::ZERO).build().unwrap();
    let full = async {
        loop {
            match hasty.produce("orders", json(&"probe")).await {
                Err(error) => return error,
                Ok(_) => tokio::task::yield_now().await,
            }
        }
    };
    let error = full.await;
    assert_eq!((error.code(), error.is_transient()), (Some(Code::Overloaded), true), "{error}");
    assert!(error.retry_after().is_some());
    let worker = Worker::new(&client, "g").signals(false).handle("orders", |_: Value, _| async { Ok(()) });
    let stopper = worker.stopper();
    let working = tokio::spawn(worker.run());
    for receipt in receipts {
        receipt.await.unwrap();
    }
    stopper.stop();
    working.await.unwrap().unwrap();
    let rest = Worker::new(&client, "g").handle("orders", |_: Value, _| async { Ok(()) });
    run_until_idle(rest).await.unwrap();
}

#[tokio::test]
async fn the_same_message_twice_is_stored_once() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    client.create_topic("orders", &TopicSpec::default()).await.unwrap();
    let message = || raw(vec![0xff, 0]).idempotency_key("order-1").key("k").label("model", "small");
    let first = client.produce("orders", message()).await.unwrap();
    let again = client.produce("orders", message()).await.unwrap();
    assert_eq!((first.offset, first.duplicate, again.offset, again.duplicate), (0, false, 0, true));
    let results = client.produce_all("orders", [message(), json(&2).priority(3)]).await.unwrap();
    let stored: Vec<_> = results.into_iter().map(|result| result.unwrap()).collect();
    assert_eq!((stored[0].duplicate, stored[1].offset), (true, 1));
    assert!(client.produce_all("orders", []).await.unwrap().is_empty());
}
