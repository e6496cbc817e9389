//! A server, a connector, and questions to both.

use std::path::PathBuf;
use std::time::Duration;

use driftq_client::testkit::{Launch, Server};
use driftq_client::wire::{
    Effect, EffectGet, EffectResolve, EffectResult, EffectStatus, LeaseRequest, TopicSpec,
};
use driftq_client::{Client, json};
use driftq_connect::deliver::address::{Allowed, Network};
use driftq_connect::deliver::attempt::Attempts;
use driftq_connect::deliver::event::EVENTS_TOPIC;
use driftq_connect::deliver::{Connector, ConnectorStopper, Endpoint, Endpoints, Settings};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// By when something must have happened.
pub(crate) const WITHIN: Duration = Duration::from_secs(30);
/// How often a condition is looked at that gives no sign.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A program in the folder that this test was built into.
fn beside(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    // The test is in `deps` of it.
    test.parent().unwrap().parent().unwrap().join(name)
}

/// Waits until the condition holds.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let end = Instant::now() + WITHIN;
    while !condition().await {
        assert!(Instant::now() < end, "{what} did not happen");
        sleep(LOOK_EVERY).await;
    }
}

pub(crate) fn loopback() -> Allowed {
    Allowed { networks: vec![Network::parse("127.0.0.0/8").unwrap()], hosts: Vec::new() }
}

/// A server of the test's own.
pub(crate) struct Bench {
    pub(crate) server: Server,
    pub(crate) client: Client,
}

impl Bench {
    /// One with the topics of these endpoints.
    pub(crate) async fn new(endpoints: &[&Endpoint]) -> Self {
        let binary = std::env::var_os("DRIFTQ_BIN").map_or_else(|| beside("driftq"), PathBuf::from);
        let server = Launch::default().binary(binary).start().await.unwrap();
        let client = server.client().unwrap();
        for endpoint in endpoints {
            client.create_topic(&endpoint.topic(), &TopicSpec::default()).await.unwrap();
        }
        Self { server, client }
    }

    /// Asks for a delivery.
    pub(crate) async fn deliver(&self, endpoint: &Endpoint, delivery_id: &str) {
        let message = json(&Value::from(delivery_id)).idempotency_key(delivery_id);
        self.client.produce(&endpoint.topic(), message).await.unwrap();
    }

    /// The effect of a delivery.
    pub(crate) async fn effect(&self, endpoint: &Endpoint, delivery_id: &str) -> Option<Effect<'static>> {
        let (scope, key) = (endpoint.scope().into(), delivery_id.into());
        self.client.effect_record(&EffectGet { tenant_id: "".into(), scope, key }).await.ok()
    }

    /// The attempts that the effect remembers.
    pub(crate) async fn attempts(&self, endpoint: &Endpoint, delivery_id: &str) -> Attempts {
        let outcome = self.effect(endpoint, delivery_id).await.unwrap().outcome;
        outcome.as_ref().map(Attempts::of).unwrap_or_default()
    }

    /// What a person does who has found out.
    pub(crate) async fn resolve(&self, endpoint: &Endpoint, delivery_id: &str, status: EffectStatus) {
        let resolve = EffectResolve {
            tenant_id: "".into(),
            scope: endpoint.scope().into(),
            key: delivery_id.into(),
            result: EffectResult::new(status),
            by: "a person".into(),
            why: "asked the receiver".into(),
            epoch: None,
        };
        self.client.resolve_effect(&resolve).await.unwrap();
    }

    /// Waits until everything in the endpoint's own topic is settled.
    pub(crate) async fn wait_until_idle(&self, endpoint: &Endpoint) {
        until("an idle group", async || {
            let group = self.client.group(&endpoint.topic(), &endpoint.group()).await;
            group.is_ok_and(|group| group.lag == 0 && group.in_flight == 0)
        })
        .await;
    }

    /// The next event.
    pub(crate) async fn event(&self) -> Value {
        // The connector makes the topic.
        until("a topic of events", async || self.client.topic(EVENTS_TOPIC).await.is_ok()).await;
        let request =
            LeaseRequest { owner: "test".into(), max: 1, wait_ms: 20_000, lease_ms: None, request_id: None };
        let messages = self.client.lease(EVENTS_TOPIC, "test", request).await.unwrap();
        let message = messages.first().expect("an event");
        self.client.ack(&message.lease.as_ref().unwrap().token).await.unwrap();
        serde_json::from_slice(&message.payload().unwrap()).unwrap()
    }

    /// Starts a connector in this process.
    pub(crate) fn connect(&self, endpoints: Endpoints, settings: Settings) -> Running {
        let settings = Settings { allowed: loopback(), ..settings };
        let connector = Connector::new(&self.client, endpoints, settings).unwrap();
        Running { stopper: connector.stopper(), task: tokio::spawn(connector.run()) }
    }

    /// Starts a connector for these endpoints.
    pub(crate) fn serve(&self, endpoints: &[&Endpoint]) -> Running {
        let endpoints = endpoints.iter().map(|endpoint| (*endpoint).clone()).collect();
        self.connect(Endpoints::given(endpoints), Settings::default())
    }
}

/// A connector at work.
pub(crate) struct Running {
    stopper: ConnectorStopper,
    task: JoinHandle<()>,
}

impl Running {
    /// Stops it, and waits until it has drained.
    pub(crate) async fn stop(self) {
        self.stopper.stop();
        timeout(WITHIN, self.task).await.expect("it ends").unwrap();
    }
}
