//! Workers outside of the scenarios: batches, deadlines, panics, two topics, what a handler knows.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use driftq_client::testkit::run_until_idle;
use driftq_client::wire::{RetryPolicy, TopicSpec};
use driftq_client::{
    BadPayload, Client, Dead, Delivery, Error, Failure, Moment, Reason, Retry, Worker, json, raw,
};
use serde_json::Value;
use tokio::sync::Barrier;
use tokio::time::timeout;

use crate::support;

/// Creates the topic with prompt retries.
pub(crate) async fn create(client: &Client, topic: &str) {
    let retry_policy = Some(RetryPolicy { backoff_ms: Some(1), ..RetryPolicy::default() });
    client.create_topic(topic, &TopicSpec { retry_policy, ..TopicSpec::default() }).await.unwrap();
}

async fn letters(client: &Client, topic: &str) -> Vec<String> {
    let letters: Value = client.get(&format!("/v2/dlq/{topic}")).await.unwrap();
    let reason =
        |letter: &Value| letter["envelope"]["dead_letter"]["last_error"].as_str().unwrap().to_owned();
    letters["letters"].as_array().unwrap().iter().map(reason).collect()
}

#[tokio::test]
async fn a_batch_is_settled_message_by_message() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    create(&client, "orders").await;
    create(&client, "receipts").await;
    let messages = (0..5).map(|number| json(&number)).chain([raw("not json")]);
    client.produce_all("orders", messages).await.unwrap();
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&sizes);
    let worker = Worker::new(&client, "g").handle_batch("orders", 6, move |batch: Vec<Delivery<u32>>| {
        seen.lock().unwrap().push(batch.len());
        async move {
            for Delivery { payload, context } in &batch {
                match (payload, context.attempt()) {
                    (1, _) => context.fail(Dead::new("one is dead")),
                    (2, 1) => context.fail(Retry::new("two comes again")),
                    (3, _) => context.send("receipts", json(payload))?,
                    _ => {}
                }
            }
            Ok(())
        }
    });
    run_until_idle(worker).await.unwrap();
    assert_eq!(*sizes.lock().unwrap(), [5, 1], "all that was there at once, then the one that failed");
    let dead = letters(&client, "orders").await;
    assert!(dead.len() == 2 && dead.contains(&"one is dead".to_owned()), "{dead:?}");
    assert!(dead.iter().any(|reason| reason.starts_with("the payload does not parse as u32:")), "{dead:?}");
    assert_eq!(client.topic("receipts").await.unwrap().messages, 1);
}

#[tokio::test]
async fn a_handler_that_outruns_the_deadline_is_told_and_the_message_is_dead() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    create(&client, "orders").await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let deadline = Moment::saturating_from_epoch_ms((now + Duration::from_millis(700)).as_millis() as u64);
    client.produce("orders", json(&1).deadline(deadline)).await.unwrap();
    let reasons = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&reasons);
    let worker = Worker::new(&client, "g").handle("orders", move |_: u32, context| {
        let noted = Arc::clone(&noted);
        async move {
            let reason = context.signal().fired().await;
            noted.lock().unwrap().push(reason);
            Ok(())
        }
    });
    run_until_idle(worker).await.unwrap();
    assert_eq!(*reasons.lock().unwrap(), [Reason::DeadlinePassed]);
    let dead = letters(&client, "orders").await;
    assert!(dead.len() == 1 && dead[0].starts_with("DeadlinePassed"), "{dead:?}");
}

#[tokio::test]
async fn in_a_batch_only_what_is_late_is_told_so() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    create(&client, "orders").await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let deadline = Moment::saturating_from_epoch_ms((now + Duration::from_millis(700)).as_millis() as u64);
    client.produce_all("orders", [json(&1), json(&2).deadline(deadline), json(&3)]).await.unwrap();
    let worker = Worker::new(&client, "g").concurrency(1).prefetch(2);
    let worker = worker.handle_batch("orders", 3, |batch: Vec<Delivery<u32>>| async move {
        assert_eq!(batch.len(), 3);
        assert_eq!(batch[1].context.signal().fired().await, Reason::DeadlinePassed);
        assert!(batch[0].context.signal().check().is_ok() && batch[2].context.signal().check().is_ok());
        Ok(())
    });
    run_until_idle(worker).await.unwrap();
    let dead = letters(&client, "orders").await;
    assert_eq!(dead, ["DeadlinePassed: while the handler was at work"]);
    assert_eq!(client.group("orders", "g").await.unwrap().lag, 0);
}

