//! Deliveries: messages on their way to an endpoint, and the effects that send them.

use std::borrow::Cow;

use driftq_api::Fault;
use driftq_api::v2::{
    CONTENT_TYPE_LABEL, DELIVERY_SCOPE_PREFIX, Deliveries, DeliveriesQuery, DeliveryRecord, DeliverySpec,
    DeliveryTaken, ENDPOINT_GROUP_PREFIX, ENDPOINT_VERSION_LABEL, Envelope, HEADER_LABEL_PREFIX, Labels,
    Message, SendAttempts, SendState,
};
use hyper::StatusCode;

use super::Request;
use super::endpoints::{topic_of, unknown, version_of};
use super::errands::{self, Asked, Errand, ErrandPage, Errands, Standing};
use super::words::moment;
use crate::http::answer::json;
use crate::http::v1::Handled;

pub(super) async fn post(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let spec = DeliverySpec::from_json(request.json()?)?;
    spec.check()?;
    request.tenant(Cow::Borrowed(&spec.tenant_id))?;
    let topic = topic_of(&spec.endpoint);
    request.caller.may_use(&topic)?;
    // What a body is if its sender does not say depends on the kind of the endpoint, which may change until it is sent.
    let content_type = spec.content_type.as_deref();
    let mut labels: Vec<_> = content_type
        .map(|kind| (Cow::Borrowed(CONTENT_TYPE_LABEL), Cow::Borrowed(kind)))
        .into_iter()
        .collect();
    for (name, value) in spec.headers.pairs() {
        let name = format!("{HEADER_LABEL_PREFIX}{}", name.to_ascii_lowercase());
        labels.push((Cow::Owned(name), Cow::Borrowed(value)));
    }
    if let Some(version) = version_of(request, &spec.endpoint).await? {
        labels.push((Cow::Borrowed(ENDPOINT_VERSION_LABEL), Cow::Owned(version.to_string())));
    }
    let envelope = Envelope {
        tenant_id: Cow::Borrowed(&spec.tenant_id),
        labels: Labels::new(labels).map_err(Fault::invalid)?,
        ..Envelope::default()
    };
    let message = Message {
        // One key for all: an endpoint that wants them in order gets them one after the other.
        key: Cow::Borrowed(spec.endpoint.as_bytes()),
        value: spec.bytes(),
        priority: 0,
        due: spec.due()?,
        envelope: None,
    };
    if request.app.broker.tenant_of_topic(&topic).is_none() {
        return Err(unknown());
    }
    let taken = errands::ask(request, (&topic, &spec.delivery_id), envelope, message).await?;
    let told = DeliveryTaken {
        delivery_id: Cow::Borrowed(&spec.delivery_id),
        endpoint: Cow::Borrowed(&spec.endpoint),
        duplicate: taken.is_duplicate,
        message: taken.message,
    };
    Ok(json(taken.status, &told))
}

pub(super) async fn list(request: &Request<'_>) -> Handled {
    let asked = DeliveriesQuery::from_query(request.query()?)?;
    let topic = asked.topic.as_deref().map_or_else(|| topic_of(&asked.endpoint), str::to_owned);
    request.caller.may_use(&topic)?;
    if request.app.broker.tenant_of_topic(&topic).is_none() {
        return Err(unknown());
    }
    let errands = Errands {
        topic,
        group: format!("{ENDPOINT_GROUP_PREFIX}{}", asked.endpoint),
        scope: format!("{DELIVERY_SCOPE_PREFIX}{}", asked.endpoint),
    };
    let which = Asked { id: asked.delivery_id.as_deref(), limit: asked.limit, after: asked.after };
    let shows = request.caller.sees_payloads();
    let record = |errand| record(&asked, &errands.topic, errand, shows);
    let ErrandPage { found: deliveries, cursor, scanned } = errands.page(request, &which, record).await?;
    Ok(json(StatusCode::OK, &Deliveries { deliveries, cursor, scanned }))
}

/// A delivery, if it is in the state that is asked for.
fn record(
    asked: &DeliveriesQuery<'_>,
    topic: &str,
    errand: Errand,
    shows: bool,
) -> Option<DeliveryRecord<'static>> {
    let state = match errand.standing {
        Standing::Pending => SendState::Pending,
        Standing::Running => SendState::Sending,
        Standing::Retrying => SendState::Retrying,
        Standing::Unknown => SendState::Unknown,
        Standing::Done => SendState::Delivered,
        Standing::Failed => SendState::Failed,
    };
    if asked.state.is_some_and(|wanted| wanted != state) {
        return None;
    }
    let attempts = if shows { attempts(&errand) } else { SendAttempts::default() };
    Some(DeliveryRecord {
        message: errands::place(topic, errand.partition, errand.offset),
        delivery_id: Cow::Owned(errand.id),
        endpoint: Cow::Owned(asked.endpoint.to_string()),
        tenant_id: Cow::Owned(errand.tenant),
        state,
        created_at: moment(errand.taken_at),
        next_at: errand.next_at.map(moment),
        attempts: attempts.attempts,
        payload_hidden: !shows,
    })
}

/// The sends that the record of a delivery tells of.
fn attempts(errand: &Errand) -> SendAttempts {
    let body = errand.ending().and_then(|ending| ending.body);
    body.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default()
}
