//! Since when an endpoint fails is known beyond the end of a connector, and what it has sent while it lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use driftq_client::Moment;
use driftq_connect::deliver::breaker::Position;
use driftq_connect::deliver::endpoint::{Kind, State};
use driftq_connect::deliver::{Counts, Endpoint, EndpointCounts, Endpoints, Settings};
use serde_json::Value;

use crate::bench::{Bench, until};
use crate::receiver::{Receiver, Reply, status};

/// After so long an endpoint is disabled here.
const DISABLE_AFTER_MS: u64 = 3_000;

/// A receiver whose answer can be changed, and an endpoint that leads to it.
async fn moody() -> (Arc<AtomicU16>, Receiver, Endpoint) {
    let mood = Arc::new(AtomicU16::new(500));
    let answer = Arc::clone(&mood);
    let receiver = Receiver::start(move |_, _| status(answer.load(Ordering::Relaxed))).await;
    let mut endpoint = Endpoint::new("orders", Kind::Webhook, receiver.url());
    endpoint.disable_after_ms = Some(DISABLE_AFTER_MS);
    endpoint.retry_schedule_ms = Some(vec![100; 50]);
    (mood, receiver, endpoint)
}

/// The version of the endpoint's entity, and when it was raised.
async fn standing(bench: &Bench) -> (u64, Option<Moment>) {
    let entity = bench.client.get::<Value>("/v2/entities/endpoint.orders").await.unwrap();
    (entity["version"].as_u64().unwrap(), entity["raised_at"].as_str().and_then(Moment::parse))
}

fn now_ms() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis()
}

/// Lets a connector fail until that is written down, and waits until the endpoint could be disabled.
async fn fail(bench: &Bench, endpoint: &Endpoint) {
    bench.deliver(endpoint, "order-1").await;
    let running = bench.serve(&[endpoint]);
    until("a first mark", async || standing(bench).await.0 == 1).await;
    running.stop().await;
    let (seconds, nanos) = standing(bench).await.1.unwrap().parts();
    let raised_ms = u128::try_from(seconds).unwrap() * 1000 + u128::from(nanos / 1_000_000);
    until("the time after which it is disabled", async || {
        now_ms() > raised_ms + u128::from(DISABLE_AFTER_MS)
    })
    .await;
}

#[tokio::test]
async fn a_connector_that_is_started_anew_goes_on_counting() {
    let (_, receiver, endpoint) = moody().await;
    let bench = Bench::new(&[&endpoint]).await;
    fail(&bench, &endpoint).await;
    let before = receiver.received().len();
    let running = bench.serve(&[&endpoint]);
    let event = bench.event().await;
    assert_eq!(event["type"], "endpoint.disabled");
    running.stop().await;
    assert_eq!(receiver.received().len(), before + 1, "one more failure is enough");
}

#[tokio::test]
async fn a_changed_endpoint_is_given_its_time_again() {
    let (_, receiver, mut endpoint) = moody().await;
    let bench = Bench::new(&[&endpoint]).await;
    fail(&bench, &endpoint).await;
    let before = receiver.received().len();
    endpoint.changed_at = Some(Moment::saturating_from_epoch_ms(u64::try_from(now_ms()).unwrap()));
    let running = bench.serve(&[&endpoint]);
    until("a mark of its own", async || standing(&bench).await.0 == 3).await;
    running.stop().await;
    assert!(receiver.received().len() > before + 1, "the first failure did not disable it");
}

#[tokio::test]
async fn an_arrival_ends_it() {
    let (mood, _receiver, endpoint) = moody().await;
    let bench = Bench::new(&[&endpoint]).await;
    fail(&bench, &endpoint).await;
    mood.store(200, Ordering::Relaxed);
    let running = bench.serve(&[&endpoint]);
    until("the end of it", async || standing(&bench).await.0 == 2).await;
    bench.wait_until_idle(&endpoint).await;
    running.stop().await;
}

#[tokio::test]
async fn sends_are_counted_by_endpoint_and_result() {
    let good = Receiver::start(|_, before| match before {
        0 => status(500),
        1 => Reply::Reset,
        _ => status(200),
    })
    .await;
    let bad = Receiver::start(|_, _| status(410)).await;
    let endpoint = |name, receiver: &Receiver| Endpoint {
        retry_schedule_ms: Some(vec![1; 10]),
        concurrency: Some(1),
        ..Endpoint::new(name, Kind::Webhook, receiver.url())
    };
    let (shop, bank) = (endpoint("shop", &good), endpoint("bank", &bad));
    let bench = Bench::new(&[&shop, &bank]).await;
    for number in 0..3 {
        bench.deliver(&shop, &format!("order-{number}")).await;
    }
    bench.deliver(&bank, "pay-1").await;
    let list = Endpoints::given(vec![shop.clone(), bank]);
    let counts = Counts::default();
    let running = bench.connect(list.clone(), Settings { counts: counts.clone(), ..Settings::default() });
    bench.wait_until_idle(&shop).await;
    until("a disabled endpoint", async || counts.read()["bank"].is_disabled).await;
    let found = counts.read();
    let breaker = Position::Closed;
    let expected = EndpointCounts { delivered: 3, failed: 1, unknown: 1, breaker, is_disabled: false };
    assert_eq!(found["shop"], expected);
    assert_eq!((found["bank"].failed, found["bank"].delivered), (1, 0));
    // One that is no longer served is no longer told of.
    let Endpoints::Given(given) = &list else { unreachable!("they were given") };
    given.send_modify(|list| list.retain(|endpoint| endpoint.state == State::Enabled));
    until("one less", async || counts.read().keys().eq(["shop"])).await;
    running.stop().await;
}
