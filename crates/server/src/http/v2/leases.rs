//! Borrowing messages and saying what became of them.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use driftq_api::v2::{
    Ack, Extend, LeaseRequest, LeasedWriter, Nack, Release, Settled, SettledStatus, Settlements, StreamQuery,
};
use driftq_api::{Fault, JSON};
use driftq_engine::core::{LEASE_BYTES_MAX, Outcome, Settlement, Verdict};
use driftq_engine::{BorrowRequest, LeaseCall, Lent};
use hyper::StatusCode;

use super::traced::TracedSettlements;
use super::words::{FRAME_BYTES, Reader, moment, with_item};
use super::{Request, fault};
use crate::http::answer::{json, stream as streamed, whole};
use crate::http::lines::{Lines, Words};
use crate::http::loan::Loan;
use crate::http::v1::Handled;

/// No answer that lends has more bytes than this, unless its only message needs more.
const ANSWER_BYTES_MAX: usize = LEASE_BYTES_MAX as usize;

pub(super) async fn lease(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let (topic, group) = (request.name(0, "topic")?, request.name(1, "group")?);
    let asked = LeaseRequest::from_json(request.json()?)?;
    let header = request.key()?;
    let call = LeaseCall {
        topic: topic.to_string(),
        group: group.to_string(),
        owner: asked.owner.into_owned(),
        max: asked.max,
        lease_ms: asked.lease_ms,
        wait_ms: asked.wait_ms,
        request_id: asked.request_id.map(Cow::into_owned).or(header),
    };
    let app = request.app;
    let lent = app.broker.lend(call).await.map_err(|failure| fault(&failure))?;
    let body = leased(request, (&topic, &group), lent).await?;
    Ok(whole(StatusCode::OK, JSON, body))
}

/// The body of an answer that lends. What does not fit into it goes back, and no attempt is used; so does everything if
/// the edge holds as many bytes as it may.
async fn leased(request: &Request<'_>, (topic, group): (&str, &str), mut lent: Lent) -> Result<Bytes, Fault> {
    let app = request.app;
    let mut charge = app.budget.open();
    let room = (16 + lent.bytes() + lent.len() * FRAME_BYTES).min(ANSWER_BYTES_MAX);
    charge.grow(room).await?;
    let mut out = LeasedWriter::with_capacity(room);
    let traced = app.tracer.as_deref().map(|tracer| (tracer, group));
    let reader = Reader { topic, broker: &app.broker, shows_payloads: true, traced };
    let mut loan = Loan::new(app.broker.clone(), Vec::with_capacity(lent.len()));
    while let Some(delivery) = lent.next().await {
        let before = out.bytes();
        if let Err(error) = with_item(&reader, &delivery, |item| out.push(item)) {
            let (partition, offset) = (delivery.partition, delivery.offset);
            tracing::error!(
                partition,
                offset,
                ?error,
                "a stored message cannot be read; its lease will lapse"
            );
        }
        // JSON may need more bytes than the payload has, and only here it is known how many.
        let is_first = loan.is_empty();
        if is_first {
            charge
                .grow(out.capacity())
                .await
                .inspect_err(|_| app.broker.give_back(vec![delivery.receipt]))?;
        } else if out.bytes() > ANSWER_BYTES_MAX || !charge.try_grow(out.capacity()) {
            out.cut(before);
            app.broker.give_back(vec![delivery.receipt]);
            break;
        }
        loan.add(delivery.receipt);
    }
    let mut body = out.finish();
    body.shrink_to_fit();
    charge.shrink(body.len());
    request.pulse.lend(loan);
    Ok(charge.carried_by(body.into()))
}

pub(super) async fn stream(request: &Request<'_>) -> Handled {
    let (topic, group) = (request.name(0, "topic")?, request.name(1, "group")?);
    let asked = StreamQuery::from_query(request.query()?)?;
    let call = BorrowRequest {
        topic: topic.to_string(),
        group: group.into_owned(),
        owner: asked.owner.into_owned(),
        lease_ms: asked.lease_ms,
        credit: asked.credit,
    };
    let open = request.app.metrics.open_stream([&call.topic, &call.group, &call.owner]);
    let tracer = request.app.tracer.clone().map(|tracer| (tracer, call.group.clone()));
    let deliveries = request.app.broker.borrow(call).await.map_err(|failure| fault(&failure))?;
    let words = Words::V2 { topic: topic.into_owned(), broker: request.app.broker.clone(), tracer };
    Ok(streamed(Lines::new(
        deliveries,
        words,
        (Arc::clone(&request.app.budget), Arc::clone(request.pulse)),
        request.app.options.heartbeat,
        open,
    )))
}

