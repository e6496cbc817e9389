//! Deliveries from the message to the receiver, with a real server in between.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driftq_client::json;
use driftq_client::wire::{EffectState, EffectStatus, TopicSpec};
use driftq_connect::deliver::attempt::Ending;
use driftq_connect::deliver::endpoint::{Kind, State};
use driftq_connect::deliver::signature::sign;
use driftq_connect::deliver::{Endpoint, Endpoints, Settings};
use driftq_connect::secret::{Plain, SealingKey, Secret, SigningKey};
use serde_json::{Value, json as value};

use crate::bench::{Bench, until};
use crate::receiver::{Receiver, Reply, status, with};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn webhook(name: &str, receiver: &Receiver) -> Endpoint {
    Endpoint { retry_schedule_ms: Some(vec![10; 3]), ..Endpoint::new(name, Kind::Webhook, receiver.url()) }
}

/// How the attempts of a delivery ended, and with which status.
async fn endings(bench: &Bench, endpoint: &Endpoint, delivery_id: &str) -> Vec<(Ending, Option<u16>)> {
    let attempts = bench.attempts(endpoint, delivery_id).await.attempts;
    let numbers: Vec<u32> = attempts.iter().map(|attempt| attempt.attempt).collect();
    assert_eq!(numbers, (1..=u32::try_from(attempts.len()).unwrap()).collect::<Vec<_>>());
    attempts.iter().map(|attempt| (attempt.outcome, attempt.status)).collect()
}

#[tokio::test]
async fn each_is_delivered_once_signed_and_written_down() {
    let receiver = Receiver::start(|_, _| status(200)).await;
    let mut endpoint = webhook("orders", &receiver);
    let key = SealingKey::parse(&STANDARD.encode([7; 32])).unwrap();
    let sealed = key.seal("orders", &Plain::new(SECRET).unwrap()).unwrap();
    endpoint.secrets = vec![Secret::Sealed(sealed)];
    let bench = Bench::new(&[&endpoint]).await;
    let settings = Settings { key: Some(key), ..Settings::default() };
    let running = bench.connect(Endpoints::given(vec![endpoint.clone()]), settings);
    let ids: Vec<String> = (0..20).map(|number| format!("order-{number:02}")).collect();
    for id in ids.iter().chain(&ids) {
        bench.deliver(&endpoint, id).await;
    }
    receiver.wait_for(20).await;
    bench.wait_until_idle(&endpoint).await;
    running.stop().await;
    let mut received = receiver.received();
    received.sort_by_key(|request| request.header("webhook-id").to_owned());
    let found: Vec<&str> = received.iter().map(|request| request.header("webhook-id")).collect();
    assert_eq!(found, ids);
    let keys = [SigningKey::parse(&Plain::new(SECRET).unwrap()).unwrap()];
    for request in &received {
        let (id, at) = (request.header("webhook-id"), request.header("webhook-timestamp").parse().unwrap());
        assert_eq!(request.header("webhook-signature"), sign(&keys, id, at, &request.body));
        assert_eq!(request.body, json_of(id));
        let effect = bench.effect(&endpoint, id).await.unwrap();
        assert_eq!((effect.state, effect.outcome.unwrap().code), (EffectState::Succeeded, Some(200)));
        assert_eq!(endings(&bench, &endpoint, id).await, [(Ending::Delivered, Some(200))]);
    }
}

fn json_of(text: &str) -> Vec<u8> {
    serde_json::to_vec(&Value::from(text)).unwrap()
}

