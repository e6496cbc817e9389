//! The calls of `/v1`.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use driftq_api::v1::{
    Ack, Consume, CreateTopic, Created, Envelope, Health, Nack, Produce, Produced, Topics, Version,
};
use driftq_api::{Code, Fault, Query};
use driftq_engine::core::{self, Deadline, Message};
use driftq_engine::{AckRequest, ConsumeRequest};
use hyper::StatusCode;
use hyper::http::request::Parts;

use super::answer::{Answer, json, no_content, stream};
use super::app::App;
use super::audit::{about, noted};
use super::failure::{Call, fault, produce_rejection};
use super::guard::Caller;
use super::lines::{Lines, Words};
use super::pulse::Pulse;
use super::request::raw_query;
use super::{COMMIT, VERSION};

/// What a handler gives: an answer, or what went wrong.
pub(crate) type Handled = Result<Answer, Fault>;

pub(crate) fn healthz() -> Answer {
    json(StatusCode::OK, &Health { status: "ok".into() })
}

pub(crate) fn version(app: &App) -> Answer {
    let wal_enabled = app.broker.status().durable;
    json(StatusCode::OK, &Version { version: VERSION.into(), commit: COMMIT.into(), wal_enabled })
}

pub(crate) fn list_topics(app: &App, caller: &Caller) -> Answer {
    let mut topics = app.broker.topics();
    topics.retain(|topic| caller.sees(topic));
    json(StatusCode::OK, &Topics { topics })
}

pub(crate) async fn create_topic(app: &App, head: &Parts, body: Option<Bytes>, caller: &Caller) -> Handled {
    let request = match &body {
        Some(body) => CreateTopic::from_json(body)?,
        None => CreateTopic::from_query(Query::parse_v1(raw_query(head))?)?,
    };
    caller.may_use(&request.name)?;
    let ready = app.broker.create_topic(&request.name, request.partitions).await;
    let ready = ready.map_err(|failure| fault(&failure, Call::Other))?;
    let created = Created { status: "created".into(), name: request.name, partitions: ready.partitions };
    let answer = about(json(StatusCode::CREATED, &created), &["topics", &created.name]);
    Ok(noted(answer, format!("partitions {}", ready.partitions)))
}

pub(crate) async fn produce(app: &App, head: &Parts, body: Option<Bytes>, caller: &Caller) -> Handled {
    let request = match &body {
        Some(body) => Produce::from_json(body)?,
        None => Produce::from_query(Query::parse_v1(raw_query(head))?)?,
    };
    caller.may_use(&request.topic)?;
    if let Some(envelope) = request.envelope.as_ref().filter(|envelope| !envelope.target_topic.is_empty()) {
        caller.may_use(&envelope.target_topic)?;
    }
    let message = Message {
        key: into_bytes(request.key),
        value: into_bytes(request.value),
        envelope: request.envelope.map(into_envelope),
        routing: None,
        origin: None,
    };
    if let Err(failure) = app.broker.produce(&request.topic, message).await {
        if let Some(reason) = produce_rejection(&failure) {
            app.metrics.on_produce_rejected(reason);
        }
        return Err(fault(&failure, Call::Produce));
    }
    Ok(json(StatusCode::OK, &Produced { status: "produced".into(), topic: request.topic }))
}

pub(crate) async fn consume(
    app: &App,
    head: &Parts,
    body: Option<Bytes>,
    (caller, pulse): (&Caller, &Arc<Pulse>),
) -> Handled {
    let request = match &body {
        Some(body) => Consume::from_json(body)?,
        None => Consume::from_query(Query::parse_v1(raw_query(head))?)?,
    };
    caller.may_use(&request.topic)?;
    let request = ConsumeRequest {
        topic: request.topic.into_owned(),
        group: request.group.into_owned(),
        owner: request.owner.into_owned(),
        // The first broker lent for as long as it was told; nothing that works for a week is cut short by this.
        lease_ms: request.lease_ms.min(app.broker.settings().lease_ms_max),
    };
    let open = app.metrics.open_stream([&request.topic, &request.group, &request.owner]);
    let deliveries = app.broker.consume(request).await.map_err(|failure| fault(&failure, Call::Other))?;
    Ok(stream(Lines::new(
        deliveries,
        Words::V1,
        (Arc::clone(&app.budget), Arc::clone(pulse)),
        app.options.heartbeat,
        open,
    )))
}

pub(crate) async fn ack(app: &App, head: &Parts, body: Option<Bytes>, caller: &Caller) -> Handled {
    let request = match &body {
        Some(body) => Ack::from_json(body)?,
        None => Ack::from_query(Query::parse_v1(raw_query(head))?)?,
    };
    caller.may_use(&request.topic)?;
    app.broker.ack(delivery(request)).await.map_err(|failure| fault(&failure, Call::Other))?;
    Ok(no_content())
}

pub(crate) async fn nack(app: &App, head: &Parts, body: Option<Bytes>, caller: &Caller) -> Handled {
    let request = match &body {
        Some(body) => Nack::from_json(body)?,
        None => Nack::from_query(Query::parse_v1(raw_query(head))?)?,
    };
    caller.may_use(&request.delivery.topic)?;
    let (delivery, reason) = (delivery(request.delivery), request.reason.into_owned());
    app.broker.nack(delivery, reason).await.map_err(|failure| fault(&failure, Call::Other))?;
    Ok(no_content())
}

pub(crate) fn unknown() -> Fault {
    Fault::new(Code::NotFound, "not found")
}

pub(crate) fn unversioned() -> Fault {
    Fault::new(Code::NotFound, "use /v1/* endpoints")
}

fn delivery(request: Ack<'_>) -> AckRequest {
    AckRequest {
        topic: request.topic.into_owned(),
        group: request.group.into_owned(),
        partition: request.partition,
        offset: request.offset,
        owner: request.owner.into_owned(),
    }
}

fn into_bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

fn into_envelope(envelope: Envelope<'_>) -> core::Envelope<'_> {
    core::Envelope {
        run_id: envelope.run_id,
        step_id: envelope.step_id,
        parent_step_id: envelope.parent_step_id,
        tenant_id: envelope.tenant_id,
        labels: Vec::new(),
        idempotency_key: envelope.idempotency_key,
        target_topic: envelope.target_topic,
        partition_override: envelope.partition_override,
        deadline: envelope.deadline.map(|moment| {
            let (seconds, nanos) = moment.parts();
            Deadline { seconds, nanos, offset_minutes: moment.offset_minutes() }
        }),
        retry_policy: envelope.retry_policy.map(|policy| core::RetryPolicy {
            max_attempts: policy.max_attempts,
            backoff_ms: policy.backoff_ms,
            max_backoff_ms: policy.max_backoff_ms,
            jitter: core::Jitter::Half,
        }),
        dead_letter: None,
    }
}
