//! Deliveries: messages on their way to an endpoint, and the effects that send them.

use std::borrow::Cow;

use driftq_api::Fault;
use driftq_api::v2::{
    CONTENT_TYPE_LABEL, DELIVERY_SCOPE_PREFIX, Deliveries, DeliveriesQuery, DeliveryRecord, DeliverySpec,
    DeliveryTaken, ENDPOINT_GROUP_PREFIX, Envelope, HEADER_LABEL_PREFIX, Labels, Message, MessagePlace,
    Position, SendAttempts, SendState,
};
use driftq_engine::core::{Browse, Ending, KeyHash, Reject, Stage, TopicId, Wait, ledger};
use driftq_engine::{Failure, Seen, SeenEffect};
use hyper::StatusCode;

use super::endpoints::{topic_of, unknown};
use super::produce::draft;
use super::words::{looked, moment};
use super::{Request, fault};
use crate::http::answer::json;
use crate::http::failure::{Call, fault as told};
use crate::http::v1::{Handled, adopt};

/// Messages that one question takes from the broker.
const STRETCH: u32 = 100;
/// Messages that one call looks at; the cursor says where to go on.
const SCANNED_MAX: u64 = 2_000;

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
    let body = spec.bytes();
    let envelope = Envelope {
        tenant_id: Cow::Borrowed(&spec.tenant_id),
        idempotency_key: Cow::Borrowed(&spec.delivery_id),
        // The same id with another body is no repeat.
        request_hash: Cow::Owned(format!("blake3:{}", blake3::hash(&body).to_hex())),
        labels: Labels::new(labels).map_err(Fault::invalid)?,
        ..Envelope::default()
    };
    let mut message = draft(Message {
        // One key for all: an endpoint that wants them in order gets them one after the other.
        key: Cow::Borrowed(spec.endpoint.as_bytes()),
        value: body,
        priority: 0,
        due: spec.due()?,
        envelope: Some(Box::new(envelope)),
    });
    if request.app.broker.tenant_of_topic(&topic).is_none() {
        return Err(unknown());
    }
    adopt(request.app, request.caller, &topic, &mut message.message)?;
    let stored = request.app.broker.produce_draft(&topic, message).await;
    let stored = stored.map_err(|failure| told(&failure, Call::Produce))?;
    let status = if stored.duplicate { StatusCode::OK } else { StatusCode::CREATED };
    let taken = DeliveryTaken {
        delivery_id: Cow::Borrowed(&spec.delivery_id),
        endpoint: Cow::Borrowed(&spec.endpoint),
        duplicate: stored.duplicate,
        message: place(&stored.topic, stored.partition, stored.offset),
    };
    Ok(json(status, &taken))
}

const fn place(topic: &str, partition: u32, offset: u64) -> MessagePlace<'_> {
    MessagePlace { topic: Cow::Borrowed(topic), partition, offset, attempt: None }
}

pub(super) async fn list(request: &Request<'_>) -> Handled {
    let asked = DeliveriesQuery::from_query(request.query()?)?;
    let topic = asked.topic.as_deref().map_or_else(|| topic_of(&asked.endpoint), str::to_owned);
    request.caller.may_use(&topic)?;
    let broker = &request.app.broker;
    if broker.tenant_of_topic(&topic).is_none() {
        return Err(unknown());
    }
    if let Some(id) = &asked.delivery_id
        && let Some(seen) = by_id(request, &topic, id).await?
    {
        let deliveries = record(request, &asked, &topic, &seen).await?.into_iter().collect();
        return Ok(json(StatusCode::OK, &Deliveries { deliveries, cursor: None, scanned: 1 }));
    }
    let (partition, from) = asked.after.map_or((0, 0), |after| (after.partition, after.offset + 1));
    let mut browse = Browse {
        topic: TopicId::default(),
        partition,
        alone: false,
        from,
        limit: STRETCH,
        key: KeyHash::NONE,
    };
    let (mut deliveries, mut scanned) = (Vec::new(), 0);
    let cursor = loop {
        let glance = broker.glance(&topic, browse.clone()).await.map_err(|failure| fault(&failure))?;
        for found in glance.found {
            let at = Position { partition: found.partition, offset: found.offset };
            let seen = broker.see(glance.topic, found).await;
            scanned += 1;
            deliveries.extend(record(request, &asked, &topic, &seen).await?);
            if deliveries.len() == asked.limit || scanned == SCANNED_MAX {
                let page = Deliveries { deliveries, cursor: Some(at.cursor()), scanned };
                return Ok(json(StatusCode::OK, &page));
            }
        }
        let Some((partition, from)) = glance.next else { break None };
        (browse.partition, browse.from) = (partition, from);
    };
    Ok(json(StatusCode::OK, &Deliveries { deliveries, cursor, scanned }))
}