/// The first ones end only when as many run as may.
#[tokio::test]
async fn a_busy_topic_gets_all_handlers_though_others_are_idle() {
    const CONCURRENCY: usize = 10;
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    let topics: Vec<String> = (0..10).map(|number| format!("topic-{number}")).collect();
    for topic in &topics {
        create(&client, topic).await;
    }
    client.produce_all("topic-3", (0..CONCURRENCY).map(|number| json(&number))).await.unwrap();
    let all = Arc::new(Barrier::new(CONCURRENCY));
    let mut worker = Worker::new(&client, "g").concurrency(CONCURRENCY);
    for topic in topics {
        let all = Arc::clone(&all);
        worker = worker.handle(topic, move |_: u32, _| {
            let all = Arc::clone(&all);
            async move {
                all.wait().await;
                Ok(())
            }
        });
    }
    timeout(Duration::from_secs(30), run_until_idle(worker)).await.expect("they run at once").unwrap();
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused() {
    let client = Client::builder().url("http://127.0.0.1:1").build().unwrap();
    let worker = || Worker::new(&client, "g").handle("orders", |_: u32, _| async { Ok(()) });
    let batch = Worker::new(&client, "g").handle_batch("orders", 0, |_: Vec<Delivery<u32>>| async { Ok(()) });
    for (worker, word) in [
        (Worker::new(&client, "g"), "handler"),
        (worker().concurrency(0), "concurrency"),
        (worker().lease(Duration::ZERO), "lease"),
        (worker().timeout(Duration::ZERO), "time-out"),
        (batch, "batch"),
    ] {
        let error = worker.run().await.unwrap_err();
        assert!(matches!(&error, Error::Invalid(text) if text.contains(word)), "{error}");
    }
}

#[tokio::test]
async fn a_panic_is_an_error_like_any_other() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    create(&client, "orders").await;
    client.produce("orders", json(&1)).await.unwrap();
    let errors = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&errors);
    let worker = Worker::new(&client, "g").handle("orders", move |_: u32, context| {
        noted.lock().unwrap().push(context.last_error().to_owned());
        async move {
            assert!(context.attempt() > 1, "the first one always fails");
            Ok(())
        }
    });
    run_until_idle(worker).await.unwrap();
    assert_eq!(*errors.lock().unwrap(), ["", "the handler panicked: the first one always fails"]);
}

#[tokio::test]
async fn a_payload_that_may_parse_later_is_tried_again() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    let retry_policy =
        Some(RetryPolicy { max_attempts: Some(3), backoff_ms: Some(1), ..RetryPolicy::default() });
    client.create_topic("orders", &TopicSpec { retry_policy, ..TopicSpec::default() }).await.unwrap();
    client.produce("orders", raw("{")).await.unwrap();
    let worker = Worker::new(&client, "g").bad_payload(BadPayload::Retry);
    run_until_idle(worker.handle("orders", |_: u32, _| async { Ok(()) })).await.unwrap();
    let dead: Value = client.get("/v2/dlq/orders").await.unwrap();
    assert_eq!(dead["letters"][0]["envelope"]["dead_letter"]["attempts"], 3);
}

#[tokio::test]
async fn two_topics_and_everything_that_a_handler_knows() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    create(&client, "orders").await;
    create(&client, "refunds").await;
    let full = json(&7)
        .key("customer-4")
        .idempotency_key("order-7")
        .run_id("run-1")
        .step_id("charge")
        .parent_step_id("plan")
        .tenant_id("acme")
        .label("model", "small");
    client.produce("orders", full).await.unwrap();
    client.produce("refunds", json(&8).idempotency_key("refund-8")).await.unwrap();
    let count = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&count);
    let worker = Worker::new(&client, "g")
        .handle("orders", move |number: u32, context| {
            counted.fetch_add(number, Ordering::Relaxed);
            async move {
                let text = format!(
                    "{} {} {} {} {} {:?} {:?} {:?} {:?} {:?} {:?}",
                    context.topic(),
                    context.partition(),
                    context.offset(),
                    context.key(),
                    context.attempt(),
                    context.run_id(),
                    context.step_id(),
                    context.parent_step_id(),
                    context.tenant_id(),
                    context.idempotency_key(),
                    context.labels().collect::<Vec<_>>(),
                );
                assert_eq!(
                    text,
                    r#"orders 0 0 customer-4 1 Some("run-1") Some("charge") Some("plan") Some("acme") Some("order-7") [("model", "small")]"#
                );
                assert_eq!((&context.payload()[..], context.message().priority), (&b"7"[..], 0));
                context.send("refunds", json(&9).label("traceparent", "own").step_id("own"))?;
                Ok(())
            }
        })
        .handle("refunds", |number: u32, context| async move {
            match number {
                8 => assert!(context.run_id().is_none() && context.trace().parent_span_id.is_none()),
                _ => {
                    assert_eq!((context.run_id(), context.step_id()), (Some("run-1"), Some("own")));
                    assert_eq!(context.parent_step_id(), Some("charge"));
                    assert_eq!(context.labels().collect::<Vec<_>>(), [("traceparent", "own")]);
                }
            }
            Ok(())
        });
    run_until_idle(worker).await.unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 7, "once");
    let run = client.describe_run_of("acme", "run-1").await.unwrap();
    assert_eq!(run.steps.len(), 2);
    let error = client.describe_run("run-1").await.unwrap_err();
    assert_eq!(error.name(), "RunUnknown", "it is the tenant's");
}

#[tokio::test]
async fn a_commit_that_is_refused_is_not_an_ack() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    create(&client, "orders").await;
    client.produce("orders", json(&1)).await.unwrap();
    let errors = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&errors);
    let worker = Worker::new(&client, "g").handle("orders", move |_: u32, context| {
        noted.lock().unwrap().push(context.last_error().to_owned());
        async move {
            if context.attempt() == 1 {
                context.send("nowhere", json(&1))?;
            }
            if context.attempt() == 2 {
                let _ = context.signal().check();
                context.commit().await?;
                // A second one would be an ack without what is collected now.
                assert!(matches!(context.commit().await, Err(Error::Invalid(_))));
                return Err(Failure::new("settled already, so that this is of no consequence"));
            }
            Ok(())
        }
    });
    run_until_idle(worker).await.unwrap();
    let errors = errors.lock().unwrap();
    assert!(errors.len() == 2 && errors[1].starts_with("TopicUnknown: "), "{errors:?}");
}
