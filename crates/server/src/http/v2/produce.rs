//! `POST /v2/topics/{topic}/messages`.

use std::borrow::Cow;

use bytes::Bytes;
use driftq_api::v2::{Due, Form, Message, Outcomes, Produced, each_message};
use driftq_api::{Code, Fault, JSON, NDJSON};
use driftq_engine::core::{self, Keyless, RequestHash, Start};
use driftq_engine::{Draft, Failure};
use hyper::StatusCode;

use super::Request;
use super::words::{taken_envelope, time};
use crate::http::answer::{json, whole};
use crate::http::failure::{Call, fault, produce_rejection};
use crate::http::tenancy::Holding;
use crate::http::v1::{Handled, adopt};
use crate::trace::{context_of, label};

pub(super) async fn produce(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let topic = request.name(0, "topic")?;
    request.caller.may_use(&topic)?;
    let header = request.key()?;
    let body = request.body.as_deref().unwrap_or_default();
    let form = Form::of(request.content_type(), body)?;
    if form == Form::One {
        return one(request, &topic, body, header).await;
    }
    let mut drafts = Vec::with_capacity(form.lines(body));
    each_message(form, body, |message| drafts.push(draft(message)))?;
    let trace = context_of(request.head);
    for draft in &mut drafts {
        adopt(request.app, request.caller, &topic, &mut draft.message)?;
        label(trace, &mut draft.message);
    }
    if let Some(header) = &header {
        let hash = RequestHash::of(body);
        for (number, draft) in drafts.iter_mut().enumerate() {
            name(draft, &format!("{header}/{number}"), hash)?;
        }
    }
    let results = request.app.broker.produce_many(&topic, drafts).await;
    if let (Some(_), Some(Err(failure @ Failure::Reject(core::Reject::KeyReused)))) =
        (header, results.first())
    {
        return Err(fault(failure, Call::Produce));
    }
    let mut outcomes = Outcomes::new(form, results.len());
    let holdup = match results.iter().find_map(|result| result.as_ref().err().filter(|why| is_full(why))) {
        Some(_) => holdup(request, &topic).await,
        None => String::new(),
    };
    for result in &results {
        match result {
            Ok(stored) => outcomes.stored(&shown(stored)),
            Err(failure) => {
                count_rejection(request, failure);
                outcomes.refused(&explained(failure, &holdup));
            }
        }
    }
    let content_type = if form == Form::Lines { NDJSON } else { JSON };
    Ok(whole(StatusCode::OK, content_type, Bytes::from(outcomes.finish())))
}

async fn one(request: &Request<'_>, topic: &str, body: &[u8], header: Option<String>) -> Handled {
    let mut draft = draft(Message::from_json(body)?);
    adopt(request.app, request.caller, topic, &mut draft.message)?;
    label(context_of(request.head), &mut draft.message);
    if let Some(header) = &header {
        name(&mut draft, header, RequestHash::of(body))?;
    }
    match request.app.broker.produce_draft(topic, draft).await {
        Ok(stored) => {
            // Nothing was created by a duplicate.
            let status = if stored.duplicate { StatusCode::OK } else { StatusCode::CREATED };
            Ok(json(status, &shown(&stored)))
        }
        Err(failure) => {
            count_rejection(request, &failure);
            let holdup = if is_full(&failure) { holdup(request, topic).await } else { String::new() };
            Err(explained(&failure, &holdup))
        }
    }
}

/// Whether the topic has no room, which only its readers can make.
const fn is_full(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Reject(core::Reject::Overloaded(
            core::Overload::PartitionMessages | core::Overload::PartitionBytes
        ))
    )
}

/// Who keeps the topic full, in words that follow those of the refusal.
async fn holdup(request: &Request<'_>, topic: &str) -> String {
    // Groups of a shared topic are not for one tenant to know of.
    if request.caller.may_reach(&request.app.broker, topic, Call::Produce) != Ok(Holding::Own) {
        return String::new();
    }
    match request.app.broker.slowest_group(topic).await {
        Ok(Some(group)) if group.lag > 0 => {
            let paused = if group.is_paused { ", and its deliveries are paused" } else { "" };
            format!("; group {:?} holds it back: it is {} message(s) behind{paused}", group.name, group.lag)
        }
        Ok(None) => "; no group reads the topic, so that nothing leaves it".to_owned(),
        // It has gone on meanwhile, or cannot be asked now: the refusal stands without this.
        Ok(Some(_)) | Err(_) => String::new(),
    }
}

fn explained(failure: &Failure, holdup: &str) -> Fault {
    let mut fault = fault(failure, Call::Produce);
    if is_full(failure) {
        fault.message.to_mut().push_str(holdup);
    }
    fault
}

fn count_rejection(request: &Request<'_>, failure: &Failure) {
    if let Some(reason) = produce_rejection(failure) {
        request.app.metrics.on_produce_rejected(reason);
    }
}

fn shown(stored: &driftq_engine::Produced) -> Produced<'_> {
    Produced {
        topic: Cow::Borrowed(&stored.topic),
        partition: stored.partition,
        offset: stored.offset,
        duplicate: stored.duplicate,
    }
}

/// A message as the broker takes it.
pub(super) fn draft(message: Message<'_>) -> Draft<'_> {
    let hash = message.envelope.as_ref().map_or("", |envelope| &envelope.request_hash);
    let request = if hash.is_empty() { RequestHash::NONE } else { RequestHash::of(hash.as_bytes()) };
    Draft {
        priority: message.priority,
        start: match message.due {
            None => Start::Now,
            Some(Due::At(at)) => Start::At(time(at)),
            Some(Due::AfterMs(millis)) => Start::After(millis),
        },
        request,
        keyless: Keyless::Spread,
        native: true,
        message: core::Message {
            key: message.key,
            value: message.value,
            envelope: message.envelope.map(|envelope| Box::new(taken_envelope(*envelope))),
            routing: None,
            origin: None,
        },
    }
}

/// Gives a message the key of the request's header, unless it has one of its own.
fn name(draft: &mut Draft<'_>, key: &str, hash: RequestHash) -> Result<(), Fault> {
    let envelope = draft.message.envelope.get_or_insert_default();
    if !envelope.idempotency_key.is_empty() {
        let text = "Idempotency-Key: the message has an idempotency_key of its own; send one of them";
        return Err(Fault::new(Code::InvalidArgument, text));
    }
    envelope.idempotency_key = Cow::Owned(key.to_owned());
    if draft.request == RequestHash::NONE {
        draft.request = hash;
    }
    Ok(())
}