#[tokio::test]
async fn what_fails_is_tried_again_and_every_attempt_is_written_down() {
    let receiver = Receiver::start(|_, before| match before {
        0 => with(503, "retry-after: 0\r\n"),
        1 => Reply::Reset,
        _ => status(200),
    })
    .await;
    let endpoint = webhook("orders", &receiver);
    let bench = Bench::new(&[&endpoint]).await;
    bench.deliver(&endpoint, "order-1").await;
    let running = bench.serve(&[&endpoint]);
    receiver.wait_for(3).await;
    bench.wait_until_idle(&endpoint).await;
    running.stop().await;
    let expected = [(Ending::Failed, Some(503)), (Ending::Unknown, None), (Ending::Delivered, Some(200))];
    assert_eq!(endings(&bench, &endpoint, "order-1").await, expected);
    let attempts = bench.attempts(&endpoint, "order-1").await.attempts;
    assert_eq!((&*attempts[0].body, &*attempts[0].headers["retry-after"]), ("body", "0"));
    assert!(attempts[1].error.contains("broke"), "{attempts:?}");
    assert_eq!(receiver.received().len(), 3);
}

#[tokio::test]
async fn a_used_up_schedule_ends_in_a_dead_letter_that_can_be_sent_again() {
    let receiver = Receiver::start(|_, before| status(if before < 3 { 500 } else { 200 })).await;
    let endpoint = Endpoint { retry_schedule_ms: Some(vec![10]), ..webhook("orders", &receiver) };
    let bench = Bench::new(&[&endpoint]).await;
    bench.deliver(&endpoint, "order-1").await;
    let running = bench.serve(&[&endpoint]);
    let event = bench.event().await;
    assert_eq!((&event["type"], &event["endpoint"]), (&value!("delivery.failed"), &value!("orders")));
    assert_eq!(event["delivery_id"], "order-1");
    bench.wait_until_idle(&endpoint).await;
    assert_eq!(bench.client.topic(&endpoint.topic()).await.unwrap().dead_letters, 1);
    let effect = bench.effect(&endpoint, "order-1").await.unwrap();
    assert_eq!((effect.state, receiver.received().len()), (EffectState::FailedRetryable, 2));
    let redrive = format!("/v2/dlq/{}/redrive", endpoint.topic());
    bench.client.post::<Value>(&redrive, &value!({"all": true})).await.unwrap();
    // The schedule begins anew: it fails once more, and is tried once more.
    receiver.wait_for(4).await;
    until("a delivery", async || {
        bench.effect(&endpoint, "order-1").await.is_some_and(|effect| effect.state == EffectState::Succeeded)
    })
    .await;
    running.stop().await;
    assert_eq!(endings(&bench, &endpoint, "order-1").await.len(), 4);
}

#[tokio::test]
async fn what_may_have_arrived_waits_for_a_person_where_a_repeat_would_do_harm() {
    let receiver = Receiver::start(|_, before| if before < 2 { Reply::Reset } else { status(201) }).await;
    let endpoint = Endpoint { concurrency: Some(1), ..Endpoint::new("bank", Kind::Http, receiver.url()) };
    let bench = Bench::new(&[&endpoint]).await;
    let running = bench.serve(&[&endpoint]);
    for id in ["pay-1", "pay-2"] {
        bench.deliver(&endpoint, id).await;
        until("an unknown outcome", async || {
            let effect = bench.effect(&endpoint, id).await;
            effect.is_some_and(|effect| effect.state == EffectState::Unknown)
        })
        .await;
    }
    // One had arrived, the other had not.
    for (id, status) in [("pay-1", EffectStatus::Succeeded), ("pay-2", EffectStatus::FailedRetryable)] {
        bench.resolve(&endpoint, id, status).await;
    }
    receiver.wait_for(3).await;
    bench.wait_until_idle(&endpoint).await;
    running.stop().await;
    let bodies: Vec<Vec<u8>> = receiver.received().into_iter().map(|request| request.body).collect();
    assert_eq!(bodies, ["pay-1", "pay-2", "pay-2"].map(json_of), "only what had not arrived was sent again");
    let keys: Vec<String> =
        receiver.received().iter().map(|request| request.header("idempotency-key").to_owned()).collect();
    assert!(keys[0] != keys[1] && keys[1] == keys[2], "{keys:?}");
    let effect = bench.effect(&endpoint, "pay-2").await.unwrap();
    assert_eq!((effect.state, effect.outcome.unwrap().code), (EffectState::Succeeded, Some(201)));
}

