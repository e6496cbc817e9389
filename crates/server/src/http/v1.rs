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
use super::tenancy::Holding;
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
    json(StatusCode::OK, &Topics { topics: caller.own_topics(&app.broker) })
}

pub(crate) async fn create_topic(app: &App, head: &Parts, body: Option<Bytes>, caller: &Caller) -> Handled {
    let request = match &body {
        Some(body) => CreateTopic::from_json(body)?,
        None => CreateTopic::from_query(Query::parse_v1(raw_query(head))?)?,
    };
    caller.may_use(&request.name)?;
    let tenant = caller.tenant_or_all(None)?;
    let settings = core::TopicSettings::default();
    let ready =
        app.broker.put_topic(&request.name, request.partitions, settings, tenant.as_deref(), false).await;
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
    let mut message = Message {
        key: into_bytes(request.key),
        value: into_bytes(request.value),
        envelope: request.envelope.map(|envelope| Box::new(into_envelope(envelope))),
        routing: None,
        origin: None,
    };
    adopt(app, caller, &request.topic, &mut message)?;
    if let Err(failure) = app.broker.produce(&request.topic, message).await {
        if let Some(reason) = produce_rejection(&failure) {
            app.metrics.on_produce_rejected(reason);
        }
        return Err(fault(&failure, Call::Produce));
    }
    Ok(json(StatusCode::OK, &Produced { status: "produced".into(), topic: request.topic }))
}

/// Holds a message to what its producer may: the topic that it names besides the call's, and as whom it is sent. One that
/// names no tenant is that of the only one of the key, or of its topic.
pub(crate) fn adopt(app: &App, caller: &Caller, topic: &str, message: &mut Message<'_>) -> Result<(), Fault> {
    let named = core::named_topic(topic, message.envelope.as_deref());
    if named != topic {
        caller.may_use(named)?;
    }
    if caller.tenants().is_none() {
        return Ok(());
    }
    let holding = caller.may_reach(&app.broker, named, Call::Produce)?;
    // Who names another topic than the call's needs the call's, too.
    caller.may_reach(&app.broker, topic, Call::Produce)?;
    let given = message.envelope.as_mut().map(|envelope| std::mem::take(&mut envelope.tenant_id));
    let given = given.unwrap_or_default();
    if given.is_empty() && holding == Holding::Own {
        return Ok(());
    }
    let tenant = caller.tenant(given)?;
    message.envelope.get_or_insert_default().tenant_id = tenant;
    Ok(())
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
    caller.must_own(&app.broker, &request.topic)?;
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
    caller.must_own(&app.broker, &request.topic)?;
    app.broker.ack(delivery(request)).await.map_err(|failure| fault(&failure, Call::Other))?;
    Ok(no_content())
}

pub(crate) async fn nack(app: &App, head: &Parts, body: Option<Bytes>, caller: &Caller) -> Handled {
    let request = match &body {
        Some(body) => Nack::from_json(body)?,
        None => Nack::from_query(Query::parse_v1(raw_query(head))?)?,
    };
    caller.may_use(&request.delivery.topic)?;
    caller.must_own(&app.broker, &request.delivery.topic)?;
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