/// The message that the produce gate remembers under the id of a delivery.
async fn by_id(request: &Request<'_>, topic: &str, id: &str) -> Result<Option<Seen>, Fault> {
    let broker = &request.app.broker;
    let tenant = match request.caller.tenants() {
        Some([only]) => only,
        _ => "",
    };
    let place = broker.whereabouts(topic, tenant, id).await.map_err(|failure| fault(&failure))?;
    let Some((topic, partition, offset)) = place else { return Ok(None) };
    match broker.look_at(&topic, partition, offset).await {
        Ok((seen, _)) => Ok(Some(seen)),
        Err(Failure::Reject(Reject::MessageUnknown)) => Ok(None),
        Err(failure) => Err(fault(&failure)),
    }
}

/// What is known of a delivery, if it is one that is asked for and the caller may see.
async fn record(
    request: &Request<'_>,
    asked: &DeliveriesQuery<'_>,
    topic: &str,
    seen: &Seen,
) -> Result<Option<DeliveryRecord<'static>>, Fault> {
    let Some((_, message)) = looked(std::slice::from_ref(seen)).next() else { return Ok(None) };
    let (partition, offset) = (seen.found.partition, seen.found.offset);
    let envelope = message.envelope.as_ref();
    let tenant = envelope.map_or("", |envelope| &*envelope.tenant_id);
    let id = envelope.map(|envelope| envelope.idempotency_key.to_string()).filter(|id| !id.is_empty());
    let id = id.unwrap_or_else(|| match &message.origin {
        Some(born) => format!("{}/{}/{}/{}", born.topic, born.incarnation.0, born.partition, born.offset),
        None => format!("{topic}/{}/{partition}/{offset}", seen.topic.0),
    });
    let is_other = asked.delivery_id.as_deref().is_some_and(|wanted| wanted != id);
    if is_other || !request.caller.acts_as(tenant) {
        return Ok(None);
    }
    let broker = &request.app.broker;
    let scope = format!("{DELIVERY_SCOPE_PREFIX}{}", asked.endpoint);
    let effect = match broker.effect(tenant, &scope, &id).await {
        Ok(effect) => Some(effect),
        Err(Failure::Reject(Reject::EffectUnknown)) => None,
        Err(failure) => return Err(fault(&failure)),
    };
    let (state, next) = standing(request, asked, topic, seen, effect.as_ref()).await?;
    if asked.state.is_some_and(|wanted| wanted != state) {
        return Ok(None);
    }
    let shows = request.caller.sees_payloads();
    let attempts = effect.as_ref().filter(|_| shows).map(attempts).unwrap_or_default();
    Ok(Some(DeliveryRecord {
        delivery_id: Cow::Owned(id),
        endpoint: Cow::Owned(asked.endpoint.to_string()),
        tenant_id: Cow::Owned(tenant.to_owned()),
        state,
        created_at: moment(seen.found.at),
        next_at: next.map(moment),
        message: MessagePlace { topic: Cow::Owned(topic.to_owned()), ..place("", partition, offset) },
        attempts: attempts.attempts,
        payload_hidden: !shows,
    }))
}

/// Where a delivery stands, by what its message and its effect say.
async fn standing(
    request: &Request<'_>,
    asked: &DeliveriesQuery<'_>,
    topic: &str,
    seen: &Seen,
    effect: Option<&SeenEffect>,
) -> Result<(SendState, Option<driftq_engine::core::Time>), Fault> {
    let status = effect.map(|effect| effect.view.status);
    let is_over = status == Some(ledger::Status::Succeeded);
    let group = format!("{ENDPOINT_GROUP_PREFIX}{}", asked.endpoint);
    let broker = &request.app.broker;
    let described = match broker.look_at(topic, seen.found.partition, seen.found.offset).await {
        Ok((_, described)) => Some(described),
        Err(Failure::Reject(Reject::MessageUnknown)) => None,
        Err(failure) => return Err(fault(&failure)),
    };
    let stands = described.and_then(|described| described.groups.into_iter().find(|g| *g.group == *group));
    let Some(stands) = stands else {
        // Without a connector so far, or with none that counts: the message as a whole tells.
        let is_done = seen.found.stage == Stage::Done;
        let state = if is_over {
            SendState::Delivered
        } else if is_done {
            SendState::Failed
        } else {
            SendState::Pending
        };
        return Ok((state, seen.found.due.filter(|_| state == SendState::Pending)));
    };
    Ok(match stands.wait {
        Wait::Done if is_over => (SendState::Delivered, None),
        Wait::Done | Wait::Dying => (SendState::Failed, None),
        Wait::InFlight => (SendState::Sending, None),
        Wait::Effect if status == Some(ledger::Status::Unknown) => (SendState::Unknown, None),
        _ if stands.attempts > 0 => (SendState::Retrying, stands.until),
        _ => (SendState::Pending, stands.until),
    })
}

/// The sends that the record of a delivery tells of.
fn attempts(effect: &SeenEffect) -> SendAttempts {
    let ending = effect.ending.as_ref().and_then(|bytes| Ending::decode(bytes).ok());
    let body = ending.and_then(|ending| ending.body.map(Cow::into_owned));
    body.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default()
}
