//! Keys, streams and sizes.

use std::sync::atomic::Ordering;

use driftq_ledger::{RequestHash, Status as RecordStatus};
use http::uri::PathAndQuery;
use tonic::Code;
use tonic::codegen::tokio_stream;
use tonic_prost::ProstCodec;

use crate::grpc::bed::{BATCH, Bed, CHARGE, Call, Charge, Receipt, WATCH, is_replayed, metadata, refusal};
use crate::grpc::signals::within;

async fn batch(call: Call, count: usize) -> crate::grpc::bed::Answer {
    let mut client = tonic::client::Grpc::new(call.channel.clone());
    client.ready().await.unwrap();
    let charges = call.request(tokio_stream::iter(vec![Charge::default(); count]));
    let codec = ProstCodec::<Charge, Receipt>::default();
    within(client.client_streaming(charges, PathAndQuery::from_static(BATCH), codec)).await
}

async fn watch(call: Call) -> Result<Vec<String>, tonic::Status> {
    let mut client = tonic::client::Grpc::new(call.channel.clone());
    client.ready().await.unwrap();
    let codec = ProstCodec::<Charge, Receipt>::default();
    let path = PathAndQuery::from_static(WATCH);
    let mut receipts = within(client.server_streaming(call.request(Charge::default()), path, codec)).await?;
    let mut texts = Vec::new();
    while let Some(receipt) = within(receipts.get_mut().message()).await? {
        texts.push(receipt.text);
    }
    Ok(texts)
}

#[tokio::test]
async fn keys_are_looked_at_before_anything_runs() {
    let bed = Bed::start(|layer| layer.required(true)).await;
    assert_eq!(refusal(&bed.call().send().await), ("key-missing", Code::InvalidArgument));
    for key in ["", "  ", "\"open", "\"\"", &"k".repeat(256)] {
        assert_eq!(
            refusal(&bed.call().key(key).send().await),
            ("key-invalid", Code::InvalidArgument),
            "{key}"
        );
    }
    let two = bed.call().key("a").key("a").send().await;
    assert_eq!(refusal(&two), ("key-invalid", Code::InvalidArgument));
    for nobody in ["unknown", ""] {
        let answer = bed.call().user(nobody).key("k").send().await;
        assert_eq!(refusal(&answer), ("no-principal", Code::Unauthenticated));
    }
    assert_eq!(bed.runs(), 0);
    for (key, user, run) in [("k", "ann", 1), ("\"k\"", "ann", 1), ("k", "bob", 2), ("l", "ann", 3)] {
        assert_eq!(bed.call().user(user).key(key).send().await.unwrap().get_ref().run, run);
    }
}

#[tokio::test]
async fn another_message_under_a_used_key_is_refused() {
    let bed = Bed::start(|layer| layer).await;
    bed.call().key("k").amount(5).send().await.unwrap();
    let answer = bed.call().key("k").amount(6).send().await;
    assert_eq!(refusal(&answer), ("key-reused", Code::InvalidArgument));
    assert!(!is_replayed(&answer));
    assert_eq!(bed.runs(), 1);
    for run in [2, 3] {
        assert_eq!(bed.call().send().await.unwrap().get_ref().run, run, "without a key");
    }
}

#[tokio::test]
async fn the_name_of_the_key_and_what_counts_as_the_same_are_the_services_to_say() {
    let bed = Bed::start(|layer| {
        let layer = layer.required(true).key_metadata("x-request-key").unwrap();
        layer.fingerprint(|parts, _| RequestHash::of_bytes(parts.uri.path().as_bytes()))
    })
    .await;
    let missing = bed.call().key("k").send().await;
    assert_eq!(refusal(&missing), ("key-missing", Code::InvalidArgument));
    assert!(missing.unwrap_err().message().contains("x-request-key"));
    for amount in [5, 6] {
        let call = bed.call().metadata("x-request-key", "k").amount(amount);
        assert_eq!(call.send().await.unwrap().get_ref().run, 1, "the message does not count here");
    }
}

#[tokio::test]
async fn streams_of_requests_are_refused_or_go_through() {
    let bed = Bed::start(|layer| layer).await;
    for count in [0, 2, 3] {
        let answer = batch(bed.call().key("k"), count).await;
        assert_eq!(refusal(&answer), ("not-unary", Code::InvalidArgument), "{count}");
    }
    assert_eq!(bed.runs(), 0);
    assert_eq!(batch(bed.call().key("k"), 1).await.unwrap().get_ref().text, "1", "as good as unary");
    assert_eq!(batch(bed.call(), 3).await.unwrap().get_ref().text, "3", "without a key");

    let bed = Bed::start(|layer| layer.required(true).methods(|path| path == CHARGE)).await;
    for run in [1, 2] {
        let answer = batch(bed.call().key("k"), 3).await.unwrap();
        assert_eq!((answer.get_ref().run, answer.get_ref().text.as_str()), (run, "3"));
    }
    assert_eq!(refusal(&bed.call().send().await), ("key-missing", Code::InvalidArgument));
}

#[tokio::test]
async fn streams_of_answers_go_through_and_are_not_kept() {
    let bed = Bed::start(|layer| layer).await;
    assert_eq!(watch(bed.call().key("k")).await.unwrap(), ["0", "1", "2"]);
    let again = watch(bed.call().key("k")).await.unwrap_err();
    assert_eq!(again.code(), Code::FailedPrecondition);
    assert_eq!(again.metadata().get("idempotency-problem").unwrap(), "answer-not-kept");
    assert_eq!(bed.runs(), 1);
}

#[tokio::test]
async fn messages_that_are_too_large_are_refused_or_not_kept() {
    let bed = Bed::start(|layer| layer.request_bytes_max(30).response_bytes_max(100)).await;
    let most = "x".repeat(28);
    assert_eq!(bed.call().key("k").how(&most).send().await.unwrap().get_ref().text, most);
    let answer = bed.call().key("k").how(&"x".repeat(29)).send().await;
    assert_eq!(refusal(&answer), ("not-unary", Code::InvalidArgument));
    let answer = bed.call().key("k").how(&"x".repeat(100_000)).send().await;
    assert_eq!(refusal(&answer), ("not-unary", Code::InvalidArgument));
    assert_eq!(bed.runs(), 1);

    // Two bytes for the run, two before the text.
    for (bytes, is_kept) in [(96, true), (97, false), (200_000, false)] {
        let call = bed.call().key(&format!("large {bytes}")).how(&format!("large {bytes}"));
        assert_eq!(call.clone().send().await.unwrap().get_ref().text.len(), bytes);
        let record = bed.record(&format!("large {bytes}")).await.unwrap();
        assert_eq!(record.status, RecordStatus::Succeeded);
        let again = call.send().await;
        assert!(is_replayed(&again));
        if is_kept {
            assert_eq!(again.unwrap().get_ref().text.len(), bytes);
        } else {
            assert_eq!(refusal(&again), ("answer-not-kept", Code::FailedPrecondition));
            assert_eq!(metadata(&again).get("answer-code").unwrap(), "0");
            assert!(record.outcome.unwrap().response.omitted().unwrap() >= 97);
        }
    }
}

#[tokio::test]
async fn a_store_that_takes_less_than_it_is_given_still_learns_how_it_ended() {
    let bed = Bed::start(|layer| layer).await;
    bed.store.payload_bytes_max.store(3, Ordering::SeqCst);
    assert_eq!(bed.call().key("k").how("pay").send().await.unwrap().get_ref().text, "pay");
    assert_eq!(
        refusal(&bed.call().key("k").how("pay").send().await),
        ("answer-not-kept", Code::FailedPrecondition)
    );
}