pub(super) async fn ack(request: &Request<'_>) -> Handled {
    let asked = Ack::from_json(request.json()?)?;
    settle(request, asked.leases.iter().map(|lease| (&*lease.token, Verdict::Ack))).await
}

pub(super) async fn nack(request: &Request<'_>) -> Handled {
    let asked = Nack::from_json(request.json()?)?;
    let said = asked.leases.iter().map(|lease| {
        let error = lease.error.to_string();
        (&*lease.token, Verdict::Nack { delay_ms: lease.delay_ms, dead: lease.dead, error })
    });
    settle(request, said).await
}

pub(super) async fn extend(request: &Request<'_>) -> Handled {
    let asked = Extend::from_json(request.json()?)?;
    let said = asked.leases.iter().map(|lease| {
        let begun = lease.started.unwrap_or(true);
        (&*lease.token, Verdict::Extend { lease_ms: lease.lease_ms, begun })
    });
    settle(request, said).await
}

pub(super) async fn release(request: &Request<'_>) -> Handled {
    let asked = Release::from_json(request.json()?)?;
    let mut said = Vec::with_capacity(asked.leases.len());
    for lease in &asked.leases {
        let verdict = match &lease.effect {
            None => Verdict::Release { delay_ms: lease.delay_ms.unwrap_or(0) },
            Some(effect) => {
                let tenant = request.tenant(Cow::Borrowed(&effect.tenant_id))?;
                let broker = &request.app.broker;
                let delivery = broker.receipt(&lease.token);
                let name = (&*tenant, &*effect.scope, &*effect.key);
                broker.awaiting(delivery.as_ref(), name, lease.delay_ms)
            }
        };
        said.push((&*lease.token, verdict));
    }
    settle(request, said.into_iter()).await
}

/// Tells the broker what the holders of tokens say; a token that it never wrote does not reach it.
async fn settle<'a>(
    request: &Request<'_>,
    said: impl ExactSizeIterator<Item = (&'a str, Verdict)>,
) -> Handled {
    request.no_query()?;
    let broker = &request.app.broker;
    let mut results = vec![Settled::new(SettledStatus::Unknown); said.len()];
    let (mut places, mut items) = (Vec::with_capacity(said.len()), Vec::with_capacity(said.len()));
    for (place, (token, verdict)) in said.enumerate() {
        if let Some(receipt) = broker.receipt(token) {
            places.push(place);
            items.push(Settlement { receipt, verdict });
        }
    }
    if !items.is_empty() {
        let draining = *broker.stopping().borrow();
        let traced = TracedSettlements::of(request.app.tracer.as_deref(), &items);
        let outcomes = broker.settle(items).await.map_err(|failure| fault(&failure))?;
        if let Some(traced) = traced {
            traced.tell(&outcomes, broker.now());
        }
        for (place, outcome) in places.into_iter().zip(outcomes) {
            results[place] = shown(outcome, draining);
        }
    }
    match (results.len(), results.first().and_then(Settled::fault)) {
        (1, Some(fault)) => Err(fault),
        _ => Ok(json(StatusCode::OK, &Settlements { results })),
    }
}

fn shown(outcome: Outcome, draining: bool) -> Settled {
    match outcome {
        Outcome::Ok => Settled::new(SettledStatus::Ok),
        Outcome::Buried => Settled { dead: true, ..Settled::new(SettledStatus::Ok) },
        Outcome::Extended { expires, cancelled } => Settled {
            expires_at: Some(moment(expires)),
            cancelled,
            draining,
            ..Settled::new(SettledStatus::Ok)
        },
        Outcome::Stale { attempt } => Settled { attempt, ..Settled::new(SettledStatus::Stale) },
        Outcome::Unknown => Settled::new(SettledStatus::Unknown),
    }
}