#[tokio::test]
async fn an_endpoint_that_hangs_delays_only_itself() {
    let stuck = Receiver::start(|_, _| Reply::Hang).await;
    let quick = Receiver::start(|_, _| status(200)).await;
    let hanging = Endpoint { timeout_ms: Some(1000), ..webhook("hanging", &stuck) };
    let hanging = Endpoint { retry_schedule_ms: Some(vec![3_600_000]), ..hanging };
    let prompt = webhook("prompt", &quick);
    let bench = Bench::new(&[&hanging, &prompt]).await;
    for number in 0..30 {
        bench.deliver(&hanging, &format!("stuck-{number}")).await;
    }
    let running = bench.serve(&[&hanging, &prompt]);
    // All of its places are taken.
    stuck.wait_for(8).await;
    for number in 0..30 {
        bench.deliver(&prompt, &format!("quick-{number}")).await;
    }
    quick.wait_for(30).await;
    bench.wait_until_idle(&prompt).await;
    let arrived = stuck.received().len();
    assert!(arrived < 30, "the one that hangs was not through before: {arrived}");
    running.stop().await;
}

#[tokio::test]
async fn a_receiver_that_is_gone_is_left_alone_until_it_is_enabled() {
    let receiver = Receiver::start(|_, before| status(if before == 0 { 410 } else { 200 })).await;
    let endpoint = Endpoint { concurrency: Some(1), ..webhook("orders", &receiver) };
    let bench = Bench::new(&[&endpoint]).await;
    bench.deliver(&endpoint, "order-1").await;
    let endpoints = Endpoints::given(vec![endpoint.clone()]);
    let Endpoints::Given(list) = &endpoints else { unreachable!() };
    let running = bench.connect(endpoints.clone(), Settings::default());
    let event = bench.event().await;
    assert_eq!(event["type"], "endpoint.disabled");
    let mut changes = list.subscribe();
    let found = changes.wait_for(|list| list[0].state == State::Disabled).await.unwrap()[0].clone();
    assert!(found.disabled.unwrap().reason.contains("410"));
    bench.deliver(&endpoint, "order-2").await;
    list.send_replace(vec![endpoint.clone()]);
    receiver.wait_for(2).await;
    // The first waits for its time; the second came after.
    assert_eq!(receiver.received()[1].header("webhook-id"), "order-2");
    running.stop().await;
    let effect = bench.effect(&endpoint, "order-1").await.unwrap();
    assert_eq!(effect.state, EffectState::FailedRetryable);
}

#[tokio::test]
async fn an_endpoint_that_has_failed_for_too_long_is_disabled() {
    let receiver = Receiver::start(|_, _| status(500)).await;
    let endpoint = Endpoint { disable_after_ms: Some(1), ..webhook("orders", &receiver) };
    let bench = Bench::new(&[&endpoint]).await;
    bench.deliver(&endpoint, "order-1").await;
    let running = bench.serve(&[&endpoint]);
    let event = bench.event().await;
    assert_eq!(event["type"], "endpoint.disabled");
    assert!(event["reason"].as_str().unwrap().contains("500"), "{event}");
    running.stop().await;
    assert_eq!(receiver.received().len(), 2, "the first failure alone does not last");
}

#[tokio::test]
async fn an_endpoint_that_only_fails_gets_no_more_for_a_while() {
    let receiver = Receiver::start(|_, _| status(500)).await;
    let endpoint = Endpoint { concurrency: Some(1), ..webhook("orders", &receiver) };
    let endpoint = Endpoint { retry_schedule_ms: Some(vec![3_600_000]), ..endpoint };
    let bench = Bench::new(&[&endpoint]).await;
    for number in 0..15 {
        bench.deliver(&endpoint, &format!("order-{number}")).await;
    }
    let running = bench.serve(&[&endpoint]);
    let event = bench.event().await;
    assert_eq!((&event["type"], receiver.received().len()), (&value!("endpoint.breaker_opened"), 10));
    // The others are given back without an attempt.
    until("the others wait", async || {
        let group = bench.client.group(&endpoint.topic(), &endpoint.group()).await.unwrap();
        group.in_flight == 0
    })
    .await;
    running.stop().await;
    assert_eq!(receiver.received().len(), 10);
}

