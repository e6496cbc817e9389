//! What an operator wants to hear of, as messages of a topic.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use driftq_client::wire::TopicSpec;
use driftq_client::{Client, Code, Moment, json};
use serde::Serialize;

/// The topic of events about endpoints.
pub const EVENTS_TOPIC: &str = "endpoint-events";

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum EventKind {
    /// No more deliveries are made until an operator enables it.
    #[serde(rename = "endpoint.disabled")]
    Disabled,
    /// Deliveries wait, because sends failed.
    #[serde(rename = "endpoint.breaker_opened")]
    BreakerOpened,
    /// They go on.
    #[serde(rename = "endpoint.breaker_closed")]
    BreakerClosed,
    /// A delivery has become a dead letter.
    #[serde(rename = "delivery.failed")]
    DeliveryFailed,
}

/// One of them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Event<'a> {
    #[serde(rename = "type")]
    pub(super) kind: EventKind,
    pub(super) endpoint: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delivery_id: Option<&'a str>,
    pub(super) reason: &'a str,
    pub(super) at: Moment,
}

/// Makes the topic, if it is not there.
pub(super) async fn prepare(client: &Client) {
    match client.create_topic(EVENTS_TOPIC, &TopicSpec::default()).await {
        Ok(_) => {}
        // An operator has made it with other settings.
        Err(error) if error.code() == Some(Code::SettingsDiffer) => {}
        Err(error) => {
            tracing::warn!(%error, "the topic {EVENTS_TOPIC} could not be made; events may be lost")
        }
    }
}

/// Tells of it. A delivery does not fail because an operator cannot hear of it.
pub(super) async fn tell(client: &Client, event: &Event<'_>) {
    let mut message = json(event).key(event.endpoint);
    if let Some(delivery_id) = event.delivery_id {
        let (endpoint, at) = (event.endpoint, event.at);
        message = message.idempotency_key(format!("{endpoint}/{delivery_id}/{at}"));
    }
    if let Err(error) = client.produce(EVENTS_TOPIC, message).await {
        tracing::warn!(endpoint = event.endpoint, kind = ?event.kind, %error, "an event could not be told");
    }
}

/// Time since 1970.
pub(super) fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The present.
pub(super) fn now() -> Moment {
    Moment::saturating_from_epoch_ms(u64::try_from(since_epoch().as_millis()).unwrap_or(u64::MAX))
}