#[tokio::test]
async fn messages_of_bound_topics_are_delivered_and_a_key_of_two_topics_is_not_swallowed() {
    let receiver = Receiver::start(|_, _| status(200)).await;
    let topics = vec!["sales".to_owned(), "refunds".to_owned()];
    let endpoint = Endpoint { topics: topics.clone(), concurrency: Some(1), ..webhook("books", &receiver) };
    let bench = Bench::new(&[&endpoint]).await;
    for topic in &topics {
        bench.client.create_topic(topic, &TopicSpec::default()).await.unwrap();
    }
    let running = bench.serve(&[&endpoint]);
    let message = json(&1).idempotency_key("no-17").label("header.x-from", "sales");
    bench.client.produce("sales", message).await.unwrap();
    receiver.wait_for(1).await;
    assert_eq!(receiver.received()[0].header("x-from"), "sales");
    bench.client.produce("refunds", json(&1).idempotency_key("no-17")).await.unwrap();
    let event = bench.event().await;
    assert_eq!((&event["type"], &event["delivery_id"]), (&value!("delivery.failed"), &value!("no-17")));
    until("a dead letter", async || bench.client.topic("refunds").await.unwrap().dead_letters == 1).await;
    running.stop().await;
}

#[tokio::test]
async fn changes_of_endpoints_are_picked_up() {
    let (old, new) = (Receiver::start(|_, _| status(200)).await, Receiver::start(|_, _| status(200)).await);
    let endpoint = webhook("orders", &old);
    let bench = Bench::new(&[&endpoint]).await;
    let endpoints = Endpoints::given(Vec::new());
    let Endpoints::Given(list) = &endpoints else { unreachable!() };
    let running = bench.connect(endpoints.clone(), Settings::default());
    bench.deliver(&endpoint, "order-1").await;
    list.send_replace(vec![endpoint.clone()]);
    old.wait_for(1).await;
    bench.wait_until_idle(&endpoint).await;
    let moved = Endpoint { url: new.url(), version: 2, ..endpoint.clone() };
    list.send_replace(vec![moved]);
    bench.deliver(&endpoint, "order-2").await;
    new.wait_for(1).await;
    bench.wait_until_idle(&endpoint).await;
    list.send_replace(Vec::new());
    running.stop().await;
    assert_eq!((old.received().len(), new.received().len()), (1, 1));
}

#[tokio::test]
async fn what_is_being_sent_may_end_when_the_connector_stops() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    // It answers when it is told to, in a thread of its own.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (came, comes) = tokio::sync::oneshot::channel();
    let thread = std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut socket, _) = listener.accept().unwrap();
        let _ = socket.read(&mut [0; 4096]).unwrap();
        came.send(()).unwrap();
        wait.lock().unwrap().recv().unwrap();
        socket.write_all(b"HTTP/1.1 204 X\r\n\r\n").unwrap();
    });
    let endpoint = Endpoint::new("orders", Kind::Webhook, format!("http://{address}/"));
    let bench = Bench::new(&[&endpoint]).await;
    bench.deliver(&endpoint, "order-1").await;
    let running = bench.serve(&[&endpoint]);
    comes.await.unwrap();
    let stopping = tokio::spawn(running.stop());
    go.send(()).unwrap();
    stopping.await.unwrap();
    thread.join().unwrap();
    assert_eq!(endings(&bench, &endpoint, "order-1").await, [(Ending::Delivered, Some(204))]);
}
